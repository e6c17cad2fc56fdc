"""Read movie fragments (ISO/IEC 14496-12 8.8) and segment indexes (8.16.3) as libav does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, IntArray
from framefeed._stopping import check_stop
from framefeed._values import KEY, ByteReader, Limits, PacketTable, PacketWalk, read_bytes
from framefeed.mp4._boxes import Box, OddMovie, list_boxes, require_box, unpack
from framefeed.mp4._edits import read_edit_offset
from framefeed.mp4._movie import Movie, Track
from framefeed.mp4._samples import MAX_DELTA, MAX_SAMPLE_BYTES

_HEAD = Struct(">BxxxII")
_BEGIN = {0: Struct(">II"), 1: Struct(">QQ")}
_COUNT = Struct(">2xH")
_REFERENCE = Struct(">III")
_MAX_BYTES = 2**20
_OTHER_INDEX = 1 << 31
_MOST = 2**62


class MovieSegmentIndex(NamedTuple):
    """One sidx box."""

    offset: int  # byte offset of its payload
    track_id: int  # track of its samples
    time_scale: int
    end_time: int  # end of its last segment, in ticks
    is_complete: bool  # its segments end with the file: libav's header ends with it, or at the samples behind it


def read_segment_indexes(reader: ByteReader, movie: Movie) -> list[MovieSegmentIndex]:
    """Read the segment indexes of a movie in the file's order."""
    layout = movie.layout
    if not layout.indexes:
        return []
    # The last four bytes of mfra, a box at the end of the file, are its size.
    tail = int.from_bytes(read_bytes(reader, layout.size - 4, 4), "big")
    file_ends = layout.size, layout.size - tail
    indexes = [_read_index(reader, begin, end, file_ends) for begin, end in layout.indexes]
    if not {index.track_id for index in indexes} <= {track.track_id for track in movie.tracks}:
        raise OddMovie("a segment index of an unknown track")
    return indexes


def _read_index(reader: ByteReader, begin: int, end: int, file_ends: tuple[int, int]) -> MovieSegmentIndex:
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
    return MovieSegmentIndex(begin, track_id, time_scale, time, offset in file_ends)


_NUM_RUNS = Struct(">4xI")
_TREX = Struct(">4xIIIII")
_RUN_FIELDS = (0x100, 0x200, 0x400, 0x800)
_DATA_OFFSET, _FIRST_FLAGS = 0x1, 0x4
_BASE_OFFSET, _DESCRIPTION, _DURATION, _SIZE, _FLAGS, _BASE_IS_MOOF = 0x1, 0x2, 0x8, 0x10, 0x20, 0x20000
_NOT_SYNC = 0x00010000 | 0x01000000
"""Flags of a sample that is no sync sample, or depends on others: no key frame for libav."""
_PASSED = frozenset({b"sdtp", b"sbgp", b"sgpd", b"subs", b"free"})
_SIGNED = 2**31


class Defaults(NamedTuple):
    """Default values of the samples of a track fragment."""

    duration: int
    size: int
    flags: int


class TrackRun(NamedTuple):
    """One track run, columns of length P."""

    moof_offset: int  # byte offset of its moof box
    track_id: int  # track of the samples
    offset: IntArray  # byte offset in the file, int64
    size: IntArray  # bytes, int64
    dts: IntArray  # decode time in ticks, int64
    duration: IntArray  # in ticks, int64
    composition: IntArray  # presentation time minus decode time, int64
    is_sync: BoolArray  # key frame according to the fragment, bool


class Fragments(NamedTuple):
    """The fragments of one track."""

    walk: PacketWalk  # all their samples, as their boxes describe them
    runs: tuple[TrackRun, ...]
    indexes: tuple[MovieSegmentIndex, ...]


def read_fragments(reader: ByteReader, movie: Movie, track: Track, limits: Limits) -> Fragments:
    """Read all fragments of a movie for one of its tracks."""
    has_samples = any(unpack(movie.data, require_box(one.tables, b"stts"), _NUM_RUNS)[0] for one in movie.tracks)
    if movie.extends is None or has_samples:
        raise OddMovie("samples in the header and in fragments")
    defaults = _read_defaults(movie.data, movie.extends)
    indexes = tuple(read_segment_indexes(reader, movie))
    runs: list[TrackRun] = []
    left = {"samples": limits.max_packets, "bytes": limits.max_header_bytes}
    for start, end in movie.layout.fragments:
        check_stop()
        left["bytes"] -= end - start
        if left["bytes"] < 0:
            raise OddMovie("fragments of huge headers")
        data = read_bytes(reader, start, end - start)
        if len(data) < end - start:
            raise OddMovie("a file that got shorter")
        data_end = movie.layout.size
        if indexes:  # libav cuts samples off at the end of the first mdat box behind the fragment
            number = bisect_left(movie.layout.data, (end, 0))
            data_end = movie.layout.data[number][1] if number < len(movie.layout.data) else 0
        for run in _read_runs(data, start, defaults):
            left["samples"] -= len(run.size)
            if left["samples"] < 0 or int((run.offset + run.size).max()) > data_end:
                raise OddMovie("too many samples, or some beyond the end of the file or of their box")
            runs.append(run)
    own = tuple(run for run in runs if run.track_id == track.track_id)
    return Fragments(_join_runs(own, read_edit_offset(movie, track), limits), own, indexes)


def _read_defaults(data: bytes, extends: Box) -> dict[int, Defaults]:
    defaults: dict[int, Defaults] = {}
    for box in list_boxes(data, extends.start, extends.end):
        if box.kind == b"trex":
            track_id, description, duration, size, flags = unpack(data, box, _TREX)
            if track_id in defaults or description != 1:
                raise OddMovie("two defaults of a track")
            defaults[track_id] = Defaults(duration, size, flags)
        elif box.kind not in (b"mehd", b"trep"):
            raise OddMovie(f"an unexpected {box.kind!r} box of defaults")
    return defaults


def _read_runs(data: bytes, moof_offset: int, defaults: dict[int, Defaults]) -> Iterator[TrackRun]:
    """Yield the runs of one moof box at ``moof_offset`` of the file."""
    outer = list_boxes(data, 0, len(data))[0]
    is_first = True
    for traf in list_boxes(data, outer.start, outer.end):
        if traf.kind != b"traf":
            if traf.kind not in (b"mfhd", b"free"):
                raise OddMovie(f"an unexpected {traf.kind!r} box of a fragment")
            continue
        header: tuple[int, int, Defaults] | None = None
        dts: int | None = None
        for box in list_boxes(data, traf.start, traf.end):
            if box.kind == b"tfhd" and header is None:
                header = _read_fragment_header(data, box, moof_offset, defaults, is_first)
            elif box.kind == b"tfdt" and dts is None and header is not None:
                (version,) = unpack(data, box, Struct(">Bxxx"))
                (dts,) = unpack(data, box, Struct(">Q" if version else ">I"), 4)
            elif box.kind == b"trun" and header is not None and dts is not None and dts < 2**62:
                run = _read_run(data, box, moof_offset, header, dts)
                dts = int(run.dts[-1] + run.duration[-1])
                yield run
            elif box.kind not in _PASSED:
                raise OddMovie(f"an unexpected {box.kind!r} box of a track fragment")
        is_first = False


def _read_fragment_header(
    data: bytes, box: Box, moof_offset: int, defaults: dict[int, Defaults], is_first: bool
) -> tuple[int, int, Defaults]:
    """Read a tfhd box: the track, the base of offsets, and defaults."""
    flags, track_id = unpack(data, box, Struct(">II"))
    flags &= 0xFFFFFF
    if track_id not in defaults:
        raise OddMovie("a fragment of an unknown track")
    if not (flags & (_BASE_OFFSET | _BASE_IS_MOOF) or is_first):
        raise OddMovie("a fragment whose data follow the one before")
    at, base = 8, moof_offset
    if flags & _BASE_OFFSET:
        (base,) = unpack(data, box, Struct(">Q"), at)
        at += 8
    if flags & _DESCRIPTION:
        if unpack(data, box, Struct(">I"), at) != (1,):
            raise OddMovie("a fragment of another description")
        at += 4
    known = defaults[track_id]
    values = [known.duration, known.size, known.flags]
    for number, flag in enumerate((_DURATION, _SIZE, _FLAGS)):
        if flags & flag:
            (values[number],) = unpack(data, box, Struct(">I"), at)
            at += 4
    if base >= 2**62:
        raise OddMovie("a fragment at a huge offset")
    return track_id, base, Defaults(*values)


def _read_run(data: bytes, box: Box, moof_offset: int, header: tuple[int, int, Defaults], dts: int) -> TrackRun:
    track_id, base, known = header
    flags, count = unpack(data, box, Struct(">II"))
    flags &= 0xFFFFFF
    if not flags & _DATA_OFFSET or not count:
        raise OddMovie("a run without a place, or of nothing")
    (offset,) = unpack(data, box, Struct(">i"), 8)
    at = 12
    first_flags: int | None = None
    if flags & _FIRST_FLAGS:
        (first_flags,) = unpack(data, box, Struct(">I"), at)
        at += 4
    duration, size, sample_flags, composition = _read_run_columns(
        data, Box(box.kind, box.start + at, box.end), flags, count, known
    )
    if first_flags is not None and not flags & 0x400:
        sample_flags[0] = first_flags
    if (
        int(size.min()) < 1
        or int(size.max()) > MAX_SAMPLE_BYTES
        or not 0 < int(duration.min()) <= int(duration.max()) < MAX_DELTA
    ):
        raise OddMovie("a run of empty or huge samples, or of samples that last for nothing")
    return TrackRun(
        moof_offset=moof_offset,
        track_id=track_id,
        offset=base + offset + np.cumsum(size) - size,
        size=size,
        dts=dts + np.cumsum(duration) - duration,
        duration=duration,
        composition=np.where(composition >= _SIGNED, composition - 2 * _SIGNED, composition),
        is_sync=(sample_flags & _NOT_SYNC) == 0,
    )


def _read_run_columns(data: bytes, box: Box, flags: int, count: int, known: Defaults) -> list[IntArray]:
    """Read duration, size, flags and composition time of each sample, int64 [count]; take defaults for missing ones."""
    present = [bool(flags & flag) for flag in _RUN_FIELDS]
    width = sum(present)
    if count * max(1, width) * 4 > box.end - box.start and width:
        raise OddMovie("a run that breaks off")
    if not width and count > 2**20:
        raise OddMovie("a run of endless samples")
    rows: npt.NDArray[np.uint32] = np.frombuffer(data, ">u4", count * width, box.start).reshape(count, width)
    columns: list[IntArray] = []
    for has, value in zip(present, (known.duration, known.size, known.flags, 0), strict=True):
        columns.append(
            rows[:, sum(present[: len(columns)])].astype(np.int64) if has else np.full(count, value, np.int64)
        )
    return columns


def _join_runs(runs: tuple[TrackRun, ...], moved: int, limits: Limits) -> PacketWalk:
    if not runs:
        raise OddMovie("no fragments of the video")
    columns = [np.concatenate([getattr(run, name) for run in runs]) for name in
               ("offset", "size", "dts", "duration", "composition", "is_sync")]  # fmt: skip
    offset, size, dts, duration, composition, is_sync = columns
    if int(size.max()) > limits.max_packet_bytes or int(offset.min()) < 0 or int(composition.min()) < 0:
        raise OddMovie("huge packets, or negative composition times")
    if bool((dts[1:] <= dts[:-1]).any()):
        raise OddMovie("fragments that overlap in time")
    flags = is_sync * np.uint8(KEY)
    return PacketWalk(PacketTable(offset, size, dts - moved + composition, flags), duration)
