"""Which frames of a video are in a clip: windows over its frames, resampled to a rate.

The rules are those that torchvision 0.22 documents for ``VideoClips``, float32 included: a clip has the same frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from framefeed._arrays import IntArray


@dataclass(frozen=True, slots=True)
class Windows:
    """Clips of ``size`` frames that begin ``step`` resampled frames apart, at ``frame_rate`` or that of each video."""

    size: int
    step: int
    frame_rate: float | None = None

    def count_clips(self, num_frames: int, fps: float | None) -> int:
        """Count the clips of a video; the last frames that fill no clip are in none."""
        fitting = self._count_resampled(num_frames, fps) - self.size
        return fitting // self.step + 1 if fitting >= 0 else 0

    def find_frames(self, clip: int, num_frames: int, fps: float | None) -> IntArray:
        """Find the frame numbers of a clip, int64 [size]."""
        return self._resample(np.arange(self.size) + clip * self.step, num_frames, fps)

    def resample_video(self, num_frames: int, fps: float | None) -> IntArray:
        """Find the frame numbers of a whole video at the rate of the clips, int64 [resampled frames]."""
        return self._resample(np.arange(self._count_resampled(num_frames, fps)), num_frames, fps)

    def _find_ratio(self, fps: float | None) -> float:
        # A video without a rate keeps its frames, as in torchvision if it has none.
        return fps / self.frame_rate if fps and self.frame_rate is not None else 1.0

    def _count_resampled(self, num_frames: int, fps: float | None) -> int:
        ratio = self._find_ratio(fps)
        if ratio.is_integer():
            return math.ceil(num_frames / int(ratio))
        assert fps is not None
        assert self.frame_rate is not None
        return math.floor(num_frames * self.frame_rate / fps)

    def _resample(self, positions: IntArray, num_frames: int, fps: float | None) -> IntArray:
        ratio = self._find_ratio(fps)
        if ratio.is_integer():
            return positions * int(ratio)
        numbers: IntArray = np.floor(positions.astype(np.float32) * np.float32(ratio)).astype(np.int64)
        # float32 may round up to the number of frames, where a rate is thousands of times that of the video.
        return np.minimum(numbers, num_frames - 1)
