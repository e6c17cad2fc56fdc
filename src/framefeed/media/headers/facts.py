"""What a header says, and when it is not said plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

HEAD_BYTES = 4096
"""What is read first: a shorter head is the whole file."""

More = Callable[[int, int], bytes]
"""Reads ``count`` bytes at ``offset``, fewer at the end of the file: ``functools.partial(os.pread, descriptor)``."""

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


class Reach:
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
        if offset + count <= len(self._head) or len(self._head) < HEAD_BYTES:
            return self._head[offset : offset + count]
        begin = offset - self._start
        if begin < 0 or begin + count > len(self._window):
            if not self._calls or count > MAX_PART_BYTES or offset >= 2**63 - MAX_PART_BYTES:
                raise OddHeader("its parts are too many, too large or too far away")
            self._calls -= 1
            self._window = self._more(max(count, HEAD_BYTES), offset)
            self._start = offset
            begin = 0
        return self._window[begin : begin + count]
