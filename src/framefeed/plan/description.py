"""What a plan will cost, estimated from a sample of its clips."""

from __future__ import annotations

from dataclasses import dataclass

from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.plan.runs import plan_runs

SAMPLED_CLIPS = 200
"""Enough for a share of a few per cent, and done in well under a second."""

SECONDS_PER_DECODED_PIXEL = 1.7e-9
"""H.264 at 720p, one thread: 750 pictures decoded and 192 delivered in 1.25 s (design/MEASURED.md, Decoding, 4)."""
SECONDS_PER_DELIVERED_PIXEL = 0.42e-9
"""One swscale pass from 720p to 224 x 224: 0.38 ms a frame (design/MEASURED.md, Decoding, 6)."""
SECONDS_PER_RUN = 1.2e-3
"""A new codec context to its first key frame (design/MEASURED.md, Decoding, 13)."""


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """A plan in numbers; ``str()`` says it in words.

    Attributes:
        clips: Positions of this rank.
        frames_per_clip: T; None where the requests differ.
        decoded_frames_per_delivered_frame: 1 would be perfect; long GOPs and short clips cost more.
        predicted_cpu_seconds: Of decoding and converting all of this rank's clips of one epoch, on one core.
        excluded_rows: Rows that failed, and so are not planned.
        sampled_clips: What the estimates stand on.
        unusable_clips: Of the sampled clips those that raise an error (tolerance, policy, no timestamps).
    """

    clips: int
    frames_per_clip: int | None
    decoded_frames_per_delivered_frame: float
    predicted_cpu_seconds: float
    excluded_rows: int
    sampled_clips: int
    unusable_clips: int

    def __str__(self) -> str:
        frames = "frames as requested" if self.frames_per_clip is None else f"{self.frames_per_clip} frames"
        lines = [
            f"clips: {self.clips} of {frames}",
            f"decoded frames per delivered frame: {self.decoded_frames_per_delivered_frame:.2f}",
            f"predicted CPU seconds: {self.predicted_cpu_seconds:.1f} (rough, one core, decoding and resizing)",
            f"excluded rows: {self.excluded_rows}",
        ]
        if self.unusable_clips:
            lines.append(f"clips that will fail: {self.unusable_clips} of {self.sampled_clips} sampled")
        return "\n".join(lines)


@dataclass(slots=True)
class CostSum:
    """Adds up what sampled clips cost."""

    clips: int = 0
    delivered: int = 0
    decoded: int = 0
    seconds: float = 0.0

    def add(self, index: FrameIndex, clips: list[IntArray], pixels: int) -> None:
        """Add clips of one source that are decoded together.

        Args:
            index: The source's frames.
            clips: Ordinals of each clip.
            pixels: Of one decoded picture.
        """
        wanted = [ordinal for clip in clips for ordinal in clip.tolist()]
        runs = plan_runs(index, wanted)
        self.clips += len(clips)
        self.delivered += len(wanted)
        self.decoded += runs.num_decoded
        work = runs.num_decoded * SECONDS_PER_DECODED_PIXEL + len(runs.ordinals) * SECONDS_PER_DELIVERED_PIXEL
        self.seconds += work * pixels + runs.num_runs * SECONDS_PER_RUN
