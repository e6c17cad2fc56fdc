"""Writing a report: whole or not at all, and over nothing but a report."""

from __future__ import annotations

import os
from contextlib import suppress

from framefeed.errors import UsageError
from framefeed.index.catalog import Catalog
from framefeed.report.page import GENERATOR, page

StrPath = str | os.PathLike[str]

_HEAD_BYTES = 4096
"""The generator is named within this many bytes."""


def write_report(catalog: Catalog, path: StrPath, *, title: str | None = None) -> None:
    """Write one HTML file that shows a catalog; no media is opened. The same catalog gives the same bytes.

    Args:
        catalog: Any, of images or videos, at either depth; columns are read, never row by row.
        path: Of the HTML file. An earlier report is replaced; a crash leaves it, or all of the new one.
        title: Heading of the page.

    Raises:
        UsageError: There is no such folder, or something that is no report stands there.
    """
    name = os.path.abspath(os.fsdecode(path))
    check_target(name)
    _write(name, page(catalog, title or "Data set report"))


def check_target(path: str) -> None:
    """Make sure that writing a report at a path replaces nothing but a report.

    Raises:
        UsageError: There is no such folder, or something else stands there.
    """
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it, such as report.html")
    if os.path.lexists(path) and not _may_be_replaced(path):
        raise UsageError(f"cannot write {path}: a file that is no report stands there; choose another name")


def _may_be_replaced(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    return not head or f'name="generator" content="{GENERATOR}"'.encode() in head


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
