"""A process whose children are killed while they add frames, and that looks at what they leave.

Children are forked, because the imports would take longer than the filling. They start no thread, and the parent none.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

from framefeed.cache.store._format import StoreOptions
from framefeed.cache.store._store import FrameStore
from tests.cache.store.made import KEYS, add, assert_exact_or_missing, frames_of, parts, segments

CLIPS = 24
CLIP = 4
OPTIONS = StoreOptions(segment_bytes=16_000)


def filling(folder: Path, begin: int, permits: int, pipe: int) -> int:
    """Start to fill in a child, a clip for each byte that may be read; it writes one after each; gives its number."""
    child = os.fork()
    if not child:
        code = 1
        try:
            with FrameStore(os.fspath(folder), OPTIONS) as store:
                for clip in range(begin, begin + CLIPS):
                    os.read(permits, 1)
                    for key in KEYS:
                        add(store, key, range(clip * CLIP, clip * CLIP + CLIP))
                    os.write(pipe, b"x")
            code = 0
        finally:
            os._exit(code)
    return child


def clips_of(run: int) -> range:
    """Numbers of the frames that the child of a run adds, if it is left alone."""
    return range(run * CLIPS * CLIP, (run + 1) * CLIPS * CLIP)


def killed(folder: Path, begin: int, chance: random.Random) -> int:
    """Kill a child after some of its clips and in the next, or after it; give the number of clips it had reported."""
    reading, writing = os.pipe()
    permits, permit = os.pipe()
    child = filling(folder, begin, permits, writing)
    os.close(writing)
    num_clips = chance.randrange(CLIPS)
    os.write(permit, bytes(num_clips + 1))
    seen = sum(len(os.read(reading, 1)) for _ in range(num_clips))
    for _ in range(chance.randrange(20_000)):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for each in (reading, permits, permit):
        os.close(each)
    return seen


def main(work: Path, runs: int) -> dict[str, Any]:
    """Kill one child after the other over one folder; look at what is there each time."""
    chance = random.Random(3)
    folder = work / "cache"
    report = {"kills": 0, "told": 0, "found": 0, "refused": 0, "damaged": 0, "left": 0, "tidied": 0, "sealed": 0}
    for run in range(runs):
        report["told"] += killed(folder, run * CLIPS, chance)
        report["kills"] += 1
        left = len(parts(folder)) if folder.exists() else 0
        report["left"] += left
        report["sealed"] += len(segments(folder))
        store = FrameStore(os.fspath(folder))
        report["found"] += assert_exact_or_missing(store, frames_of(KEYS, clips_of(run)))
        report["refused"] += store.counts.segments_refused
        report["damaged"] += store.counts.frames_damaged
        if run % 2:
            add(store, KEYS[0], [-run])
            report["tidied"] += left - len(parts(folder)) + 1
        store.close()
    add(store, KEYS[0], [-1000])
    store.close()
    again = FrameStore(os.fspath(folder))
    whole = sum(assert_exact_or_missing(again, frames_of(KEYS, clips_of(run))) for run in range(runs))
    return report | {"whole": whole, "unfinished": len(parts(folder))}
