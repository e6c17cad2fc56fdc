"""Rules of play: when a contender must open a video, and how much it may ask for in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framefeed.bench._measuring import Run
from framefeed.bench._media import BenchVideo
from framefeed.bench._ours import decode_clips
from framefeed.bench._peer import Method, Session

RULES = {
    "many files": "each clip is from another file, which is opened for it; framefeed has its index from a catalog, "
    "TorchCodec its frame mappings",
    "one file": "all clips are from one file that stays open; the time to open it does not count",
    "clip by clip": "all clips of a batch are from one file, opened once for the batch; one call for each clip",
    "one call": "all clips of a batch are from one file, opened once for the batch; one call for all frames",
}


@dataclass(frozen=True, slots=True, eq=False)
class BenchClip:
    """Some frames of one video, by rising ordinal."""

    video: BenchVideo
    ordinals: list[int]


Batches = Sequence[Sequence[BenchClip]]
"""The clips of each round."""


def opening_each(method: Method, batches: Batches) -> Run:
    """Rule "many files"."""

    def run(number: int) -> None:
        for clip in batches[number]:
            session = method.open(clip.video)
            session.clip(clip.ordinals)
            session.close()

    return run


def kept_open(method: Method, batches: Batches) -> Run:
    """Rule "one file"; each video is opened, and decoded from once, before anything is timed."""
    sessions: dict[BenchVideo, Session] = {}
    for clip in (clip for batch in batches for clip in batch):
        if clip.video not in sessions:
            sessions[clip.video] = method.open(clip.video)
            sessions[clip.video].clip(clip.ordinals[:1])

    def run(number: int) -> None:
        for clip in batches[number]:
            sessions[clip.video].clip(clip.ordinals)

    return run


def opened_once(method: Method, batches: Batches) -> Run:
    """Rule "clip by clip"."""

    def run(number: int) -> None:
        session = method.open(batches[number][0].video)
        for clip in batches[number]:
            session.clip(clip.ordinals)
        session.close()

    return run


def in_one_call(method: Method, batches: Batches) -> Run:
    """Rule "one call": rising and without repeats, which some peers ask for and none is slower with."""

    def run(number: int) -> None:
        session = method.open(batches[number][0].video)
        session.clip(all_ordinals(batches[number]))
        session.close()

    return run


def ours_in_one_call(batches: Batches) -> Run:
    """Rule "one call" for us: the clips of the batch, each in its own memory, as the loader asks."""

    def run(number: int) -> None:
        decode_clips(batches[number][0].video, [clip.ordinals for clip in batches[number]])

    return run


def all_ordinals(batch: Sequence[BenchClip]) -> list[int]:
    """The frames of all clips, rising, each once."""
    return sorted({ordinal for clip in batch for ordinal in clip.ordinals})
