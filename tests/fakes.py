"""Real implementations of the protocols, simple enough to be obviously right. No mocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._values import MISSING_PTS, PacketTable
from framefeed.decode import ClipSlot, DecodeCounts, DecodeReport
from framefeed.errors import CorruptMedia, FramefeedError, UsageError
from framefeed.index import FrameIndex, StreamFacts
from framefeed.media import MediaSource


def do_nothing(name: str) -> None:
    """Do nothing before the clips of a source are written."""


def spoil_nothing(ordinals: list[int]) -> FramefeedError | None:
    """Find no error in any clip."""
    return None


class DamagedSources:
    """For `FlatDecoder`: the sources of these names are damaged. A class, so that processes can be sent it."""

    def __init__(self, *names: object) -> None:
        self._names = set(map(str, names))

    def __call__(self, name: str) -> None:
        if name in self._names:
            raise CorruptMedia(f"{name}: frame 2 did not come", frames=[2], source=name)


def fail_some(ordinals: list[int]) -> FramefeedError | None:
    """Find an error in every third clip or so."""
    return CorruptMedia("spoiled", frames=ordinals) if sum(ordinals) % 3 == 0 else None


def add_noise(clip: Any, rng: np.random.Generator) -> Any:
    """A transform whose results have another form, and random numbers."""
    return clip[:2, :, ::4, ::4].astype(np.float32) + rng.random(1, dtype=np.float32)


class FlatDecoder:
    """A decoder whose every picture is one grey: its ordinal modulo 256. A copy in a worker process counts for itself.

    Args:
        before: Called with the source's name before its clips are written; what it raises, `decode` raises.
        spoil: Called with the ordinals of a clip; an error that it returns is that clip's alone.
    """

    name = "flat"

    def __init__(
        self,
        before: Callable[[str], None] = do_nothing,
        spoil: Callable[[list[int]], FramefeedError | None] = spoil_nothing,
    ) -> None:
        self._before = before
        self._spoil = spoil
        self._counting = threading.Lock()
        self.calls: list[tuple[str, int]] = []

    def __reduce__(self) -> Any:
        return (type(self), (self._before, self._spoil))

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        with self._counting:
            self.calls.append((source.name, len(slots)))
        self._before(source.name)
        frames = sum(len(slot.indices) for slot in slots)
        report = DecodeReport([None] * len(slots), DecodeCounts(frames_decoded=frames, frames_delivered=frames))
        for number, slot in enumerate(slots):
            report.errors[number] = self._spoil(slot.indices.tolist())
            for place, ordinal in enumerate(slot.indices.tolist()):
                slot.out[place] = self.draw(ordinal, slot.out.shape[1:])
        return report

    def draw(self, ordinal: int, shape: tuple[int, ...]) -> Any:
        """Make the picture of a frame."""
        return ordinal % 256

    def close(self) -> None:
        pass


class SlopedDecoder(FlatDecoder):
    """A decoder of whose pictures no two pixels that are neighbours in a row, a column or a colour are alike."""

    def draw(self, ordinal: int, shape: tuple[int, ...]) -> Any:
        return _draw_slopes(shape) + np.uint8(ordinal % 256)


@lru_cache(maxsize=64)
def _draw_slopes(shape: tuple[int, ...]) -> Any:
    colour, row, column = np.ogrid[tuple(map(slice, shape))]
    return (50 * colour + 3 * row + 7 * column).astype(np.uint8)


STREAM = StreamFacts(0, "fake", "h264", None, 64, 48, "yuv420p", skips_exactly=True, contiguous=True)


def index_of(
    pts: Sequence[int],
    *,
    time_base: Fraction = Fraction(1, 1000),
    duration: int | Sequence[int] = 0,
    gop: int = 12,
) -> FrameIndex:
    """A FrameIndex with these pts: frame i is packet i, every ``gop``-th is a key frame."""
    times = np.array(pts, dtype=np.int64)
    numbers = np.arange(len(times), dtype=np.int64)
    packets = PacketTable(numbers * 1000, np.full_like(numbers, 1000), times, (numbers % gop == 0).astype(np.uint8))
    is_known = all(MISSING_PTS < before <= after for before, after in pairwise([*pts[:1], *pts]))
    durations = np.broadcast_to(np.asarray(duration, dtype=np.int64), times.shape).copy()
    return FrameIndex(
        pts=times,
        duration=durations,
        time_base=time_base,
        key_frame_indices=numbers[::gop].copy(),
        built_from="decode",
        frame_packet=numbers.copy(),
        frame_start=numbers // gop * gop,
        packets=packets,
        stream=STREAM,
        times_from="pts" if is_known else "none",
    )


def steady_index(num_frames: int, *, fps: Fraction | int = 25, start: int = 0, gop: int = 12) -> FrameIndex:
    """A FrameIndex at one rate, whose time base is one frame."""
    return index_of(range(start, start + num_frames), time_base=1 / Fraction(fps), duration=1, gop=gop)


@dataclass
class FakeCatalog:
    """The part of a Catalog that a plan uses, over frame indexes in memory."""

    indexes: Sequence[FrameIndex]
    sizes: Sequence[tuple[int, int]] | tuple[int, int] = (48, 64)
    """(height, width) of each row, or of all."""
    columns: dict[str, Sequence[Any]] = field(default_factory=dict)
    failed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Row -> (error type, error)."""
    has_frame_indexes: bool = True

    def __len__(self) -> int:
        return len(self.indexes)

    @property
    def _data(self) -> SimpleNamespace:
        facts = SimpleNamespace(names=(), column=lambda name: pa.chunked_array([pa.array(self.columns[name])]))
        return SimpleNamespace(
            missing=None, why_no_frames=lambda remedy: f"it holds headers only: {remedy}", facts=facts
        )

    _saved = None

    def __getitem__(self, row: int) -> Any:
        columns = {name: values[row] for name, values in self.columns.items()}
        return SimpleNamespace(source=self.source(row), info=None, frame_index=self.frame_index(row), columns=columns)

    @property
    def table(self) -> pa.Table:
        streams = [index.stream for index in self.indexes]
        return pa.table({name: pa.array([getattr(each, name) for each in streams], pa.string())
                         for name in ("container", "codec")})  # fmt: skip

    @property
    def usable_rows(self) -> np.ndarray:
        rows = [row for row in range(len(self)) if row not in self.failed and len(self.indexes[row])]
        return np.array(rows, dtype=np.int64)

    @property
    def plannable_rows(self) -> np.ndarray:
        return self.usable_rows[: None if self.has_frame_indexes else 0]

    proxy_sizes = None

    @property
    def changes_size(self) -> np.ndarray:
        return np.array([index.changes_size for index in self.indexes], dtype=np.bool_)

    @property
    def lacks_times(self) -> np.ndarray:
        return np.array([index.times_from == "none" for index in self.indexes], dtype=np.bool_)

    @property
    def num_frames(self) -> np.ndarray:
        return np.array([len(index) for index in self.indexes], dtype=np.int64)

    @property
    def heights(self) -> np.ndarray:
        return self._sides(0)

    @property
    def widths(self) -> np.ndarray:
        return self._sides(1)

    def _sides(self, side: int) -> np.ndarray:
        sizes = [self.sizes] * len(self) if self.sizes and isinstance(self.sizes[0], int) else self.sizes
        return np.array([size[side] for size in sizes], dtype=np.int64)

    def frame_index(self, row: int) -> FrameIndex:
        return self.indexes[row]

    def _read_row(self, row: int) -> tuple[str, FrameIndex]:
        return self.source(row), self.frame_index(row)

    def media_source(self, row: int) -> MediaSource:
        return MediaSource.of(self.source(row))

    def source(self, row: int) -> str:
        return f"video{row}.mp4"

    def column_values(self, name: str) -> np.ndarray:
        if name == "num_damaged_frames":
            return np.array([index.num_damaged_frames for index in self.indexes], dtype=np.float64)
        if name not in self.columns and name == "num_frames":
            return self.num_frames
        if name not in self.columns and name == "duration_seconds":
            spans = [(index.end_pts - int(index.pts[0])) * index.time_base if index.has_timestamps else np.nan
                     for index in self.indexes]  # fmt: skip
            return np.array(spans, dtype=np.float64)
        if name not in self.columns and name in ("average_fps", "is_variable_frame_rate"):
            return np.array([getattr(index, name) for index in self.indexes], dtype=np.float64)
        if name not in self.columns:
            raise UsageError(f"no column {name!r}: there are {', '.join(self.columns)}")
        values = np.array(self.columns[name])
        return np.unique(values, return_inverse=True)[1] if values.dtype.kind == "U" else values

    def rows_without(self, name: str, rows: np.ndarray) -> np.ndarray:
        return np.array([row for row in rows.tolist() if self.columns[name][row] is None], dtype=np.int64)

    @property
    def classes(self) -> list[str]:
        return sorted(set(self.columns.get("label", ())))

    @property
    def fingerprint(self) -> str:
        return f"{len(self)} rows, {self.num_frames.tolist()}"

    def hash_sources(self, columns: Sequence[str] = ()) -> str:
        chosen = {name: list(map(str, self.columns[name])) for name in columns}
        return blake2b(repr((self.num_frames.tolist(), chosen)).encode(), digest_size=16).hexdigest()

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        return [(self.source(row), *error) for row, error in self.failed.items()]
