"""Read columns of the tables of frames as arrays [rows, ...], mapped from files where they are large."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed._names import is_url
from framefeed.catalog import convert_lists, map_array
from framefeed.errors import UsageError
from framefeed.lerobot._episodes import EPISODES, Episodes
from framefeed.lerobot._files import Files, list_columns
from framefeed.lerobot._info import INFO, Feature, Info

# Of fewer, each process reads its own: that costs less than a file in the cache folder.
_MAPPED_ROWS, _MAPPED_TABLES = 50_000, 64
_INDEX = "index"


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of frames; rows are numbered over all of them.

    Attributes:
        files: Of the data set.
        info: Its facts.
        episodes: All of its episodes.
    """

    files: Files
    info: Info
    episodes: Episodes
    _read: dict[tuple[str, bytes | None], AnyArray] = field(default_factory=dict, repr=False)

    def read_column(self, name: str, chosen: IntArray | None) -> AnyArray:
        """Read a column as an array [rows, ...], where the rows of tables without a chosen episode are zeros.

        Args:
            name: Of a feature that is no camera.
            chosen: Numbers of the episodes that are needed, int64 [E], ascending; None for all.

        Raises:
            UsageError: There is no such column, or it is not numbers.
            MediaError: A table is missing or damaged, or is not what info.json says.
        """
        feature = self._find_feature(name)
        runs = self._list_runs(chosen)
        key = (name, None if chosen is None else runs.tobytes())
        if key not in self._read:
            self._read[key] = self._map_column(feature, runs, is_whole=chosen is None)
        return self._read[key]

    def _find_feature(self, name: str) -> Feature:
        feature = self.info.features.get(name)
        if feature is None:
            raise UsageError(f"{self.files.root}: there is no column {name!r}: it has {', '.join(self.info.features)}")
        if feature.is_camera:
            raise UsageError(f"{name!r} is a camera: its pictures are no column")
        if feature.dtype == "string" or _read_dtype(feature).kind not in "biuf":
            raise UsageError(
                f"the column {name!r} is of type {feature.dtype}, and only numbers are delivered: of a task take "
                "task_index, whose texts are data.meta.tasks"
            )
        return feature

    def _list_runs(self, chosen: IntArray | None) -> IntArray:
        """List the first episode of each table, and the one behind its last, int64 [F, 2], of the tables needed."""
        episodes = self.episodes
        changes = (np.diff(episodes.chunk) != 0) | (np.diff(episodes.file) != 0)
        firsts = np.concatenate([np.zeros(min(1, len(episodes)), np.int64), np.flatnonzero(changes) + 1])
        runs = np.stack([firsts, np.append(firsts[1:], len(episodes))[: len(firsts)]], axis=1)
        pairs = episodes.chunk[firsts] * (1 << 31) + episodes.file[firsts]
        if len(np.unique(pairs)) < len(pairs):
            self.files.refuse(EPISODES, "says that the episodes of a table do not follow one another")
        if chosen is None:
            return runs
        return runs[np.unique(firsts.searchsorted(chosen, side="right") - 1)]

    def find_version(self, chosen: IntArray | None) -> str:
        """Find which version of the tables is there: another text means other values."""
        versions = (self.files.find_version(self._name(first)) for first, _ in self._list_runs(chosen).tolist())
        return "; ".join(versions)

    def _name(self, episode: int) -> str:
        return self.info.name_table(int(self.episodes.chunk[episode]), int(self.episodes.file[episode]))

    def _map_column(self, feature: Feature, runs: IntArray, *, is_whole: bool) -> AnyArray:
        count = self.info.total_frames
        shape, dtype = (count, *_find_shape(feature)), _read_dtype(feature)
        if not is_url(self.files.root) and count < _MAPPED_ROWS and len(runs) < _MAPPED_TABLES:
            values: AnyArray = np.zeros(shape, dtype)
            self._fill(feature, runs, values)
            return values

        def make(path: str) -> None:
            mapped = np.lib.format.open_memmap(path, "w+", dtype, shape)
            self._fill(feature, runs, mapped)
            mapped.flush()

        part = "" if is_whole else f" of the tables {runs[:, 0].tolist()}"
        versions = (self.files.find_version(self._name(first)) for first, _ in runs.tolist())
        version = f"{dtype} {shape}; {'; '.join(versions)}"
        # Not as a memmap, of which each slice is an object that takes longer to make.
        return np.asarray(map_array(f"{self.files.root} {feature.name}{part}", version, make))

    def _fill(self, feature: Feature, runs: IntArray, values: AnyArray) -> None:
        """Write the rows of the tables needed."""
        for first, stop in runs.tolist():
            rows = slice(int(self.episodes.starts[first]), int(self.episodes.starts[stop]))
            values[rows] = self._read_part(feature, self._name(first), rows)

    def _read_part(self, feature: Feature, name: str, rows: slice) -> AnyArray:
        """Read a column of one table, whose rows are checked to be those of its episodes."""
        table = self.files.read_table(name, lambda column: column in (feature.name, _INDEX))
        if missing := list_columns(table, [feature.name, _INDEX]):
            self.files.refuse(name, f"lacks the column {missing[0]!r} that {INFO} names")
        count = rows.stop - rows.start
        if len(table) != count:
            self.files.refuse(name, f"has {len(table)} rows, but its episodes have {count}")
        index = table.column(_INDEX)
        if not pa.types.is_integer(index.type) or not np.array_equal(
            index.to_numpy(), np.arange(rows.start, rows.stop)
        ):
            self.files.refuse(
                name, f"has other values than {rows.start} to {rows.stop - 1}, the rows of its episodes, as index"
            )
        values = self._convert(feature, name, table.column(feature.name), (count, *_find_shape(feature)))
        if values.dtype.kind == "f" and feature.name == "timestamp" and not np.isfinite(values).all():
            row = rows.start + int(np.isfinite(values).argmin())
            self.files.refuse(name, f"row {row} has no finite timestamp")
        return values

    def _convert(self, feature: Feature, name: str, column: pa.ChunkedArray, shape: tuple[int, ...]) -> AnyArray:
        kind, dtype = column.type, _read_dtype(feature)
        if isinstance(kind, pa.ExtensionType):
            column, kind = (
                pa.chunked_array([each.storage for each in column.chunks], kind.storage_type),
                kind.storage_type,
            )
        while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not is_number or not _is_alike(
            np.dtype(np.bool_) if pa.types.is_boolean(kind) else kind.to_pandas_dtype(), dtype
        ):
            self.files.refuse(
                name, f"expected {feature.dtype} in the column {feature.name!r}, as {INFO} says, got {column.type}"
            )
        values, faulty = convert_lists(feature.name, column)
        found = values.shape[1:]
        if faulty.any() or (len(values) and np.prod(found, dtype=np.int64) != np.prod(shape[1:], dtype=np.int64)):
            row = int(faulty.argmax()) if faulty.any() else 0
            self.files.refuse(
                name,
                f"expected values of the shape {list(feature.shape)} in the column {feature.name!r}, as {INFO} says, "
                f"but row {row} of the table has another, or a null",
            )
        return values.reshape(shape).astype(dtype, copy=False)


def _read_dtype(feature: Feature) -> np.dtype[np.generic]:
    try:
        return np.dtype(feature.dtype)
    except TypeError:
        return np.dtype(object)


def _find_shape(feature: Feature) -> tuple[int, ...]:
    """Find the shape of a value: lerobot stores lists of one number as numbers."""
    return () if feature.shape in ((1,), ()) else feature.shape


def _is_alike(kind: object, dtype: np.dtype[np.generic]) -> bool:
    """Whether numbers of a Parquet column may be those that info.json promises."""
    kinds = {"u": "i"}
    given = np.dtype(kind).kind  # type: ignore[call-overload]
    return bool(kinds.get(given, given) == kinds.get(dtype.kind, dtype.kind))
