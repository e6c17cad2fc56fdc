"""Row "length": the same clip in a video that is 50 times as long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from benchmarks.decode.workloads import decode_clips
from framefeed.bench import (
    NUM_FRAMES,
    OUR_METHOD,
    OURS,
    SEED,
    BenchVideo,
    Comparison,
    Contender,
    Findings,
    Reference,
    Rounds,
    Row,
    Timings,
    compare_times,
    ready,
)
from framefeed.bench.baselines import Method
from framefeed.bench.decode import BenchClip, check_frames, open_method
from framefeed.decode import DecodeCounts

CLIPS = 4
PEER_ROUNDS = 3
_COUNTED = ("packets_sent", "frames_decoded", "bytes_read", "runs")


def draw_pairs(short: BenchVideo, long: BenchVideo, rounds: int, clips: int) -> dict[str, list[list[BenchClip]]]:
    """Draw clips of the short video, and for each the same clip of a random repetition of it in the long one."""
    rng = np.random.Generator(np.random.Philox(key=SEED))
    stride = min(60, (len(short) - 1) // (NUM_FRAMES - 1))
    span = (NUM_FRAMES - 1) * stride
    starts = rng.integers(0, len(short) - span, (rounds, clips))
    repetitions = rng.integers(0, len(long) // len(short), (rounds, clips))
    return {
        name: [[BenchClip(video, list(range(at, at + span + 1, stride))) for at in row] for row in first.tolist()]
        for name, video, first in (("short", short, starts), ("long", long, starts + len(short) * repetitions))
    }


def count_decoding(clips: Sequence[BenchClip]) -> DecodeCounts:
    """What decoding some clips costs us, in counts."""
    total = DecodeCounts()
    for clip in clips:
        total += decode_clips(clip.video, [clip])
    return total


def length_row(short: BenchVideo, long: BenchVideo, methods: Sequence[Method], rounds: Rounds) -> Row:
    """Counts and time of a clip of the long video against the short one; for the peers in their first rounds only."""
    videos = {"short": short, "long": long}
    batches = draw_pairs(short, long, rounds.pairs, CLIPS)
    few = {which: [row[:1] for row in rows[:PEER_ROUNDS]] for which, rows in batches.items()}
    checked = [Reference(clip.video, clip.ordinals) for clip in batches["long"][0][:2]]
    plays = {f"{method.name}, {which}": (method, which) for method in (OUR_METHOD, *methods) for which in videos}

    def enter(name: str) -> Contender:
        method, which = plays[name]
        if method is OUR_METHOD:
            return Contender(name, ready(lambda number: count_decoding(batches[which][number])), amount=CLIPS)
        rows = few[which]
        return Contender(name, lambda: open_method(method, rows), method.library, most_rounds=PEER_ROUNDS)

    def check(contender: Contender) -> list[str] | None:
        method, which = plays[contender.name]
        return check_frames(method, checked) if which == "long" else None

    def conclude(timings: Timings) -> Findings:
        what = "time of a clip of the long video, in times of the same clip of the short one"
        times = {
            method.name: compare_times(timings, f"{method.name}, short", f"{method.name}, long")
            for method in (OUR_METHOD, *methods)
        }
        ours = times.pop(OURS)
        peers = {f"CPU, {name}": figures["CPU"] for name, figures in times.items() if figures}
        counts = {
            which: asdict(count_decoding([clip for row in rows[:4] for clip in row])) for which, rows in batches.items()
        }
        return Findings(
            [Comparison("ours", f"{what}, framefeed", ours), Comparison("peers", f"{what}, other libraries", peers)],
            {
                f"{which}_video": {"frames": len(video), **{name: counts[which][name] for name in _COUNTED}}
                for which, video in videos.items()
            },
        )

    title = f"{len(long) // len(short)} x as long: bytes, frames and CPU per clip"
    return Row("length", title, list(map(enter, plays)), conclude, unit="clips", check=check)
