"""Row "original": single frames at full size, from our caches and decoded from the original, in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from framefeed.bench._frames import psnr
from framefeed.bench._runner import Comparison, Contender, Findings, Row, Run, Timings, compare_times
from framefeed.bench.baselines import ReadFrames
from framefeed.bench.cache._sample import BATCHED, Sample
from framefeed.bench.cache._stored import CachedSample, FileSample, Scene, check_stored, count_bytes, exhaust
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder

FRAMES = 8
"""Read in a round."""
OWN = "framefeed, decoded"
LIKE = 30.0
"""Decibels: colour recipes differ by less than that, frames by more."""


def enter_reader(
    name: str, open: Callable[[], Callable[[Sequence[int]], Any]], numbers: Sequence[Sequence[int]], **fields: Any
) -> Contender:
    """Make a contender that reads the frames of some numbers in each round."""

    def open_for_rounds() -> Run:
        read = open()
        return lambda number: read(numbers[number])

    return Contender(name, open_for_rounds, amount=len(numbers[0]), **fields)


def enter_stored(stored: FileSample | CachedSample, numbers: Sequence[Sequence[int]], **fields: Any) -> Contender:
    """Make a contender of a sample that is stored."""
    facts = {"bytes_a_frame": round(count_bytes(stored))}
    return enter_reader(
        stored.title, lambda: lambda numbers: exhaust(stored.read(numbers)), numbers, facts=facts, **fields
    )


def original_row(scene: Scene, stack: ExitStack) -> Row:
    """Random frames at full size, from our cache and decoded from the original."""
    sample, numbers = scene.sample, scene.draw_numbers(FRAMES)
    ours = scene.fill_caches(stack)
    peers = {method.name: method for method in scene.peers.list_all("ORIGINALS")}

    def open_peer(name: str) -> ReadFrames:
        read: ReadFrames = peers[name].open(sample.video)
        return lambda numbers: read([sample.frames[number].ordinal for number in numbers])

    def check_equality(contender: Contender) -> list[str] | None:
        if contender.name in ours:
            return check_stored(ours[contender.name]).describe()
        if contender.name not in peers:
            return None
        expected = [sample.frames[number].rgb for number in numbers[0]]
        pictures = np.asarray(open_peer(contender.name)(numbers[0]))
        if pictures.shape != (len(expected), *expected[0].shape):
            return [f"pictures of {pictures.shape}"]
        worst = min(psnr(picture, rgb) for picture, rgb in zip(pictures, expected, strict=True))
        return [f"other frames, or other colours, {worst:.1f} dB from ours"] if worst < LIKE else []

    def conclude(timings: Timings) -> Findings:
        stored, rivals = ([name for name in names if name in timings.of] for names in (ours, peers))
        if not stored:
            return Findings()
        best, what = timings.best(stored), "the speed of decoding the same frames from the original"
        comparisons = [Comparison("decoder", f"{what}, our decoder", compare_times(timings, best, OWN))]
        if rivals:
            against = compare_times(timings, best, timings.best(rivals))
            comparisons.append(Comparison("fastest peer", f"{what}, the fastest other library", against))
        return Findings(comparisons)

    return Row(
        "original",
        f"random frames at full size, {len(numbers[0])} a round in one call, files kept open and indexed",
        [
            enter_reader(OWN, lambda: _open_decoder(sample), numbers),
            *(
                enter_reader(name, lambda name=name: open_peer(name), numbers, library=name, groups=("peers",))  # type: ignore[misc]
                for name in peers
            ),
            *(enter_stored(cached, numbers, groups=("ours",)) for cached in ours.values()),
        ],
        conclude,
        unit="frames",
        check=check_equality,
    )


def _open_decoder(sample: Sample) -> Callable[[Sequence[int]], None]:
    """Our decoder, into memory that is used again."""
    decoder, video = PyAVDecoder(), sample.video
    height, width, _ = sample.frames[0].rgb.shape
    memory = np.empty((FRAMES, *BATCHED.shape(height, width)), dtype=np.uint8)

    def read(numbers: Sequence[int]) -> None:
        ordinals = np.array([sample.frames[number].ordinal for number in numbers], dtype=np.int64)
        decoder.decode(video.source, video.index, [ClipSlot(ordinals, BATCHED, memory[: len(numbers)])]).raise_first()

    return read
