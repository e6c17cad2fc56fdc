"""Reading of single frames at full size, timed in the same rounds: our caches and whatever they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from framefeed.bench.cache_scene import CachedSample, Scene
from framefeed.bench.measuring import Contender, Samples, measure
from framefeed.cache.keys import Form

LZ4_RGB = "framefeed lz4, RGB"
Read = Callable[[Sequence[int]], object]
"""Reads the frames at some places of the sample."""


def caches_of(scene: Scene, stack: ExitStack, with_rgb: bool = False) -> dict[str, CachedSample]:
    """The sample in a cache of each exact codec, by name.

    Args:
        scene: Where.
        stack: Closes them.
        with_rgb: Whether there is one of RGB with lz4 too.
    """
    wanted: list[tuple[str, Form]] = [(codec, "planes") for codec in scene.exact_codecs()]
    found = {}
    for codec, form in [*wanted, ("lz4", "output")] if with_rgb else wanted:
        name = f"framefeed {codec}, planes" if form == "planes" else LZ4_RGB
        found[name] = CachedSample(scene.sample, scene.work / f"{codec}_{form}", codec, form)
        stack.callback(found[name].close)
    return found


def race(
    reads: Mapping[str, Read], places: Sequence[Sequence[int]], scene: Scene, groups: Mapping[str, str] | None = None
) -> Samples:
    """Time readers in the same rounds.

    Args:
        reads: Reader by name.
        places: What to read in each round.
        scene: How often.
        groups: Reader -> its group; those that cannot be the best of theirs stop after some rounds, others stay.
    """

    def run(read: Read, number: int) -> None:
        read(places[number])

    groups = groups or {}
    contenders = [
        Contender(name, partial(run, read), (groups[name],) if name in groups else ()) for name, read in reads.items()
    ]
    rounds = scene.rounds if groups else replace(scene.rounds, pilot=scene.rounds.pairs)
    return measure(contenders, rounds)


def ways_of(samples: Samples, frames: int, nbytes: Mapping[str, float]) -> list[dict[str, Any]]:
    """What each reader did, for the report.

    Args:
        samples: What was timed.
        frames: Read in a round.
        nbytes: Reader -> stored bytes of a frame, where it has any.
    """
    return [
        {
            "name": name,
            "frames_per_cpu_second": round(frames / samples.median(name), 1),
            "frames_per_second": round(frames / samples.median(name, "wall"), 1),
            "rounds": len(rounds),
            **({"bytes_a_frame": round(nbytes[name])} if name in nbytes else {}),
            "cpu_seconds": [round(took.cpu, 5) for took in rounds.values()],
            "wall_seconds": [round(took.wall, 5) for took in rounds.values()],
        }
        for name, rounds in samples.of.items()
    ]
