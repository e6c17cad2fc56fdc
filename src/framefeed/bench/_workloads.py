"""The decoding workloads: which clips of which media, under which rules, and what is aimed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._rules import Batches, BenchClip

SEED = 20260101
NUM_FRAMES = 16
COPIES = 12
"""More than the open files that a thread keeps, so that under "many files" none is found open."""

Rule = Literal["many files", "one file", "clip by clip", "one call"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What the ratio of a peer's time to ours should be.

    Attributes:
        rule: Under which rule the peers play.
        floor: The least, or None where nothing was set.
        aim: What is aimed at, or None.
        peers: First word of the names of the methods that compete, or () for all.
    """

    rule: Rule
    floor: float | None = None
    aim: float | None = None
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the report.

    Attributes:
        key: Short name.
        title: Full name.
        video: Which video of the store.
        stride: Frames from one requested frame to the next.
        clips: Clips in one round.
        rules: Rules to measure under.
        goals: What is aimed at.
    """

    key: str
    title: str
    video: Callable[[MediaStore], BenchVideo]
    stride: int
    clips: int
    rules: tuple[Rule, ...] = ("many files",)
    goals: tuple[Goal, ...] = field(default=())

    def batches(self, store: MediaStore, rounds: int, rule: Rule) -> Batches:
        """Draw the clips of each round: random starts from which the whole clip fits, one seed for all rules."""
        video = self.video(store)
        files = store.copies(video, COPIES) if rule == "many files" else [video]
        rng = np.random.Generator(np.random.Philox(key=SEED))
        span = (NUM_FRAMES - 1) * self.stride
        starts = rng.integers(0, len(video) - span, (rounds, self.clips)).tolist()
        return [
            [
                BenchClip(files[(number * self.clips + slot) % len(files)], _frames(start, self.stride))
                for slot, start in enumerate(row)
            ]
            for number, row in enumerate(starts)
        ]


def _frames(start: int, stride: int) -> list[int]:
    return list(range(start, start + NUM_FRAMES * stride, stride))


WORKLOADS: Mapping[str, Workload] = {
    workload.key: workload
    for workload in (
        Workload(
            "test-60", "720p60 test video, 16 frames 60 apart", lambda store: store.test_video, 60, 1,
            goals=(Goal("many files", 1.75, 2.2),),
        ),
        Workload(
            "trailer-24", "720p trailer, 16 frames 24 apart", lambda store: store.trailer, 24, 1,
            goals=(Goal("many files", 1.35, 1.7),),
        ),
        Workload(
            "trailer-4", "720p trailer, 16 frames 4 apart", lambda store: store.trailer, 4, 2,
            goals=(Goal("many files", 1.5, 1.9),),
        ),
        Workload(
            "small-4", "456x256, 16 frames 4 apart", lambda store: store.small_trailer, 4, 10,
            goals=(Goal("many files", 1.55, 2.0),),
        ),
        Workload(
            "gop12-2", "456x256, GOP 12, 16 frames 2 apart, every clip another copy",
            lambda store: store.short_gop_trailer, 2, 20,
            goals=(
                Goal("many files", 1.65, 2.1, ("decord2", "torchcodec")),
                Goal("many files", 1.5, 2.2, ("spdl",)),
            ),
        ),
        Workload(
            "batch-12", "720p trailer, a batch of 12 clips of 16 frames 24 apart", lambda store: store.trailer, 24, 12,
            rules=("clip by clip", "one call"),
            goals=(Goal("clip by clip", 5.0, 7.0), Goal("one call", 1.6, 2.0, ("torchcodec",))),
        ),
    )
}  # fmt: skip
