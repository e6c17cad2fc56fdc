"""Segment indexes of fragmented movies: ISO/IEC 14496-12 8.16.3, as far as libav believes them."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from framefeed.media.mp4.boxes import Box, OddMovie, unpack
from framefeed.media.mp4.movie import Movie
from framefeed.media.source import ByteReader, read_bytes

_HEAD = Struct(">BxxxII")
_BEGIN = {0: Struct(">II"), 1: Struct(">QQ")}
_COUNT = Struct(">2xH")
_REFERENCE = Struct(">III")
_MAX_BYTES = 2**20
_OTHER_INDEX = 1 << 31
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """One sidx box.

    Attributes:
        place: Byte position of its payload.
        track_id: Whose samples it is of.
        time_scale: Ticks a second.
        end_time: Where its last segment ends, in ticks.
        is_complete: Its segments end with the file: libav's header ends with it, or at the samples behind it.
    """

    place: int
    track_id: int
    time_scale: int
    end_time: int
    is_complete: bool


def read_segment_indexes(reader: ByteReader, movie: Movie) -> list[SegmentIndex]:
    """Read the segment indexes of a movie in the file's order.

    Raises:
        OddMovie: One is of an unknown track, refers to further indexes, or breaks off: libav then opens no such file.
    """
    layout = movie.layout
    if not layout.indexes:
        return []
    # A box at the end of the file, mfra, says in its last four bytes how large it is.
    tail = int.from_bytes(read_bytes(reader, layout.size - 4, 4), "big")
    found = [_read_index(reader, place, (layout.size, layout.size - tail)) for place in layout.indexes]
    if not {one.track_id for one in found} <= {track.track_id for track in movie.tracks}:
        raise OddMovie("a segment index of an unknown track")
    return found


def _read_index(reader: ByteReader, place: tuple[int, int], file_ends: tuple[int, int]) -> SegmentIndex:
    begin, end = place
    if end - begin > _MAX_BYTES:
        raise OddMovie("a huge segment index")
    data = read_bytes(reader, begin, end - begin)
    box = Box(b"sidx", 0, len(data))
    version, track_id, time_scale = unpack(data, box, _HEAD)
    if version not in _BEGIN or not 0 < time_scale < 2**31:
        raise OddMovie("a segment index of an unknown version or time scale")
    layout = _BEGIN[version]
    time, gap = unpack(data, box, layout, 12)
    at = 12 + layout.size
    (count,) = unpack(data, box, _COUNT, at)
    offset = end + gap
    for number in range(count):
        size, duration, _ = unpack(data, box, _REFERENCE, at + 4 + number * _REFERENCE.size)
        if size & _OTHER_INDEX:
            raise OddMovie("a segment index of further ones")
        offset += size
        time += duration
    if not count or max(offset, time) >= _MOST:
        raise OddMovie("a segment index of nothing, or of huge numbers")
    return SegmentIndex(begin, track_id, time_scale, time, offset in file_ends)
