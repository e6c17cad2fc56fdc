"""The page: one HTML document that asks for nothing else.

Writing a report: whole or not at all, and over nothing but a report.
"""

from __future__ import annotations

import base64
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources

import numpy as np

from framefeed._arrays import FloatArray
from framefeed.catalog import Catalog
from framefeed.media import check_writable, writing
from framefeed.report import _columns
from framefeed.report._columns import Columns
from framefeed.report._files import cost_section, damaged_section, failed_section
from framefeed.report._markup import Node, Section, element, elements
from framefeed.report._sections import (
    colour_section,
    formats_section,
    gop_section,
    labels_section,
    sizes_section,
    time_section,
)

GENERATOR = "framefeed report"
"""What the page says of itself, so that a later report may replace it."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that stands at the top.

    Attributes:
        name: What it counts.
        shown: The number.
        note: What else there is to say of it.
        is_bad: Whether it is bad news.
    """

    name: str
    shown: str
    note: str = ""
    is_bad: bool = False


def page(catalog: Catalog, title: str) -> str:
    """Make the page of a catalog.

    Args:
        catalog: Any, at any depth, also an empty one.
        title: Its heading.
    """
    columns = Columns(catalog)
    chosen = _sections(columns)
    main = element("main", _tiles(columns), *(section.node() for section in chosen))
    body = element(
        "body",
        _header(columns, title, chosen),
        main,
        _footer(),
        element("div", id="tip", hidden=True),
        element("script", _asset("page.js")),
    )
    return f"<!DOCTYPE html>\n{element('html', _head(title), body, lang='en')}\n"


def _sections(columns: Columns) -> list[Section]:
    found = [
        sizes_section(columns),
        formats_section(columns),
        time_section(columns),
        gop_section(columns),
        colour_section(columns),
        labels_section(columns),
        failed_section(columns),
        damaged_section(columns),
        cost_section(columns),
    ]
    return [section for section in found if section is not None]


def _head(title: str) -> Node:
    style, script = _asset("style.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", style),
    )


def _asset(name: str) -> str:
    return resources.files("framefeed.report").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _header(columns: Columns, title: str, chosen: list[Section]) -> Node:
    rows, files = len(columns.catalog), len(columns.files)
    what = _columns.count_of(rows, "row") + (f" for {_columns.count_of(files, 'file')}" if rows != files else "")
    depth = "with frame indexes" if columns.catalog.has_frame_indexes else "headers only"
    links = [element("li", element("a", section.heading, href=f"#{section.anchor}")) for section in chosen]
    return element(
        "header",
        element("p", "framefeed", class_="brand"),
        element("h1", element("bdi", title)),
        element("p", f"Catalog of {what}, {depth}. Fingerprint ", element("code", columns.catalog.fingerprint[:16])),
        element("nav", elements("ul", links), aria_label="Sections"),
    )


def _footer() -> Node:
    told = (
        "Made by framefeed report from the catalog only; no media file was opened. Each file counts once. "
        "1 kB is 1000 bytes."
    )
    return element("footer", element("p", told))


def _tiles(columns: Columns) -> Node:
    files, usable = len(columns.files), len(columns.usable)
    videos, images, failed = len(columns.videos), len(columns.images), len(columns.failed)
    frames = columns.numbers("num_frames", columns.videos)
    seconds = columns.numbers("duration_seconds", columns.videos)
    size, all_files = (float(np.nansum(columns.numbers("bytes", rows))) for rows in (columns.usable, columns.files))
    more = f"{_columns.data_size(all_files)} in all files" if all_files > size else ""
    tiles = [
        _big_tile("Files", files),
        Tile("Usable", _columns.count(usable), _columns.share(usable, files)),
        Tile("Failed", _columns.count(failed), _columns.share(failed, files), is_bad=failed > 0),
        Tile("Videos", _columns.count(videos)),
        Tile("Images", _columns.count(images)),
        _duration_tile(seconds),
        _big_tile("Frames of videos", float(np.nansum(frames)), _unknown(frames)),
        *_damaged_tiles(columns),
        Tile("Bytes, usable files", _columns.data_size(size), more),
    ]
    return elements("dl", [_tile(tile) for tile in tiles], class_="tiles", aria_label="Summary")


def _damaged_tiles(columns: Columns) -> list[Tile]:
    damaged = columns.numbers("num_damaged_frames", columns.usable)
    files = int(np.count_nonzero(damaged > 0))
    note = f"in {_columns.count_of(files, 'file')}" if files else ""
    count = _columns.count(float(np.nansum(damaged)))
    return [Tile("Damaged frames", count, note, is_bad=files > 0)] if np.isfinite(damaged).any() else []


def _duration_tile(durations: FloatArray) -> Tile:
    seconds, note = float(np.nansum(durations)), _unknown(durations)
    if 0 < seconds < 3600:
        return Tile("Minutes of video", _columns.number(seconds / 60), note)
    return Tile("Hours of video", _columns.number(seconds / 3600) if seconds else "0", note)


def _big_tile(name: str, number: float, note: str = "") -> Tile:
    """Write millions briefly, and in full below."""
    if number < 1e6:
        return Tile(name, _columns.count(number), note)
    notes = [_columns.count(number), *([note] if note else [])]
    return Tile(name, _columns.short(number), ", ".join(notes))


def _tile(tile: Tile) -> Node:
    note = element("span", tile.note, class_="note") if tile.note else None
    return element(
        "div", element("dt", tile.name), element("dd", tile.shown, note), class_="tile bad" if tile.is_bad else "tile"
    )


def _unknown(values: FloatArray) -> str:
    missing = int(np.count_nonzero(np.isnan(values)))
    return f"unknown for {_columns.count_of(missing, 'file')}" if missing else ""


StrPath = str | os.PathLike[str]

_HEAD_BYTES = 4096
"""The generator is named within this many bytes."""


def write_report(catalog: Catalog, path: StrPath, *, title: str | None = None) -> None:
    """Write an HTML page about a catalog. No media file is opened; the same catalog gives the same bytes.

    Args:
        catalog: A catalog of images or videos, with or without frame indexes.
        path: Path of the HTML file. An earlier report is replaced; after a crash, the old or the new one is complete.
        title: Heading of the page.

    Raises:
        UsageError: The folder does not exist, another file is already there, or the page cannot be written.
    """
    name = os.path.abspath(os.fsdecode(path))
    check_writable(name, "report", "report.html", _is_report)
    text = page(catalog, title or "Data set report")
    with writing(name):
        _write(name, text)


def _is_report(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return f'name="generator" content="{GENERATOR}"'.encode() in head


def _write(path: str, text: str) -> None:
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(scratch)
        raise
