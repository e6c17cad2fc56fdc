"""The top level of an MP4 file: where moov, mdat and fragments are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from framefeed.media.limits import Limits
from framefeed.media.mp4.boxes import BOX_COST, FREE_BOXES, OddMovie, TooManyBoxes
from framefeed.media.source import ByteReader, read_bytes
from framefeed.parallel.stopping import check_stop

_FIRST_BYTES = 4096
_HEADER = Struct(">I4s")
_LARGE_HEADER = Struct(">I4sQ")
FIRST_KINDS = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free"})
"""What a file may begin with so that libav takes it for an MP4 and nothing else."""
_PASSED = frozenset({b"ftyp", b"mdat", b"wide", b"free", b"skip", b"uuid"})
_PASSED_AMONG_FRAGMENTS = frozenset({b"styp", b"mfra", b"emsg", b"prft", b"sidx"})
MAX_TOP_BOXES = 65_536
COUNTED_KINDS = frozenset(
    {*FIRST_KINDS, *_PASSED, *_PASSED_AMONG_FRAGMENTS, b"moof", b"junk", b"pict", b"pnot", b"prfl", b"udta"}
)
"""What files may begin with that libav takes for a movie (mov_probe): their boxes are counted for libav too."""
_EMPTY_BYTES = 16
"""Boxes of up to this many bytes hold nothing of frames, whatever their kind."""
_FRAGMENT_COST, _BESIDE_FRAGMENT_COST = 2**9, 2**10
"""What a moof or mdat, and what a box that goes with them, counts against ``Limits.max_header_bytes``: more than half
a million of them are allowed by default."""
_NEAR_BYTES, _BLOCK_BYTES = 2**12, 2**16
"""Boxes as near to each other as the first are read in blocks of the second."""
_Box = tuple[bytes, int, int, int]
"""Kind, where it begins, where its payload begins, where it ends."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Boxes of a file's top level.

    Attributes:
        size: Bytes of the file.
        movie: Where the payload of moov begins and ends.
        fragments: Where each moof box begins and ends, header included.
        indexes: Where the payload of each sidx box begins and ends.
        data: Where each mdat box that holds something begins and ends, header included.
    """

    size: int
    movie: tuple[int, int]
    fragments: tuple[tuple[int, int], ...] = ()
    indexes: tuple[tuple[int, int], ...] = ()
    data: tuple[tuple[int, int], ...] = ()


def read_layout(reader: ByteReader, size: int, limits: Limits, head: bytes = b"") -> FileLayout:
    """Find the boxes of the top level, reading nothing but their headers.

    Args:
        reader: The file.
        size: Its bytes.
        limits: What it may claim.
        head: Its first bytes, where they are known.

    Raises:
        OddMovie: Anything but an ordinary MP4 file.
        TooManyBoxes: It holds more of them than the limits allow.
    """
    head = head or read_bytes(reader, 0, min(size, _FIRST_BYTES))
    listed, damage = _top_boxes(reader, size, limits, head)
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


def _top_boxes(reader: ByteReader, size: int, limits: Limits, head: bytes) -> tuple[list[_Box], OddMovie | None]:
    """List the boxes of the top level up to the end, or to one that is damaged, and what is wrong with that.

    Raises:
        TooManyBoxes: They cost more than the limits allow; libav, too, would look at each.
    """
    found: list[_Box] = []
    left = FREE_BOXES * BOX_COST + limits.max_header_bytes
    try:
        for kind, at, start, end in _walk(reader, size, head):
            if end - at <= _EMPTY_BYTES:
                left -= BOX_COST
            elif kind in (b"moof", b"mdat"):
                left -= _FRAGMENT_COST
            else:
                left -= _BESIDE_FRAGMENT_COST if kind in _PASSED_AMONG_FRAGMENTS else BOX_COST
            if left < 0:
                raise TooManyBoxes
            found.append((kind, at, start, end))
    except OddMovie as damage:
        return found, damage
    return found, None


def _walk(reader: ByteReader, size: int, head: bytes) -> Iterator[_Box]:
    """Go from box to box, reading nothing but their headers; of many small ones, a block at once."""
    window, base, at, before = head, 0, 0, -_BLOCK_BYTES
    while at + 8 <= size:
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
        yield kind, at, start, at + length
        before, at = at, at + length
