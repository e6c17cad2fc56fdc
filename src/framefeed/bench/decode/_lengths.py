"""Whether a clip costs the same in a video of any length: the same frames of one repetition among many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from framefeed.bench._frames import NUM_FRAMES, OUR_METHOD, OURS, SEED, Reference, decode_clips
from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import Method
from framefeed.bench._runner import Comparison, Contender, Findings, Rounds, Row, Timings, compare_times
from framefeed.bench.decode._workloads import BenchClip, check_frames, open_method
from framefeed.decode import DecodeCounts

STRIDE = 60
CLIPS = 4
PEER_ROUNDS = 3
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


def length_row(short: BenchVideo, long: BenchVideo, methods: Sequence[Method], rounds: Rounds) -> Row:
    """Counts and time of a clip of the long video against the short one; for the peers in their first rounds only."""
    pairs = clips_of(short, long, rounds.pairs)
    batches = {"short": [[a for a, _ in row] for row in pairs], "long": [[b for _, b in row] for row in pairs]}
    few = {which: [row[:1] for row in rows[:PEER_ROUNDS]] for which, rows in batches.items()}
    checked = [Reference(clip.video, clip.ordinals) for clip in batches["long"][0][:2]]
    plays = {f"{method.name}, {which}": (method, which) for method in (OUR_METHOD, *methods) for which in batches}

    def enter(name: str) -> Contender:
        method, which = plays[name]
        if method is OUR_METHOD:
            return Contender(name, lambda: lambda number: counted(batches[which][number]), amount=CLIPS)
        rows = few[which]
        return Contender(name, lambda: open_method(method, "many files", rows), method.library, most_rounds=PEER_ROUNDS)

    def check(contender: Contender) -> list[str] | None:
        method, which = plays[contender.name]
        return check_frames(method, checked) if which == "long" else None

    def conclude(timings: Timings) -> Findings:
        ours = compare_times(timings, f"{OURS}, short", f"{OURS}, long")
        peers = {
            f"CPU, {method.name}": figure
            for method in methods
            for figure in compare_times(timings, f"{method.name}, short", f"{method.name}, long", ("cpu",)).values()
        }
        counts = {which: counted([clip for row in batches[which][:4] for clip in row]) for which in batches}
        facts = {
            f"{which}_video": {
                "frames": len(video),
                **{k: v for k, v in asdict(counts[which]).items() if k in _COUNTED},
            }
            for which, video in (("short", short), ("long", long))
        }
        what = "time of a clip of the long video, in times of the same clip of the short one"
        return Findings(
            [
                Comparison("ours", f"{what}, framefeed", ours),
                Comparison("peers", f"{what}, other libraries", peers),
            ],
            facts,
        )

    title = f"{len(long) // len(short)} x as long: bytes, frames and CPU per clip"
    return Row("length", title, list(map(enter, plays)), conclude, unit="clips", check=check)
