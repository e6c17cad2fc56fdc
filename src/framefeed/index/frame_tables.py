"""Frame indexes as Arrow columns: one row a source, exact both ways, read without a copy and without trust."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.errors import UnreadableMedia
from framefeed.index.arrow_views import AnyArray, Ragged, primitive_view, ragged_view
from framefeed.index.frame_index import BuiltFrom, FrameIndex, PacketTable, StreamFacts
from framefeed.media.source import SourceIdentity

ROWS_PER_BATCH = 4096
BYTES_PER_BATCH = 32 * 2**20
"""A batch is closed when it reaches either: what is held in memory while a catalog is written stays bounded."""

CACHED_INDEXES = 64
"""FrameIndex objects kept per open file; the arrays are views, so an entry is small until its seconds are asked for."""

_STREAM = {field.name: str(field.type) for field in fields(StreamFacts)}
"""Fields of StreamFacts and their types as written there: a new one becomes a column by itself."""

_SCALARS: Mapping[str, npt.DTypeLike] = {
    "present": np.uint8,
    "time_base_numerator": np.int64,
    "time_base_denominator": np.int64,
    "has_identity": np.uint8,
    "identity_bytes": np.int64,
    "has_identity_mtime": np.uint8,
    "identity_mtime_ns": np.int64,
    "num_frames_from_header": np.int64,
    "duration_seconds_from_header": np.float64,
    "average_fps_from_header": np.float64,
    "has_stream_extradata": np.uint8,
    **{f"stream_{name}": np.int64 for name, kind in _STREAM.items() if kind == "int"},
    **{f"stream_{name}": np.uint8 for name, kind in _STREAM.items() if kind == "bool"},
}
_LISTS = (
    "pts",
    "duration",
    "key_frame_indices",
    "frame_packet",
    "frame_start",
    "packet_offset",
    "packet_size",
    "packet_pts",
)
_BYTES = ("packet_flags", "stream_extradata")
_TEXTS = ("built_from", "identity_fingerprint", *(f"stream_{name}" for name, kind in _STREAM.items() if kind == "str"))

SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.from_numpy_dtype(dtype)) for name, dtype in _SCALARS.items()),
        *(pa.field(name, pa.large_list(pa.int64())) for name in _LISTS),
        *(pa.field(name, pa.large_binary()) for name in _BYTES),
        *(pa.field(name, pa.large_string()) for name in _TEXTS),
    ]
)


@dataclass(frozen=True, slots=True)
class HeaderClaims:
    """What the header claims of the frames, which a built index does not repeat; None where it claims nothing."""

    num_frames: int | None = None
    duration_seconds: float | None = None
    average_fps: float | None = None


class FrameTableBuilder:
    """Turns frame indexes, one after the other, into record batches.

    Args:
        emit: Called with each batch that is full.
    """

    def __init__(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        self._emit = emit
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def append(self, index: FrameIndex | None, claims: HeaderClaims | None = None) -> None:
        """Add the row of one source; None where it has no index."""
        row = _row_of(index, claims or HeaderClaims())
        self._rows.append(row)
        self._bytes += sum(row[name].nbytes for name in _LISTS)
        if len(self._rows) >= ROWS_PER_BATCH or self._bytes >= BYTES_PER_BATCH:
            self.finish()

    def finish(self) -> None:
        """Emit what is left."""
        if self._rows:
            self._emit(_batch_of(self._rows))
            self._rows, self._bytes = [], 0


class FrameTables:
    """Frame indexes of many sources in record batches, in memory or in a mapped file.

    Args:
        batches: Of ``SCHEMA``.
        name: For messages; the path, where there is one.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], name: str = "frame tables in memory") -> None:
        self.batches = tuple(batches)
        self.name = name
        self._reader = _Reader(self.batches, name)
        self._cached = lru_cache(CACHED_INDEXES)(self._reader.index)

    def __len__(self) -> int:
        return len(self._reader)

    def __repr__(self) -> str:
        return f"FrameTables({len(self)} sources, {self.nbytes} bytes)"

    @property
    def nbytes(self) -> int:
        """Bytes of all batches."""
        return sum(batch.nbytes for batch in self.batches)

    def index(self, row: int) -> FrameIndex | None:
        """Read the index of one source: views of the table, nothing is copied.

        Raises:
            UnreadableMedia: The row is damaged.
        """
        return self._cached(row)

    def claims(self, row: int) -> HeaderClaims:
        """Read what the header of one source claims."""
        columns, at = self._reader.locate(row)
        num_frames = int(columns["num_frames_from_header"][at])
        duration, fps = (float(columns[f"{name}_from_header"][at]) for name in ("duration_seconds", "average_fps"))
        return HeaderClaims(
            None if num_frames < 0 else num_frames,
            None if np.isnan(duration) else duration,
            None if np.isnan(fps) else fps,
        )

    def select(self, rows: Iterable[int]) -> FrameTables:
        """Copy some rows into tables of their own."""
        batches: list[pa.RecordBatch] = []
        builder = FrameTableBuilder(batches.append)
        for row in rows:
            builder.append(self._reader.index(int(row)), self.claims(int(row)))
        builder.finish()
        return FrameTables(batches)


class _Reader:
    """Finds and reads rows; apart from the cache over it, so that the two do not keep each other alive."""

    def __init__(self, batches: Sequence[pa.RecordBatch], name: str) -> None:
        self._batches = batches
        self._name = name
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        self._columns: dict[int, dict[str, AnyArray | Ragged]] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def locate(self, row: int) -> tuple[dict[str, Any], int]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        batch = int(np.searchsorted(self._starts, row, side="right")) - 1
        if batch not in self._columns:
            try:
                self._columns[batch] = _views(self._batches[batch])
            except ValueError as error:
                raise self._damaged(f"batch {batch}: {error}") from error
        return self._columns[batch], row - int(self._starts[batch])

    def index(self, row: int) -> FrameIndex | None:
        columns, at = self.locate(row)
        if not columns["present"][at]:
            return None
        try:
            index = _index_at(columns, at)
            _check(index)
        except ValueError as error:  # UsageError of FrameIndex and UnicodeDecodeError are ValueErrors too.
            raise self._damaged(f"row {row}: {error}") from error
        return index

    def _damaged(self, what: str) -> UnreadableMedia:
        return UnreadableMedia(
            f"{self._name}: damaged frame table, {what}; delete it and index again", source=self._name, stage="index"
        )


def write_frame_tables(path: str, batches: Iterable[pa.RecordBatch], metadata: Mapping[bytes, bytes]) -> None:
    """Write batches as an Arrow IPC file and flush it to the disk."""
    with open(path, "wb") as file:
        with pa.ipc.new_file(file, SCHEMA.with_metadata(dict(metadata))) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())


def open_frame_tables(path: str) -> tuple[FrameTables, Mapping[bytes, bytes]]:
    """Map an Arrow IPC file: its pages are shared by all processes that open it.

    Returns:
        The tables and the metadata that they were written with.

    Raises:
        UnreadableMedia: Not such a file, or damaged.
    """
    try:
        reader = pa.ipc.open_file(pa.memory_map(path))
        if not reader.schema.equals(SCHEMA):
            raise ValueError("its columns are not those of this version of framefeed")
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableMedia(
            f"{path}: not readable as frame tables: {error}; delete it and index again", source=path, stage="index"
        ) from error
    return FrameTables(batches, path), dict(reader.schema.metadata or {})


def _row_of(index: FrameIndex | None, claims: HeaderClaims) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_SCALARS, 0)
    row |= {name: np.empty(0, np.int64) for name in _LISTS}
    row |= dict.fromkeys(_BYTES, b"") | dict.fromkeys(_TEXTS, "")
    row["num_frames_from_header"] = -1 if claims.num_frames is None else claims.num_frames
    row["duration_seconds_from_header"] = np.nan if claims.duration_seconds is None else claims.duration_seconds
    row["average_fps_from_header"] = np.nan if claims.average_fps is None else claims.average_fps
    if index is None:
        return row
    return row | _frame_columns(index) | _stream_columns(index.stream) | _identity_columns(index.identity)


def _frame_columns(index: FrameIndex) -> dict[str, Any]:
    return {
        "present": 1,
        "time_base_numerator": index.time_base.numerator,
        "time_base_denominator": index.time_base.denominator,
        "built_from": index.built_from,
        "pts": index.pts,
        "duration": index.duration,
        "key_frame_indices": index.key_frame_indices,
        "frame_packet": index.frame_packet,
        "frame_start": index.frame_start,
        "packet_offset": index.packets.offset,
        "packet_size": index.packets.size,
        "packet_pts": index.packets.pts,
        "packet_flags": index.packets.flags.tobytes(),
    }


def _stream_columns(stream: StreamFacts) -> dict[str, Any]:
    columns = {f"stream_{name}": getattr(stream, name) for name in _STREAM}
    return columns | {
        "has_stream_extradata": stream.extradata is not None,
        "stream_extradata": stream.extradata or b"",
    }


def _identity_columns(identity: SourceIdentity | None) -> dict[str, Any]:
    if identity is None:
        return {}
    return {
        "has_identity": 1,
        "identity_bytes": identity.bytes,
        "has_identity_mtime": identity.mtime_ns is not None,
        "identity_mtime_ns": identity.mtime_ns or 0,
        "identity_fingerprint": identity.fingerprint,
    }


def _batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = [pa.array(np.array([row[name] for row in rows], dtype)) for name, dtype in _SCALARS.items()]
    for name in _LISTS:
        offsets = np.cumsum([0, *(len(row[name]) for row in rows)], dtype=np.int64)
        values = np.concatenate([row[name] for row in rows])
        arrays.append(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values)))
    arrays += [pa.array([row[name] for row in rows], pa.large_binary()) for name in _BYTES]
    arrays += [pa.array([row[name] for row in rows], pa.large_string()) for name in _TEXTS]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _views(batch: pa.RecordBatch) -> dict[str, AnyArray | Ragged]:
    views: dict[str, AnyArray | Ragged] = {
        name: primitive_view(batch.column(name), dtype) for name, dtype in _SCALARS.items()
    }
    views |= {name: ragged_view(batch.column(name), np.int64) for name in _LISTS}
    return views | {name: ragged_view(batch.column(name), np.uint8) for name in (*_BYTES, *_TEXTS)}


def _index_at(columns: dict[str, Any], at: int) -> FrameIndex:
    numerator, denominator = (int(columns[f"time_base_{name}"][at]) for name in ("numerator", "denominator"))
    if numerator < 1 or denominator < 1:
        raise ValueError(f"time base {numerator}/{denominator}")
    lists = {name: columns[name].row(at) for name in _LISTS}
    return FrameIndex(
        pts=lists["pts"],
        duration=lists["duration"],
        time_base=Fraction(numerator, denominator),
        key_frame_indices=lists["key_frame_indices"],
        built_from=_built_from(columns["built_from"].text(at)),
        frame_packet=lists["frame_packet"],
        frame_start=lists["frame_start"],
        packets=PacketTable(
            offset=lists["packet_offset"],
            size=lists["packet_size"],
            pts=lists["packet_pts"],
            flags=columns["packet_flags"].row(at),
        ),
        stream=_stream_at(columns, at),
        identity=_identity_at(columns, at),
    )


def _stream_at(columns: dict[str, Any], at: int) -> StreamFacts:
    read: dict[str, Callable[[str], Any]] = {
        "int": lambda name: int(columns[name][at]),
        "bool": lambda name: bool(columns[name][at]),
        "str": lambda name: columns[name].text(at),
        "bytes | None": lambda name: columns[name].row(at).tobytes() if columns[f"has_{name}"][at] else None,
    }
    return StreamFacts(**{name: read[kind](f"stream_{name}") for name, kind in _STREAM.items()})


def _identity_at(columns: dict[str, Any], at: int) -> SourceIdentity | None:
    if not columns["has_identity"][at]:
        return None
    mtime_ns = int(columns["identity_mtime_ns"][at]) if columns["has_identity_mtime"][at] else None
    return SourceIdentity(int(columns["identity_bytes"][at]), mtime_ns, columns["identity_fingerprint"].text(at))


def _built_from(text: str) -> BuiltFrom:
    for known in get_args(BuiltFrom):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"built from {text!r}")


def _check(index: FrameIndex) -> None:
    """Raise ValueError where a number would lead a reader outside of the tables."""
    packets = len(index.packets)
    _check_range("a key frame", index.key_frame_indices, 0, len(index))
    _check_range("the packet of a frame", index.frame_packet, -1, packets)
    _check_range("the first packet for a frame", index.frame_start, 0, max(1, packets))
    _check_range("a packet's place", index.packets.offset, -1, 2**62)
    _check_range("a packet's size", index.packets.size, 0, 2**62)
    if index.stream.rotation not in (0, 90, 180, 270):
        raise ValueError(f"rotation {index.stream.rotation}")


def _check_range(what: str, values: npt.NDArray[np.int64], low: int, high: int) -> None:
    if len(values) and not (low <= int(values.min()) and int(values.max()) < high):
        raise ValueError(f"{what} lies outside of {low} .. {high}")
