"""The page of a catalog: one HTML document that loads nothing else. It is written whole, and replaces only a report."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import resources

import numpy as np

from framefeed._arrays import FloatArray
from framefeed._files import check_writable, replacing, write_errors
from framefeed._names import check_local_path
from framefeed._units import format_bytes, format_seconds, format_share
from framefeed.catalog import Catalog
from framefeed.proxies import ProxyEstimate
from framefeed.report._columns import Columns, format_count, format_count_of, format_short
from framefeed.report._examples import make_examples_section
from framefeed.report._files import make_cost_section, make_damaged_section, make_failed_section, make_proxies_section
from framefeed.report._markup import Node, Section, make_element
from framefeed.report._remarks import make_remarks_section
from framefeed.report._sections import (
    make_colour_section,
    make_formats_section,
    make_gop_section,
    make_labels_section,
    make_sizes_section,
    make_time_section,
)

# The page names its generator, so that a later report may replace it; the name is within the first bytes.
GENERATOR = "framefeed report"
_HEAD_BYTES = 4096


def make_page(catalog: Catalog, title: str, *, thumbnails: bool = False, estimate: ProxyEstimate | None = None) -> str:
    """Make the page of a catalog.

    Args:
        catalog: A catalog of any depth; it may be empty.
        title: Heading of the page.
        thumbnails: Whether to open some files and show a picture of each.
        estimate: What proxies of the files would bring, to be shown too.
    """
    columns = Columns(catalog)
    examples = make_examples_section(catalog) if thumbnails else None
    remarks = make_remarks_section(columns)
    made = (
        make_sizes_section(columns),
        make_formats_section(columns),
        make_time_section(columns),
        make_gop_section(columns),
        make_colour_section(columns),
        make_labels_section(columns),
        examples,
        make_failed_section(columns),
        make_damaged_section(columns),
        make_cost_section(columns),
        None if estimate is None else make_proxies_section(estimate),
    )
    sections = [section for section in made if section is not None]
    uses = [
        name for name, made in (("the examples", examples), ("the sample of proxies", estimate)) if made is not None
    ]
    opened = f"media files were opened for {' and '.join(uses)} alone" if uses else "no media file was opened"
    text = f"Made by framefeed report from the catalog; {opened}. Each file counts once. 1 kB is 1000 bytes."
    tiles = _make_tiles(columns)
    return make_document(GENERATOR, title, _describe_catalog(columns), [remarks, tiles, *sections], [text])


def make_document(
    generator: str, title: str, subtitle: Node, parts: Sequence[Section | Node], footer: Iterable[str]
) -> str:
    """Make a whole document.

    Args:
        generator: Name of what makes such pages: one replaces only those of the same name.
        title: Heading of the page.
        subtitle: What stands below the heading.
        parts: The body: sections, which the header links to, and elements.
        footer: Paragraphs at the end.
    """
    assets = resources.files("framefeed.report")
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    body = make_element(
        "body",
        _make_header(title, subtitle, [part for part in parts if isinstance(part, Section)]),
        make_element("main", *(part.make_node() if isinstance(part, Section) else part for part in parts)),
        make_element("footer", *(make_element("p", text) for text in footer)),
        make_element("div", id="tip", hidden=True),
        make_element("script", script),
    )
    head = _make_head(generator, title, style, script)
    return f"<!DOCTYPE html>\n{make_element('html', head, body, lang='en')}\n"


def _make_head(generator: str, title: str, style: str, script: str) -> Node:
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script))
    policy = (
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    ).format(*digests)
    return make_element(
        "head",
        make_element("meta", charset="utf-8"),
        make_element("meta", http_equiv="Content-Security-Policy", content=policy),
        make_element("meta", name="generator", content=generator),
        make_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        make_element("meta", name="color-scheme", content="light dark"),
        make_element("link", rel="icon", href="data:,"),
        make_element("title", title),
        make_element("style", style),
    )


def _describe_catalog(columns: Columns) -> Node:
    rows, files = len(columns.catalog), len(columns.files)
    what = format_count_of(rows, "row") + (f" for {format_count_of(files, 'file')}" if rows != files else "")
    depth = "with frame indexes" if columns.catalog.has_frame_indexes else "headers only"
    fingerprint = make_element("code", columns.catalog.fingerprint[:16])
    return make_element("p", f"Catalog of {what}, {depth}. Fingerprint ", fingerprint)


def _make_header(title: str, subtitle: Node, sections: Iterable[Section]) -> Node:
    links = [make_element("li", make_element("a", section.heading, href=f"#{section.anchor}")) for section in sections]
    return make_element(
        "header",
        make_element("p", "framefeed", class_="brand"),
        make_element("h1", make_element("bdi", title)),
        subtitle,
        make_element("nav", make_element("ul", *links), aria_label="Sections"),
    )


def _make_tiles(columns: Columns) -> Node:
    files, usable = len(columns.files), len(columns.usable)
    videos, images, failed = len(columns.videos), len(columns.images), len(columns.failed)
    frames = columns.numbers("num_frames", columns.videos)
    durations = columns.numbers("duration_seconds", columns.videos)
    seconds, note = float(np.nansum(durations)), _describe_unknown(durations)
    damaged = columns.numbers("num_damaged_frames", columns.usable)
    damaged_files = int(np.count_nonzero(damaged > 0))
    damaged_note = f"in {format_count_of(damaged_files, 'file')}" if damaged_files else ""
    size, all_files = (float(np.nansum(columns.numbers("bytes", rows))) for rows in (columns.usable, columns.files))
    more = f"{format_bytes(all_files)} in all files" if all_files > size else ""
    tiles = [
        make_tile("Files", *_shorten_number(files)),
        make_tile("Usable", format_count(usable), format_share(usable, files, decimals=1)),
        make_tile("Failed", format_count(failed), format_share(failed, files, decimals=1), is_bad=failed > 0),
        make_tile("Videos", format_count(videos)),
        make_tile("Images", format_count(images)),
        make_tile("Length of videos", format_seconds(seconds), note),
        make_tile("Frames of videos", *_shorten_number(float(np.nansum(frames)), _describe_unknown(frames))),
    ]
    if np.isfinite(damaged).any():
        count = format_count(float(np.nansum(damaged)))
        tiles.append(make_tile("Damaged frames", count, damaged_note, is_bad=damaged_files > 0))
    tiles.append(make_tile("Bytes, usable files", format_bytes(size), more))
    return make_element("dl", *tiles, class_="tiles", aria_label="Summary")


def make_tile(name: str, shown: str, note: str = "", *, is_bad: bool = False) -> Node:
    """Make one number of a list ``tiles``, with its name."""
    remark = make_element("span", note, class_="note") if note else None
    number = make_element("dd", shown, remark)
    return make_element("div", make_element("dt", name), number, class_="tile bad" if is_bad else "tile")


def _shorten_number(number: float, note: str = "") -> tuple[str, str]:
    """Write a number above a million briefly, and in full in the note."""
    if number < 1e6:
        return format_count(number), note
    return format_short(number), ", ".join([format_count(number), *([note] if note else [])])


def _describe_unknown(values: FloatArray) -> str:
    missing = int(np.count_nonzero(np.isnan(values)))
    return f"unknown for {format_count_of(missing, 'file')}" if missing else ""


StrPath = str | os.PathLike[str]


def write_report(
    catalog: Catalog,
    path: StrPath,
    *,
    title: str | None = None,
    thumbnails: bool = True,
    estimate: ProxyEstimate | None = None,
) -> None:
    """Write an HTML page about a catalog. The same catalog, with the same files, gives the same bytes.

    Args:
        catalog: A catalog of images or videos, with or without frame indexes.
        path: Path of the HTML file. An earlier report is replaced; after a crash, the old or the new one is complete.
        title: Heading of the page.
        thumbnails: Whether to show a picture of three files of each label. They are the only files that are opened; a
            file that is missing, damaged, or behind a URL is left out.
        estimate: The result of ``ff.estimate_proxies(catalog)``, to be shown too; its times differ from run to run.

    Raises:
        UsageError: The folder does not exist, another file is already there, or the page cannot be written.
    """
    make = partial(make_page, catalog, title or "Data set report", thumbnails=thumbnails, estimate=estimate)
    write_page(path, make, GENERATOR, "report", "report.html")


def write_page(path: StrPath, make: Callable[[], str], generator: str, noun: str, example: str) -> None:
    """Make a page and write it, where it replaces nothing but an earlier one of the same generator.

    ``noun`` and ``example`` are for messages.
    """
    name = check_page(path, generator, noun, example)
    text = make()
    with (
        write_errors(name),
        replacing(name, is_durable=True) as scratch,
        open(scratch, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(text)


def check_page(path: StrPath, generator: str, noun: str, example: str) -> str:
    """Check that a page can be written; return its absolute path."""
    name = os.path.abspath(check_local_path("path", path, example))
    check_writable(name, noun, example, partial(_is_made_by, generator))
    return name


def _is_made_by(generator: str, path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return f'name="generator" content="{generator}"'.encode() in head
