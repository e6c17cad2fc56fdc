"""Read which rows, tables and parts of videos an episode has, for all episodes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import FloatArray, IntArray
from framefeed._compute import pc
from framefeed.lerobot._files import Files
from framefeed.lerobot._info import INFO, Info

EPISODES = "meta/episodes"
_TABLE = EPISODES + "/chunk-{:03d}/file-{:03d}.parquet"
_LINES = "meta/episodes.jsonl"
_MOST_INDEX = 1 << 31
_OWN = ("episode_index", "length", "dataset_from_index", "dataset_to_index", "data/chunk_index", "data/file_index")


@dataclass(frozen=True, eq=False)
class CameraVideos:
    """Where the episodes are in the videos of a camera."""

    chunk: IntArray  # number of the chunk of files, int64 [E]; -1, as ``file``, where the camera lacks the episode
    file: IntArray
    start_seconds: FloatArray  # of the episode's first row, on the video's own timeline, float64 [E]
    end_seconds: FloatArray  # behind its last row, float64 [E]; NaN if unknown


@dataclass(frozen=True, eq=False)
class Episodes:
    """All episodes of a data set."""

    starts: IntArray  # first row of each episode, and last the number of rows, int64 [E + 1]
    chunk: IntArray  # number of the chunk of files of the table of each, int64 [E]
    file: IntArray
    videos: Mapping[str, CameraVideos]
    table: pa.Table  # what the data set says of each episode, without statistics: a row an episode

    def __len__(self) -> int:
        return len(self.starts) - 1


def read_episodes(files: Files, info: Info) -> Episodes:
    return _read_tables(files, info) if info.shares_files else _read_lines(files, info)


def _read_tables(files: Files, info: Info) -> Episodes:
    names, tables = list[str](), list[pa.Table]()
    for name, table in _iterate_tables(files, info):
        needed = [*_OWN]
        for camera in info.list_cameras("video"):
            columns = [f"videos/{camera}/{part}" for part in _PARTS]
            needed += columns if any(column in table.column_names for column in columns) else []
        if missing := [column for column in needed if column not in table.column_names]:
            files.refuse(name, f"lacks the columns {', '.join(missing)} of episodes")
        names.append(name)
        tables.append(table)
    if not tables:
        return _make_empty(info)
    table = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    reader = _Columns(files, names[0], table)
    count = len(table)
    own = {name: reader.read_numbers(name) for name in _OWN}
    _check_order(files, names, own, info)
    videos = {camera: reader.read_videos(camera) for camera in info.list_cameras("video")}
    starts = np.append(own["dataset_from_index"], info.total_frames if count else 0)
    episodes = Episodes(starts, own["data/chunk_index"], own["data/file_index"], videos, table)
    for camera in videos:
        _check_overlaps(files, names[0], camera, episodes, info)
    return episodes


def _iterate_tables(files: Files, info: Info) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables of episodes, until all episodes are there."""
    chunk = file = count = 0
    while count < info.total_episodes:
        name = _TABLE.format(chunk, file)
        if file and (file >= info.chunks_size or not files.is_there(name)):
            chunk, file = chunk + 1, 0
            name = _TABLE.format(chunk, file)
        if (chunk or file) and not files.is_there(name):
            files.refuse(
                name,
                f"is missing, but {INFO} counts {info.total_episodes} episodes and the tables before it have {count}",
            )
        table = files.read_table(name, lambda column: not column.startswith("stats/"))
        count += len(table)
        file += 1
        yield name, table


_PARTS = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")


@dataclass(frozen=True)
class _Columns:
    """Columns of the table of episodes as arrays."""

    files: Files
    name: str
    table: pa.Table

    def read_numbers(self, column: str, *, may_lack: bool = False) -> IntArray:
        """Read whole numbers, int64 [E]; -1 for a null where there may be some."""
        values = self.table.column(column)
        if not pa.types.is_integer(values.type) and not (may_lack and pa.types.is_null(values.type)):
            self.files.refuse(self.name, f"expected whole numbers in the column {column!r}, got {values.type}")
        if values.null_count and not may_lack:
            self.files.refuse(self.name, f"has a null in the column {column!r}")
        numbers: IntArray = pc.fill_null(values.cast(pa.int64(), safe=False), -1).to_numpy()
        least = -1 if may_lack else 0
        most = 1 << 62 if column.startswith("dataset_") else _MOST_INDEX
        if len(numbers) and not least <= int(numbers.min()) <= int(numbers.max()) < most:
            odd = int(np.flatnonzero((numbers < least) | (numbers >= most))[0])
            self.files.refuse(self.name, f"has the number {numbers[odd]} in the column {column!r}, row {odd}")
        return numbers

    def read_seconds(self, column: str) -> FloatArray:
        """Read times, float64 [E]; NaN for a null."""
        values = self.table.column(column)
        if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type) or pa.types.is_null(values.type)):
            self.files.refuse(self.name, f"expected seconds in the column {column!r}, got {values.type}")
        seconds: FloatArray = pc.fill_null(values.cast(pa.float64(), safe=False), np.nan).to_numpy()
        return seconds

    def read_videos(self, camera: str) -> CameraVideos:
        """Read where the episodes are in the videos of a camera."""
        prefix = f"videos/{camera}/"
        if prefix + _PARTS[0] not in self.table.column_names:
            none, unknown = np.full(len(self.table), -1, np.int64), np.full(len(self.table), np.nan)
            return CameraVideos(none, none, unknown, unknown)
        chunk, file = (self.read_numbers(prefix + part, may_lack=True) for part in _PARTS[:2])
        start, end = (self.read_seconds(prefix + part) for part in _PARTS[2:])
        is_there = (chunk >= 0) & (file >= 0)
        if (odd := is_there & ~(np.isfinite(start) & (start >= 0) & ~(end < start))).any():
            row = int(odd.argmax())
            self.files.refuse(
                self.name, f"episode {row} lasts from {start[row]} s to {end[row]} s in the videos of {camera!r}"
            )
        return CameraVideos(np.where(is_there, chunk, -1), np.where(is_there, file, -1), start, end)


def _check_order(files: Files, names: Sequence[str], own: Mapping[str, IntArray], info: Info) -> None:
    """Check that episodes follow one another, and have all rows."""
    numbers, starts, ends = own["episode_index"], own["dataset_from_index"], own["dataset_to_index"]
    shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1].rpartition('/')[2]}"
    expected_starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    for what, wrong in (
        ("is out of order: expected episode_index {row}, got {number}", numbers != np.arange(len(numbers))),
        ("begins at row {start}, but the one before ends at {before}", starts != expected_starts),
        ("has the rows {start} to {end}, but length {length}", ends - starts != own["length"]),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            facts = {"row": row, "number": numbers[row], "start": starts[row], "end": ends[row]}
            text = what.format(**facts, before=expected_starts[row], length=own["length"][row])
            files.refuse(shown, f"the episode in row {row} {text}")
    if len(numbers) != info.total_episodes:
        files.refuse(shown, f"has {len(numbers)} episodes, but {INFO} counts {info.total_episodes}")
    if len(ends) and ends[-1] != info.total_frames:
        files.refuse(shown, f"the last episode ends at row {ends[-1]}, but {INFO} counts {info.total_frames} rows")


def _check_overlaps(files: Files, name: str, camera: str, episodes: Episodes, info: Info) -> None:
    """Check that no two episodes show the same part of a video."""
    videos = episodes.videos[camera]
    order = np.lexsort((videos.start_seconds, videos.file, videos.chunk))
    before, after = order[:-1], order[1:]
    is_same = (videos.chunk[before] == videos.chunk[after]) & (videos.file[before] == videos.file[after])
    # The ends are sums of floats.
    overlaps = videos.start_seconds[after] < videos.end_seconds[before] - 0.5 / info.fps
    if (odd := is_same & (videos.chunk[before] >= 0) & overlaps).any():
        first, second = (int(each[int(odd.argmax())]) for each in (before, after))
        files.refuse(
            name,
            f"episode {first} ends at {videos.end_seconds[first]} s in the videos of {camera!r}, but episode {second} "
            f"begins at {videos.start_seconds[second]} s of the same file",
        )


def _read_lines(files: Files, info: Info) -> Episodes:
    if not info.total_episodes:
        return _make_empty(info)
    lines = files.read_lines(_LINES)
    for number, line in enumerate(lines):
        if not all(
            type(line.get(name)) is int and 0 <= line[name] < _MOST_INDEX for name in ("episode_index", "length")
        ):
            files.refuse(_LINES, f"line {number + 1}: expected whole numbers episode_index and length, got {line}")
        if not isinstance(line.get("tasks"), list):
            files.refuse(_LINES, f"line {number + 1}: expected a list of tasks, got {line.get('tasks')!r}")
    lines.sort(key=lambda line: int(line["episode_index"]))
    ends = np.cumsum([line["length"] for line in lines], dtype=np.int64)
    own = {name: np.array([line[name] for line in lines], np.int64) for name in ("episode_index", "length")}
    own |= {"dataset_from_index": ends - own["length"], "dataset_to_index": ends}
    _check_order(files, [_LINES], own, info)
    numbers = own["episode_index"]
    chunk = numbers // info.chunks_size
    ends_in_video = own["length"] / info.fps
    videos = {
        camera: CameraVideos(chunk, numbers, np.zeros(len(lines)), ends_in_video)
        for camera in info.list_cameras("video")
    }
    table = pa.table({"tasks": [[str(task) for task in line["tasks"]] for line in lines]} | own)
    return Episodes(np.append(own["dataset_from_index"], ends[-1:]), chunk, numbers, videos, table)


def _make_empty(info: Info) -> Episodes:
    none, seconds = np.empty(0, np.int64), np.empty(0)
    videos = {camera: CameraVideos(none, none, seconds, seconds) for camera in info.list_cameras("video")}
    columns: dict[str, Any] = dict.fromkeys(_OWN[:4], none)
    table = pa.table(columns | {"tasks": pa.array([], pa.list_(pa.string()))})
    return Episodes(np.zeros(1, np.int64), none, none, videos, table)
