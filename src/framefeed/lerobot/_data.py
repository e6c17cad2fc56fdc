"""LeRobotData: a data set of LeRobot, its rows, and plans of its clips."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from framefeed._arrays import AnyArray, IntArray, has_bools
from framefeed._cached import cached_property
from framefeed._checks import OutOfRange, check_names, check_path, expected, is_number, refuse_names
from framefeed._names import is_url, make_folder_absolute
from framefeed._values import Limits, resolve_limits
from framefeed.errors import UsageError
from framefeed.lerobot._files import Files
from framefeed.lerobot._info import INFO
from framefeed.lerobot._meta import Metadata
from framefeed.lerobot._plans import CameraClips, check_boxes, check_cameras, plan_camera
from framefeed.lerobot._rows import ChosenRows, PadColumn, Spans
from framefeed.lerobot._source import PAD, DataSource
from framefeed.media import StorageOptions, check_storage_options
from framefeed.plan import CatalogClips, ClipOptions, Clips, EpochPlan, Order, Tail, as_delivered, join_clips
from framefeed.request import AnySize, Crop

T = TypeVar("T")
Deltas = Mapping[str, Sequence[float]]


def open_data(
    root: str | os.PathLike[str],
    *,
    storage_options: StorageOptions | None = None,
    limits: Limits | None = None,
) -> LeRobotData:
    """Open a LeRobot data set of version 2.0, 2.1 or 3.0, without lerobot, pandas or PyTorch.

    Read are meta/info.json and the episodes; tables and videos are read when they are planned.

    Args:
        root: Folder of the data set, with ``meta/`` in it; or its URL.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".
        limits: What a file may claim; None for the defaults of `Limits`.

    Raises:
        MissingMedia: There is no data set in the folder.
        UnreadableMedia: A file of it is damaged, or says what cannot be.
        UsageError: It is of another version, or stored otherwise.
    """
    folder = check_path("root", root, "my/data")
    check_storage_options(storage_options)
    name = make_folder_absolute(folder.rstrip("/") if is_url(folder) else folder)
    return LeRobotData(DataSource.open(Files(name, resolve_limits(limits), storage_options)))


class LeRobotData:
    """A LeRobot data set, made by `open`; it travels to other processes by its name.

    Args:
        source: The data set.
    """

    def __init__(self, source: DataSource) -> None:
        if not isinstance(source, DataSource):
            raise UsageError("LeRobotData: a data set is opened with ff.lerobot.open(folder)")
        self._source = source

    def __repr__(self) -> str:
        return f"LeRobotData({self.meta!r})"

    def __len__(self) -> int:
        return self.num_frames

    @property
    def root(self) -> str:
        """Absolute path of the folder, or its URL."""
        return self._source.files.root

    @cached_property
    def meta(self) -> Metadata:
        """What the data set says of itself, by lerobot's names."""
        return Metadata(self._source)

    @property
    def fps(self) -> int | float:
        """Rows of the tables in a second."""
        return self.meta.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """What info.json says of each column and camera."""
        return self.meta.features

    @property
    def num_frames(self) -> int:
        """Number of rows of all tables."""
        return self._source.info.total_frames

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return self._source.info.total_episodes

    def column(self, name: str) -> AnyArray:
        """Read a column of the tables, an array [rows, ...] that may be mapped from a file and is not to be written to.

        Raises:
            UsageError: There is no such column, or it is not numbers.
            MediaError: A table is missing or damaged.
        """
        values = self._source.read_columns([name])[name].view()
        values.flags.writeable = False
        return values

    def rows(
        self,
        delta_timestamps: Deltas | None = None,
        *,
        episodes: Iterable[int] | None = None,
        columns: Sequence[str] = (),
        tolerance_seconds: float = 1e-4,
    ) -> RowReader:
        """Make what reads rows of the tables, without pictures, many at once.

        Args:
            delta_timestamps: Seconds beside each row, by name; of cameras the pad masks are read.
            episodes: Numbers of episodes; None for all.
            columns: Names of columns that are read at the row itself; texts are arrays of str.
            tolerance_seconds: Largest distance of a time from a multiple of 1/fps.

        Raises:
            UsageError: A name is unknown, or a time is no multiple of 1/fps.
            MediaError: A table is missing, or damaged; the columns of large data sets are read with the first rows.
        """
        source = self._source
        given = {} if delta_timestamps is None else delta_timestamps
        deltas = source.read_deltas(given, _check_tolerance(tolerance_seconds))
        chosen = source.choose_episodes(episodes)
        names = check_names("columns", columns)
        return RowReader(source, deltas, names, chosen)

    @refuse_names(
        "plan",
        {"tolerance_s": "use tolerance_seconds=", "batch_size": "give it to ff.ClipLoader", "resize": "use size="},
    )
    def plan(  # noqa: PLR0913 - public: what its users ask for
        self,
        delta_timestamps: Deltas,
        *,
        episodes: Iterable[int] | None = None,
        tolerance_seconds: float = 1e-4,
        columns: Sequence[str] = (),
        seed: int | None = None,
        shuffle: bool = True,
        epoch: int = 0,
        rank: int = 0,
        world_size: int = 1,
        tail: Tail = "pad",
        size: AnySize | Mapping[str, AnySize] | None = None,
        crop: Crop | Sequence[int] | Mapping[str, Any] | None = None,
    ) -> EpochPlan:
        """Plan the clips of every epoch: one position for each row of the tables.

        The frames of a camera are those nearest to the times of the rows at ``delta_timestamps`` beside the row. Rows
        outside of the episode are replaced by its first or last row, and ``valid`` is False there.

        Args:
            delta_timestamps: Seconds beside each row, by the name of a camera or a column: multiples of 1/fps.
            episodes: Numbers of the episodes that are planned; None for all.
            tolerance_seconds: Largest distance of a frame from its time, and of a delta from a multiple of 1/fps.
            columns: Names of columns that are delivered as they are at the row itself.
            seed: An integer from 0 to 2**64 - 1, which decides the order. It must be given.
            shuffle: Whether rows are shuffled, in another order in each epoch.
            epoch: Number of the epoch, from 0.
            rank: Number of this process, from 0 to ``world_size`` - 1.
            world_size: Number of processes that share an epoch.
            tail: As in ``plan_clips``.
            size: As in ``plan_clips``; or a dict by camera.
            crop: As in ``plan_clips``; or a dict by camera.

        Returns:
            A plan whose batches have dicts by camera, and columns [B, T, ...] with pad masks ``KEY_is_pad`` [B, T].

        Raises:
            UsageError: An argument is wrong, a camera lacks an episode, or pictures would have different sizes.
            MediaError: A table or a video is missing or damaged.
        """
        order = _make_order(seed, shuffle, epoch, rank, world_size, tail)
        cameras = self._plan_takes(delta_timestamps, episodes, tolerance_seconds, columns, size=size, crop=crop)
        check_boxes(cameras)
        clips = join_clips(cameras, has_table_rows=True)
        return EpochPlan(replace(order, count=clips.count), clips)

    def plan_cameras(  # noqa: PLR0913 - as `plan`
        self,
        delta_timestamps: Deltas,
        *,
        episodes: Iterable[int] | None = None,
        tolerance_seconds: float = 1e-4,
        columns: Sequence[str] = (),
        seed: int | None = None,
        shuffle: bool = True,
        epoch: int = 0,
        size: AnySize | Mapping[str, AnySize] | None = None,
        crop: Crop | Sequence[int] | Mapping[str, Any] | None = None,
    ) -> dict[str, EpochPlan]:
        """Plan each camera alone, with the same rows at the same positions, on one rank; else as `plan`.

        Returns:
            Plans by camera, of clips of one stream.
        """
        order = _make_order(seed, shuffle, epoch)
        cameras = self._plan_takes(delta_timestamps, episodes, tolerance_seconds, columns, size=size, crop=crop)
        joined: dict[str, Clips] = {
            camera: takes[0] if len(takes) == 1 else join_clips({"": takes}) for camera, takes in cameras.items()
        }
        return {camera: EpochPlan(replace(order, count=clips.count), clips) for camera, clips in joined.items()}

    def _plan_takes(
        self,
        delta_timestamps: Deltas,
        episodes: Iterable[int] | None,
        tolerance_seconds: float,
        columns: Sequence[str],
        *,
        size: Any,
        crop: Any,
    ) -> dict[str, tuple[CatalogClips, ...]]:
        """Plan the clips of each camera, by its name: those of each time where pictures are in the tables."""
        source, tolerance = self._source, _check_tolerance(tolerance_seconds)
        if not self.num_frames:
            raise UsageError(f"{self.root}: the data set is empty: {INFO} counts no rows")
        deltas = source.read_deltas(delta_timestamps, tolerance)
        cameras = check_cameras(source, deltas)
        chosen, names = source.choose_episodes(episodes), check_names("columns", columns)
        takes = {}
        for camera in cameras:
            options = ClipOptions(
                size=_get_of(size, "size", camera, cameras), crop=_get_of(crop, "crop", camera, cameras)
            )
            clips = CameraClips(source, camera, deltas, names, chosen, tolerance)
            takes[camera] = tuple(plan_camera(each, options) for each in clips.split_times())
        return takes


def _make_order(
    seed: int | None, shuffle: bool, epoch: int, rank: int = 0, world_size: int = 1, tail: Tail = "pad"
) -> Order:
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: the order of a plan comes from it")
    if shuffle not in (True, False):
        raise expected("shuffle", "True or False", shuffle)
    return Order(0, seed, shuffle, epoch, rank, world_size, tail)


class RowReader:
    """Reads rows of the tables, many at once; it has no pictures. Made by ``LeRobotData.rows``.

    Args:
        source: The data set.
        deltas: By name, int64 [T].
        columns: Names of columns that are read at the row itself.
        chosen: Numbers of episodes, int64 [C]; None for all.
    """

    def __init__(
        self, source: DataSource, deltas: dict[str, IntArray], columns: tuple[str, ...], chosen: IntArray | None
    ) -> None:
        self._arguments = (source, deltas, columns, chosen)
        every = np.arange(len(source.episodes)) if chosen is None else chosen
        self._rows = ChosenRows.of(source.episodes.starts, every)
        source.check_columns(deltas, columns, may_be_texts=True)
        if source.tables.is_mapped(chosen):
            # That they are there; they are read when rows are read for the first time.
            source.tables.find_version(chosen)
        else:
            _ = self._columns  # before workers are forked, which would each read them

    @cached_property
    def _columns(self) -> dict[str, Any]:
        source, deltas, columns, chosen = self._arguments
        made = source.make_columns(deltas, columns, chosen, may_be_texts=True)
        for name, steps in deltas.items():
            made.setdefault(name + PAD, PadColumn(Spans(source.episodes.starts), steps))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (RowReader, self._arguments)

    def __len__(self) -> int:
        return len(self._rows)

    def find_rows(self, positions: Sequence[int] | IntArray) -> IntArray:
        """Find the row of the tables at each position among the chosen episodes, int64 [B].

        Raises:
            IndexError: There is no such position.
        """
        return self._rows.find_table_rows(_check_numbers("positions", positions, len(self)))

    def read(self, rows: Sequence[int] | IntArray) -> dict[str, AnyArray]:
        """Read rows of the tables: [B, ...] by column, with deltas [B, T, ...], and masks ``KEY_is_pad`` [B, T].

        Args:
            rows: Numbers of rows, as `find_rows` gives them.

        Raises:
            IndexError: There is no such row.
        """
        lines = _check_numbers("rows", rows, int(self._arguments[0].episodes.starts[-1]))
        return {name: as_delivered(column[lines]) for name, column in self._columns.items()}


def _check_numbers(name: str, numbers: Any, count: int) -> IntArray:
    given = np.asarray(numbers)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu") or has_bools(numbers):
        raise expected(name, "a list of numbers of rows", numbers)
    if given.size and not (given.min() >= 0 and given.max() < count):
        raise OutOfRange(f"{name}: expected 0 to {count - 1}, got {given.min()} to {given.max()}")
    return given.astype(np.int64)


def _check_tolerance(seconds: Any) -> float:
    if not is_number(seconds) or not isfinite(seconds) or seconds < 0:
        raise expected("tolerance_seconds", "a finite number of at least 0", seconds)
    return float(seconds)


def _get_of(given: T | Mapping[str, T], name: str, camera: str, cameras: Sequence[str]) -> T | None:
    """Get the size or crop of a camera from a dict, or that of all."""
    if not isinstance(given, Mapping):
        return given
    if unknown := [key for key in given if key not in cameras]:
        raise UsageError(f"{name}: {unknown[0]!r} is no camera of this plan: it has {', '.join(cameras)}")
    return given.get(camera)
