"""Peak memory of a feeding loop: resident bytes after each batch, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from framefeed.bench._frames import NUM_FRAMES
from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import SIZE
from framefeed.bench._runner import Comparison, Figure, Findings, Row
from framefeed.catalog import Catalog
from framefeed.catalog.scan import scan
from framefeed.load import ClipLoader
from framefeed.plan import Dense, plan_clips

CLIPS = 1000
BATCH_SIZE = 16
WORKERS = 2
SETTLED = 50
"""Batches after which nothing may grow."""
FLAT = 1.02


def memory_row(videos: Sequence[BenchVideo], catalog: Path, stride: int, clips: int = CLIPS) -> Row:
    """Feed clips of some files in a fresh process, and see what it holds.

    Args:
        videos: The files.
        catalog: Where to write theirs.
        stride: Frames from one frame of a clip to the next.
        clips: How many.
    """
    scan([str(video.path) for video in videos], out=catalog)
    words = [sys.executable, "-m", __name__, str(catalog), str(stride), str(-(-clips // len(videos)))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=3600)
    title = f"memory of a loop over {clips} clips, batches of {BATCH_SIZE}, {WORKERS} threads"
    return Row("memory", title, conclude=lambda timings: judge_memory(json.loads(done.stdout)))


def judge_memory(series: Sequence[float]) -> Findings:
    """Say whether a series of resident megabytes, one value a batch, stays flat once it has settled.

    Args:
        series: At least one value.
    """
    first, later = max(series[:SETTLED]), max(series[SETTLED:], default=None)
    facts = {
        "batches": len(series),
        f"is_flat_after_{SETTLED}": later is None or later <= FLAT * first,
        "resident_MB": [round(value, 1) for value in series],
    }
    return Findings([Comparison("peak", "resident memory", {"peak": Figure(max(series))}, " MB")], facts)


def resident_megabytes() -> float:
    """Resident set of this process now, in 10^6 bytes."""
    fields = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split("VmRSS:")[1].split()
    return int(fields[0]) * 1024 / 1e6


def _feed(catalog: str, stride: int, clips_per_video: int) -> list[float]:
    from_file = Catalog.open(catalog)
    rule = Dense(NUM_FRAMES, stride=stride)
    plan = plan_clips(from_file, rule, clips_per_video=clips_per_video, seed=0, size=(SIZE, SIZE))
    series = []
    with ClipLoader(plan, batch_size=BATCH_SIZE, workers=WORKERS) as loader:
        for batch in loader:
            del batch
            series.append(resident_megabytes())
    return series


if __name__ == "__main__":
    json.dump(_feed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), sys.stdout)
