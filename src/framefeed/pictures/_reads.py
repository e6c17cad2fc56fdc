"""Bounded reads of picture headers, and their result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from framefeed._stopping import check_stop

PICTURE_HEAD_BYTES = 4096
"""Bytes read first: a shorter head is the whole file."""

More = Callable[[int, int], bytes]
"""Reads ``count`` bytes at ``offset``, fewer at the end of the file."""

LEAST_READ_BYTES = 1024
"""Least bytes that a read counts against ``Limits.max_header_bytes``: a read of one byte takes as long."""

MAX_PART_BYTES = 2**18
"""Largest part of a header that is read as a whole; EXIF and XMP of a JPEG are 2**16 at most."""


class StillHeader(NamedTuple):
    """Facts that the header of a still picture claims."""

    container: str  # Pillow's name of the format, in lower case
    codec: str  # codec name; "mjpeg" for JPEG
    width: int
    height: int
    mode: str  # Pillow's mode of the picture: its colour type
    orientation: int  # orientation for display, 1 to 8 as in EXIF; 1 if the file has none
    num_frames: int  # pictures that the header claims


class OddHeader(Exception):
    """A header that is damaged or rare: ``probe_image`` asks a library."""


_UNCHECKED_BYTES = 2**15

F = TypeVar("F")


class CountedReads(Generic[F]):
    """A ``More`` that reads at most a number of bytes of one file after another.

    Args:
        read: Reads ``count`` bytes of a file at ``offset``: ``os.pread``.
        file: The file. Set it, and ``bytes_left``, to go on with another file.

    Attributes:
        bytes_left: Bytes that may still be read.
    """

    __slots__ = ("_checked_below", "_read", "bytes_left", "file")

    def __init__(self, read: Callable[[F, int, int], bytes], file: F, max_bytes: int) -> None:
        self._read = read
        self.file = file
        self.bytes_left = max_bytes
        # Most files need one short read, and `check_stop` would double its time.
        self._checked_below = max_bytes - _UNCHECKED_BYTES

    def __call__(self, count: int, offset: int) -> bytes:
        """Read."""
        self.bytes_left -= count if count > LEAST_READ_BYTES else LEAST_READ_BYTES
        if self.bytes_left < self._checked_below:
            check_stop()
        if self.bytes_left < 0:
            raise OddHeader("its header goes on for more bytes than max_header_bytes allows")
        return self._read(self.file, count, offset)


class FileWindow:
    """Bytes of a file by offset: the head, and one window behind it that moves with the reads.

    Args:
        head: The first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
    """

    __slots__ = ("_calls", "_head", "_more", "_start", "_window")

    def __init__(self, head: bytes, more: More, calls: int) -> None:
        self._head = head
        self._window = b""
        self._start = 0
        self._more = more
        self._calls = calls

    def read(self, offset: int, count: int) -> bytes:
        """Read exactly ``count`` bytes at ``offset``."""
        part = self.read_up_to(offset, count)
        if len(part) < count:
            raise OddHeader("ends early")
        return part

    def read_up_to(self, offset: int, count: int) -> bytes:
        """Read ``count`` bytes at ``offset``, fewer at the end of the file."""
        if offset + count <= len(self._head) or len(self._head) < PICTURE_HEAD_BYTES:
            return self._head[offset : offset + count]
        begin = offset - self._start
        if begin < 0 or begin + count > len(self._window):
            if not self._calls or count > MAX_PART_BYTES or offset >= 2**63 - MAX_PART_BYTES:
                raise OddHeader("its parts are too many, too large or too far away")
            self._calls -= 1
            self._window = self._more(max(count, PICTURE_HEAD_BYTES), offset)
            self._start = offset
            begin = 0
        return self._window[begin : begin + count]
