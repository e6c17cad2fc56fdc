"""Readers: random access to the bytes of paths, file objects, buffers and objects by URL, by one interface."""

from __future__ import annotations

import io
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import IO, Any, TypeVar

from framefeed._fetched import FetchCounts, count_fetch
from framefeed._files import open_regular, raise_file_error
from framefeed._outcome import shorten_repr
from framefeed._per_process import PerProcess
from framefeed._stopping import Cancelled
from framefeed._values import ByteReader, BytesReader, SourceStat, announce_reads, count_kept_bytes, read_bytes
from framefeed.errors import DeadlineExceeded, UsageError
from framefeed.media._urls import BLOCK_BYTES, fetch, open_url

R = TypeVar("R")

# Locks on the positions of the file objects that have readers. By id: file objects need be neither hashable nor weakly
# referable. A reader keeps its file, and so its id, alive.
_POSITION_LOCKS: weakref.WeakValueDictionary[int, PerProcess[Any]] = weakref.WeakValueDictionary()
_ADDING_LOCK = PerProcess(threading.RLock)


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

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `close` is a default, because the module may be cleared before its last object. A generator that the collector
        # finalises after this may still put the reader aside, and close it again.
        descriptor, self._descriptor = getattr(self, "_descriptor", -1), -1
        if descriptor >= 0:
            close(descriptor)


class DescriptorReader:
    """Reads a regular file that a user opened, with positioned reads, which leave its position alone."""

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

    ``pid`` is of the process in which it became a source.
    """

    def __init__(self, file: IO[bytes], pid: int | None = None) -> None:
        self._file = file
        with _ADDING_LOCK.value:
            position = _POSITION_LOCKS.get(id(file))
            if position is None:
                position = _POSITION_LOCKS[id(file)] = PerProcess(threading.RLock)
        self._position = position
        # A descriptor has one position for all processes; an object in memory has one in each process.
        self._pid = (os.getpid() if pid is None else pid) if _has_descriptor(file) else None

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        self._check_process()
        got = 0
        with self._position.value:
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
        with self._position.value:
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

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._url = url
        self._options = options
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
            count_fetch(FetchCounts(nbytes=len(block)))
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
        opened = self._object = ObjectReader(open_url(self._url, self._options))
        self._pid = os.getpid()
        return opened

    def _fetch(self, function: Callable[[ObjectReader], R]) -> R:
        opened = self._object if self._pid == os.getpid() else None
        began = perf_counter()
        try:
            return fetch(function, opened or self._open(), self._url, "read")
        except (DeadlineExceeded, Cancelled, KeyboardInterrupt):
            self._object = None
            raise
        finally:
            count_fetch(FetchCounts(1, wait_seconds=perf_counter() - began))


class PartReader:
    """Reads the bytes inside a source from ``offset`` on as if they were all of it."""

    def __init__(self, container: ByteReader, offset: int, size: int) -> None:
        self._container = container
        self._offset, self._size = offset, size
        # Called for each packet.
        self._read_into = container.read_into

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        left = self._size - offset
        if len(buffer) > left:
            buffer = buffer[: max(left, 0)]
        return self._read_into(buffer, self._offset + offset)

    def read(self, offset: int, count: int) -> bytes:
        """Read up to ``count`` bytes at ``offset``."""
        return read_bytes(self._container, self._offset + offset, max(0, min(count, self._size - offset)))

    def stat(self) -> SourceStat:
        """Size of the part, and time of the file that it lies in."""
        return SourceStat(self._size, self._container.stat().mtime_ns)

    @property
    def announce(self) -> Callable[[Iterable[tuple[int, int]]], None] | None:
        """Function that says which ranges are read next; None of a file, whose ranges need not be made."""
        announce = getattr(self._container, "announce", None)
        return None if announce is None else self._announce

    def _announce(self, ranges: Iterable[tuple[int, int]]) -> None:
        announce_reads(self._container, lambda: shift_ranges(ranges, self._offset, self._size))

    @property
    def kept_bytes(self) -> int:
        """Bytes of the source that are in memory."""
        return count_kept_bytes(self._container)

    @property
    def version(self) -> Any:
        """Version of the object that the part lies in; None for a file."""
        return getattr(self._container, "version", None)

    def close(self) -> None:
        """Close the source."""
        self._container.close()


class ValueReader(BytesReader):
    """Reads a value of a Parquet file that is in memory; time and version are those of the file."""

    def __init__(self, value: Any, mtime_ns: int | None, version: Any) -> None:
        super().__init__(memoryview(value).cast("B"))  # Arrow's bytes are signed.
        self._mtime_ns = mtime_ns
        self.version = version

    def stat(self) -> SourceStat:
        """Size of the value, and time of the file that it lies in."""
        return SourceStat(super().stat().bytes, self._mtime_ns)


def shift_ranges(ranges: Iterable[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    """Convert ranges of a part, first byte and behind the last, to ranges of its container."""
    return [(offset + start, offset + min(stop, size)) for start, stop in ranges if start < size]


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
