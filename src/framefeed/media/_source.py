"""Media sources: read paths, URLs, bytes and file objects by one interface, and identify them."""

from __future__ import annotations

import io
import os
import stat
import threading
import weakref
from collections.abc import Callable, Hashable
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, Any, Literal, Protocol, TypeVar

import xxhash

from framefeed._checks import expand_home, expected, refuse_catalog
from framefeed._files import open_regular, raise_file_error, stat_regular
from framefeed._shown import show_name
from framefeed.errors import DeadlineExceeded, StaleSource, UsageError
from framefeed.media._sniff import HEAD_BYTES
from framefeed.media._urls import BLOCK_BYTES, check_url, fetch, open_url
from framefeed.parallel import Cancelled, renew_after_fork, shorten_repr

R = TypeVar("R")
FINGERPRINT_BLOCK = 64 * 1024
"""Bytes hashed at the head, at the middle and at the tail."""


@dataclass(frozen=True, slots=True)
class SourceStat:
    """Size in bytes, and modification time in ns if there is one."""

    bytes: int
    mtime_ns: int | None = None

    @classmethod
    def of(cls, facts: os.stat_result) -> SourceStat:
        """Take size and time from what the system says of a file; the time is clamped."""
        return cls(facts.st_size, clamp_ns(facts.st_mtime_ns))


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


def clamp_ns(ns: int) -> int:
    """Clamp a file's time in ns to 64 bits, 1677 to 2262: file systems have a larger range."""
    return max(-(2**63), min(ns, 2**63 - 1))


class ByteReader(Protocol):
    """Random access to the bytes of a source."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        ...

    def stat(self) -> SourceStat:
        """Size and time of the open source."""
        ...

    def close(self) -> None:
        """Release the file, if this reader opened it."""
        ...


class FileReader:
    """Reads a regular file with positioned reads, which threads and forked children can share."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = open_regular(path)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        try:
            got = os.preadv(self._descriptor, [buffer], offset)
            while 0 < got < len(buffer):
                more = os.preadv(self._descriptor, [buffer[got:]], offset + got)
                if not more:
                    break
                got += more
            return got
        except OSError as error:
            raise_file_error(error, self._path, "read")

    def read(self, offset: int, count: int) -> bytes:
        """Read up to ``count`` bytes at ``offset``: what ``read_into`` would fill, without a buffer to copy from."""
        try:
            data = os.pread(self._descriptor, count, offset)
            while 0 < len(data) < count:
                more = os.pread(self._descriptor, count - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise_file_error(error, self._path, "read")

    def stat(self) -> SourceStat:
        """Size and time of the file that is open."""
        try:
            return SourceStat.of(os.fstat(self._descriptor))
        except OSError as error:
            raise_file_error(error, self._path, "read")

    def close(self) -> None:
        """Close the file; more than once is fine."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


class BytesReader:
    """Reads an encoded buffer in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        part = self._data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def stat(self) -> SourceStat:
        """Size of the buffer."""
        return SourceStat(len(self._data))

    def close(self) -> None:
        """Nothing to release."""


class DescriptorReader:
    """Reads a regular file that a user opened, with positioned reads, which leave its position alone.

    Args:
        file: As `is_real_file` says.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._name = str(getattr(file, "name", repr(file)))

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        got = 0
        try:
            while got < len(buffer):
                # fileno() each time: the user may have closed the file, and its number may belong to another one.
                more = os.preadv(self._file.fileno(), [buffer[got:]], offset + got)
                if not more:
                    break
                got += more
        except OSError as error:
            raise_file_error(error, self._name, "read")
        return got

    def stat(self) -> SourceStat:
        """Size of the file."""
        try:
            return SourceStat(os.fstat(self._file.fileno()).st_size)
        except OSError as error:
            raise_file_error(error, self._name, "read")

    def close(self) -> None:
        """The file object stays its owner's."""


class ObjectReader:
    """Reads a seekable binary file object; its readers share one lock, as each moves the object's position.

    Args:
        file: The object.
        pid: Of the process in which it became a source.
    """

    def __init__(self, file: IO[bytes], pid: int | None = None) -> None:
        self._file = file
        self._position = _POSITION_LOCKS.lock_for(file)
        # A descriptor has one position for all processes; an object in memory has one in each process.
        self._pid = (os.getpid() if pid is None else pid) if _has_descriptor(file) else None

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        self._check_process()
        got = 0
        with self._position.lock:
            self._file.seek(offset, os.SEEK_SET)  # TorchCodec asks of file objects no more than seek(offset, whence)
            while got < len(buffer):
                data = self._file.read(len(buffer) - got)
                if not data:
                    break
                buffer[got : got + len(data)] = data
                got += len(data)
        return got

    def stat(self) -> SourceStat:
        """Bytes up to the end."""
        self._check_process()
        with self._position.lock:
            return SourceStat(self._file.seek(0, os.SEEK_END))

    def close(self) -> None:
        """The file object stays its owner's."""

    def close_file(self) -> None:
        """Close the file object, by its owner."""
        self._file.close()

    def _check_process(self) -> None:
        if self._pid is not None and self._pid != os.getpid():
            raise UsageError(
                f"{shorten_repr(self._file)} was opened before this process was forked, and shares its position with "
                "the parent: open it again in this process, or pass the path"
            )


class UrlReader:
    """Reads an object by URL in blocks, through its own file object, which it opens anew after a fork or a late read.

    A late read goes on in another thread, which may hold the object's lock and move its position.
    """

    # libav reads sound and pictures of some files from two offsets in turns.
    _MOST_BLOCKS = 16

    def __init__(self, url: str) -> None:
        self._url = url
        self._object: ObjectReader | None = None
        self._blocks: dict[int, bytes] = {}
        self._open()

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        got = 0
        while got < len(buffer):
            number, start = divmod(offset + got, BLOCK_BYTES)
            part = memoryview(self._read_block(number))[start : start + len(buffer) - got]
            if not part:
                break
            buffer[got : got + len(part)] = part
            got += len(part)
        return got

    def _read_block(self, number: int) -> bytes:
        block = self._blocks.pop(number, None)
        if block is None:
            block = self._fetch(lambda reader: read_bytes(reader, number * BLOCK_BYTES, BLOCK_BYTES))
        self._blocks[number] = block  # behind those that were used before it
        for oldest in list(self._blocks)[: -self._MOST_BLOCKS]:
            self._blocks.pop(oldest, None)
        return block

    def stat(self) -> SourceStat:
        """Bytes up to the end."""
        return self._fetch(ObjectReader.stat)

    def close(self) -> None:
        """Close the file; more than once is fine."""
        opened, self._object = self._object, None
        if opened is not None and self._pid == os.getpid():
            opened.close_file()

    def _open(self) -> ObjectReader:
        opened = self._object = ObjectReader(open_url(self._url))
        self._pid = os.getpid()
        return opened

    def _fetch(self, function: Callable[[ObjectReader], R]) -> R:
        opened = self._object if self._pid == os.getpid() else None
        try:
            return fetch(function, opened or self._open(), self._url, "read")
        except (DeadlineExceeded, Cancelled, KeyboardInterrupt):
            self._object = None
            raise


def make_reader(file: IO[bytes], pid: int | None = None) -> ByteReader:
    """Make the reader of a user's file object."""
    return DescriptorReader(file) if is_real_file(file) else ObjectReader(file, pid)


def is_real_file(file: object) -> bool:
    """Whether a file object gives the bytes of its descriptor; False for wrappers such as GzipFile."""
    raw = file.raw if type(file) is io.BufferedReader else file
    return type(raw) is io.FileIO and not raw.closed and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _has_descriptor(file: IO[bytes]) -> bool:
    try:
        return isinstance(file.fileno(), int)
    except (AttributeError, OSError, ValueError):  # io.UnsupportedOperation is both of the latter
        return False


class _PositionLock:
    """Lock on the position of a file object."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


class _PositionLocks:
    """Locks of the file objects that have readers."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[int, _PositionLock] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the locks, which a thread of the parent may have held."""
        self._lock = threading.RLock()
        for position_lock in self._locks.values():
            position_lock.lock = threading.RLock()

    def lock_for(self, file: IO[bytes]) -> _PositionLock:
        # By id: file objects need be neither hashable nor weakly referable. A reader keeps its file, and so its id,
        # alive.
        with self._lock:
            position_lock = self._locks.get(id(file))
            if position_lock is None:
                position_lock = self._locks[id(file)] = _PositionLock()
            return position_lock


_POSITION_LOCKS = _PositionLocks()


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
        what = "a path, URL, bytes, binary file object, ImageSequence or CatalogEntry"
        if isinstance(source, type):
            raise expected("source", what, source)
        if hasattr(source, "as_media_source"):
            known: MediaSource = source.as_media_source()
            return known
        if isinstance(source, (str, os.PathLike)):
            path = expand_home(os.fsdecode(source))
            if "://" in path and not os.path.exists(path):
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

    def reader(self) -> ByteReader:
        """Open the bytes for positioned reads.

        Raises:
            UnreadableMedia: The path is missing, a folder, a FIFO, or may not be read.
        """
        if self.kind == "path":
            return FileReader(self.path)
        if self.kind == "url":
            return UrlReader(self.path)
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
        return HEAD_FINGERPRINT_PREFIX + hash_head(self.head(HEAD_BYTES), self.stat().bytes)

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
        for start in sorted({0, max(0, (size - FINGERPRINT_BLOCK) // 2), max(0, size - FINGERPRINT_BLOCK)}):
            digest.update(block[: reader.read_into(block, start)])
        fingerprint = digest.hexdigest()
        if self.kind == "url":
            _ACCEPTED.add(((self.kind, self.path, fingerprint), fingerprint))
        return SourceIdentity(size, now.mtime_ns, fingerprint)

    def check_identity(self, indexed: SourceIdentity | None) -> Hashable:
        """Check that the source is still the one that was indexed.

        The same bytes under a new modification time are accepted; they are hashed once a process.

        Returns:
            A key of the source as it is now: an open file under another key is another file.

        Raises:
            StaleSource: Another size, or another time and other bytes.
        """
        if self.kind == "url":
            if indexed is None:
                return (self.kind, self.path)
            # Compared by its bytes, once a process: not all file systems tell modification times. The fingerprint is
            # part of the key: another object under the same URL is another file.
            key = (self.kind, self.path, indexed.fingerprint)
            if not self._is_accepted(key, indexed.fingerprint):
                raise self._make_changed_error(indexed, self.stat().bytes)
            return key
        if self.kind != "path":
            return (self.kind, id(self.data) if self.file is None else id(self.file))
        facts = stat_regular(self.path)
        stamp = (self.path, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
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

    def head(self, count: int) -> bytes:
        """Read the first ``count`` bytes, fewer if the source is shorter."""
        with self.opened() as reader:
            return read_bytes(reader, 0, count)

    def opened(self) -> closing[ByteReader]:
        """Open for positioned reads, and close again."""
        return closing(self.reader())

    def __repr__(self) -> str:
        return f"MediaSource({self.kind}, {self.name!r})"


_ACCEPTED: set[tuple[Hashable, str]] = set()
HEAD_FINGERPRINT_PREFIX = "h"
"""First character of fingerprints made of a head alone; no hexadecimal digit."""


hash_head = xxhash.xxh3_128_hexdigest
"""Hash a head; the size of the file is the seed."""


def read_bytes(reader: ByteReader, offset: int, count: int) -> bytes:
    """Read up to ``count`` bytes at ``offset``."""
    if isinstance(reader, FileReader):
        return reader.read(offset, count)
    buffer = bytearray(count)
    got = reader.read_into(memoryview(buffer), offset)
    return bytes(buffer[:got])
