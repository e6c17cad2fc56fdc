"""A data set on the disk or below a URL: what its tables say, opened again in each process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from framefeed._arrays import AnyArray, IntArray, has_bools
from framefeed._cached import cached_property
from framefeed._checks import expected
from framefeed.catalog import Catalog, ListColumn, TextColumn
from framefeed.errors import StaleSource, UsageError
from framefeed.lerobot._episodes import Episodes, read_episodes
from framefeed.lerobot._files import Files
from framefeed.lerobot._info import Info, read_info
from framefeed.lerobot._rows import DeltaColumn, PadColumn, Spans
from framefeed.lerobot._tables import Tables

_SUBTASKS_TABLE = "meta/subtasks.parquet"
_TABLES = {"task": "meta/tasks.parquet", "subtask": _SUBTASKS_TABLE}
_TASKS_LINES = "meta/tasks.jsonl"
TASK, SUBTASK = "task_index", "subtask_index"
PAD = "_is_pad"
"""Behind the name of a column: which of its values are of a clamped row."""


@dataclass(frozen=True, eq=False)
class DataSource:
    """A data set; ``catalogs`` are of cameras indexed in this process, by camera and numbers of episodes."""

    files: Files
    info: Info
    episodes: Episodes
    tables: Tables
    catalogs: dict[tuple[str, bytes], Catalog] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, files: Files) -> DataSource:
        info = read_info(files)
        episodes = read_episodes(files, info)
        return cls(files, info, episodes, Tables(files, info, episodes))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self.files, self.digest))

    @cached_property
    def digest(self) -> str:
        """Hash of what info.json and the tables of episodes say."""
        episodes = self.episodes
        digest = xxhash.xxh3_64(repr(sorted(self.info.raw.items())).encode())
        for array in (episodes.starts, episodes.chunk, episodes.file):
            digest.update(array.tobytes())
        for camera, videos in episodes.videos.items():
            digest.update(camera.encode())
            for part in (videos.chunk, videos.file, videos.start_seconds):
                digest.update(part.tobytes())
        return digest.hexdigest()

    @cached_property
    def tasks(self) -> list[str]:
        """Texts of the tasks by their numbers."""
        if self.info.shares_files:
            return _read_tasks_table(self.files, "task")
        lines = self.files.read_lines(_TASKS_LINES)
        return _order_tasks(self.files, _TASKS_LINES, [(line.get("task_index"), line.get("task")) for line in lines])

    @cached_property
    def subtasks(self) -> list[str] | None:
        """Texts of the subtasks by their numbers; None if there are none."""
        return _read_tasks_table(self.files, "subtask") if self.files.is_there(_SUBTASKS_TABLE) else None

    def read_columns(
        self, names: Iterable[str], chosen: IntArray | None = None, *, may_be_texts: bool = False
    ) -> dict[str, AnyArray]:
        """Read columns of the tables, see `Tables.read_columns`; numbers of tasks are checked to have a text."""
        features = [self.tables.find_feature(name, may_be_text=may_be_texts) for name in names]
        columns = self.tables.read_columns(features, chosen)
        if TASK in columns:
            self._check_tasks(TASK, columns[TASK], len(self.tasks))
        if SUBTASK in columns and self.subtasks is not None:
            self._check_tasks(SUBTASK, columns[SUBTASK], len(self.subtasks))
        return columns

    def _check_tasks(self, column: str, values: AnyArray, count: int) -> None:
        if not (lacks_text := (values < 0) | (values >= count)).any():
            return
        row, kind = int(lacks_text.reshape(len(values), -1).any(1).argmax()), column.removesuffix("_index")
        name = _TABLES[kind] if self.info.shares_files or column == SUBTASK else _TASKS_LINES
        self.files.refuse(name, f"row {row} of the tables has {column} {values[row]}, but there are {count} {kind}s")

    def check_columns(
        self, deltas: Mapping[str, IntArray], columns: Iterable[str], *, may_be_texts: bool = False
    ) -> None:
        """Check the names of columns, see `make_columns`."""
        beside = [name for name in deltas if not self.info.features[name].is_camera]
        for name in beside:
            self.tables.find_feature(name)
        made = {*beside, *(name + PAD for name in beside)}
        for name in columns:
            if name in made:
                raise UsageError(f"columns: {name!r} is delivered already, by delta_timestamps: leave it out here")
            self.tables.find_feature(name if may_be_texts else _index_of(name), may_be_text=may_be_texts)

    def make_columns(
        self,
        deltas: Mapping[str, IntArray],
        columns: Sequence[str],
        chosen: IntArray | None,
        *,
        may_be_texts: bool = False,
    ) -> dict[str, Any]:
        """Make the columns of a plan, whose lines are rows of the tables, of the chosen episodes or all.

        They are those of ``deltas``, int64 [T], which may name cameras too, and ``columns`` at the row itself: "task"
        and "subtask" are texts.
        """
        self.check_columns(deltas, columns, may_be_texts=may_be_texts)
        beside = {name: steps for name, steps in deltas.items() if not self.info.features[name].is_camera}
        plain = [name if may_be_texts else _index_of(name) for name in columns]
        values = self.read_columns([*beside, *dict.fromkeys(plain)], chosen, may_be_texts=may_be_texts)
        spans, made = Spans(self.episodes.starts), dict[str, Any]()
        made |= {name: DeltaColumn(values[name], spans=spans, deltas=steps) for name, steps in beside.items()}
        made |= {name + PAD: PadColumn(spans, steps) for name, steps in beside.items()}
        for name, read in zip(columns, plain, strict=True):
            made[name] = ListColumn(values[name]) if name == read else self._make_texts(name, values[read])
        return made

    def _make_texts(self, name: str, numbers: AnyArray) -> TextColumn:
        """Make the texts of tasks or subtasks of their numbers, [R] or [R, 1]."""
        texts = self.tasks if name == "task" else self.subtasks
        if texts is None:
            raise UsageError(
                f"{self.files.root}: there is no {_SUBTASKS_TABLE}, which has the texts of subtasks: read the column "
                f"{SUBTASK!r}, their numbers"
            )
        return TextColumn(
            pa.array(texts, pa.large_string()), numbers.reshape(len(numbers)).astype(np.int64, copy=False)
        )

    def read_deltas(self, delta_timestamps: Any, tolerance_seconds: float) -> dict[str, IntArray]:
        """Convert times relative to a row to numbers of rows, int64 [T] by name."""
        if not hasattr(delta_timestamps, "items"):
            raise expected(
                "delta_timestamps", 'a dict such as {"observation.images.top": [-0.1, 0.0]}', delta_timestamps
            )
        read = partial(_read_deltas, fps=self.info.fps, tolerance_seconds=tolerance_seconds)
        deltas = dict[str, IntArray]()
        for name, times in delta_timestamps.items():
            if name not in self.info.features:
                raise UsageError(
                    f"delta_timestamps: there is no {name!r}: the data set has {', '.join(self.info.features)}"
                )
            deltas[name] = read(f"delta_timestamps[{name!r}]", times)
        return deltas

    def choose_episodes(self, episodes: Any) -> IntArray | None:
        """Check numbers of episodes; return them in ascending order, int64 [C]; None for all."""
        if episodes is None:
            return None
        try:
            given = episodes if isinstance(episodes, np.ndarray) else list(episodes)
            numbers = np.asarray(given)
        except TypeError:
            raise expected("episodes", "a list of numbers of episodes", episodes) from None
        if not len(numbers):
            raise UsageError("episodes: the list is empty: give the numbers of some episodes, or None for all")
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or has_bools(given):
            raise expected("episodes", "a list of numbers of episodes", episodes)
        count, chosen = len(self.episodes), np.sort(numbers).astype(np.int64)
        if chosen[0] < 0 or chosen[-1] >= count:
            odd = chosen[0] if chosen[0] < 0 else chosen[-1]
            raise UsageError(f"episodes: there is no episode {odd}: the data set has 0 to {count - 1}")
        if len(twice := chosen[:-1][chosen[1:] == chosen[:-1]]):
            raise UsageError(f"episodes: {twice[0]} is given twice")
        return chosen


def _reopen(files: Files, digest: str) -> DataSource:
    source = DataSource.open(files)
    if source.digest != digest:
        raise StaleSource(
            f"{files.root}: the data set has changed since it was opened: open it again, and plan again",
            source=files.root,
        )
    return source


def _read_deltas(name: str, times: Any, fps: float, tolerance_seconds: float) -> IntArray:
    """Convert times to numbers of rows, by lerobot's rule."""
    try:
        seconds = np.asarray(times, np.float64)
    except (TypeError, ValueError):
        raise expected(name, "a list of seconds, such as [-0.1, 0.0]", times) from None
    if seconds.ndim != 1 or not len(seconds) or has_bools(times):
        raise expected(name, "a list of seconds, such as [-0.1, 0.0]", times)
    if not np.isfinite(seconds).all() or np.abs(seconds * fps).max() >= 1 << 31:
        raise UsageError(f"{name}: expected finite seconds, got {seconds[int(np.abs(seconds).argmax())]:g}")
    steps = np.round(seconds * fps)
    distances = np.abs(seconds * fps - steps) / fps
    if (far := distances > tolerance_seconds).any():
        number = int(far.argmax())
        raise UsageError(
            f"{name}[{number}]: {seconds[number]:g} s is no multiple of 1/{fps:g} s within "
            f"tolerance_seconds={tolerance_seconds:g}: the nearest is {steps[number] / fps:.6f} s, "
            f"{int(steps[number])} rows away"
        )
    return steps.astype(np.int64)


def _read_tasks_table(files: Files, kind: str) -> list[str]:
    """Read the texts of the tasks or subtasks."""
    file, index = _TABLES[kind], f"{kind}_index"
    table = files.read_table(file, lambda _: True)
    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type) or
             pa.types.is_large_string(table.schema.field(name).type)]  # fmt: skip
    if index not in table.column_names or not texts:
        files.refuse(file, f"expected columns of {index} and of texts, got {', '.join(table.column_names)}")
    # pandas stores an index without a name as __index_level_0__.
    name = next((each for each in (kind, "__index_level_0__") if each in texts), texts[0])
    numbers, values = table.column(index).to_pylist(), table.column(name).to_pylist()
    return _order_tasks(files, file, list(zip(numbers, values, strict=True)), kind)


def _order_tasks(files: Files, name: str, tasks: list[tuple[Any, Any]], kind: str = "task") -> list[str]:
    for number, text in tasks:
        if type(number) is not int or not isinstance(text, str):
            files.refuse(name, f"expected a number and a text of each {kind}, got {number!r} and {text!r}")
    text_of = dict(sorted(tasks))
    if [*text_of] != [*range(len(tasks))]:
        files.refuse(name, f"expected a {kind}_index from 0 to {len(tasks) - 1} for each {kind}, got {[*text_of]}")
    return [*text_of.values()]


def _index_of(name: str) -> str:
    """Name the column of the tables that a column of a plan is read from: that of numbers for texts of tasks."""
    return f"{name}_index" if name in ("task", "subtask") else name
