"""Read the moov box of a file, and its sample tables (ISO/IEC 14496-12 8.6 and 8.7) as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import DEFAULT_LIMITS, ByteReader, Limits, read_bytes
from framefeed.mp4._boxes import Box, OddMovie, check_box_count, read_layout, require_box, unpack
from framefeed.mp4._movie import Movie, Track, parse_movie

_COUNT = Struct(">BxxxI")
_SIZES = Struct(">4xII")
MAX_SAMPLE_BYTES = 0x3FFFFFFF
"""libav's own bound on one sample."""
_MAX_COMPOSITION = 1 << 28
"""Larger offsets make libav ignore the whole table."""
_WIDTHS = {b"stss": 4, b"ctts": 8, b"stts": 8}
"""Bytes of an entry of tables behind version, flags and count."""
_FEW_RUNS = 32
"""Up to here plain numbers are faster than arrays."""
_PAIRS = [Struct(f">{2 * count}I") for count in range(_FEW_RUNS + 1)]
_TRIPLES = [Struct(f">{3 * count}I") for count in range(_FEW_RUNS + 1)]
MAX_DELTA = 2**31
"""Larger steps of time are negative for libav."""


@dataclass(frozen=True, slots=True)
class MovieSamples:
    """One track's samples in decode order, columns of length P."""

    offset: IntArray  # byte offset in the file, int64
    size: IntArray  # bytes, int64
    dts: IntArray  # decode time in ticks, from 0, int64
    duration: IntArray  # in ticks, int64; that of the last one may be 0
    composition: IntArray | None  # presentation time minus decode time, int64; None if the two are equal
    is_sync: BoolArray  # key frame according to the container, bool

    def __len__(self) -> int:
        return len(self.size)


def read_samples(movie: Movie, track: Track, limits: Limits) -> MovieSamples:
    """Expand a track's tables."""
    data, tables = movie.data, track.tables
    offset, size = locate_samples(movie, track, limits)
    count = len(size)
    if count == 0:
        raise OddMovie("no samples")
    if int(size.max()) > min(limits.max_packet_bytes, MAX_SAMPLE_BYTES) or int(size.min()) < 1:
        raise OddMovie("an empty or a huge sample")
    duration = _read_durations(data, require_box(tables, b"stts"), count)
    dts = duration.cumsum() - duration
    composition = _read_compositions(data, tables[b"ctts"], count) if b"ctts" in tables else None
    return MovieSamples(offset, size, dts, duration, composition, _read_sync(data, tables.get(b"stss"), count))


def locate_samples(movie: Movie, track: Track, limits: Limits) -> tuple[IntArray, IntArray]:
    """Compute offset and size of each sample of a track, int64 [P]; all are within the file."""
    size = _read_sizes(movie, track, limits)
    chunks = _read_chunk_offsets(movie, track)
    runs = _read_chunk_runs(movie.data, track.tables, len(chunks))
    if runs.num_samples != len(size):
        raise OddMovie(f"{len(size)} samples, and {runs.num_samples} in the chunks")
    offset = chunks.astype(np.int64)
    if len(chunks) != len(size):
        counts = runs.count_by_chunk()
        before = size.cumsum() - size
        first = counts.cumsum() - counts
        offset = before + (offset - before[first]).repeat(counts)
    if len(size) and int((offset + size).max()) > movie.layout.size:
        raise OddMovie("samples beyond the end of the file")
    return offset, size


def check_locations(movie: Movie, track: Track, limits: Limits) -> None:
    """Raise OddMovie unless a track that is not read is within the file: libav stops if any track breaks off.

    No table is expanded.
    """
    box = track.tables.get(b"stsz")
    fixed, count = (0, 0) if box is None else unpack(movie.data, box, _SIZES)
    if box is None or b"stz2" in track.tables or (count > limits.max_packets and not fixed):
        locate_samples(movie, track, limits)
        return
    chunks = _read_chunk_offsets(movie, track)
    runs = _read_chunk_runs(movie.data, track.tables, len(chunks))
    if runs.num_samples != count:
        raise OddMovie("chunks that do not hold the samples")
    if not count:
        return
    if fixed * runs.most > movie.layout.size:
        raise OddMovie("samples beyond the end of the file")
    counts = runs.count_by_chunk()
    if fixed:
        size = counts * fixed
    else:
        size = np.add.reduceat(
            _view_column(movie.data, box, ">u4", count, 12), counts.cumsum() - counts, dtype=np.int64
        )
    if int((chunks.astype(np.int64) + size).max()) > movie.layout.size:
        raise OddMovie("samples beyond the end of the file")


def _view_column(data: bytes, box: Box, kind: str, count: int, skip: int) -> npt.NDArray[Any]:
    """View ``count`` big-endian numbers of a box behind its first ``skip`` bytes."""
    dtype = np.dtype(kind)
    if box.start + skip + count * dtype.itemsize > box.end:
        raise OddMovie(f"a {box.kind!r} box of {count} entries that breaks off")
    return np.frombuffer(data, dtype, count, box.start + skip)


def read_table(data: bytes, box: Box, columns: int) -> npt.NDArray[np.uint32]:
    """Read a table of 32-bit numbers behind version, flags and count: uint32 [entries, columns], big-endian."""
    version, count = unpack(data, box, _COUNT)
    if version > (1 if box.kind == b"ctts" else 0):
        raise OddMovie(f"a {box.kind!r} box of version {version}")
    return _view_column(data, box, ">u4", count * columns, 8).reshape(count, columns)


def read_pairs(data: bytes, box: Box) -> tuple[Sequence[int], Sequence[int]]:
    """Read a table of pairs as plain numbers; faster than ``read_table`` for few of them."""
    version, count = unpack(data, box, _COUNT)
    if not version and count <= _FEW_RUNS:
        numbers = unpack(data, box, _PAIRS[count], 8)
        return numbers[::2], numbers[1::2]
    first, second = read_table(data, box, 2).T.tolist()
    return first, second


def _read_size_header(data: bytes, tables: dict[bytes, Box]) -> tuple[int, ...]:
    """Read the fixed size, or 0, and the number of a track's samples outside of fragments."""
    return unpack(data, tables.get(b"stsz") or require_box(tables, b"stz2"), _SIZES)


def read_first_size(data: bytes, tables: dict[bytes, Box]) -> int:
    """Read the size of the first sample alone."""
    if b"stz2" in tables:
        bits, count = unpack(data, tables[b"stz2"], _SIZES)
        return int(_read_compact_sizes(data, tables[b"stz2"], bits & 255, min(count, 1))[0]) if count else 0
    fixed, count = unpack(data, require_box(tables, b"stsz"), _SIZES)
    return fixed or (unpack(data, tables[b"stsz"], Struct(">I"), 12)[0] if count else 0)


def _read_sizes(movie: Movie, track: Track, limits: Limits) -> IntArray:
    data, tables = movie.data, track.tables
    if (b"stsz" in tables) == (b"stz2" in tables):
        raise OddMovie("no sizes, or two tables of them")
    box = tables.get(b"stsz") or tables[b"stz2"]
    fixed, count = unpack(data, box, _SIZES)
    if count > limits.max_packets:
        raise OddMovie(f"{count} samples")
    if box.kind == b"stz2":
        return _read_compact_sizes(data, box, fixed & 255, count)
    if fixed == 0:
        return _view_column(data, box, ">u4", count, 12).astype(np.int64)
    if fixed * count > movie.layout.size:
        raise OddMovie(f"{count} samples of {fixed} bytes")
    return np.full(count, fixed, np.int64)


def _read_compact_sizes(data: bytes, box: Box, bits: int, count: int) -> IntArray:
    if bits == 4:
        pairs = _view_column(data, box, "u1", (count + 1) // 2, 12)
        return np.stack((pairs >> 4, pairs & 15), axis=1).ravel()[:count].astype(np.int64)
    if bits not in (8, 16):
        raise OddMovie(f"sizes of {bits} bits")
    return _view_column(data, box, f">u{bits // 8}", count, 12).astype(np.int64)


def _count_chunks(data: bytes, tables: dict[bytes, Box]) -> int:
    if (b"stco" in tables) == (b"co64" in tables):
        raise OddMovie("no chunks, or two tables of them")
    box = tables.get(b"stco") or tables[b"co64"]
    version, count = unpack(data, box, _COUNT)
    if version or 8 + count * (4 if box.kind == b"stco" else 8) > box.end - box.start:
        raise OddMovie("chunks of an unknown version, or a table of them that breaks off")
    return count


def _read_chunk_offsets(movie: Movie, track: Track) -> npt.NDArray[Any]:
    """View the offsets of chunks; big-endian. None lies beyond the end of the file."""
    count, box = _count_chunks(movie.data, track.tables), track.tables.get(b"stco") or track.tables[b"co64"]
    offsets = _view_column(movie.data, box, ">u4" if box.kind == b"stco" else ">u8", count, 8)
    if count and int(offsets.max()) > movie.layout.size:
        raise OddMovie("samples beyond the end of the file")
    return offsets


class _ChunkRuns(NamedTuple):
    """Runs of chunks."""

    lengths: IntArray | list[int]
    counts: IntArray | tuple[int, ...]  # samples of each chunk of a run
    num_samples: int
    most: int

    def count_by_chunk(self) -> IntArray:
        """Expand the number of samples to each chunk, int64."""
        return np.repeat(self.counts, self.lengths)


def _read_chunk_runs(data: bytes, tables: dict[bytes, Box], chunks: int) -> _ChunkRuns:
    """Read runs of chunks; refuse ambiguous tables and several descriptions."""
    box = require_box(tables, b"stsc")
    version, entries = unpack(data, box, _COUNT)
    if not entries or not chunks:
        if entries or chunks or version:
            raise OddMovie("chunks without samples")
        return _ChunkRuns([], (), 0, 0)
    if version or entries > _FEW_RUNS:
        starts, per_chunk, description = read_table(data, box, 3).astype(np.int64).T
        num_chunks = np.concatenate((starts[1:], (chunks + 1,))) - starts
        if starts[0] != 1 or int(num_chunks.min()) < 1 or int(per_chunk.min()) < 1 or bool((description != 1).any()):
            raise OddMovie("chunks of several kinds, or in no order")
        return _ChunkRuns(num_chunks, per_chunk, int((num_chunks * per_chunk).sum()), int(per_chunk.max()))
    numbers = unpack(data, box, _TRIPLES[entries], 8)
    first, counts = numbers[::3], numbers[1::3]
    lengths = [end - begin for begin, end in zip(first, (*first[1:], chunks + 1), strict=True)]
    if first[0] != 1 or min(lengths) < 1 or min(counts) < 1 or set(numbers[2::3]) != {1}:
        raise OddMovie("chunks of several kinds, or in no order")
    return _ChunkRuns(lengths, counts, sum(map(mul, lengths, counts)), max(counts))


def check_counts(movie: Movie, track: Track) -> None:
    """Raise OddMovie if a track's tables have different numbers of samples; expand none of them."""
    data, tables = movie.data, track.tables
    fixed, sizes = _read_size_header(data, tables)
    if _read_chunk_runs(data, tables, _count_chunks(data, tables)).num_samples != sizes:
        raise OddMovie(f"{sizes} samples, and others in the chunks")
    # libav reads entries beyond the end of a box, and stops at the end of the file.
    for kind, width in _WIDTHS.items():
        if kind in tables:
            box = tables[kind]
            if 8 + unpack(data, box, _COUNT)[1] * width > box.end - box.start:
                raise OddMovie(f"a {kind!r} box that breaks off")
    if b"stsz" in tables and not fixed and 12 + 4 * sizes > tables[b"stsz"].end - tables[b"stsz"].start:
        raise OddMovie("sizes that break off")


def _read_durations(data: bytes, box: Box, count: int) -> IntArray:
    runs = read_table(data, box, 2)
    if len(runs) == 1:
        number, delta = runs[0].tolist()
        if number == count and 0 < delta < MAX_DELTA:
            return np.full(count, delta, np.int64)
    if not len(runs) or int(runs[:, 0].sum(dtype=np.int64)) != count:
        raise OddMovie("times for another number of samples")
    ends_in_nothing = len(runs) > 1 and tuple(runs[-1].tolist()) == (1, 0)
    steps = runs[:-1, 1] if ends_in_nothing else runs[:, 1]
    if int(steps.max()) >= MAX_DELTA or int(steps.min()) == 0:
        raise OddMovie("samples that last for nothing, or for ever")
    return runs[:, 1].astype(np.int64).repeat(runs[:, 0].astype(np.int64))


def _read_compositions(data: bytes, box: Box, count: int) -> IntArray | None:
    runs = read_table(data, box, 2)
    if not len(runs):
        return None
    counts, offsets = runs[:, 0].astype(np.int64), runs.view(">i4")[:, 1].astype(np.int64)
    if max(int(offsets.max()), -int(offsets.min())) > _MAX_COMPOSITION:
        raise OddMovie("huge composition times")
    if len(counts) == count == np.count_nonzero(counts == 1):
        return offsets
    if int(counts.sum()) != count or int(counts.min()) < 1:
        raise OddMovie("composition times for other samples")
    return offsets.repeat(counts)


def _read_sync(data: bytes, box: Box | None, count: int) -> BoolArray:
    if box is None:
        return np.ones(count, bool)
    numbers = read_table(data, box, 1)[:, 0].astype(np.int64)
    if not len(numbers) or numbers[0] < 1 or numbers[-1] > count or np.count_nonzero(numbers[1:] <= numbers[:-1]):
        raise OddMovie("key frames in no order, or none")
    is_sync = np.zeros(count, bool)
    is_sync[numbers - 1] = True
    return is_sync


def read_movie(reader: ByteReader, size: int, limits: Limits = DEFAULT_LIMITS, head: bytes = b"") -> Movie:
    """Find and read the moov box; of other boxes read the headers alone.

    ``head``: its first bytes, if they are known.
    """
    layout = read_layout(reader, size, limits, head)
    start, end = layout.movie
    data = head[start:end] if end <= len(head) else read_bytes(reader, start, end - start)
    if len(data) < end - start:
        raise OddMovie("a file that got shorter")
    check_box_count(data, limits.max_header_bytes)
    movie = parse_movie(data, layout, limits)
    return replace(movie, chosen=_choose_video(movie))


def _choose_video(movie: Movie) -> Track | None:
    """Choose the video track as ``av_find_best_stream`` does; None if that takes more than the header.

    Enabled tracks count before others, then tracks of which libav read more packets while it opened the file: at
    least one of each that has any. All else depends on the interleaving of the tracks.
    """
    videos = [track for track in movie.tracks if track.kind == b"vide"]
    enabled = [track for track in videos if track.is_enabled] or videos
    nonempty = [track for track in enabled if len(enabled) == 1 or _read_size_header(movie.data, track.tables)[1]]
    return nonempty[0] if len(nonempty) == 1 and not movie.is_fragmented else None
