"""VideoTable: the videos of a data set with their rates and frames, and their frame indexes where they are known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from framefeed._arrays import IntArray
from framefeed._callers import find_callers_level
from framefeed._checks import check_mapping, check_path, check_position, expected
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed.catalog import Catalog
from framefeed.decode import ClipSlot, find_decoder
from framefeed.errors import StaleSource, UsageError
from framefeed.index import FrameIndex, build_index
from framefeed.load import BufferPools
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.scanning import scan

METADATA_KEYS = ("video_paths", "video_pts", "video_fps")
_MOST_NAMED = 3
"""Videos named in a warning."""
_OUTPUT = OutputSpec(dimension_order="NHWC")
_IDLE_CLIPS = 32
"""Memory of clips that is used again: fresh memory took half the time of five clips of a video decoded together."""
_CACHED_BYTES = 128 * 2**20
_BYTES_PER_FRAME = 65
"""Of an index in memory, as the catalog counts it."""


_buffers = PerProcess(partial(BufferPools, 0, scratch=_IDLE_CLIPS))


class _RecentIndexes:
    """The indexes that this process has made of videos without one, the last ones."""

    def __init__(self) -> None:
        self.indexes = Lru[str, FrameIndex](_CACHED_BYTES, lambda index: _BYTES_PER_FRAME * len(index), min_count=1)
        self.lock = RLock()


class VideoTable:
    """The videos of a data set.

    A scan keeps the frame indexes in a catalog, about a kilobyte each. With metadata of an earlier run, a video is
    indexed when the first of its clips is read.

    Args:
        num_frames: Frames of each, 0 for one that cannot be read, int64 [V].
        catalog: One row for each video; or None.
        pts: Times of all frames in ticks, one video after the other, int64; with a catalog None.
    """

    def __init__(
        self,
        paths: list[str],
        fps: list[float | None],
        num_frames: IntArray,
        catalog: Catalog | None = None,
        pts: IntArray | None = None,
    ) -> None:
        self.paths = paths
        self.fps = fps
        self.num_frames = num_frames
        self._catalog = catalog
        self._pts = pts
        self._starts = np.concatenate([[0], np.cumsum(num_frames)])
        self._recent = PerProcess(_RecentIndexes)

    @classmethod
    def scan(cls, paths: Sequence[Any], workers: int) -> VideoTable:
        """Index all videos; those that cannot be read have no frames, and are named by one warning."""
        names = [check_path("video_paths", path, "a.mp4") for path in paths]
        if not names:
            return cls([], [], np.empty(0, np.int64))
        # With its number each path is a row of its own, also one that is given twice.
        table = pa.table({"path": pa.array(names, pa.string()), "video": np.arange(len(names))})
        catalog = scan(table, workers=workers)
        if len(catalog) != len(names):
            raise UsageError(
                f"video_paths: expected videos, got {len(names)} paths with {len(catalog)} videos in them: archives "
                "and tables are for ff.scan and ff.plan_clips"
            )
        texts = catalog.table.column("error").to_pylist()
        errors = {row: text for row, text in enumerate(texts) if text is not None}
        if errors:
            shown = "; ".join(list(errors.values())[:_MOST_NAMED])
            more = "; ..." if len(errors) > _MOST_NAMED else ""
            warnings.warn(
                f"{len(errors)} of {len(names)} videos cannot be read, and have no clips: {shown}{more}",
                RuntimeWarning,
                stacklevel=find_callers_level(),
            )
        num_frames = np.maximum(catalog.num_frames, 0)
        num_frames[list(errors)] = 0
        fps = [None if row in errors else _read_rate(catalog, row) for row in range(len(names))]
        return cls([os.fspath(path) for path in paths], fps, num_frames, catalog)

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any]) -> VideoTable:
        """Take the metadata that `VideoClips.metadata`, or torchvision's, has given."""
        check_mapping("_precomputed_metadata", metadata, "video_clips.metadata")
        columns = [metadata.get(key) for key in METADATA_KEYS]
        if any(column is None or len(column) != len(columns[0] or ()) for column in columns):
            raise expected(
                "_precomputed_metadata", f"a dict with lists of one length: {', '.join(METADATA_KEYS)}", metadata
            )
        paths, times, fps = (list(column or ()) for column in columns)
        arrays = [np.asarray(each, dtype=np.int64) for each in times]
        num_frames = np.array([len(each) for each in arrays], dtype=np.int64)
        pts = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
        return cls([os.fspath(path) for path in paths], fps, num_frames, pts=pts)

    def __len__(self) -> int:
        return len(self.paths)

    def read_pts(self, video: int) -> torch.Tensor:
        """Read the times of the frames of a video in ticks of its time base, int64 [N]."""
        return torch.from_numpy(self._read_pts(video).copy())

    def _read_pts(self, video: int) -> IntArray:
        if self._pts is not None:
            return self._pts[self._starts[video] : self._starts[video + 1]]
        if self._catalog is None or not self.num_frames[video]:
            return np.empty(0, np.int64)
        return self._catalog.frame_index(video).pts

    def take(self, videos: Sequence[int]) -> VideoTable:
        """Give a table of some of the videos, by their numbers."""
        chosen = [check_position("video", video, len(self), "list of videos") for video in videos]
        return VideoTable(
            [self.paths[video] for video in chosen],
            [self.fps[video] for video in chosen],
            self.num_frames[chosen],
            None if self._catalog is None else self._catalog.take(chosen),
            None if self._pts is None else self._join_pts(chosen),
        )

    def _join_pts(self, videos: Iterable[int]) -> IntArray:
        return np.concatenate([np.empty(0, np.int64), *(self._read_pts(video) for video in videos)])

    def decode(self, video: int, clips: Sequence[IntArray]) -> list[torch.Tensor]:
        """Decode clips of a video, given as frame numbers, int64 [T] each, together: uint8 [T, H, W, C] each."""
        if self._catalog is not None:
            entry = self._catalog[video]
            return _decode_clips(entry.as_media_source(), self._catalog.frame_index(video), clips)
        path = self.paths[video]
        index = self._find_index(path)
        return _decode_clips(MediaSource.of(path), index, [self._find_numbers(video, clip, index) for clip in clips])

    def _find_index(self, path: str) -> FrameIndex:
        recent = self._recent.value
        with recent.lock:
            index = recent.indexes.get(path)
        if index is None:
            index = build_index(path)
            with recent.lock:
                recent.indexes.put(path, index)
        return index

    def _find_numbers(self, video: int, numbers: IntArray, index: FrameIndex) -> IntArray:
        """Find frames of the metadata in the index, by the times of the file: torchvision may count other frames."""
        known = self._read_pts(video)
        has_own_times = index.times_from == "pts"
        if np.array_equal(known, index.pts) or (len(known) == len(index) and not has_own_times):
            return numbers
        wanted = known[numbers]
        nearest = np.searchsorted(index.pts, wanted).clip(max=len(index) - 1)
        is_missing = index.pts[nearest] != wanted
        if has_own_times and not is_missing.any():
            return nearest
        path = self.paths[video]
        found = f"no frame at pts {wanted[is_missing][0]}" if has_own_times else f"{len(index)} frames without times"
        raise StaleSource(
            f"{path}: has {found}, but the metadata list {len(known)} frames with other times: make the metadata of "
            "the videos again (leave out _precomputed_metadata)",
            source=path,
            stage="index",
        )

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_recent"}
        if self._catalog is not None:
            try:
                state["_catalog"] = self._catalog.__reduce__()
            except UsageError:  # too large to be sent: the times are enough to index videos again when they are read
                state |= {"_catalog": None, "_pts": self._join_pts(range(len(self)))}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._recent = PerProcess(_RecentIndexes)
        if self._catalog is not None:
            rebuild: Callable[..., Catalog]
            rebuild, arguments = state["_catalog"]
            self._catalog = rebuild(*arguments)


def _read_rate(catalog: Catalog, row: int) -> float | None:
    """Read the mean rate of a video: the header's, which torchvision takes, or else that of its frames."""
    info = catalog.info(row)
    return (info and info.average_fps_from_header) or catalog.frame_index(row).average_fps


def _decode_clips(media: MediaSource, index: FrameIndex, clips: Sequence[IntArray]) -> list[torch.Tensor]:
    shape = _OUTPUT.shape(*index.stream.displayed)
    scratch = _buffers.value.scratch
    slots = [ClipSlot(clip, _OUTPUT, scratch.lease((len(clip), *shape))) for clip in clips]
    find_decoder().decode(media, index, slots).raise_first()
    return [torch.from_numpy(slot.out) for slot in slots]
