"""Writing a report: whole or not at all, and over nothing but a report."""

from __future__ import annotations

import os
from contextlib import suppress

from framefeed.index.catalog import Catalog
from framefeed.index.targets import check_writable, writing
from framefeed.report.page import GENERATOR, page

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
