"""Rows "original" and "checksums": what our cache saves over decoding, and what it spends on being sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import xxhash

from framefeed.bench.cache_ours import layout_and_bytes
from framefeed.bench.cache_racing import Read, caches_of, race, ways_of
from framefeed.bench.cache_samples import FULL_SIZE, Sample
from framefeed.bench.cache_scene import Scene
from framefeed.bench.measuring import Interval, Samples, median_interval
from framefeed.bench.psnr import psnr
from framefeed.bench.scan_goals import Mark
from framefeed.cache.codecs import codec_named
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.decoder import ClipSlot

DECODED_FRAMES = 8
"""Read in a round where the original is decoded."""
HASHED_FRAMES = 16
DECODER = Mark("the speed of decoding the same frames from the original, our decoder", 10, 20)
PEER = Mark("the speed of decoding the same frames from the original, the fastest peer", 10, 20)
CHECKSUMS = Mark("checksums, of a read to full-size RGB", 10, 10, at_most=True, unit=" %")
OWN = "framefeed, decoded"
LIKE = 30.0
"""Decibels: colour recipes differ by less than that, frames by more."""


def original_row(scene: Scene) -> dict[str, Any]:
    """Random frames at full size, from our cache and decoded from the original."""
    sample, places = scene.sample, scene.places(DECODED_FRAMES)
    with ExitStack() as stack:
        ours = caches_of(scene, stack)
        peers = {reader.name: _opened(reader.open(sample.video), sample) for reader in scene.field.originals}
        wrong = [line for cached in ours.values() for line in cached.wrong()]
        wrong += [line for name, read in peers.items() for line in _unlike(name, read, sample, places[0])]
        reads: dict[str, Read] = {OWN: _decoding(sample), **peers}
        groups = dict.fromkeys(peers, "peers") | dict.fromkeys(ours, "ours")
        samples = race(reads | {name: cached.take for name, cached in ours.items()}, places, scene, groups)
        nbytes = {name: cached.bytes_a_frame for name, cached in ours.items()}
    best = samples.best(list(ours))
    goals = [DECODER.judge(_both(samples, OWN, best))]
    if peers:
        goals.append(PEER.judge(_both(samples, samples.best(list(peers)), best)))
    return {
        "key": "original",
        "title": f"random frames at full size, {len(places[0])} a round in one call, files kept open and indexed",
        "ways": ways_of(samples, len(places[0]), nbytes),
        "wrong": wrong,
        "goals": goals,
    }


def _both(samples: Samples, rival: str, ours: str) -> dict[str, Interval | float]:
    return {f"CPU, {ours} against {rival}": samples.ratio(rival, ours), "wall": samples.ratio(rival, ours, "wall")}


def _opened(read: Callable[[Sequence[int]], Any], sample: Sample) -> Callable[[Sequence[int]], Any]:
    return lambda places: read([sample.frames[place].ordinal for place in places])


def _unlike(name: str, read: Callable[[Sequence[int]], Any], sample: Sample, places: Sequence[int]) -> list[str]:
    pictures = np.asarray(read(places))
    wanted = [sample.frames[place].rgb for place in places]
    if pictures.shape != (len(wanted), *wanted[0].shape):
        return [f"{name}: pictures of {pictures.shape}"]
    worst = min(psnr(picture, rgb) for picture, rgb in zip(pictures, wanted, strict=True))
    return [f"{name}: gives other frames, {worst:.1f} dB from ours"] if worst < LIKE else []


def _decoding(sample: Sample) -> Read:
    """Our decoder, into memory that is used again."""
    decoder, video = PyAVDecoder(), sample.video
    memory = np.empty((DECODED_FRAMES, *sample.frames[0].rgb.shape), dtype=np.uint8)

    def read(places: Sequence[int]) -> None:
        ordinals = np.array([sample.frames[place].ordinal for place in places], dtype=np.int64)
        decoder.decode(video.source, video.index, [ClipSlot(ordinals, FULL_SIZE, memory[: len(places)])]).raise_first()

    return read


def checksums_row(scene: Scene) -> dict[str, Any]:
    """Hashing the stored bytes, as a share of reading them to RGB, which does that too."""
    places = scene.places(HASHED_FRAMES)
    with ExitStack() as stack:
        ours = caches_of(scene, stack)
        reads: dict[str, Read] = {name: cached.take for name, cached in ours.items()}
        for name, cached in ours.items():
            reads[_hashing(name)] = partial(_hash, _encoded(scene.sample, cached.codec))
        samples = race(reads, places, scene)
    ranked = sorted(ours, key=samples.median)
    return {
        "key": "checksums",
        "title": "hashing of the stored bytes alone, beside the whole read to full-size RGB that includes it",
        "ways": ways_of(samples, len(places[0]), {}),
        "wrong": [],
        "goals": [CHECKSUMS.judge({f"CPU, {name}": percent(samples, _hashing(name), name) for name in ranked})],
    }


def percent(samples: Samples, part: str, whole: str) -> Interval:
    """Share of the processor time of one contender that another took, in percent, over the rounds of both."""
    parts, wholes = samples.of[part], samples.of[whole]
    return median_interval([100 * parts[n].cpu / wholes[n].cpu for n in sorted(parts.keys() & wholes.keys())])


def _hashing(name: str) -> str:
    return f"hashing alone, {name}"


def _encoded(sample: Sample, codec: str) -> list[bytes]:
    return [bytes(codec_named(codec).encode(*layout_and_bytes(frame, "planes"))) for frame in sample.frames]


def _hash(frames: Sequence[bytes], places: Sequence[int]) -> None:
    for place in places:
        xxhash.xxh3_64_intdigest(frames[place], seed=place)
