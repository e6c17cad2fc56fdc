"""The top level of an MP4 file: where moov, mdat and fragments are."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from framefeed.media.limits import Limits
from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.source import ByteReader, read_bytes

_FIRST_BYTES = 4096
_HEADER = Struct(">I4s")
_LARGE_HEADER = Struct(">I4sQ")
FIRST_KINDS = frozenset({b"ftyp", b"moov", b"mdat", b"wide", b"free"})
"""What a file may begin with so that libav takes it for an MP4 and nothing else."""
_PASSED = frozenset({b"ftyp", b"mdat", b"wide", b"free", b"skip", b"uuid"})
_PASSED_AMONG_FRAGMENTS = frozenset({b"styp", b"mfra", b"emsg", b"prft", b"sidx"})
MAX_TOP_BOXES = 65_536


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Boxes of a file's top level.

    Attributes:
        size: Bytes of the file.
        movie: Where the payload of moov begins and ends.
        fragments: Where each moof box begins and ends, header included.
    """

    size: int
    movie: tuple[int, int]
    fragments: tuple[tuple[int, int], ...] = ()


def read_layout(reader: ByteReader, size: int, limits: Limits, head: bytes = b"") -> FileLayout:
    """Find the boxes of the top level, reading nothing but their headers.

    Args:
        reader: The file.
        size: Its bytes.
        limits: What it may claim.
        head: Its first bytes, where they are known.

    Raises:
        OddMovie: Anything but an ordinary MP4 file.
    """
    head = head or read_bytes(reader, 0, min(size, _FIRST_BYTES))
    movie: tuple[int, int] | None = None
    has_data = is_fragmented = False
    fragments: list[tuple[int, int]] = []
    at = number = 0
    while at + 8 <= size:
        kind, start, end = _box_at(reader, at, size, head)
        if number == 0 and kind not in FIRST_KINDS:
            raise OddMovie(f"begins with a {kind!r} box")
        if kind == b"moov" and movie is None and end <= size:
            movie = start, end
        elif kind == b"moof" and movie is not None and end <= size:
            fragments.append((at, end))
        elif kind in _PASSED_AMONG_FRAGMENTS and movie is not None and end <= size:
            is_fragmented = True
        elif kind not in _PASSED or (end > size and kind != b"mdat"):
            raise OddMovie(f"an unexpected {kind!r} box")
        has_data = has_data or (kind == b"mdat" and end > start)
        at, number = end, number + 1
        if number > MAX_TOP_BOXES:
            raise OddMovie("too many boxes")
    if movie is None or not has_data or movie[1] - movie[0] > limits.max_header_bytes:
        raise OddMovie("no moov, a huge one, or no mdat")
    if is_fragmented and not fragments:
        raise OddMovie("boxes of fragments without fragments")
    return FileLayout(size, movie, tuple(fragments))


def _box_at(reader: ByteReader, at: int, size: int, head: bytes) -> tuple[bytes, int, int]:
    """Kind of the box at a place, where its payload begins, and where it ends."""
    raw = head[at : at + 16] if at + 16 <= len(head) else read_bytes(reader, at, 16)
    if len(raw) < 8:
        raise OddMovie("a file that got shorter")
    length, kind = _HEADER.unpack_from(raw)
    start = at + 8
    if length == 1 and len(raw) == 16:
        length, start = _LARGE_HEADER.unpack_from(raw)[2], at + 16
    elif length == 0:
        length = size - at
    if length < start - at:
        raise OddMovie(f"a {kind!r} box of {length} bytes")
    return kind, start, at + length
