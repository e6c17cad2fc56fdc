"""Media sources: read paths, URLs, bytes and file objects by one interface, and identify them."""

from __future__ import annotations

import io
import os
from collections.abc import Hashable, Iterable, Mapping
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO, Any, Literal

from framefeed._checks import expand_home, expected, refuse_catalog
from framefeed._files import stat_regular
from framefeed._names import PartName, split_part
from framefeed._shortage import try_again_in_shortage
from framefeed._shown import show_name
from framefeed._values import (
    DEFAULT_LIMITS,
    HEAD_BYTES,
    ByteReader,
    BytesReader,
    Limits,
    SourceStat,
    clamp_ns,
    override_limits,
    read_bytes,
)
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia, UsageError
from framefeed.media._identity import (
    ACCEPTED,
    HEAD_FINGERPRINT_PREFIX,
    PROXY,
    FileStamp,
    ObjectIdentity,
    SourceIdentity,
    find_container_version,
    hash_blocks,
    hash_head,
    list_hashed,
    make_changed_error,
    make_file_version,
)
from framefeed.media._members import READ_BY_ARROW, find_kept_value, find_member, read_value
from framefeed.media._readers import FileReader, PartReader, UrlReader, ValueReader, make_reader, shift_ranges
from framefeed.media._urls import check_url
from framefeed.media.remote import (
    FetchedRange,
    ObjectVersion,
    RangesAhead,
    StorageOptions,
    check_remote_url,
    fetch_ahead,
    find_options,
    get_range,
    is_read_by_ranges,
    open_ranges,
)


@dataclass(frozen=True, eq=False)
class MediaSource:
    """A path, a URL, bytes or a file object as one media source.

    Attributes:
        kind: Where the bytes are.
        name: Printable name for messages.
        path: Absolute path for kind "path", URL for kind "url"; for kind "part" that of what it lies in.
        data: The encoded bytes, for kind "bytes".
        file: The seekable binary file object, for kind "file".
        pid: The process in which the source was made.
        options: Of ``storage_options``, for this URL.
        version: Which version of the object, or of the file that a part lies in, a catalog knows; None if unknown.
            `PROXY` for a proxy.
    """

    kind: Literal["path", "bytes", "file", "sequence", "url", "part"]
    name: str
    path: str = ""
    data: bytes = b""
    file: IO[bytes] | None = None
    pid: int = field(default_factory=os.getpid)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    version: str | None = None

    @classmethod
    def of(
        cls,
        source: Any,
        storage_options: StorageOptions | None = None,
        version: str | None = None,
        limits: Limits | None = None,
    ) -> MediaSource:
        """Understand what a user may pass as a source.

        Args:
            source: ``str`` or ``os.PathLike``, a URL that fsspec reads, the name of a part as in a catalog, bytes-like,
                a seekable binary file object, an `ImageSequence`, or anything with a ``source`` attribute that is one
                of these (a ``CatalogEntry``).
            storage_options: Options by URL prefix.
            version: Which version of a URL's object, or of a file with parts, a catalog knows.
            limits: What the container of a part may claim; see `with_limits`.
        """
        if isinstance(source, MediaSource):
            return source.with_limits(limits)
        what = "a path, URL, bytes (array.tobytes()), binary file object, ImageSequence or CatalogEntry"
        if isinstance(source, type):
            raise expected("source", what, source)
        if hasattr(source, "as_media_source"):
            known: MediaSource = source.as_media_source()
            return known.with_limits(limits)
        if isinstance(source, (str, os.PathLike)):
            path = expand_home(os.fsdecode(source))
            if "://" in path and not os.path.exists(path):
                if (part := split_part(path)) is not None:
                    return find_part(part._replace(container=expand_home(part.container)), storage_options, limits)
                options = find_options(storage_options, path)
                if is_read_by_ranges(path):
                    check_remote_url(path, options)
                else:
                    check_url(path)
                return cls("url", show_name(path), path=path, options=options, version=version)
            if not path or "\0" in path:
                raise expected("source", "a path without NUL characters" if path else "a path", path)
            return cls("path", path, path=os.path.abspath(path), version=version)
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
            return cls.of(source.source, storage_options, limits=limits)
        raise expected("source", what, source)

    def with_limits(self, limits: Limits | None) -> MediaSource:
        """Bound what is read to open the source by limits; only a `PackedValue` reads more than its own bytes."""
        return self

    def reader(self, indexed: SourceIdentity | None = None) -> ByteReader:
        """Open the bytes for positioned reads.

        ``indexed`` says which file it must be, after `check_identity`. It is known of objects that are read by ranges:
        if one is replaced, reads raise `StaleSource`.
        """
        if self.kind == "path":
            return FileReader(self.path)
        if self.kind == "url":
            return self._open_url(indexed)
        return BytesReader(self.data) if self.file is None else make_reader(self.file, self.pid)

    def _open_url(self, indexed: SourceIdentity | None) -> ByteReader:
        if not self._has_ranges:
            return UrlReader(self.path, self.options)
        confirm = None if indexed is None else partial(self._confirm, indexed)
        return open_ranges(self.path, self.options, self._get_version(indexed), confirm)

    def stat(self) -> SourceStat:
        """Size in bytes and modification time, without opening a path."""
        if self.kind == "path":
            return SourceStat.of(stat_regular(self.path))
        with self.opened() as reader:
            return reader.stat()

    def fingerprint(self) -> str:
        """Hash the size, head, middle and tail, so that a copy has the fingerprint of its original."""
        return self.identity().fingerprint

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
        now, fingerprint = reader.stat(), hash_blocks(reader)
        self._accept(reader, fingerprint)
        return SourceIdentity(now.bytes, now.mtime_ns, fingerprint)

    def check_identity(self, indexed: SourceIdentity | None) -> Hashable:
        """Check that the source is still the one that was indexed, or raise `StaleSource`.

        The same bytes under a new modification time are accepted; they are hashed once a process.

        Returns:
            A key of the source as it is now, for a path its `FileStamp`: an open file under another
            key is another file.
        """
        return try_again_in_shortage(partial(self._compare_identity, indexed), self.name, "open")

    def _compare_identity(self, indexed: SourceIdentity | None) -> Hashable:
        if self.is_remote:
            # Compared by its bytes, once a process: not all file systems tell modification times. The fingerprint is
            # part of the key: another object under the same URL is another file.
            key = self._make_key("" if indexed is None else indexed.fingerprint)
            if indexed is None or self._has_known_version:  # Then each answer is compared with it.
                return key
            if not self._is_accepted(key, indexed.fingerprint):
                raise self._make_changed_error(indexed, self.stat().bytes)
            return key
        if self.kind != "path":
            return (self.kind, ObjectIdentity(self.data if self.file is None else self.file))
        try:
            facts = stat_regular(self.path)
        except MissingMedia as error:
            if self.version != PROXY:
                raise
            raise MissingMedia(
                f"{self.name}: this proxy is not there: make it again with ff.make_proxies, which keeps the others; "
                "or, if the folder was moved, call with_proxies of the originals' catalog with the new folder",
                source=self.name,
                stage="open",
            ) from error
        stamp = FileStamp.of(self.path, facts)
        if indexed is None or (facts.st_size, clamp_ns(facts.st_mtime_ns)) == (indexed.bytes, indexed.mtime_ns):
            return stamp
        if facts.st_size == indexed.bytes and self._is_accepted(stamp, indexed.fingerprint):
            return stamp
        raise self._make_changed_error(indexed, facts.st_size)

    def _is_accepted(self, stamp: Hashable, fingerprint: str) -> bool:
        """Whether the source has a fingerprint; hash it once a process for each stamp."""
        if ACCEPTED.has(stamp, fingerprint):
            return True
        if not self._has_fingerprint(fingerprint):
            return False
        ACCEPTED.add(stamp, fingerprint)
        return True

    def _has_fingerprint(self, fingerprint: str) -> bool:
        """Whether the source has a fingerprint now; it is read for this."""
        is_of_head = fingerprint.startswith(HEAD_FINGERPRINT_PREFIX)
        return (self.head_fingerprint() if is_of_head else self.fingerprint()) == fingerprint

    def _confirm(self, indexed: SourceIdentity) -> ObjectVersion:
        """Find the version of an object now, if its bytes are those that were indexed."""
        if self._has_fingerprint(indexed.fingerprint) and (version := self._find_accepted(indexed.fingerprint)):
            return version
        raise self._make_changed_error(indexed, self.stat().bytes)

    def _make_changed_error(self, indexed: SourceIdentity, size: int) -> StaleSource:
        sizes = "" if self.kind == "part" else f" (then {indexed.bytes} bytes, now {size})"
        return make_changed_error(self.name, sizes, is_proxy=self.version == PROXY)

    def fetch_ahead(self, indexed: SourceIdentity | None, ranges: Iterable[tuple[int, int]]) -> RangesAhead | None:
        """Ask for bytes that are read later, if they are remote; do not wait.

        What `check_identity` will be called with is asked for too.
        """
        if not self._has_ranges:
            return None
        checked: list[tuple[int, int]] = []
        key = self._make_key("" if indexed is None else indexed.fingerprint)
        if indexed is not None and not self._has_known_version and not ACCEPTED.has(key, indexed.fingerprint):
            is_of_head = indexed.fingerprint.startswith(HEAD_FINGERPRINT_PREFIX)
            checked = [(0, HEAD_BYTES)] if is_of_head else list_hashed(indexed.bytes)
        return fetch_ahead(self.path, self._shift([*checked, *ranges]), self._get_version(indexed), self.options)

    def _shift(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Convert ranges of the source to those of the object that it lies in."""
        return ranges

    @property
    def is_remote(self) -> bool:
        """Whether it is, or lies in, an object by URL."""
        return self.kind == "url"

    @property
    def local_path(self) -> str | None:
        """Path of the file that has its bytes, among others or alone; None if there is none."""
        return self.path if self.kind == "path" else None

    def get_range(self, start: int, stop: int, version: ObjectVersion | None = None) -> FetchedRange:
        """Get a range of an object that is read by ranges, in the calling thread."""
        return get_range(self.path, start, stop, self.options, version)

    @property
    def _has_ranges(self) -> bool:
        return self.is_remote and is_read_by_ranges(self.path)

    @property
    def _has_known_version(self) -> bool:
        return self._has_ranges and self._known_version is not None

    @property
    def _known_version(self) -> ObjectVersion | None:
        return None if self.version is None else ObjectVersion.parse(self.version)

    def _make_key(self, fingerprint: str) -> Hashable:
        """Make the key of an object by URL with a fingerprint."""
        options = repr(sorted(self.options.items(), key=repr)) if self.options else ""
        return self.kind, self.path, options, fingerprint

    def make_stamp(self, reader: ByteReader) -> Hashable:
        """Make a key of what an open reader reads: the source, and its version, or size and time."""
        stat = reader.stat()  # After it the version is known.
        return self._make_key(""), getattr(getattr(reader, "version", None), "text", "") or stat

    def _accept(self, reader: ByteReader, fingerprint: str) -> None:
        """Remember the fingerprint of an object by URL, and which version has it if the reader knows versions."""
        if self.is_remote:
            ACCEPTED.add(self._make_key(fingerprint), fingerprint, getattr(reader, "version", None))

    def _get_version(self, indexed: SourceIdentity | None) -> ObjectVersion | None:
        return None if indexed is None else self._find_accepted(indexed.fingerprint) or self._known_version

    def _find_accepted(self, fingerprint: str) -> ObjectVersion | None:
        return ACCEPTED.find_version(self._make_key(fingerprint), fingerprint)

    def find_version(self, fingerprint: str) -> str | None:
        """Find the version of an object, or of what a part lies in, whose fingerprint was just made; None of a file."""
        known = self._find_accepted(fingerprint)
        return self.version if known is None else known.text or None

    def head(self, count: int) -> bytes:
        """Read the first ``count`` bytes, fewer if the source is shorter."""
        with self.opened() as reader:
            return read_bytes(reader, 0, count)

    def opened(self) -> closing[ByteReader]:
        """Open for positioned reads, and close again."""
        return closing(self.reader())

    def __repr__(self) -> str:
        return f"MediaSource({self.kind}, {self.name!r})"


class Part(MediaSource):
    """A source inside another: so many bytes from an offset on.

    ``text`` is its name, such as ``tar://member::path``; offset and size are those of a catalog, which may be damaged.
    """

    def __init__(self, source: MediaSource, offset: int, size: int, text: str) -> None:
        super().__init__("part", show_name(text), path=source.path, options=source.options, version=source.version)
        if offset < 0 or size < 0:
            raise UnreadableMedia(
                f"{self.name}: its place in the file is damaged: scan again", source=self.name, stage="open"
            )
        # What is left of frozen dataclasses: only their own attributes are.
        self.container, self.offset, self.size, self.text = source, offset, size, text

    def reader(self, indexed: SourceIdentity | None = None) -> ByteReader:
        """Open the bytes for positioned reads; see `MediaSource.reader`."""
        inner = self._open_url(indexed) if self.is_remote else self.container.reader()
        return PartReader(inner, self.offset, self.size)

    def stat(self) -> SourceStat:
        """Size of the part, and time of the file that it lies in."""
        return SourceStat(self.size, None if self.is_remote else self.container.stat().mtime_ns)

    @property
    def is_remote(self) -> bool:
        """Whether it lies in an object by URL."""
        return self.container.is_remote

    @property
    def local_path(self) -> str | None:
        """Path of the file that it lies in; None if there is none."""
        return self.container.local_path

    def _shift(self, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return shift_ranges(ranges, self.offset, self.size)

    def _make_key(self, fingerprint: str) -> Hashable:
        return super()._make_key(fingerprint), self.offset, self.size

    def _compare_identity(self, indexed: SourceIdentity | None) -> Hashable:
        if self.is_remote:
            return super()._compare_identity(indexed)
        stamp = self.container._compare_identity(None)
        key = (stamp, self.offset, self.size)
        assert isinstance(stamp, FileStamp)  # of a path
        now = SourceStat(stamp.nbytes, clamp_ns(stamp.mtime_ns))
        if indexed is None or make_file_version(now) == self.version:
            return key
        if self.size == indexed.bytes and self._is_accepted(key, indexed.fingerprint):
            return key
        raise self._make_changed_error(indexed, self.size)


class PackedValue(Part):
    """A value of a Parquet file that is compressed or encoded: all its bytes are read through Arrow."""

    def __init__(self, source: MediaSource, size: int, text: str) -> None:
        super().__init__(source, 0, size, text)
        self.offset, self._limits = READ_BY_ARROW, DEFAULT_LIMITS

    def with_limits(self, limits: Limits | None) -> PackedValue:
        """Bound what is read through Arrow; those of the limits that are the defaults leave what was set before."""
        joined = self._limits if limits is None else override_limits(self._limits, limits)
        if joined == self._limits:
            return self
        bounded = copy(self)
        bounded._limits = joined
        return bounded

    def reader(self, indexed: SourceIdentity | None = None) -> ByteReader:
        """Read the value; see `MediaSource.reader`."""
        version, file = self._get_version(indexed), self.container
        known = (version or self._known_version) if self.is_remote else None
        if known and (value := find_kept_value(self.text, (file._make_key(""), known.text), file.name, self._limits)):
            return ValueReader(value, None, known)
        try:
            return self._read(version)
        except StaleSource:
            if indexed is None or not self._has_ranges:
                raise
        return self._read(self._confirm(indexed))

    def _read(self, version: ObjectVersion | None) -> ValueReader:
        has_ranges, file = self._has_ranges, self.container
        with closing(open_ranges(self.path, self.options, version) if has_ranges else file.reader()) as reader:
            stamp = file.make_stamp(reader)
            return read_value(self.text, reader, stamp, file.name, self.version, self._limits, is_remote=self.is_remote)

    def fetch_ahead(self, indexed: SourceIdentity | None, ranges: Iterable[tuple[int, int]]) -> RangesAhead | None:
        """Ask for nothing: only Arrow knows where the bytes are."""
        return None

    def _make_key(self, fingerprint: str) -> Hashable:
        return super()._make_key(fingerprint), self.text

    def _compare_identity(self, indexed: SourceIdentity | None) -> Hashable:
        # What is open already is not taken for a source whose limits may forbid it.
        return super()._compare_identity(indexed), self.text, self._limits


def make_part(source: MediaSource, offset: int, size: int, text: str) -> Part:
    """Make a part; ``READ_BY_ARROW`` as its offset makes a `PackedValue`."""
    if offset == READ_BY_ARROW and size >= 0 and (name := split_part(text)) and name.scheme == "parquet":
        return PackedValue(source, size, text)
    return Part(source, offset, size, text)


def find_part(part: PartName, storage_options: StorageOptions | None, limits: Limits | None = None) -> MediaSource:
    """Find a part by its name: its container is searched."""
    if split_part(part.container) is not None:
        what = "lies in an archive inside another file, which is not read: unpack the inner one"
        raise UnreadableMedia(f"{part.text}: {what}", source=part.text, stage="open")
    container = MediaSource.of(part.container, storage_options)
    with container.opened() as reader:
        offset, size = find_member(
            part, reader, container.name, is_remote=container.is_remote, limits=limits or DEFAULT_LIMITS
        )
        known = find_container_version(reader, is_remote=container.is_remote)
    return make_part(replace(container, version=known), offset, size, part.text).with_limits(limits)
