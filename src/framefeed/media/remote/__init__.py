"""Read objects over the network by ranges of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from framefeed._values import ByteReader
from framefeed.media.remote._targets import HttpTarget, is_http

__all__ = ["RangesAhead", "fetch_ahead", "is_http", "is_read_by_ranges", "open_ranges"]


@cache
def _has_client() -> bool:
    try:
        return find_spec("urllib3") is not None
    except ValueError:  # None stands in its place in sys.modules.
        return False


def is_read_by_ranges(url: str) -> bool:
    """Whether objects of this kind are read here, as the extra ``remote`` is installed, and not through fsspec."""
    return is_http(url) and _has_client()


class RangesAhead(Protocol):
    """Ranges of an object that were asked for.

    Attributes:
        nbytes: Their bytes.
    """

    nbytes: int

    def drop(self) -> None:
        """Give them up; a reader keeps what it uses."""
        ...


def fetch_ahead(url: str, ranges: Iterable[tuple[int, int]]) -> RangesAhead:
    """Ask for ranges of an object, for readers that come later; do not wait.

    Args:
        url: The object.
        ranges: First byte of each, and behind the last one.
    """
    ahead: RangesAhead = import_module("framefeed.media.remote._reader").FetchedAhead(HttpTarget(url), ranges)
    return ahead


def open_ranges(url: str) -> ByteReader:
    """Make a reader of an object; nothing is asked for before the first read."""
    reader: ByteReader = import_module("framefeed.media.remote._reader").RangeReader(HttpTarget(url))
    return reader
