"""Read objects over the network by ranges of bytes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from framefeed._values import ByteReader
from framefeed.media.remote._targets import HttpTarget, is_http

__all__ = ["is_http", "is_read_by_ranges", "open_ranges"]


@cache
def _has_client() -> bool:
    try:
        return find_spec("urllib3") is not None
    except ValueError:  # None stands in its place in sys.modules.
        return False


def is_read_by_ranges(url: str) -> bool:
    """Whether objects of this kind are read here, as the extra ``remote`` is installed, and not through fsspec."""
    return is_http(url) and _has_client()


def open_ranges(url: str) -> ByteReader:
    """Make a reader of an object; nothing is asked for before the first read."""
    reader: ByteReader = import_module("framefeed.media.remote._reader").RangeReader(HttpTarget(url))
    return reader
