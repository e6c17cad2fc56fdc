"""Plan the clips of a camera: one position a row of the tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from framefeed._arrays import IntArray
from framefeed._units import format_count
from framefeed.catalog import Catalog
from framefeed.errors import StaleSource, UsageError
from framefeed.lerobot._catalogs import index_pictures, index_videos
from framefeed.lerobot._frames import CameraFrames
from framefeed.lerobot._rows import ChosenRows, PictureRows, Spans
from framefeed.lerobot._source import DataSource
from framefeed.plan import CatalogClips, ClipOptions


@dataclass(frozen=True, eq=False)
class CameraClips:
    """What a plan of a camera is made from; it travels to workers in place of tables."""

    source: DataSource
    camera: str
    deltas: Mapping[str, IntArray]  # by column and camera, int64 [T]
    columns: tuple[str, ...]  # names of columns that are delivered at the row itself
    chosen: IntArray | None  # numbers of episodes, int64 [C]; None for all
    tolerance_seconds: float  # largest distance of a frame from the time of its row

    def __repr__(self) -> str:
        deltas = {name: steps.tolist() for name, steps in self.deltas.items()}
        chosen = None if self.chosen is None else self.chosen.tolist()
        return f"CameraClips({self.camera!r}, {deltas}, columns={list(self.columns)}, episodes={chosen})"

    @property
    def is_pictures(self) -> bool:
        return self.source.info.features[self.camera].dtype == "image"

    def split_times(self) -> list[CameraClips]:
        """Split the clips of pictures in the tables, which have a source each, by their times; else they are one."""
        own = self.deltas[self.camera]
        if not self.is_pictures or len(own) == 1:
            return [self]
        return [
            replace(self, deltas={**self.deltas, self.camera: own[number : number + 1]}) for number in range(len(own))
        ]

    def list_chosen(self) -> IntArray:
        return np.arange(len(self.source.episodes)) if self.chosen is None else self.chosen

    def index(self) -> Catalog:
        source, chosen = self.source, self.list_chosen()
        key = (self.camera, chosen.tobytes())
        if key not in source.catalogs:
            index = index_pictures if self.is_pictures else index_videos
            source.catalogs[key] = index(source.files, source.info, source.episodes, self.camera, chosen)
        return source.catalogs[key]

    def make_rule(self) -> CameraFrames:
        episodes, own = self.source.episodes, self.deltas[self.camera]
        times, start = None, np.empty(0)
        if not self.is_pictures:
            times = self.source.read_columns(["timestamp"], self.chosen)["timestamp"]
            start = episodes.videos[self.camera].start_seconds
        return CameraFrames(self.camera, own, self.tolerance_seconds, Spans(episodes.starts), times, start, repr(self))


def plan_camera(camera: CameraClips, options: ClipOptions) -> CatalogClips:
    clips = restore_clips(camera.index(), camera, options)
    if not camera.is_pictures:
        _warn_of_missing_frames(clips.catalog, camera)
    return clips


def restore_clips(
    catalog: Catalog, camera: CameraClips, options: ClipOptions, expected_rule: str | None = None
) -> CatalogClips:
    """Make the clips of a camera: clip c is a row of its tables, whose number is its line; pickles name this."""
    source, chosen, rule = camera.source, camera.list_chosen(), camera.make_rule()
    if expected_rule is not None and repr(rule) != expected_rule:
        root = source.files.root
        raise StaleSource(f"{root}: its tables have changed since the plan was made: plan again", source=root)
    rows = ChosenRows.of(source.episodes.starts, chosen, None if camera.is_pictures else _find_files(catalog, camera))
    used = np.unique(rows.files) if not camera.is_pictures else np.arange(len(catalog))
    return CatalogClips(
        catalog,
        rule,
        options,
        layout=PictureRows(rows, int(rule.deltas[0])) if camera.is_pictures else rows,
        columns=source.make_columns(camera.deltas, camera.columns, camera.chosen),
        classes=(),
        windows=None,
        pictures=options.pictures,
        picture=options.pictures.common_picture(
            catalog.heights[used], catalog.widths[used], lambda number: catalog.shown_name(int(used[number]))
        ),
        has_table_columns=True,
        recipe=(restore_clips, (catalog, camera, options, repr(rule))),
        title=f"rows of LeRobot data, camera {camera.camera!r}",
    )


def _find_files(catalog: Catalog, clips: CameraClips) -> IntArray:
    """Find the row of the catalog of each chosen episode, int64 [C]: files are in the order of their first episodes."""
    videos, chosen = clips.source.episodes.videos[clips.camera], clips.list_chosen()
    pairs = videos.chunk[chosen] * (1 << 31) + videos.file[chosen]
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _warn_of_missing_frames(catalog: Catalog, clips: CameraClips) -> None:
    episodes, chosen = clips.source.episodes, clips.list_chosen()
    files = _find_files(catalog, clips)
    needed = np.bincount(files, episodes.starts[chosen + 1] - episodes.starts[chosen], len(catalog)).astype(np.int64)
    short = np.flatnonzero(catalog.num_frames < needed)
    if len(short):
        row = int(short[0])
        warnings.warn(
            f"{format_count(len(short), 'video')} of the camera {clips.camera!r} with fewer frames than rows of "
            f"tables: the first is {catalog.shown_name(row)}, with {catalog.num_frames[row]} of {needed[row]} frames. "
            "Reading a frame that is missing raises FrameNotFound: leave its episode out with episodes=",
            UserWarning,
            stacklevel=4,
        )


def check_cameras(source: DataSource, deltas: Mapping[str, IntArray]) -> list[str]:
    """List the cameras of a plan, and check that they can be read."""
    features = source.info.features
    cameras = [name for name in deltas if features[name].is_camera]
    if not cameras:
        known = source.info.list_cameras()
        raise UsageError(
            f"delta_timestamps: expected a camera, such as {known[0]!r}; without one, read rows with data.rows()"
            if known
            else "delta_timestamps: this data set has no camera: its rows are read with data.rows()"
        )
    for name in cameras:
        if features[name].is_depth:
            raise UsageError(f"the camera {name!r} is of depth, which is not in this version: leave it out")
    return cameras


def check_boxes(cameras: Mapping[str, Sequence[CatalogClips]]) -> None:
    """Check that the pictures of a clip have one box, where they come from several sources."""
    for camera, takes in cameras.items():
        sizes = takes[0].catalog.heights, takes[0].catalog.widths
        if len(takes) > 1 and takes[0].options.has_boxes and any(len(np.unique(each)) > 1 for each in sizes):
            raise UsageError(
                f"the pictures of camera {camera!r} differ in size, so those of a clip would have other borders: give "
                "size=(height, width), or one time"
            )
