"""What a header says, and when it is not said plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from framefeed.parallel import check_stop

PICTURE_HEAD_BYTES = 4096
"""What is read first: a shorter head is the whole file."""

More = Callable[[int, int], bytes]
"""Reads ``count`` bytes at ``offset``, fewer at the end of the file."""

LEAST_READ_BYTES = 1024
"""What a read counts at least against ``Limits.max_header_bytes``: one of a byte takes as long as one of these."""

MAX_PART_BYTES = 2**18
"""One piece of a header that is read as a whole; EXIF and XMP of a JPEG are 2**16 at most."""


class StillHeader(NamedTuple):
    """What the header of a still picture claims.

    Attributes:
        container: Pillow's name of the format, in lower case.
        codec: Codec name; "mjpeg" for JPEG.
        width: Columns as stored.
        height: Rows as stored.
        mode: Pillow's mode of the picture: its colour type.
        bit_depth: Bits of one channel; of a palette, those of its colours.
        orientation: How the picture is turned for display, 1 to 8 as in EXIF; 1 where nothing says so.
        num_frames: Pictures that the header claims.
        is_animated: Whether that is more than one.
    """

    container: str
    codec: str
    width: int
    height: int
    mode: str
    bit_depth: int
    orientation: int
    num_frames: int
    is_animated: bool


class OddHeader(Exception):
    """A header that is damaged, or rare enough to be left to a library: ask ``image_info``."""


_UNCHECKED_BYTES = 2**15

F = TypeVar("F")


class CountedReads(Generic[F]):
    """Reads further into one file after another, at most a number of bytes of each: a ``More``.

    Args:
        read: Reads of a file ``count`` bytes at ``offset``: ``os.pread``.
        file: What is read. Set it, and ``bytes_left``, to go on with another file.
        max_bytes: Of the header of one file.

    Attributes:
        bytes_left: How many more may be read.
    """

    __slots__ = ("_checked_below", "_read", "bytes_left", "file")

    def __init__(self, read: Callable[[F, int, int], bytes], file: F, max_bytes: int) -> None:
        self._read = read
        self.file = file
        self.bytes_left = max_bytes
        # Most files need one short read: a look at the clock would cost as much again.
        self._checked_below = max_bytes - _UNCHECKED_BYTES

    def __call__(self, count: int, offset: int) -> bytes:
        """Read.

        Raises:
            OddHeader: More of the file was read than is allowed.
        """
        self.bytes_left -= count if count > LEAST_READ_BYTES else LEAST_READ_BYTES
        if self.bytes_left < self._checked_below:
            check_stop()
        if self.bytes_left < 0:
            raise OddHeader("its header goes on for more bytes than max_header_bytes allows")
        return self._read(self.file, count, offset)


class FileWindow:
    """The bytes of a file by their offset: the head, or one window further on that moves where it is needed.

    Args:
        head: The first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
        more: Reads further.
        calls: How often at most.
    """

    __slots__ = ("_calls", "_head", "_more", "_start", "_window")

    def __init__(self, head: bytes, more: More, calls: int) -> None:
        self._head = head
        self._window = b""
        self._start = 0
        self._more = more
        self._calls = calls

    def at(self, offset: int, count: int) -> bytes:
        """Give exactly ``count`` bytes at ``offset``.

        Raises:
            OddHeader: The file ends before, or too much of it would have to be read.
        """
        part = self.up_to(offset, count)
        if len(part) < count:
            raise OddHeader("ends early")
        return part

    def up_to(self, offset: int, count: int) -> bytes:
        """Give ``count`` bytes at ``offset``, fewer at the end of the file."""
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
