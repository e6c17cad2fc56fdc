"""Boxes of ISO/IEC 14496-12: finding them without believing a size.

Whatever is not understood exactly raises ``OddMovie``: libav reads the file then.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from struct import Struct
from typing import NamedTuple

_HEADER = Struct(">I4s")
_LARGE = Struct(">Q")
_LARGE_HEADER_BYTES = 16
MAX_DEPTH = 10
"""Levels of boxes inside each other; libav's own bound."""
MAX_BOXES = 4096
"""Boxes of one parent."""
BOX_COST = 2**13
"""What a box counts against ``Limits.max_header_bytes``, however small it is: 32,768 are allowed by default."""
FREE_BOXES = 1024
"""Any file may have as many, whatever the limit."""
_PARENTS = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"edts", b"udta", b"mvex", b"tapt", b"gmhd",
                      b"meta", b"ilst"})  # fmt: skip
_FULL_BOX_BYTES = 4
"""Version and flags, which ``meta`` has in MP4 and not in QuickTime."""


class OddMovie(Exception):
    """The file holds something that this reader does not understand exactly: no error, another reader takes over."""


class TooManyBoxes(Exception):
    """The file holds more boxes than the limits allow: not even their headers are read, by this reader or another."""


class Box(NamedTuple):
    """One box in a buffer: its kind, and where its payload begins and ends."""

    kind: bytes
    start: int
    end: int


_box = partial(tuple.__new__, Box)
"""Makes a box of a tuple: a quarter of the time that naming its fields takes, and a file has sixty of them."""


def boxes(data: bytes, start: int, end: int) -> list[Box]:
    """List the boxes that fill ``data[start:end]``.

    Raises:
        OddMovie: A box is shorter than its header, or ends beyond its parent, or there are too many.
    """
    found: list[Box] = []
    header, last = _HEADER.unpack_from, end - 8
    while start <= last:
        size, kind = header(data, start)
        head = 8
        if size == 1:
            size, head = large_size(data, start, end), _LARGE_HEADER_BYTES
        stop = start + size
        if size < head or stop > end or len(found) >= MAX_BOXES:
            raise OddMovie(f"a {kind!r} box of {size} bytes in {end - start}")
        found.append(_box((kind, start + head, stop)))
        start = stop
    return found


def check_number(data: bytes, max_header_bytes: int) -> None:
    """Raise TooManyBoxes if boxes inside of each other are more than the limit allows; damage ends its parent."""
    left = FREE_BOXES + max_header_bytes // BOX_COST
    if len(data) <= 8 * left:
        return
    parents = [(0, len(data))]
    while parents:
        start, end = parents.pop()
        while start + 8 <= end:
            size, kind = _HEADER.unpack_from(data, start)
            head = 8
            if size == 1 and start + _LARGE_HEADER_BYTES <= end:
                size, head = large_size(data, start, end), _LARGE_HEADER_BYTES
            if size < head:
                break
            left -= 1
            if left < 0:
                raise TooManyBoxes
            if kind in _PARENTS:
                is_full = kind == b"meta" and data[start + head : start + head + _FULL_BOX_BYTES] == bytes(4)
                parents.append((start + head + _FULL_BOX_BYTES * is_full, min(start + size, end)))
            start += size


def large_size(data: bytes, start: int, end: int) -> int:
    """Read the 64-bit size of the box at ``start``."""
    if start + _LARGE_HEADER_BYTES > end:
        raise OddMovie("a box breaks off in its header")
    return int(_LARGE.unpack_from(data, start + 8)[0])


def by_kind(data: bytes, parent: Box, once: Collection[bytes], ignored: Collection[bytes]) -> dict[bytes, Box]:
    """Find the children of a box.

    Args:
        data: The buffer.
        parent: Its payload is filled with boxes.
        once: Kinds to find; each may be there once.
        ignored: Kinds that say nothing of frames.

    Raises:
        OddMovie: A kind is there twice, or is of neither group.
    """
    found: dict[bytes, Box] = {}
    for box in boxes(data, parent.start, parent.end):
        if box.kind in once and box.kind not in found:
            found[box.kind] = box
        elif box.kind not in ignored:
            raise OddMovie(f"an unexpected {box.kind!r} box")
    return found


def need(found: dict[bytes, Box], kind: bytes) -> Box:
    """Give a box that must be there."""
    try:
        return found[kind]
    except KeyError:
        raise OddMovie(f"no {kind!r} box") from None


def unpack(data: bytes, box: Box, layout: Struct, skip: int = 0) -> tuple[int, ...]:
    """Read a fixed structure at ``skip`` bytes into a box's payload.

    Raises:
        OddMovie: The box is too short.
    """
    if box.start + skip + layout.size > box.end:
        raise OddMovie(f"a {box.kind!r} box that breaks off")
    return layout.unpack_from(data, box.start + skip)
