"""Objects over the network, read by ranges: http(s) and s3, with signatures of our own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

from framefeed._fetched import FetchCounts, count_fetch
from framefeed._values import ByteReader
from framefeed.media.remote._answers import ObjectVersion
from framefeed.media.remote._targets import HttpTarget, Target, is_http, is_s3

__all__ = [
    "FetchedRange",
    "ListedObject",
    "ObjectVersion",
    "RangesAhead",
    "check_remote_url",
    "fetch_ahead",
    "get_range",
    "is_http",
    "is_read_by_ranges",
    "is_s3",
    "list_objects",
    "open_ranges",
    "read_whole",
]


@cache
def _has_client() -> bool:
    try:
        return find_spec("urllib3") is not None
    except ValueError:  # None stands in its place in sys.modules.
        return False


def is_read_by_ranges(url: str) -> bool:
    """Whether objects of this kind are read here, as the extra ``remote`` is installed, and not through fsspec."""
    return (is_http(url) or is_s3(url)) and _has_client()


def check_remote_url(url: str) -> None:
    """Check what can be checked of a URL without asking a server.

    Raises:
        UsageError: It names no object.
    """
    _make_target(url)


def _make_target(url: str) -> Target:
    if not is_s3(url):
        return HttpTarget(url)
    target: Target = import_module("framefeed.media.remote._s3_target").S3Target(url)
    return target


class RangesAhead(Protocol):
    """Ranges of an object that were asked for.

    Attributes:
        nbytes: Their bytes.
    """

    nbytes: int

    def drop(self) -> None:
        """Give them up; a reader keeps what it uses."""
        ...


class ListedObject(Protocol):
    """An object in a list.

    Attributes:
        key: Behind the bucket; bytes that are no UTF-8 as lone surrogates.
        size: Bytes.
        version: As the text of an `ObjectVersion`.
    """

    key: str
    size: int
    version: str


def list_objects(url: str) -> Iterator[Sequence[ListedObject]]:
    """List the objects of S3 whose URLs begin so, page by page, in the order of the server.

    Args:
        url: ``s3://bucket`` or ``s3://bucket/`` and the first characters of the keys.

    Raises:
        MissingMedia: There is no such bucket.
        UnreadableMedia: It cannot be listed.
    """
    pages: Iterator[Sequence[ListedObject]] = import_module("framefeed.media.remote._whole").list_keys(url)
    return pages


def read_whole(url: str, most_bytes: int) -> bytes:
    """Read an object as a whole, in the calling thread; of one with more than ``most_bytes`` more than these."""
    data: bytes = import_module("framefeed.media.remote._whole").WholeGet(_make_target(url), most_bytes)()
    return data


class FetchedRange(Protocol):
    """Bytes of an object.

    Attributes:
        data: From the start that was asked for; fewer than asked for where the object ends.
        version: Of the object.
    """

    data: bytearray
    version: ObjectVersion


def get_range(url: str, start: int, stop: int, version: ObjectVersion | None = None) -> FetchedRange:
    """Get a range of an object in the calling thread, whose limits hold; a reader would start a thread.

    Args:
        url: The object.
        start: First byte.
        stop: Behind the last byte.
        version: Which version it must be of; None for any.
    """
    answer = import_module("framefeed.media.remote._client").RangeGet(_make_target(url), start, stop, version)()
    count_fetch(FetchCounts(answer.requests, len(answer.data)))
    fetched: FetchedRange = answer
    return fetched


def fetch_ahead(url: str, ranges: Iterable[tuple[int, int]], version: ObjectVersion | None) -> RangesAhead:
    """Ask for ranges of an object, for readers that come later; do not wait.

    Args:
        url: The object.
        ranges: First byte of each, and behind the last one.
        version: Which version they must be of; None for any.
    """
    ahead: RangesAhead = import_module("framefeed.media.remote._reader").FetchedAhead(
        _make_target(url), ranges, version
    )
    return ahead


def open_ranges(url: str, version: ObjectVersion | None = None) -> ByteReader:
    """Make a reader of an object, of one version or any; nothing is asked for before the first read."""
    reader: ByteReader = import_module("framefeed.media.remote._reader").RangeReader(_make_target(url), version)
    return reader
