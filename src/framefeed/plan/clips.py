"""Clip rules by index: which frames of a video make a clip, on every stream, with timestamps or without.

A rule is a value: frozen, hashable, checked when it is made. Its one method turns a timeline and a place in the epoch
into chosen frames. The rules by time are in ``framefeed.plan.timed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from operator import index as whole_number
from typing import ClassVar, Protocol

import numpy as np

from framefeed._checks import expected
from framefeed.errors import UsageError
from framefeed.plan.chance import Place
from framefeed.plan.choice import Chosen, Picking, Policy, choose_frames
from framefeed.plan.timeline import Timeline


class ClipRule(Protocol):
    """What a plan needs of a rule; its ``repr`` must tell it from every other rule, for the plan's fingerprint."""

    @property
    def num_frames(self) -> int:
        """T, the frames of one clip."""

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frames of one clip."""


@dataclass(frozen=True)
class Uniform:
    """The middle frames of ``num_frames`` equal parts: frame k has index floor((k + 0.5) * N / num_frames).

    No frame is past the end, so ``policy`` has no effect. If the video has fewer frames, some of them repeat.

    Example: ``Uniform(3)`` takes the frames 1, 5 and 8 of 10.
    """

    num_frames: int
    _: KW_ONLY
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_frames", check_count("num_frames", self.num_frames))
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frames of one clip."""
        parts = np.arange(self.num_frames, dtype=np.int64)
        numbers = (2 * parts + 1) * len(timeline) // (2 * self.num_frames)
        return choose_frames(timeline, numbers, np.zeros_like(parts), self.policy)


@dataclass(frozen=True)
class RandomSegments:
    """One random frame from each of n = ``num_frames`` equal parts, [floor(kN/n), floor((k+1)N/n)).

    If the video has fewer frames, an empty part gives its lower bound. Frame k belongs to segment k. This is the
    sampling of temporal segment networks (Wang et al., 2016).
    """

    num_frames: int
    _: KW_ONLY
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_frames", check_count("num_frames", self.num_frames))
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frames of one clip."""
        bounds = np.arange(self.num_frames + 1, dtype=np.int64) * len(timeline) // self.num_frames
        numbers = place.generator.integers(bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1))
        return choose_frames(timeline, numbers, np.arange(self.num_frames, dtype=np.int64), self.policy)


@dataclass(frozen=True)
class AtIndices:
    """The same frame numbers in every video; negative numbers count from the end.

    Attributes:
        indices: Frame numbers in any order, with repeats; kept as a tuple.
        policy: Which frames replace those past the end.
    """

    indices: Sequence[int]
    _: KW_ONLY
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        try:
            indices = tuple(whole_number(index) for index in self.indices)
        except TypeError:
            raise expected("indices", "a list of integers such as [0, 30, -1]", self.indices) from None
        if not indices:
            raise UsageError("indices: expected at least one frame number, got an empty list")
        object.__setattr__(self, "indices", indices)
        Picking(policy=self.policy)

    @property
    def num_frames(self) -> int:
        """T, the frames of one clip."""
        return len(self.indices)

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frames of one clip."""
        numbers = np.array(self.indices, dtype=np.int64)
        return choose_frames(timeline, numbers, np.zeros_like(numbers), self.policy)


@dataclass(frozen=True)
class EveryFrame:
    """Clips of one frame, with one position for each frame of each video; ``policy`` has no effect."""

    policy: Policy = "repeat_last"
    num_frames: ClassVar[int] = 1

    def __post_init__(self) -> None:
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, place: Place) -> Chosen:
        """Choose the frame of one clip."""
        numbers = np.array([place.number], dtype=np.int64)
        return choose_frames(timeline, numbers, np.zeros_like(numbers), self.policy)


def check_count(name: str, count: object) -> int:
    """Return a count as an int, so that equal rules read alike; UsageError unless it is whole and at least 1."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
        raise expected(name, "an integer of at least 1", count)
    return int(count)
