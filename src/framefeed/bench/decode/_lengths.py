"""Whether a clip costs the same in a video of any length: the same frames of one repetition among many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from framefeed.bench._measuring import Contender, Rounds, as_json, measure
from framefeed.bench._media import BenchVideo
from framefeed.bench._ours import decode_clips
from framefeed.bench._peer import Method
from framefeed.bench._rules import BenchClip, opening_each
from framefeed.bench._workloads import NUM_FRAMES, SEED
from framefeed.bench.decode._comparing import check_methods
from framefeed.decode import DecodeCounts

STRIDE = 60
CLIPS = 4
_COUNTED = ("bytes_read", "frames_decoded", "packets_sent", "runs")


def clips_of(
    short: BenchVideo, long: BenchVideo, rounds: int, clips: int = CLIPS
) -> list[list[tuple[BenchClip, BenchClip]]]:
    """Draw clips of the short video, each with the same clip of a random repetition of it in the long one."""
    rng = np.random.Generator(np.random.Philox(key=SEED))
    shape = (rounds, clips)
    stride = min(STRIDE, (len(short) - 1) // (NUM_FRAMES - 1))
    span = (NUM_FRAMES - 1) * stride
    starts = rng.integers(0, len(short) - span, shape).tolist()
    repetitions = rng.integers(0, len(long) // len(short), shape).tolist()
    return [
        [
            (
                BenchClip(short, list(range(start, start + span + 1, stride))),
                BenchClip(long, [len(short) * number + ordinal for ordinal in range(start, start + span + 1, stride)]),
            )
            for start, number in zip(*row, strict=True)
        ]
        for row in zip(starts, repetitions, strict=True)
    ]


def counted(clips: Sequence[BenchClip]) -> DecodeCounts:
    """What decoding some clips costs us, in counts."""
    total = DecodeCounts()
    for clip in clips:
        total += decode_clips(clip.video, [clip.ordinals])[1]
    return total


def compare_lengths(short: BenchVideo, long: BenchVideo, methods: Sequence[Method], rounds: Rounds) -> dict[str, Any]:
    """Counts and CPU per clip of the long video against the short one; for the peers their first rounds only."""
    pairs = clips_of(short, long, rounds.pairs)
    batches = {"short": [[a for a, _ in row] for row in pairs], "long": [[b for _, b in row] for row in pairs]}
    counts = {which: counted([clip for row in batches[which][:4] for clip in row]) for which in batches}
    checked = check_methods(methods, [(clip, clip.ordinals) for clip in batches["long"][0][:2]])
    sound = [method for method in methods if method.name in checked.shares]
    ours = [Contender(which, lambda number, rows=rows: counted(rows[number])) for which, rows in batches.items()]  # type: ignore[misc]
    samples = measure(ours, rounds)
    return {
        "key": "length",
        "title": f"{len(long) // len(short)} x as long: bytes, frames and CPU per clip",
        "frames": {"short": len(short), "long": len(long)},
        "counts": {which: {k: v for k, v in asdict(of).items() if k in _COUNTED} for which, of in counts.items()},
        "cpu_long_to_short": as_json(samples.ratio("long", "short")),
        "wall_long_to_short": as_json(samples.ratio("long", "short", "wall")),
        "floor": 1.1,
        "aim": 1.0,
        "peers_cpu_long_to_short": _peers(sound, batches, Rounds(min(3, rounds.pairs), rounds.pairs)),
        "frames_right": checked.shares,
        "failed": checked.failed,
    }


def _peers(methods: Sequence[Method], batches: dict[str, list[list[BenchClip]]], rounds: Rounds) -> dict[str, float]:
    few = {which: [row[:1] for row in rows[: rounds.pairs]] for which, rows in batches.items()}
    contenders = [
        Contender(f"{method.name} {which}", opening_each(method, rows))
        for method in methods
        for which, rows in few.items()
    ]
    for method in methods:
        for rows in few.values():
            method.prepare(rows[0][0].video)
    samples = measure(contenders, rounds)
    return {
        method.name: round(samples.ratio(f"{method.name} long", f"{method.name} short").median, 2) for method in methods
    }
