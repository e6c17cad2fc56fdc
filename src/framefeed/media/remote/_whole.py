"""Get what is no range: pages of lists of objects, and lists of media."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from time import monotonic
from typing import Any

from framefeed import _stopping
from framefeed._fetched import FetchCounts
from framefeed._shown import show_name
from framefeed.errors import MissingMedia, UnreadableMedia
from framefeed.media.remote._answers import (
    ListedObject,
    ObjectVersion,
    describe_refusal,
    read_encoding,
    read_length,
    shorten,
)
from framefeed.media.remote._client import PIECE_BYTES, ObjectGet, TryAgainError
from framefeed.media.remote._s3_listing import KEYS_PER_PAGE, MOST_PAGE_BYTES, S3Entry, list_pages
from framefeed.media.remote._s3_target import S3Target
from framefeed.media.remote._s3_urls import split_s3_url
from framefeed.media.remote._storage_options import S3Options
from framefeed.media.remote._targets import Target

_NO_OPTIONS = S3Options()


class WholeGet(ObjectGet[bytes]):
    """Gets all bytes of an answer, or more than ``most_bytes`` of them."""

    def __init__(self, target: Target, most_bytes: int) -> None:
        super().__init__(target)
        self._most_bytes = most_bytes

    def _make_headers(self) -> dict[str, str]:
        return {"Accept-Encoding": "identity"}

    def _take(self, response: Any) -> bytes:
        name, status = self._name, response.status
        if status in (404, 410):
            raise MissingMedia(f"{name}: no such file", source=name, stage="read")
        if status != 200:
            raise UnreadableMedia(describe_refusal(name, status), source=name, stage="read")
        if encoding := read_encoding(response.headers):
            raise self._make_error(
                f"{name}: the server answered in the encoding {shorten(encoding)}: download it first"
            )
        length = read_length(response.headers)
        data = self._read_all(response)
        if length is not None and len(data) < min(length, self._most_bytes):
            raise TryAgainError(self._make_error(f"{name}: the server broke off its answer at byte {len(data)}"))
        return bytes(data)

    def _read_all(self, response: Any) -> bytearray:
        data, self._start = bytearray(), 0
        late_at, next_piece = monotonic() + _stopping.SILENCE_SECONDS, PIECE_BYTES
        while more := response.read1(PIECE_BYTES):
            data += more
            self._count(FetchCounts(nbytes=len(more)))
            self._start = len(data)
            if len(data) > self._most_bytes:
                break
            if len(data) >= next_piece:
                late_at, next_piece = monotonic() + _stopping.SILENCE_SECONDS, len(data) + PIECE_BYTES
            elif monotonic() > late_at:
                raise self._make_silent_error()
        return data


def list_keys(
    url: str, options: S3Options = _NO_OPTIONS, max_keys: int = KEYS_PER_PAGE
) -> Iterator[list[ListedObject]]:
    """List the objects of S3 whose URLs begin so, page by page, in the order of the server."""

    def fetch(query: list[tuple[str, str]]) -> bytes:
        return WholeGet(S3Target(url, options, query=tuple(query)), MOST_PAGE_BYTES)()

    for page in list_pages(fetch, split_s3_url(url).key, show_name(url), max_keys):
        yield [ListedObject(entry.key, entry.size, _get_version(entry).text) for entry in page.entries]


def _get_version(entry: S3Entry) -> ObjectVersion:
    if entry.etag or not entry.last_modified:
        return ObjectVersion.of(entry.size, {"ETag": entry.etag})
    try:
        time = datetime.fromisoformat(entry.last_modified).astimezone(UTC)
    except ValueError:
        return ObjectVersion(entry.size)
    # As it stands in the header of an answer.
    return ObjectVersion(entry.size, None, format_datetime(time.replace(microsecond=0), usegmt=True))
