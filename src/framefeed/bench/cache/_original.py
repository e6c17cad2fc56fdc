"""Rows "original" and "checksums": what our cache saves over decoding, and what it spends on being sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import xxhash

from framefeed.bench._cache_formats import OriginalReader
from framefeed.bench._cache_samples import BATCHED, Sample
from framefeed.bench._goals import Mark
from framefeed.bench._measuring import Interval, Timings, median_interval
from framefeed.bench._psnr import psnr
from framefeed.bench.cache._ours import layout_and_bytes
from framefeed.bench.cache._passes import Read, caches_of, list_rates, race
from framefeed.bench.cache._scene import Scene
from framefeed.cache import find_codec
from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.parallel import Ok, catch_outcome

DECODED_FRAMES = 8
"""Read in a round where the original is decoded."""
HASHED_FRAMES = 16
DECODER = Mark("the speed of decoding the same frames from the original, our decoder", 10, 20)
PEER = Mark("the speed of decoding the same frames from the original, the fastest peer", 10, 20)
CHECKSUMS = Mark("checksums, of a read to full-size RGB", 10, 10, at_most=True, unit=" %")
OWN = "framefeed, decoded"
LIKE = 30.0
"""Decibels: colour recipes differ by less than that, frames by more."""


class Peer:
    """A reader of another library, which may fail on any file: then it is told why, and it is out of the race.

    Args:
        reader: The library's.
        sample: The frames.
    """

    def __init__(self, reader: OriginalReader, sample: Sample) -> None:
        self._sample = sample
        self.failed = ""
        self._read = self._tried(reader.open, sample.video)

    def take(self, numbers: Sequence[int]) -> Any:
        """Read frames; None once it has failed."""
        return (
            None
            if self.failed
            else self._tried(self._read, [self._sample.frames[number].ordinal for number in numbers])
        )

    def _tried(self, function: Callable[[Any], Any], argument: Any) -> Any:
        outcome = catch_outcome(function, argument)
        if isinstance(outcome, Ok):
            return outcome.value
        if not isinstance(outcome.error, Exception):
            raise outcome.error
        self.failed = f"{type(outcome.error).__name__}: {outcome.error}"
        return None


def original_row(scene: Scene) -> dict[str, Any]:
    """Random frames at full size, from our cache and decoded from the original."""
    sample, numbers = scene.sample, scene.draw_numbers(DECODED_FRAMES)
    with ExitStack() as stack:
        ours = caches_of(scene, stack)
        peers = {reader.name: Peer(reader, sample) for reader in scene.field.originals}
        wrong = [line for cached in ours.values() for line in cached.wrong()]
        unlike = {name: what for name, peer in peers.items() if (what := _unlike(peer, sample, numbers[0]))}
        reads: dict[str, Read] = {OWN: _decoding(sample)}
        reads |= {name: peer.take for name, peer in peers.items() if not peer.failed}
        groups = dict.fromkeys(peers, "peers") | dict.fromkeys(ours, "ours")
        samples = race(reads | {name: cached.take for name, cached in ours.items()}, numbers, scene, groups)
        nbytes = {name: cached.bytes_a_frame for name, cached in ours.items()}
    failed = {name: peer.failed for name, peer in peers.items() if peer.failed}
    best, rivals = samples.best(list(ours)), [name for name in peers if name not in failed | unlike]
    goals = [DECODER.judge(_both(samples, OWN, best))]
    if rivals:
        goals.append(PEER.judge(_both(samples, samples.best(rivals), best)))
    raced = Timings({name: took for name, took in samples.of.items() if name not in failed})
    return {
        "key": "original",
        "title": f"random frames at full size, {len(numbers[0])} a round in one call, files kept open and indexed",
        "ways": list_rates(raced, len(numbers[0]), nbytes),
        "failed": failed,
        "wrong": wrong + [f"{name}: {what}" for name, what in unlike.items()],
        "goals": goals,
    }


def _both(samples: Timings, rival: str, ours: str) -> dict[str, Interval | float]:
    return {f"CPU, {ours} against {rival}": samples.ratio(rival, ours), "wall": samples.ratio(rival, ours, "wall")}


def _unlike(peer: Peer, sample: Sample, numbers: Sequence[int]) -> str:
    """What is wrong with a peer's frames, in words; empty where nothing is, or it failed."""
    pictures = np.asarray(peer.take(numbers))
    expected = [sample.frames[number].rgb for number in numbers]
    if peer.failed:
        return ""
    if pictures.shape != (len(expected), *expected[0].shape):
        return f"pictures of {pictures.shape}"
    worst = min(psnr(picture, rgb) for picture, rgb in zip(pictures, expected, strict=True))
    return f"other frames, or other colours, {worst:.1f} dB from ours" if worst < LIKE else ""


def _decoding(sample: Sample) -> Read:
    """Our decoder, into memory that is used again."""
    decoder, video = PyAVDecoder(), sample.video
    height, width, _ = sample.frames[0].rgb.shape
    memory = np.empty((DECODED_FRAMES, *BATCHED.shape(height, width)), dtype=np.uint8)

    def read(numbers: Sequence[int]) -> None:
        ordinals = np.array([sample.frames[number].ordinal for number in numbers], dtype=np.int64)
        decoder.decode(video.source, video.index, [ClipSlot(ordinals, BATCHED, memory[: len(numbers)])]).raise_first()

    return read


def checksums_row(scene: Scene) -> dict[str, Any]:
    """Hashing the stored bytes, as a share of reading them to RGB, which does that too."""
    numbers = scene.draw_numbers(HASHED_FRAMES)
    with ExitStack() as stack:
        ours = caches_of(scene, stack)
        reads: dict[str, Read] = {name: cached.take for name, cached in ours.items()}
        for name, cached in ours.items():
            reads[_hashing(name)] = partial(_hash, _encoded(scene.sample, cached.codec))
        samples = race(reads, numbers, scene)
    # The best exact codec first: what is not compressed has the most bytes to hash, and nothing else to do.
    ranked = sorted(ours, key=lambda name: (ours[name].codec == "raw", samples.median(name)))
    return {
        "key": "checksums",
        "title": "hashing of the stored bytes alone, beside the whole read to full-size RGB that includes it",
        "ways": list_rates(samples, len(numbers[0]), {}),
        "wrong": [],
        "goals": [CHECKSUMS.judge({f"CPU, {name}": percent(samples, _hashing(name), name) for name in ranked})],
    }


def percent(samples: Timings, part: str, whole: str) -> Interval:
    """Share of the processor time of one contender that another took, in percent, over the rounds of both."""
    parts, wholes = samples.of[part], samples.of[whole]
    return median_interval([100 * parts[n].cpu / wholes[n].cpu for n in sorted(parts.keys() & wholes.keys())])


def _hashing(name: str) -> str:
    return f"hashing alone, {name}"


def _encoded(sample: Sample, codec: str) -> list[bytes]:
    return [bytes(find_codec(codec).encode(*layout_and_bytes(frame, "planes"))) for frame in sample.frames]


def _hash(frames: Sequence[bytes], numbers: Sequence[int]) -> None:
    for number in numbers:
        xxhash.xxh3_64_intdigest(frames[number], seed=number)
