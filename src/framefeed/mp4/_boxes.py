"""List boxes of ISO/IEC 14496-12, with every size checked, and the top level of an MP4 file.

Anything that is not understood exactly raises ``OddMovie``: libav reads the file then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from framefeed._stopping import check_stop
from framefeed._values import ByteReader, Limits, announce_reads, read_bytes

_HEADER = Struct(">I4s")
_LARGE = Struct(">Q")
_LARGE_HEADER_BYTES = 16
MAX_BOXES = 4096
"""Most boxes of one parent."""
BOX_COST = 2**13
"""Bytes that a box of any size counts against ``Limits.max_header_bytes``: 32,768 boxes are allowed by default."""
FREE_BOXES = 1024
"""Boxes that any file may have, whatever the limit."""
_PARENTS = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"edts", b"udta", b"mvex", b"tapt", b"gmhd",
                      b"meta", b"ilst"})  # fmt: skip
_FULL_BOX_BYTES = 4
"""Version and flags, which ``meta`` has in MP4 and not in QuickTime."""


class OddMovie(Exception):
    """The file has something that this reader does not understand exactly; libav reads it then."""


class TooManyBoxes(Exception):
    """The file has more boxes than the limits allow: no reader reads it."""


class Box(NamedTuple):
    """One box in a buffer: its kind, and start and end of its payload."""

    kind: bytes
    start: int
    end: int


_make_box = partial(tuple.__new__, Box)
"""Make a box from a tuple: four times as fast as by fields, and a file has sixty boxes."""


def list_boxes(data: bytes, start: int, end: int) -> list[Box]:
    """List the boxes that fill ``data[start:end]``."""
    children: list[Box] = []
    header, last = _HEADER.unpack_from, end - 8
    while start <= last:
        size, kind = header(data, start)
        head = 8
        if size == 1:
            size, head = read_large_size(data, start, end), _LARGE_HEADER_BYTES
        stop = start + size
        if size < head or stop > end or len(children) >= MAX_BOXES:
            raise OddMovie(f"a {kind!r} box of {size} bytes in {end - start}")
        children.append(_make_box((kind, start + head, stop)))
        start = stop
    return children


def check_box_count(data: bytes, max_header_bytes: int) -> None:
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
                size, head = read_large_size(data, start, end), _LARGE_HEADER_BYTES
            if size < head:
                break
            left -= 1
            if left < 0:
                raise TooManyBoxes
            if kind in _PARENTS:
                is_full = kind == b"meta" and data[start + head : start + head + _FULL_BOX_BYTES] == bytes(4)
                parents.append((start + head + _FULL_BOX_BYTES * is_full, min(start + size, end)))
            start += size


def read_large_size(data: bytes, start: int, end: int) -> int:
    """Read the 64-bit size of the box at ``start``."""
    if start + _LARGE_HEADER_BYTES > end:
        raise OddMovie("a box breaks off in its header")
    return int(_LARGE.unpack_from(data, start + 8)[0])


def find_boxes(data: bytes, parent: Box, once: Collection[bytes], ignored: Collection[bytes]) -> dict[bytes, Box]:
    """Find the children of a box.

    ``parent``: its payload is filled with boxes.
    ``once``: kinds to find; each may be there once.
    ``ignored``: kinds without facts about frames.
    """
    children: dict[bytes, Box] = {}
    for box in list_boxes(data, parent.start, parent.end):
        if box.kind in once and box.kind not in children:
            children[box.kind] = box
        elif box.kind not in ignored:
            raise OddMovie(f"an unexpected {box.kind!r} box")
    return children


def require_box(children: dict[bytes, Box], kind: bytes) -> Box:
    """Return a box that must be there, or raise OddMovie."""
    try:
        return children[kind]
    except KeyError:
        raise OddMovie(f"no {kind!r} box") from None


def unpack(data: bytes, box: Box, layout: Struct, skip: int = 0) -> tuple[int, ...]:
    """Read a fixed structure at ``skip`` bytes into a box's payload."""
    if box.start + skip + layout.size > box.end:
        raise OddMovie(f"a {box.kind!r} box that breaks off")
    return layout.unpack_from(data, box.start + skip)


_FIRST_BYTES = 4096
_LARGE_HEADER = Struct(">I4sQ")
FIRST_KINDS = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free"})
"""First boxes by which libav takes a file for an MP4 and nothing else."""
_PASSED = frozenset({b"ftyp", b"mdat", b"wide", b"free", b"skip", b"uuid"})
_PASSED_AMONG_FRAGMENTS = frozenset({b"styp", b"mfra", b"emsg", b"prft", b"sidx"})
MAX_TOP_BOXES = 65_536
COUNTED_KINDS = frozenset(
    {*FIRST_KINDS, *_PASSED, *_PASSED_AMONG_FRAGMENTS, b"moof", b"junk", b"pict", b"pnot", b"prfl", b"udta"}
)
"""First boxes of all files that libav takes for a movie (mov_probe); their boxes are counted for libav too."""
_EMPTY_BYTES = 16
"""Boxes of up to this many bytes hold no facts about frames."""
_FRAGMENT_COST, _BESIDE_FRAGMENT_COST = 2**9, 2**10
"""Bytes that a moof or mdat, and a box beside them, count against ``Limits.max_header_bytes``: more than half a million
of them are allowed by default."""
_NEAR_BYTES, _BLOCK_BYTES, _REST_BYTES = 2**12, 2**16, 2**22
"""Boxes within the first distance of each other are read in blocks of the second."""
_TopBox = tuple[bytes, int, int, int]
"""Kind, offset, offset of the payload, end."""


class FileLayout(NamedTuple):
    """Boxes of a file's top level."""

    size: int
    movie: tuple[int, int]  # start and end of the payload of moov
    fragments: tuple[tuple[int, int], ...] = ()  # start and end of each moof box, header included
    indexes: tuple[tuple[int, int], ...] = ()  # start and end of the payload of each sidx box
    data: tuple[tuple[int, int], ...] = ()  # start and end of each mdat box that is not empty, header included


def read_layout(reader: ByteReader, size: int, limits: Limits, head: bytes = b"") -> FileLayout:
    """Find the boxes of the top level; read nothing but their headers.

    ``head``: its first bytes, if they are known.
    """
    head = head or read_bytes(reader, 0, min(size, _FIRST_BYTES))
    listed, damage = _list_top_boxes(reader, size, limits, head)
    movie: tuple[int, int] | None = None
    data: list[tuple[int, int]] = []
    is_fragmented = False
    fragments: list[tuple[int, int]] = []
    indexes: list[tuple[int, int]] = []
    for number, (kind, at, start, end) in enumerate(listed):
        if number == 0 and kind not in FIRST_KINDS:
            raise OddMovie(f"begins with a {kind!r} box")
        if kind == b"moov" and movie is None and end <= size:
            movie = start, end
        elif kind == b"moof" and movie is not None and end <= size:
            fragments.append((at, end))
        elif kind in _PASSED_AMONG_FRAGMENTS and movie is not None and end <= size:
            is_fragmented = True
            if kind == b"sidx":
                indexes.append((start, end))
        elif kind not in _PASSED or (end > size and kind != b"mdat"):
            raise OddMovie(f"an unexpected {kind!r} box")
        if kind == b"mdat" and end > start:
            data.append((at, end))
    if damage is not None:
        raise damage
    if len(listed) > MAX_TOP_BOXES:
        raise OddMovie("too many boxes")
    if movie is None or not data or movie[1] - movie[0] > limits.max_header_bytes:
        raise OddMovie("no moov, a huge one, or no mdat")
    if is_fragmented and not fragments:
        raise OddMovie("boxes of fragments without fragments")
    return FileLayout(size, movie, tuple(fragments), tuple(indexes), tuple(data))


def _list_top_boxes(
    reader: ByteReader, size: int, limits: Limits, head: bytes
) -> tuple[list[_TopBox], OddMovie | None]:
    """List the boxes of the top level up to the end or a damaged one; return the damage too."""
    listed: list[_TopBox] = []
    left = FREE_BOXES * BOX_COST + limits.max_header_bytes
    try:
        for kind, at, start, end in _walk_top_boxes(reader, size, head, limits.max_header_bytes):
            if end - at <= _EMPTY_BYTES:
                left -= BOX_COST
            elif kind in (b"moof", b"mdat"):
                left -= _FRAGMENT_COST
            else:
                left -= _BESIDE_FRAGMENT_COST if kind in _PASSED_AMONG_FRAGMENTS else BOX_COST
            if left < 0:
                raise TooManyBoxes
            listed.append((kind, at, start, end))
    except OddMovie as damage:
        return listed, damage
    return listed, None


def _walk_top_boxes(reader: ByteReader, size: int, head: bytes, most_announced: int) -> Iterator[_TopBox]:
    """Walk from box to box by their headers; read many small ones by blocks."""
    window, base, at, before, kind = head, 0, 0, -_BLOCK_BYTES, b""
    while at + 8 <= size:
        if kind == b"mdat" and at > len(head) and size - at <= _REST_BYTES:
            announce_reads(reader, partial(iter, [(at, size)]))  # a moov box, most often
        if not base <= at <= base + len(window) - _LARGE_HEADER.size:
            check_stop()
            window, base = read_bytes(reader, at, _BLOCK_BYTES if at - before < _NEAR_BYTES else _LARGE_HEADER.size), at
            if len(window) < min(8, size - at):
                raise OddMovie("a file that got shorter")
        length, kind = _HEADER.unpack_from(window, at - base)
        start = at + 8
        if length == 1 and at - base + _LARGE_HEADER.size <= len(window):
            length, start = _LARGE_HEADER.unpack_from(window, at - base)[2], at + _LARGE_HEADER.size
        elif length == 0:
            length = size - at
        if length < start - at:
            raise OddMovie(f"a {kind!r} box of {length} bytes")
        if kind == b"moov" and len(head) < at + length <= size and length <= most_announced:
            # It is read next, and so is the beginning of the box behind it.
            announce_reads(reader, partial(iter, [(at, min(size, at + length + _NEAR_BYTES + _BLOCK_BYTES))]))
        yield kind, at, start, at + length
        before, at = at, at + length
