"""Put files into buckets of S3 and remove objects: each by one request, whose condition says what it may replace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from hashlib import file_digest
from typing import Any

from framefeed._shown import show_name
from framefeed._values import read_bytes
from framefeed.errors import StaleSource, UnreadableMedia, UsageError
from framefeed.media.remote._addresses import Reach
from framefeed.media.remote._answers import ObjectVersion, describe_refusal
from framefeed.media.remote._client import _CLIENT, ObjectGet
from framefeed.media.remote._reader import RangeReader
from framefeed.media.remote._s3_target import S3Target
from framefeed.media.remote._storage_options import S3Options

MOST_PUT_BYTES = 5 * 2**30
"""What S3 takes in one request."""
_COMPARED_BYTES = 2**22


class _Change(ObjectGet[ObjectVersion]):
    """Puts a file, or with none removes an object, with as many requests as it takes."""

    def __init__(self, target: S3Target, path: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(target)
        self._method, self._path = target.method, path
        self._nbytes = 0 if path is None else os.path.getsize(path)
        self._headers = dict(headers or {})

    def _make_headers(self) -> dict[str, str]:
        return self._headers

    def _open(self, url: str, headers: Mapping[str, str], reach: Reach) -> Any:
        send = partial(_CLIENT.value.send, url, reach=reach, method=self._method)
        if self._path is None:
            return send(headers)
        with open(self._path, "rb") as body:
            return send({**headers, "Content-Length": str(self._nbytes)}, body=body)

    def _take(self, response: Any) -> ObjectVersion:
        if response.status in (404, 412):
            raise StaleSource(
                f"{self._name}: another writer has put this object meanwhile, and it was not replaced: look at it, "
                "then write again to replace it",
                source=self._name,
                stage="write",
            )
        if response.status not in (200, 204):
            raise UnreadableMedia(
                describe_refusal(self._name, response.status).replace("read", "write"), source=self._name, stage="write"
            )
        return ObjectVersion.of(self._nbytes, response.headers)


def put_file(url: str, path: str, replaced: ObjectVersion | None, options: S3Options) -> ObjectVersion:
    """Put a file, which is sent as it is read, as one object: in place of the version ``replaced``, or of none.

    Returns:
        The version of the new object; without ``strong_etag`` if the server does not say it.

    Raises:
        StaleSource: Another version is there; not if it has the same bytes.
    """
    name, nbytes = show_name(url), os.path.getsize(path)
    if nbytes > MOST_PUT_BYTES:
        raise UsageError(
            f"cannot write {name}: {nbytes / 2**30:.1f} GiB, and one request takes {MOST_PUT_BYTES >> 30} GiB: write "
            "to a local path, and copy the files with another program"
        )
    if replaced is not None and replaced.strong_etag is None:
        raise UsageError(
            f"cannot write {name}: its server gives no strong ETag, without which two writers could mix their files: "
            "write to a local path, and copy the files"
        )
    condition = {"If-None-Match": "*"} if replaced is None else replaced.condition
    with open(path, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    target = S3Target(url, options, method="PUT", body_sha256=digest)
    try:
        return _Change(target, path, condition)()
    except StaleSource:
        # Also where the answer to a first try was lost, or another process has written the same.
        if (version := _find_same(url, path, options)) is None:
            raise
        return version


def _find_same(url: str, path: str, options: S3Options) -> ObjectVersion | None:
    """Find the version of an object that has the bytes of a file; None if it has others, or there is none."""
    nbytes = os.path.getsize(path)
    with closing(RangeReader(S3Target(url, options))) as reader, open(path, "rb") as file:
        try:
            if reader.stat().bytes != nbytes:
                return None
            for offset in range(0, nbytes, _COMPARED_BYTES):
                if read_bytes(reader, offset, _COMPARED_BYTES) != file.read(_COMPARED_BYTES):
                    return None
        except (UnreadableMedia, StaleSource):
            return None
        return reader.version


def check_rights(url: str, options: S3Options) -> None:
    """Check that objects can be put at a URL, by a request whose condition none fulfils: it writes nothing."""
    with suppress(StaleSource):
        _Change(S3Target(url, options, method="PUT"), headers={"If-Match": '"none"'})()
        remove_object(url, options)  # of a server that looks at no conditions


def remove_object(url: str, options: S3Options) -> None:
    """Remove an object; one that is not there is no error."""
    with suppress(StaleSource):
        _Change(S3Target(url, options, method="DELETE"))()
