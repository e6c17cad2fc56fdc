"""Media sources: read paths, URLs, bytes and file objects by one interface, and identify them."""

from __future__ import annotations

import io
import os
from collections.abc import Hashable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Literal, NamedTuple

import xxhash

from framefeed._checks import expand_home, expected, refuse_catalog
from framefeed._files import stat_regular
from framefeed._shortage import try_again_in_shortage
from framefeed._shown import show_name
from framefeed._values import (
    HEAD_BYTES,
    ByteReader,
    BytesReader,
    Limits,
    SourceStat,
    announce_reads,
    clamp_ns,
    make_limit_error,
    read_bytes,
)
from framefeed.errors import StaleSource, UsageError
from framefeed.media._readers import FileReader, UrlReader, make_reader
from framefeed.media._urls import check_url
from framefeed.media.remote import (
    FetchedRange,
    ObjectVersion,
    RangesAhead,
    check_remote_url,
    fetch_ahead,
    get_range,
    is_read_by_ranges,
    open_ranges,
    read_whole,
)

FINGERPRINT_BLOCK = 64 * 1024
"""Bytes hashed at the head, at the middle and at the tail."""


# A type of its own, and not a stat whose fingerprint may be missing: a stat costs no read, and must not stand where
# frames are found again by their file's bytes. Only a failed row of a catalog has one that is empty.
@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Size, modification time, and hash of head, middle and tail: another file under the same name differs in one."""

    bytes: int
    mtime_ns: int | None
    fingerprint: str

    @property
    def stat(self) -> SourceStat:
        """What the file system said of the file."""
        return SourceStat(self.bytes, self.mtime_ns)


class FileStamp(NamedTuple):
    """What the file system says of a file: another file, or a changed one, has another stamp."""

    path: str
    device: int
    inode: int
    nbytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: str, facts: os.stat_result) -> FileStamp:
        """Make the stamp of a file from its facts."""
        return cls(path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


class _Identity:
    """One object in a key, equal to itself alone. The key keeps it: another at its address would be taken for it."""

    __slots__ = ("_object",)

    def __init__(self, an_object: object) -> None:
        self._object = an_object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


@dataclass(frozen=True, eq=False)
class MediaSource:
    """A path, a URL, bytes or a file object as one media source.

    Attributes:
        kind: Where the bytes are.
        name: Printable name for messages.
        path: Absolute path for kind "path", URL for kind "url".
        data: The encoded bytes, for kind "bytes".
        file: The seekable binary file object, for kind "file".
        pid: The process in which the source was made.
    """

    kind: Literal["path", "bytes", "file", "sequence", "url"]
    name: str
    path: str = ""
    data: bytes = b""
    file: IO[bytes] | None = None
    pid: int = field(default_factory=os.getpid)

    @classmethod
    def of(cls, source: Any) -> MediaSource:
        """Understand what a user may pass as a source.

        Args:
            source: ``str`` or ``os.PathLike``, a URL that fsspec reads, bytes-like, a seekable binary file object, an
                `ImageSequence`, or anything with a ``source`` attribute that is one of these (a ``CatalogEntry``).

        Raises:
            UsageError: It is none of these, or a URL that nothing reads.
            MissingDependency: It is a URL, and fsspec is not installed.
        """
        if isinstance(source, MediaSource):
            return source
        what = "a path, URL, bytes (array.tobytes()), binary file object, ImageSequence or CatalogEntry"
        if isinstance(source, type):
            raise expected("source", what, source)
        if hasattr(source, "as_media_source"):
            known: MediaSource = source.as_media_source()
            return known
        if isinstance(source, (str, os.PathLike)):
            path = expand_home(os.fsdecode(source))
            if "://" in path and not os.path.exists(path):
                if is_read_by_ranges(path):
                    check_remote_url(path)
                else:
                    check_url(path)
                return cls("url", show_name(path), path=path)
            if not path or "\0" in path:
                raise expected("source", "a path without NUL characters" if path else "a path", path)
            return cls("path", path, path=os.path.abspath(path))
        if isinstance(source, (bytes, bytearray, memoryview)):
            return cls("bytes", f"<{len(source)} bytes>", data=bytes(source))
        if hasattr(source, "read") and hasattr(source, "seek"):
            if isinstance(source, io.TextIOBase):
                raise UsageError(
                    "source: expected a file object opened in binary mode, got one in text mode: use open(path, 'rb')"
                )
            if not getattr(source, "seekable", lambda: True)():
                raise UsageError("source: expected a seekable file object: give its bytes instead, file.read()")
            return cls("file", str(getattr(source, "name", repr(source))), file=source)
        refuse_catalog(source, what)
        if hasattr(source, "source"):
            return cls.of(source.source)
        raise expected("source", what, source)

    def reader(self, indexed: SourceIdentity | None = None) -> ByteReader:
        """Open the bytes for positioned reads.

        Args:
            indexed: Which file it must be, after `check_identity`. It is known of objects that are read by ranges: if
                one is replaced, reads raise `StaleSource`.

        Raises:
            UnreadableMedia: The path is missing, a folder, a FIFO, or may not be read.
        """
        if self.kind == "path":
            return FileReader(self.path)
        if self.kind == "url":
            return open_ranges(self.path, self._get_version(indexed)) if self._has_ranges else UrlReader(self.path)
        return BytesReader(self.data) if self.file is None else make_reader(self.file, self.pid)

    def stat(self) -> SourceStat:
        """Size in bytes and modification time, without opening a path."""
        if self.kind == "path":
            return SourceStat.of(stat_regular(self.path))
        if self.kind == "url":
            with self.opened() as reader:
                return reader.stat()
        if self.file is None:
            return SourceStat(len(self.data))
        return make_reader(self.file, self.pid).stat()

    def fingerprint(self) -> str:
        """Hash the size, head, middle and tail, so that a copy has the fingerprint of its original."""
        with self.opened() as reader:
            return self.identity_of(reader).fingerprint

    def head_fingerprint(self) -> str:
        """Hash the size and the first bytes, which the survey of a still picture has read anyway."""
        return self.head_identity().fingerprint

    def head_identity(self) -> SourceIdentity:
        """Identify a still picture by its first bytes."""
        with self.opened() as reader:
            head, now = read_bytes(reader, 0, HEAD_BYTES), reader.stat()
            fingerprint = HEAD_FINGERPRINT_PREFIX + hash_head(head, now.bytes)
            self._accept(reader, fingerprint)
            return SourceIdentity(now.bytes, now.mtime_ns, fingerprint)

    def identity(self) -> SourceIdentity:
        """Identify the source as it is now."""
        with self.opened() as reader:
            return self.identity_of(reader)

    def identity_of(self, reader: ByteReader) -> SourceIdentity:
        """Identify the source by an open reader; `check_identity` then reads an object by URL no second time."""
        now = reader.stat()
        size = now.bytes
        digest = xxhash.xxh3_128(str(size).encode())
        block = memoryview(bytearray(min(FINGERPRINT_BLOCK, size)))
        ranges = _list_hashed(size)
        announce_reads(reader, lambda: ranges)
        for start, _ in ranges:
            digest.update(block[: reader.read_into(block, start)])
        fingerprint = digest.hexdigest()
        self._accept(reader, fingerprint)
        return SourceIdentity(size, now.mtime_ns, fingerprint)

    def check_identity(self, indexed: SourceIdentity | None) -> Hashable:
        """Check that the source is still the one that was indexed.

        The same bytes under a new modification time are accepted; they are hashed once a process.

        Returns:
            A key of the source as it is now, for a path its `FileStamp`: an open file under another
            key is another file.

        Raises:
            StaleSource: Another size, or another time and other bytes.
            ResourceExhausted: Memory or file descriptors ran out, twice.
        """
        return try_again_in_shortage(partial(self._compare_identity, indexed), self.name, "open")

    def _compare_identity(self, indexed: SourceIdentity | None) -> Hashable:
        if self.kind == "url":
            if indexed is None:
                return (self.kind, self.path)
            # Compared by its bytes, once a process: not all file systems tell modification times. The fingerprint is
            # part of the key: another object under the same URL is another file.
            key = self._make_key(indexed.fingerprint)
            if not self._is_accepted(key, indexed.fingerprint):
                raise self._make_changed_error(indexed, self.stat().bytes)
            return key
        if self.kind != "path":
            return (self.kind, _Identity(self.data if self.file is None else self.file))
        facts = stat_regular(self.path)
        stamp = FileStamp.of(self.path, facts)
        if indexed is None or (facts.st_size, clamp_ns(facts.st_mtime_ns)) == (indexed.bytes, indexed.mtime_ns):
            return stamp
        if facts.st_size == indexed.bytes and self._is_accepted(stamp, indexed.fingerprint):
            return stamp
        raise self._make_changed_error(indexed, facts.st_size)

    def _is_accepted(self, stamp: Hashable, fingerprint: str) -> bool:
        """Whether the source has a fingerprint; hash it once a process for each stamp."""
        if (stamp, fingerprint) in _ACCEPTED:
            return True
        is_of_head = fingerprint.startswith(HEAD_FINGERPRINT_PREFIX)
        if (self.head_fingerprint() if is_of_head else self.fingerprint()) != fingerprint:
            return False
        _ACCEPTED.add((stamp, fingerprint))
        return True

    def _make_changed_error(self, indexed: SourceIdentity, size: int) -> StaleSource:
        return StaleSource(
            f"{self.name}: the file has changed since it was indexed (then {indexed.bytes} bytes, now {size}): "
            "scan or index it again",
            source=self.name,
            stage="open",
        )

    def fetch_ahead(self, indexed: SourceIdentity | None, ranges: Iterable[tuple[int, int]]) -> RangesAhead | None:
        """Ask for bytes that are read later, if they are remote; do not wait.

        Args:
            indexed: What `check_identity` will be called with; its bytes are asked for too.
            ranges: First byte of each, and behind the last one.
        """
        if self.kind != "url" or not self._has_ranges:
            return None
        checked: list[tuple[int, int]] = []
        if indexed is not None and not self._is_known(indexed):
            is_of_head = indexed.fingerprint.startswith(HEAD_FINGERPRINT_PREFIX)
            checked = [(0, HEAD_BYTES)] if is_of_head else _list_hashed(indexed.bytes)
        return fetch_ahead(self.path, [*checked, *ranges], self._get_version(indexed))

    def get_range(self, start: int, stop: int, version: ObjectVersion | None = None) -> FetchedRange:
        """Get a range of an object that is read by ranges, in the calling thread.

        Args:
            start: First byte.
            stop: Behind the last byte.
            version: Which version it must be of; None for any.
        """
        return get_range(self.path, start, stop, version)

    @property
    def _has_ranges(self) -> bool:
        return is_read_by_ranges(self.path)

    def _is_known(self, indexed: SourceIdentity) -> bool:
        return (self._make_key(indexed.fingerprint), indexed.fingerprint) in _ACCEPTED

    def _make_key(self, fingerprint: str) -> Hashable:
        """Make the key of an object by URL with a fingerprint."""
        return self.kind, self.path, fingerprint

    def _accept(self, reader: ByteReader, fingerprint: str) -> None:
        """Remember the fingerprint of an object by URL, and which version has it if the reader knows versions."""
        if self.kind == "url":
            key = self._make_key(fingerprint)
            _ACCEPTED.add((key, fingerprint))
            if (version := getattr(reader, "version", None)) is not None:
                _VERSIONS[key] = version

    def _get_version(self, indexed: SourceIdentity | None) -> ObjectVersion | None:
        return None if indexed is None else _VERSIONS.get(self._make_key(indexed.fingerprint))

    def head(self, count: int) -> bytes:
        """Read the first ``count`` bytes, fewer if the source is shorter."""
        with self.opened() as reader:
            return read_bytes(reader, 0, count)

    def read_all(self, most_bytes: int) -> bytes:
        """Read all bytes.

        Raises:
            LimitExceeded: There are more.
        """
        if self._has_ranges:
            data = read_whole(self.path, most_bytes)
        else:
            with self.opened() as reader:
                data = read_bytes(reader, 0, min(reader.stat().bytes, most_bytes + 1))
        if len(data) > most_bytes:
            limits = Limits(max_header_bytes=most_bytes)
            raise make_limit_error(limits, "max_header_bytes", "more bytes", self.name, "read")
        return data

    def opened(self) -> closing[ByteReader]:
        """Open for positioned reads, and close again."""
        return closing(self.reader())

    def __repr__(self) -> str:
        return f"MediaSource({self.kind}, {self.name!r})"


def _list_hashed(size: int) -> list[tuple[int, int]]:
    """List the ranges of a file of so many bytes that its fingerprint is made of."""
    starts = sorted({0, max(0, (size - FINGERPRINT_BLOCK) // 2), max(0, size - FINGERPRINT_BLOCK)})
    return [(start, min(size, start + FINGERPRINT_BLOCK)) for start in starts]


_VERSIONS: dict[Hashable, ObjectVersion] = {}
"""Versions of the objects whose fingerprint was compared."""
_ACCEPTED: set[tuple[Hashable, str]] = set()
HEAD_FINGERPRINT_PREFIX = "h"
"""First character of fingerprints made of a head alone; no hexadecimal digit."""


hash_head = xxhash.xxh3_128_hexdigest
"""Hash a head; the size of the file is the seed."""
