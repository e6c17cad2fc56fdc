"""Check the answers of servers to requests for ranges: status and headers to facts, or an error; no network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from framefeed._shown import advise_indexing
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia

_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)", re.ASCII)
_ETAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_WEAK = "W/"
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
TRANSIENT = (408, 429, 500, 502, 503, 504)
"""Status codes of failures that a repeated request may not have."""


class ObjectVersion(NamedTuple):
    """What tells one version of an object from another."""

    size: int  # bytes
    etag: str | None = None  # the entity tag, with its quotes, a weak one behind ``W/``; None if the server gives none
    modified: str | None = None  # ``Last-Modified`` as the server wrote it, or None

    @classmethod
    def of(cls, size: int, headers: Mapping[str, str]) -> ObjectVersion:
        """Read the version of an object of ``size`` bytes from the headers of an answer."""
        etag = headers.get("ETag")
        return cls(size, etag if etag and _ETAG.fullmatch(etag) else None, headers.get("Last-Modified"))

    @classmethod
    def parse(cls, text: str) -> ObjectVersion | None:
        """Read what ``text`` wrote; None if it is something else."""
        size, _, tag = text.partition(" ")
        if not tag or not _NUMBER.fullmatch(size):
            return None
        return cls(int(size), tag) if _ETAG.fullmatch(tag) else cls(int(size), None, tag)

    @property
    def text(self) -> str:
        """Size and entity tag, or else ``Last-Modified``; "" without both: other bytes may be as many."""
        tag = self.etag or self.modified
        return f"{self.size} {tag}" if tag else ""

    @property
    def strong_etag(self) -> str | None:
        """The entity tag, if it is one that other bytes never have (RFC 9110, 8.8.1)."""
        return None if self.etag is None or self.etag.startswith(_WEAK) else self.etag

    def is_same(self, other: ObjectVersion) -> bool:
        """Whether both are of the same bytes, as far as is known."""
        if self.size != other.size:
            return False
        if not self.etag or not other.etag:
            return self.modified == other.modified
        if self.etag.removeprefix(_WEAK) != other.etag.removeprefix(_WEAK):
            return False
        # The weak tag of two versions may be the same.
        is_proved = self.strong_etag is not None and other.strong_etag is not None
        return is_proved or None in (self.modified, other.modified) or self.modified == other.modified

    @property
    def condition(self) -> dict[str, str]:
        """Headers by which a server refuses to send another version; no weak tag, which ``If-Match`` never matches."""
        if self.strong_etag:
            return {"If-Match": self.strong_etag}
        return {"If-Unmodified-Since": self.modified} if self.modified else {}


class ListedObject(NamedTuple):
    """An object in a list."""

    key: str  # behind the bucket; bytes that are no UTF-8 as lone surrogates
    size: int  # bytes
    version: str  # as the text of an `ObjectVersion`


class FetchedRange(NamedTuple):
    """Bytes of an object, from the start that was asked for; fewer than asked for where it ends."""

    data: bytearray | memoryview
    version: ObjectVersion


class RangeRequest(NamedTuple):
    """A range of an object with a shown name, up to the byte behind its last one, in a version or in any."""

    name: str
    start: int
    stop: int
    version: ObjectVersion | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Of the HTTP request."""
        # Offsets of an encoded body would be others.
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={self.start}-{self.stop - 1}"}
        return headers if self.version is None else {**headers, **self.version.condition}


class Body(NamedTuple):
    """What the body of an answer holds."""

    version: ObjectVersion  # of the object
    size: int  # bytes of the range that belong to the request
    is_exact: bool  # whether the body ends behind them


def check_answer(request: RangeRequest, status: int, headers: Mapping[str, str]) -> Body:
    """Check an answer that is no redirect and no transient failure.

    Raises:
        MissingMedia: There is no such object.
        StaleSource: It is of another version.
        UnreadableMedia: The server refuses, or answers with something else than the range.
    """
    name = request.name
    if status in (404, 410):
        raise MissingMedia(f"{name}: no such file", source=name, stage="read")
    if status == 412:
        raise make_stale_error(request.name)
    if status == 416:
        return _check_empty(request, headers)
    if status not in (200, 206):
        raise UnreadableMedia(describe_refusal(name, status), source=name, stage="read")
    if encoding := read_encoding(headers):
        raise _make_odd_error(request, f"in the encoding {shorten(encoding)}, which was not asked for")
    return (_check_part if status == 206 else _check_whole)(request, headers)


def read_encoding(headers: Mapping[str, str]) -> str:
    """Read the encoding of an answer, in which offsets are others; empty if there is none."""
    encoding = headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def _check_part(request: RangeRequest, headers: Mapping[str, str]) -> Body:
    given = headers.get("Content-Range")
    if given is None:
        raise _make_odd_error(request, "without Content-Range")
    match = _CONTENT_RANGE.fullmatch(given.strip())
    if match is None or match[1] is None or match[3] == "*":
        raise _make_odd_error(request, f"with the Content-Range {shorten(given)}")
    first, last, size = int(match[1]), int(match[2]), int(match[3])
    version = _check_version(request, size, headers)
    if first != request.start or last + 1 != min(request.stop, size):
        raise _make_odd_error(request, f"with bytes {first} to {last} of {size}")
    count = last + 1 - first
    if (length := read_length(headers)) not in (None, count):
        raise _make_odd_error(request, f"with {length} bytes for {count}")
    return Body(version, count, is_exact=True)


def _check_whole(request: RangeRequest, headers: Mapping[str, str]) -> Body:
    size = read_length(headers)
    if size is None:
        raise _make_odd_error(request, "with the whole object, without its size")
    version = _check_version(request, size, headers)
    if request.start:
        raise UnreadableMedia(
            f"{request.name}: cannot be read in pieces (for a range, its server sends the whole): download it first",
            source=request.name,
            stage="read",
        )
    return Body(version, min(size, request.stop), is_exact=size <= request.stop)


def _check_empty(request: RangeRequest, headers: Mapping[str, str]) -> Body:
    """Check the answer that the object ends before the range."""
    if request.version is not None:
        raise make_stale_error(request.name)
    if request.start == 0 and "Content-Range" not in headers:
        return Body(ObjectVersion.of(0, headers), 0, is_exact=False)  # Of any other size it has a byte 0.
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if match is None or match[1] is not None or match[3] == "*" or int(match[3]) > request.start:
        raise _make_odd_error(request, "that there is no such range")
    return Body(ObjectVersion.of(int(match[3]), headers), 0, is_exact=False)


def _check_version(request: RangeRequest, size: int, headers: Mapping[str, str]) -> ObjectVersion:
    version = ObjectVersion.of(size, headers)
    if request.version is not None and not request.version.is_same(version):
        raise make_stale_error(request.name)
    return version


def read_length(headers: Mapping[str, str]) -> int | None:
    """Read ``Content-Length``; None if there is none that makes sense."""
    given = headers.get("Content-Length", "").strip()
    return int(given) if _NUMBER.fullmatch(given) else None


def make_stale_error(name: str) -> StaleSource:
    """Build the error for an object of another version."""
    return StaleSource(
        f"{name}: the object was replaced since it was opened or indexed: {advise_indexing(name)}",
        source=name,
        stage="read",
    )


def _make_odd_error(request: RangeRequest, answer: str) -> UnreadableMedia:
    return UnreadableMedia(
        f"{request.name}: for bytes {request.start} to {request.stop - 1} the server answered {answer}: download the "
        "file first, or ask who runs the server",
        source=request.name,
        stage="read",
    )


def describe_refusal(name: str, status: int) -> str:
    """Describe an answer that refuses an object."""
    from http import HTTPStatus  # here: all that reads a path loads this module

    try:
        meaning = f" {HTTPStatus(status).phrase}"
    except ValueError:
        meaning = ""
    if status in TRANSIENT:
        advice = "try again later"
    else:
        advice = "check the URL and the rights to read it; credentials may have expired"
    return f"{name}: the server answered {status}{meaning}: {advice}"


def shorten(text: str) -> str:
    """Quote the beginning of what a server says, without control characters."""
    shown = "".join(each if each.isprintable() else "?" for each in text[:60])
    return repr(shown + ("..." if len(text) > 60 else ""))


def read_pause(value: str | None, now: float) -> float | None:
    """Read ``Retry-After``, seconds or a date, as seconds from now (since the epoch); None if there is none."""
    if value is None:
        return None
    if _NUMBER.fullmatch(value.strip()):
        return float(value)
    from email.utils import parsedate_to_datetime  # 8 ms

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None
