"""What lerobot calls ``meta``: info, statistics, tasks and episodes, without its libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, overload

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray
from framefeed._cached import cached_property
from framefeed._checks import check_position, describe_value, expected
from framefeed._names import is_url, make_folder_absolute
from framefeed._nearest import did_you_mean
from framefeed._values import resolve_limits
from framefeed.errors import MissingMedia, UsageError
from framefeed.lerobot._files import Files
from framefeed.lerobot._source import DataSource

_STATS = "meta/stats.json"
_EPISODES_STATS = "meta/episodes_stats.jsonl"

Statistics = dict[str, AnyArray]


class EpisodeTable:
    """The table of episodes: ``episodes["dataset_from_index"]`` is a list, ``episodes[3]`` a dict.

    Args:
        table: A row an episode.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self._table.column_names
        return names

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...

    def __getitem__(self, key: str | int) -> object:
        """Read a column as a list, or an episode as a dict.

        Raises:
            UsageError: There is no such column.
            IndexError: There is no such episode.
        """
        if isinstance(key, str):
            if key not in self._table.column_names:
                raise UsageError(f"episodes: there is no column {key!r}: it has {', '.join(self.column_names)}")
            return self._table.column(key).to_pylist()
        row = check_position("episode", key, len(self), "table of episodes")
        return self._table.slice(row, 1).to_pylist()[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._table.to_pylist())

    def __repr__(self) -> str:
        return f"EpisodeTable({len(self)} episodes, columns {self.column_names})"


class Task(NamedTuple):
    """A task: its text as ``name``, as a row of a table of pandas has it, and its number.

    Attributes:
        name: The text.
        task_index: The number.
    """

    name: str
    task_index: int


class _ByNumber:
    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __getitem__(self, number: int) -> Task:
        number = check_position("task_index", number, len(self._texts), "list of tasks")
        return Task(self._texts[number], number)


class _ByText:
    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __getitem__(self, text: str) -> Task:
        if text not in self._texts:
            raise UsageError(f"tasks: there is no task {text!r}: they are {', '.join(map(repr, self._texts))}")
        return Task(text, self._texts.index(text))


class TaskTable:
    """The tasks: ``tasks[0]`` is a text, ``tasks.iloc[0].name`` too, ``tasks.loc[text].task_index`` a number.

    Attributes:
        index: The texts by their numbers.
        iloc: Tasks by number.
        loc: Tasks by text.
    """

    def __init__(self, texts: list[str]) -> None:
        self.index = texts
        self.iloc, self.loc = _ByNumber(texts), _ByText(texts)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __getitem__(self, number: int) -> str:
        return self.iloc[number].name

    def __repr__(self) -> str:
        return f"TaskTable({self.index})"


class Metadata:
    """What a data set says of itself, by the names that lerobot's ``meta`` has.

    Args:
        source: The data set.

    Attributes:
        source: The data set.
    """

    def __init__(self, source: DataSource) -> None:
        self.source = source

    def __getattr__(self, name: str) -> NoReturn:
        """Raise the error for a name that this class does not have.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean(name, dir(type(self)))}")

    def __repr__(self) -> str:
        return (
            f"Metadata({self.root}, version {self.source.info.version}, {self.total_episodes} episodes, "
            f"{self.total_frames} rows, cameras {self.camera_keys})"
        )

    @property
    def root(self) -> str:
        """Absolute path of the folder, or its URL."""
        return self.source.files.root

    @property
    def info(self) -> dict[str, Any]:
        """All of meta/info.json."""
        return dict(self.source.info.raw)

    @property
    def fps(self) -> int | float:
        """Rows of the tables in a second."""
        rate: int | float = self.source.info.raw["fps"]
        return rate

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """What info.json says of each column and camera."""
        features: dict[str, dict[str, Any]] = self.source.info.raw["features"]
        return features

    @property
    def names(self) -> dict[str, Any]:
        """Names of the parts of each feature's values."""
        return {name: each.names for name, each in self.source.info.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each feature's values."""
        return {name: each.shape for name, each in self.source.info.features.items()}

    @property
    def camera_keys(self) -> list[str]:
        """Features that are pictures."""
        return self.source.info.list_cameras()

    @property
    def video_keys(self) -> list[str]:
        """Cameras that are videos."""
        return self.source.info.list_cameras("video")

    @property
    def image_keys(self) -> list[str]:
        """Cameras whose pictures lie in the tables."""
        return self.source.info.list_cameras("image")

    @property
    def depth_keys(self) -> list[str]:
        """Cameras of depth."""
        return [name for name, each in self.source.info.features.items() if each.is_depth]

    @property
    def robot_type(self) -> str | None:
        """Name of the robot."""
        name: str | None = self.source.info.raw.get("robot_type")
        return name

    @property
    def total_episodes(self) -> int:
        """Number of episodes."""
        return self.source.info.total_episodes

    @property
    def total_frames(self) -> int:
        """Number of rows of all tables."""
        return self.source.info.total_frames

    @property
    def total_tasks(self) -> int:
        """Number of tasks."""
        return len(self.source.tasks)

    @property
    def chunks_size(self) -> int:
        """Most files in a folder."""
        return self.source.info.chunks_size

    @property
    def data_path(self) -> str:
        """Template of the names of tables."""
        return self.source.info.data_path

    @property
    def video_path(self) -> str | None:
        """Template of the names of videos; None if there are none."""
        return self.source.info.video_path

    @cached_property
    def episodes(self) -> EpisodeTable:
        """The episodes: columns as lists, rows as dicts."""
        return EpisodeTable(self.source.episodes.table)

    @cached_property
    def tasks(self) -> TaskTable:
        """The texts of the tasks."""
        return TaskTable(self.source.tasks)

    @cached_property
    def subtasks(self) -> TaskTable | None:
        """The texts of the subtasks; None if the data set has none."""
        texts = self.source.subtasks
        return None if texts is None else TaskTable(texts)

    def get_task_index(self, task: str) -> int | None:
        """Find the number of a task by its text; None if there is none."""
        return self.source.tasks.index(task) if task in self.source.tasks else None

    def get_data_file_path(self, ep_index: int) -> str:
        """Name the table of an episode, relative to the root."""
        episodes = self.source.episodes
        row = check_position("ep_index", ep_index, len(episodes), "data set")
        return self.source.info.name_table(int(episodes.chunk[row]), int(episodes.file[row]))

    def get_video_file_path(self, ep_index: int, vid_key: str) -> str:
        """Name the video of an episode and a camera, relative to the root."""
        if vid_key not in self.video_keys:
            raise UsageError(f"vid_key: there is no camera {vid_key!r} of videos: there are {self.video_keys}")
        videos = self.source.episodes.videos[vid_key]
        row = check_position("ep_index", ep_index, len(self.source.episodes), "data set")
        if videos.chunk[row] < 0:
            raise UsageError(f"the camera {vid_key!r} has no video of episode {row}")
        return self.source.info.name_video(vid_key, int(videos.chunk[row]), int(videos.file[row]))

    @cached_property
    def stats(self) -> dict[str, Statistics]:
        """Statistics of each feature, arrays by name: min, max, mean, std, count, as far as the data set has them.

        Of version 2.1, which has those of each episode, they are joined.
        """
        files = self.source.files
        if self.source.info.version != "2.1":
            return _to_arrays(files, _STATS, files.read_json(_STATS, has_nan=True)) if files.is_there(_STATS) else {}
        if not files.is_there(_EPISODES_STATS):
            return {}
        lines = files.read_lines(_EPISODES_STATS, has_nan=True)
        parts = [_to_arrays(files, _EPISODES_STATS, line.get("stats")) for line in lines]
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: _join(files, name, [part[name] for part in parts if name in part]) for name in names}


class LeRobotDatasetMetadata(Metadata):
    """What a data set says of itself, made with the arguments of lerobot's class of this name; nothing is downloaded.

    Args:
        repo_id: Name of the data set. Without ``root``, its folder is looked up in HF_LEROBOT_HOME (by default
            ~/.cache/huggingface/lerobot).
        root: Folder or URL of the data set.
        revision: Ignored: it is about downloads.
        force_cache_sync: Refused if True.
        metadata_buffer_size: Ignored: it is about writing.

    Raises:
        MissingMedia: There is no such data set here; the message has the command that downloads it.
        UsageError: An argument is wrong, or asks for downloading.
        MediaError: A file is missing or damaged.
    """

    def __init__(
        self,
        repo_id: str,
        root: str | os.PathLike[str] | None = None,
        revision: str | None = None,
        force_cache_sync: bool = False,
        metadata_buffer_size: int = 10,
    ) -> None:
        if force_cache_sync:
            raise UsageError(
                "force_cache_sync=True would download, and framefeed downloads nothing: leave it out, and update the "
                "folder with hf download"
            )
        self.repo_id, self.revision = repo_id, revision
        super().__init__(DataSource.open(Files(make_folder_absolute(_find_root(repo_id, root)), resolve_limits(None))))

    @property
    def root(self) -> Any:
        """The folder, a Path; or the URL, a str."""
        return self.source.files.root if is_url(self.source.files.root) else Path(self.source.files.root)

    @property
    def url_root(self) -> str:
        """URL of the data set on the Hugging Face Hub."""
        return f"hf://datasets/{self.repo_id}"

    def get_data_file_path(self, ep_index: int) -> Path:  # type: ignore[override]
        """Name the table of an episode, relative to the root."""
        return Path(super().get_data_file_path(ep_index))

    def get_video_file_path(self, ep_index: int, vid_key: str) -> Path:  # type: ignore[override]
        """Name the video of an episode and a camera, relative to the root."""
        return Path(super().get_video_file_path(ep_index, vid_key))

    def filter_episodes(
        self, predicate: Callable[[dict[str, Any]], bool], candidates: Iterable[int] | None = None
    ) -> list[int]:
        """List the numbers of the episodes for whose rows of ``episodes`` a function is true."""
        chosen = range(len(self.episodes)) if candidates is None else sorted({*candidates})
        return [number for number in chosen if predicate(self.episodes[number])]

    def ensure_readable(self) -> None:
        """Do nothing: all can be read."""

    load_metadata = ensure_readable

    @property
    def data_files_size_in_mb(self) -> int | None:
        """Largest size of a table, which the writer keeps; None if unknown."""
        size: int | None = self.info.get("data_files_size_in_mb")
        return size

    @property
    def video_files_size_in_mb(self) -> int | None:
        """Largest size of a video, which the writer keeps; None if unknown."""
        size: int | None = self.info.get("video_files_size_in_mb")
        return size

    def get_chunk_settings(self) -> dict[str, int | None]:
        """List the settings by which the writer divides files."""
        return {
            name: getattr(self, name) for name in ("chunks_size", "data_files_size_in_mb", "video_files_size_in_mb")
        }

    @classmethod
    def create(cls, *_: Any, **__: Any) -> NoReturn:
        """Refused, as all that writes or downloads is.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "framefeed.torch reads data sets of LeRobot, and writes and downloads none: record, change and upload them "
            "with lerobot's own class of the same name, of lerobot.datasets.lerobot_dataset"
        )

    save_episode = save_episode_tasks = update_video_info = update_chunk_settings = finalize = create
    pull_from_repo = create


def _find_root(repo_id: str, root: str | os.PathLike[str] | None) -> str:
    if not isinstance(repo_id, str) or not repo_id:
        raise expected("repo_id", 'a name such as "me/mydata", with root= for a folder', repo_id)
    if root is not None and os.fspath(root):
        folder = os.fspath(root)
        if is_url(folder):
            return folder.rstrip("/")
    else:
        cache = os.environ.get("HF_HOME") or os.path.join("~", ".cache", "huggingface")
        home = os.environ.get("HF_LEROBOT_HOME") or os.path.join(cache, "lerobot")
        folder = os.path.join(home, repo_id)
    path = Path(folder).expanduser()
    if not (path / "meta" / "info.json").is_file():
        raise MissingMedia(
            f"there is no LeRobot data set in {path}, and framefeed downloads none: give its folder as root=, or run: "
            f"hf download {repo_id} --repo-type dataset --local-dir {path}",
            source=str(path),
        )
    return str(path)


def _to_arrays(files: Files, file: str, stats: Any) -> dict[str, Statistics]:
    """Convert the statistics of each feature; what is none is left out."""
    arrays = dict[str, Statistics]()
    for name, each in stats.items() if isinstance(stats, dict) else ():
        for kind, value in each.items() if isinstance(each, dict) else ():
            try:
                array = np.asarray(value)
            except ValueError:  # lists of unequal lengths
                array = np.empty(0, np.object_)
            if array.dtype.kind not in "biuf":
                files.refuse(file, f"expected numbers as {kind} of {name!r}, got {describe_value(value)}")
            arrays.setdefault(name, {})[kind] = array
    return arrays


def _join(files: Files, name: str, parts: list[Statistics]) -> Statistics:
    """Join the statistics of episodes: the variance of all is that within the episodes and that of their means."""
    kinds = set.intersection(*(set(part) for part in parts))
    kinds &= {"min", "max", "mean", "std", "count"} if {"count", "mean", "std"} <= kinds else {"min", "max"}
    shapes = {kind: {part[kind].shape for part in parts} for kind in kinds}
    is_alike = all(len(each) == 1 for each in shapes.values()) and shapes.get("mean") == shapes.get("std")
    if not is_alike or any(part["count"].size != 1 for part in parts if "count" in kinds):
        files.refuse(_EPISODES_STATS, f"has statistics of {name!r} of shapes that do not belong together")
    stacked = {kind: np.stack([part[kind] for part in parts]) for kind in kinds}
    joined = {kind: getattr(stacked[kind], kind)(0) for kind in kinds & {"min", "max"}}
    if "mean" not in kinds:
        return joined
    counts, means = stacked["count"].astype(np.float64), stacked["mean"]
    with np.errstate(all="ignore"):  # numbers may be infinite, or NaN
        weights = counts.reshape(-1, *[1] * (means.ndim - 1)) / counts.sum()
        mean = (weights * means).sum(0)
        deviation = np.sqrt((weights * (stacked["std"] ** 2 + (means - mean) ** 2)).sum(0))
        return joined | {"mean": mean, "std": deviation, "count": counts.sum(0).astype(np.int64)}
