"""Rules of play: when a contender must open a video, and how much it may ask for in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framefeed.bench.measuring import Run
from framefeed.bench.media import BenchVideo
from framefeed.bench.ours import decode_clips
from framefeed.bench.peer import Session, Way

RULES = {
    "many files": "every clip is of another file, so every clip opens its own; our indexes come from a catalog, "
    "TorchCodec's mappings are given",
    "one file": "all clips are of one file, which every contender keeps open; opening it is not counted",
    "clip by clip": "a batch is of one file, opened once a batch; clips are asked for one by one",
    "one call": "a batch is of one file, opened once a batch; all its frames are asked for in one call",
}


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Some frames of one video, by rising ordinal."""

    video: BenchVideo
    ordinals: list[int]


Batches = Sequence[Sequence[Clip]]
"""The clips of each round."""


def opening_each(way: Way, batches: Batches) -> Run:
    """Rule "many files"."""

    def run(number: int) -> None:
        for clip in batches[number]:
            session = way.open(clip.video)
            session.clip(clip.ordinals)
            session.close()

    return run


def kept_open(way: Way, batches: Batches) -> Run:
    """Rule "one file"; each video is opened, and decoded from once, before anything is timed."""
    sessions: dict[BenchVideo, Session] = {}
    for clip in (clip for batch in batches for clip in batch):
        if clip.video not in sessions:
            sessions[clip.video] = way.open(clip.video)
            sessions[clip.video].clip(clip.ordinals[:1])

    def run(number: int) -> None:
        for clip in batches[number]:
            sessions[clip.video].clip(clip.ordinals)

    return run


def opened_once(way: Way, batches: Batches) -> Run:
    """Rule "clip by clip"."""

    def run(number: int) -> None:
        session = way.open(batches[number][0].video)
        for clip in batches[number]:
            session.clip(clip.ordinals)
        session.close()

    return run


def in_one_call(way: Way, batches: Batches) -> Run:
    """Rule "one call": rising and without repeats, which some peers ask for and none is slower with."""

    def run(number: int) -> None:
        session = way.open(batches[number][0].video)
        session.clip(all_ordinals(batches[number]))
        session.close()

    return run


def ours_in_one_call(batches: Batches) -> Run:
    """Rule "one call" for us: the clips of the batch, each in its own memory, as the loader asks."""

    def run(number: int) -> None:
        decode_clips(batches[number][0].video, [clip.ordinals for clip in batches[number]])

    return run


def all_ordinals(batch: Sequence[Clip]) -> list[int]:
    """The frames of all clips, rising, each once."""
    return sorted({ordinal for clip in batch for ordinal in clip.ordinals})
