"""Read columns of the tables of frames as arrays [rows, ...], mapped from files where they are large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed._names import is_url
from framefeed._shortage import allocate
from framefeed.catalog import convert_lists, find_dtype, map_arrays
from framefeed.errors import UsageError
from framefeed.lerobot._episodes import EPISODES, Episodes
from framefeed.lerobot._files import Files
from framefeed.lerobot._info import INFO, Feature, Info

# Of fewer, each process reads its own: that costs less than a file in the cache folder.
_MAPPED_ROWS, _MAPPED_TABLES = 50_000, 64
_INDEX = "index"


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of frames; rows are numbered over all of them."""

    files: Files
    info: Info
    episodes: Episodes
    _read: dict[tuple[str, bytes | None], AnyArray] = field(default_factory=dict, repr=False)

    def read_columns(self, features: Iterable[Feature], chosen: IntArray | None) -> dict[str, AnyArray]:
        """Read columns as arrays [rows, ...], each table once; the rows of tables without a chosen episode are zeros.

        Args:
            features: Those that are no cameras; of texts the arrays are of str.
            chosen: Numbers of the episodes that are needed, int64 [E], ascending; None for all.
        """
        needed, runs = list(features), self._list_runs(chosen)
        part = None if chosen is None else runs.tobytes()
        missing = [each for each in needed if (each.name, part) not in self._read]
        kept = [each for each in missing if each.is_text or not self.is_mapped(chosen)]
        read = self._read_columns(kept, runs) if kept else {}
        if mapped := [each for each in missing if each not in kept]:
            read |= self._map_columns(mapped, runs, is_whole=chosen is None)
        self._read.update({(name, part): values for name, values in read.items()})
        return {each.name: self._read[each.name, part] for each in needed}

    def is_mapped(self, chosen: IntArray | None) -> bool:
        """Whether columns are written to the cache folder and mapped by all processes."""
        is_large = self.info.total_frames >= _MAPPED_ROWS or len(self._list_runs(chosen)) >= _MAPPED_TABLES
        return is_url(self.files.root) or is_large

    def find_feature(self, name: str, *, may_be_text: bool = False) -> Feature:
        feature = self.info.features.get(name)
        if feature is None:
            raise UsageError(f"{self.files.root}: there is no column {name!r}: it has {', '.join(self.info.features)}")
        if feature.is_camera:
            raise UsageError(f"{name!r} is a camera: its pictures are no column")
        if not (feature.is_text and may_be_text) and feature.number_type.kind not in "biuf":
            raise UsageError(
                f"the column {name!r} is of type {feature.dtype}, and only numbers are delivered, and the texts 'task' "
                "and 'subtask': other texts are read with data.rows(columns=...)"
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

    def _read_columns(self, features: list[Feature], runs: IntArray) -> dict[str, AnyArray]:
        arrays = dict[str, AnyArray]()
        for each in features:
            shape, dtype = self._find_shape(each), each.number_type
            nbytes, what = prod(shape) * dtype.itemsize, f"{self.files.root}: the column {each.name!r}"
            arrays[each.name] = allocate(partial(np.zeros, shape, dtype), nbytes, what, "choose fewer columns")
        self._fill(features, runs, arrays)
        return arrays

    def _find_shape(self, feature: Feature) -> tuple[int, ...]:
        return (self.info.total_frames, *_find_shape(feature))

    def _map_columns(self, features: list[Feature], runs: IntArray, *, is_whole: bool) -> dict[str, AnyArray]:
        part = "" if is_whole else f" of the tables {runs[:, 0].tolist()}"
        tables = self.find_version(None if is_whole else runs[:, 0])
        keys = {f"{self.files.root} {each.name}{part}": each for each in features}
        versions = {key: f"{each.number_type} {self._find_shape(each)}; {tables}" for key, each in keys.items()}

        def make(paths: dict[str, str]) -> None:
            made = [keys[key] for key in paths]
            mapped = {
                each.name: np.lib.format.open_memmap(path, "w+", each.number_type, self._find_shape(each))
                for each, path in zip(made, paths.values(), strict=True)
            }
            self._fill(made, runs, mapped)
            for array in mapped.values():
                array.flush()

        # Not as a memmap, of which each slice is an object that takes longer to make.
        return {keys[key].name: np.asarray(values) for key, values in map_arrays(versions, make).items()}

    def _fill(self, features: list[Feature], runs: IntArray, arrays: Mapping[str, AnyArray]) -> None:
        """Write the rows of the tables needed."""
        for first, stop in runs.tolist():
            name, rows = self._name(first), slice(int(self.episodes.starts[first]), int(self.episodes.starts[stop]))
            table = self._read_table([each.name for each in features], name, rows)
            for feature in features:
                shape = (rows.stop - rows.start, *_find_shape(feature))
                values = self._convert(feature, name, table.column(feature.name), shape)
                if feature.name == "timestamp" and values.dtype.kind == "f" and not np.isfinite(values).all():
                    row = rows.start + int(np.isfinite(values).argmin())
                    self.files.refuse(name, f"row {row} has no finite timestamp")
                arrays[feature.name][rows] = values

    def _read_table(self, columns: list[str], name: str, rows: slice) -> pa.Table:
        """Read columns of one table, whose rows are checked to be those of its episodes."""
        needed = dict.fromkeys((*columns, _INDEX))
        table = self.files.read_table(name, needed.__contains__)
        if missing := [column for column in needed if column not in table.column_names]:
            self.files.refuse(name, f"lacks the column {missing[0]!r} that {INFO} names")
        if len(table) != rows.stop - rows.start:
            self.files.refuse(name, f"has {len(table)} rows, but its episodes have {rows.stop - rows.start}")
        index = table.column(_INDEX)
        if not pa.types.is_integer(index.type) or not np.array_equal(
            index.to_numpy(), np.arange(rows.start, rows.stop)
        ):
            self.files.refuse(
                name, f"has other values than {rows.start} to {rows.stop - 1}, the rows of its episodes, as index"
            )
        return table

    def _convert(self, feature: Feature, name: str, column: pa.ChunkedArray, shape: tuple[int, ...]) -> AnyArray:
        kind, dtype = column.type, feature.number_type
        if isinstance(kind, pa.ExtensionType):
            kind = kind.storage_type
            column = pa.chunked_array([each.storage for each in column.chunks], kind)
        if feature.is_text:
            return self._convert_texts(feature, name, column)
        while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not is_number or not _is_alike(find_dtype(kind), dtype):
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
        if dtype.kind in "iu" and values.dtype != dtype and len(values):
            bounds = np.iinfo(dtype.name)
            if not bounds.min <= int(values.min()) <= int(values.max()) <= bounds.max:
                self.files.refuse(
                    name,
                    f"has the numbers {values.min()} to {values.max()} in the column {feature.name!r}, but {INFO} says "
                    f"{feature.dtype}",
                )
        return values.reshape(shape).astype(dtype, copy=False)

    def _convert_texts(self, feature: Feature, name: str, column: pa.ChunkedArray) -> AnyArray:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
            self.files.refuse(name, f"expected texts in the column {feature.name!r}, as {INFO} says, got {column.type}")
        if column.null_count:
            self.files.refuse(name, f"has a null in the column {feature.name!r} of texts")
        # Equal texts of a table are one object: most data sets repeat a few.
        encoded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
        values: AnyArray = np.array(encoded.dictionary.to_pylist(), np.object_)[encoded.indices.to_numpy()]
        return values


def _find_shape(feature: Feature) -> tuple[int, ...]:
    """Find the shape of a value: lerobot stores lists of one number as numbers."""
    return () if feature.is_text or feature.shape == (1,) else feature.shape


def _is_alike(kind: object, dtype: np.dtype[np.generic]) -> bool:
    """Whether numbers of a Parquet column may be those that info.json promises."""
    kinds = {"u": "i"}
    given = np.dtype(kind).kind  # type: ignore[call-overload]
    return bool(kinds.get(given, given) == kinds.get(dtype.kind, dtype.kind))
