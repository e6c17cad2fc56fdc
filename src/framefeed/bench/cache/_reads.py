"""Rows "exact" and "original": single frames at full size, read in the same rounds.

From our caches, from files of other formats, and decoded from the original.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from framefeed.bench._frames import psnr
from framefeed.bench._runner import Comparison, Contender, Figure, Findings, Row, Run, Timings, compare_times
from framefeed.bench.baselines import ReadFrames
from framefeed.bench.cache._sample import BATCHED, Sample
from framefeed.bench.cache._stored import (
    LZ4_RGB,
    CachedSample,
    FileSample,
    Scene,
    check_stored,
    count_bytes,
    exhaust,
)
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder

FRAMES = 16
"""Read in a round."""
DECODED_FRAMES = 8
"""The same, where the original is decoded."""
LZ4, PNG = "joblib lz4", "PNG"
FIRST_LZ4 = "joblib lz4 1"
"""The write-up's choice where speed matters."""
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


def exact_row(scene: Scene, stack: ExitStack) -> Row:
    """Read from each exact codec of ours, from joblib's lz4 and from PNG."""
    all_stored: dict[str, FileSample | CachedSample] = {
        form.name: FileSample(form, scene.sample, scene.work / form.name.replace(" ", "_"))
        for form in scene.peers.list_all("FORMATS")
        if form.is_exact and form.name.startswith((LZ4, PNG))
    }
    for files in all_stored.values():
        files.write()
    all_stored |= scene.fill_caches(stack, with_rgb=True)
    numbers = scene.draw_numbers(FRAMES)
    nbytes = {name: count_bytes(stored) for name, stored in all_stored.items()}
    return Row(
        "exact",
        f"exact formats at full size, {len(numbers[0])} frames at random a round, read to RGB, ours channels first as "
        "in batches, theirs channels last as they store them",
        [
            enter_stored(stored, numbers, library=name.split()[0] if isinstance(stored, FileSample) else "")
            for name, stored in all_stored.items()
        ],
        lambda timings: compare_exact(timings, nbytes),
        unit="frames",
        check=lambda contender: check_stored(all_stored[contender.name]).describe(),
    )


def compare_exact(timings: Timings, nbytes: Mapping[str, float]) -> Findings:
    """Speed and bytes of each of ours against joblib's lz4, against PNG, and against lz4 of RGB in our own store.

    The last shows what planes gain.
    """
    levels = [name for name in timings.of if name.startswith(LZ4)]
    rivals = {"joblib lz4, its fastest level": timings.best(levels)} if levels else {}
    rivals |= {name: name for name in timings.of if name in (FIRST_LZ4, LZ4_RGB) or name.startswith(PNG)}
    comparisons = []
    for key, rival in rivals.items():
        ours = [name for name in timings.of if name.startswith("framefeed") and name != rival]
        ours.sort(key=timings.median)
        speeds = {name: Figure(timings.ratio(rival, name), name, rival) for name in ours}
        shares = {name: Figure(nbytes[name] / nbytes[rival], name, rival) for name in ours}
        comparisons += [
            Comparison(f"speed of {key}", f"the read speed of {key}, to RGB, by CPU", speeds),
            Comparison(f"bytes of {key}", f"share of the bytes of {key}", shares),
        ]
    return Findings(comparisons)


def original_row(scene: Scene, stack: ExitStack) -> Row:
    """Random frames at full size, from our cache and decoded from the original."""
    sample, numbers = scene.sample, scene.draw_numbers(DECODED_FRAMES)
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
    memory = np.empty((DECODED_FRAMES, *BATCHED.shape(height, width)), dtype=np.uint8)

    def read(numbers: Sequence[int]) -> None:
        ordinals = np.array([sample.frames[number].ordinal for number in numbers], dtype=np.int64)
        decoder.decode(video.source, video.index, [ClipSlot(ordinals, BATCHED, memory[: len(numbers)])]).raise_first()

    return read
