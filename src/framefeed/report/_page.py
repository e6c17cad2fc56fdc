"""The page of a catalog: one HTML document that loads nothing else. It is written whole, and replaces only a report."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from importlib import resources

import numpy as np

from framefeed._arrays import FloatArray
from framefeed._checks import check_path
from framefeed._files import check_writable, replacing, write_errors
from framefeed._units import format_bytes, format_seconds, format_share
from framefeed.catalog import Catalog
from framefeed.report import _columns
from framefeed.report._columns import Columns
from framefeed.report._examples import make_examples_section
from framefeed.report._files import make_cost_section, make_damaged_section, make_failed_section
from framefeed.report._markup import Node, Section, make_element
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


@dataclass(frozen=True, slots=True)
class Tile:
    """A number at the top of the page.

    Attributes:
        name: Name of the number.
        shown: The number, as text.
        note: A remark about it.
        is_bad: Whether it is shown as a problem.
    """

    name: str
    shown: str
    note: str = ""
    is_bad: bool = False


def make_page(catalog: Catalog, title: str, *, thumbnails: bool = False) -> str:
    """Make the page of a catalog.

    Args:
        catalog: A catalog of any depth; it may be empty.
        title: Heading of the page.
        thumbnails: Whether to open some files and show a picture of each.
    """
    columns = Columns(catalog)
    examples = make_examples_section(catalog) if thumbnails else None
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
    )
    sections = [section for section in made if section is not None]
    opened = "no media file was opened" if examples is None else "media files were opened for the examples alone"
    text = f"Made by framefeed report from the catalog; {opened}. Each file counts once. 1 kB is 1000 bytes."
    main = make_element("main", _make_tiles(columns), *(section.make_node() for section in sections))
    body = make_element(
        "body",
        _make_header(columns, title, sections),
        main,
        make_element("footer", make_element("p", text)),
        make_element("div", id="tip", hidden=True),
        make_element("script", _read_asset("page.js")),
    )
    return f"<!DOCTYPE html>\n{make_element('html', _make_head(title), body, lang='en')}\n"


def _make_head(title: str) -> Node:
    style, script = _read_asset("style.css"), _read_asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_compute_digest(style)}'; script-src '{_compute_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return make_element(
        "head",
        make_element("meta", charset="utf-8"),
        make_element("meta", http_equiv="Content-Security-Policy", content=policy),
        make_element("meta", name="generator", content=GENERATOR),
        make_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        make_element("meta", name="color-scheme", content="light dark"),
        make_element("link", rel="icon", href="data:,"),
        make_element("title", title),
        make_element("style", style),
    )


def _read_asset(name: str) -> str:
    return resources.files("framefeed.report").joinpath(name).read_text(encoding="utf-8")


def _compute_digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _make_header(columns: Columns, title: str, sections: list[Section]) -> Node:
    rows, files = len(columns.catalog), len(columns.files)
    what = _columns.format_count_of(rows, "row") + (
        f" for {_columns.format_count_of(files, 'file')}" if rows != files else ""
    )
    depth = "with frame indexes" if columns.catalog.has_frame_indexes else "headers only"
    links = [make_element("li", make_element("a", section.heading, href=f"#{section.anchor}")) for section in sections]
    return make_element(
        "header",
        make_element("p", "framefeed", class_="brand"),
        make_element("h1", make_element("bdi", title)),
        make_element(
            "p", f"Catalog of {what}, {depth}. Fingerprint ", make_element("code", columns.catalog.fingerprint[:16])
        ),
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
    damaged_note = f"in {_columns.format_count_of(damaged_files, 'file')}" if damaged_files else ""
    damaged_frames = _columns.format_count(float(np.nansum(damaged)))
    damage = Tile("Damaged frames", damaged_frames, damaged_note, is_bad=damaged_files > 0)
    size, all_files = (float(np.nansum(columns.numbers("bytes", rows))) for rows in (columns.usable, columns.files))
    more = f"{format_bytes(all_files)} in all files" if all_files > size else ""
    tiles = [
        _make_large_number_tile("Files", files),
        Tile("Usable", _columns.format_count(usable), format_share(usable, files, decimals=1)),
        Tile("Failed", _columns.format_count(failed), format_share(failed, files, decimals=1), is_bad=failed > 0),
        Tile("Videos", _columns.format_count(videos)),
        Tile("Images", _columns.format_count(images)),
        Tile("Length of videos", format_seconds(seconds), note),
        _make_large_number_tile("Frames of videos", float(np.nansum(frames)), _describe_unknown(frames)),
        *([damage] if np.isfinite(damaged).any() else []),
        Tile("Bytes, usable files", format_bytes(size), more),
    ]
    drawn = [
        make_element(
            "div",
            make_element("dt", tile.name),
            make_element("dd", tile.shown, make_element("span", tile.note, class_="note") if tile.note else None),
            class_="tile bad" if tile.is_bad else "tile",
        )
        for tile in tiles
    ]
    return make_element("dl", *drawn, class_="tiles", aria_label="Summary")


def _make_large_number_tile(name: str, number: float, note: str = "") -> Tile:
    """Write a number above a million briefly, and in full in the note."""
    if number < 1e6:
        return Tile(name, _columns.format_count(number), note)
    notes = [_columns.format_count(number), *([note] if note else [])]
    return Tile(name, _columns.format_short(number), ", ".join(notes))


def _describe_unknown(values: FloatArray) -> str:
    missing = int(np.count_nonzero(np.isnan(values)))
    return f"unknown for {_columns.format_count_of(missing, 'file')}" if missing else ""


StrPath = str | os.PathLike[str]


def write_report(catalog: Catalog, path: StrPath, *, title: str | None = None, thumbnails: bool = True) -> None:
    """Write an HTML page about a catalog. The same catalog, with the same files, gives the same bytes.

    Args:
        catalog: A catalog of images or videos, with or without frame indexes.
        path: Path of the HTML file. An earlier report is replaced; after a crash, the old or the new one is complete.
        title: Heading of the page.
        thumbnails: Whether to show a picture of three files of each label. They are the only files that are opened; a
            file that is missing, damaged, or behind a URL is left out.

    Raises:
        UsageError: The folder does not exist, another file is already there, or the page cannot be written.
    """
    name = os.path.abspath(check_path("path", path, "report.html"))
    check_writable(name, "report", "report.html", _is_report)
    text = make_page(catalog, title or "Data set report", thumbnails=thumbnails)
    with (
        write_errors(name),
        replacing(name, is_durable=True) as scratch,
        open(scratch, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(text)


def _is_report(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return f'name="generator" content="{GENERATOR}"'.encode() in head
