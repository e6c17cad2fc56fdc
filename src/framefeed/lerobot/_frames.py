"""The clip rule of a camera: which frames belong to a row of the tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xxhash

from framefeed._arrays import AnyArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed.errors import FrameNotFound
from framefeed.index import ExactTimes, Timeline
from framefeed.lerobot._rows import Spans
from framefeed.request import ClipContext, ClipFrames


@dataclass(frozen=True, eq=False)
class CameraFrames:
    """The frames of a camera at the times of rows beside a row: a clip rule, whose clips are numbered by row."""

    camera: str
    deltas: IntArray  # rows from that of the clip to those of the frames, int64 [T]
    tolerance_seconds: float  # largest distance of a frame from the time of its row
    spans: Spans
    timestamps: AnyArray | None  # seconds of each row since its episode began, [R]; None for pictures in the tables
    start_seconds: FloatArray  # of each episode in the camera's video, float64 [E]
    others: str  # describes what else a plan delivers

    is_random = False

    def __repr__(self) -> str:
        return (
            f"CameraFrames({self.camera!r}, deltas={self.deltas.tolist()}, "
            f"tolerance_seconds={self.tolerance_seconds}, {self.others}, {self.digest})"
        )

    @cached_property
    def digest(self) -> str:
        """Hash of the times of all rows."""
        digest = xxhash.xxh3_64(self.spans.starts.tobytes())
        digest.update(self.start_seconds.tobytes())
        if self.timestamps is not None:
            digest.update(np.ascontiguousarray(self.timestamps).data)
        return digest.hexdigest()

    @property
    def num_frames(self) -> int:
        """T, the number of frames of every clip."""
        return len(self.deltas)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        rows, pads = self.spans.clamp(np.array([context.number], np.int64), self.deltas)
        is_pad, segments = pads[0], np.zeros(len(self.deltas), np.int64)
        if self.timestamps is None:
            return ClipFrames(segments, np.where(is_pad, np.nan, 0.0), ~is_pad, segments)
        timeline.index.require_timestamps()
        episode = int(self.spans.find_episodes(rows[0, :1])[0])
        seconds = self.start_seconds[episode] + self.timestamps[rows[0]].astype(np.float64)
        ticks = timeline.to_ticks(ExactTimes.of(seconds.tolist()), origin=0)
        numbers, _ = timeline.pick(ticks, "nearest")
        errors = timeline.measure_errors(numbers, ticks)
        distances = np.abs(errors)
        if (distances > self.tolerance_seconds).any():
            furthest = int(distances.argmax())
            self._refuse(timeline, int(rows[0, furthest]), float(seconds[furthest]), distances[furthest])
        errors[is_pad] = np.nan
        return ClipFrames(numbers + timeline.first, errors, ~is_pad, segments)

    def _refuse(self, timeline: Timeline, row: int, seconds: float, distance: float) -> None:
        episode = int(self.spans.find_episodes(np.array([row], np.int64))[0])
        begin, end = timeline.span_seconds
        what = (
            f"camera {self.camera!r} has no frame within tolerance_seconds={self.tolerance_seconds} of "
            f"{seconds:.6f} s, the time of row {row} (episode {episode}): the nearest is {distance:.6f} s away"
        )
        if seconds >= end:
            raise FrameNotFound(
                f"{what}, because the video ends at {end:.6f} s: leave the episode out with episodes=, or write the "
                "data set again"
            )
        enough = np.ceil(distance * 1e6) / 1e6
        raise FrameNotFound(
            f"{what} (its frames go from {begin:.6f} s to {end:.6f} s): tolerance_seconds={enough:g} would do; or "
            "leave the episode out with episodes="
        )
