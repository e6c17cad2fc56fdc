"""Peak memory of a feeding loop: resident bytes after each batch, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framefeed.bench._media import BenchVideo
from framefeed.bench._peer import SIZE
from framefeed.bench._workloads import NUM_FRAMES
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
LIMIT_MB = 700


def feed_memory(videos: Sequence[BenchVideo], catalog: Path, stride: int, clips: int = CLIPS) -> dict[str, Any]:
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
    return {"key": "memory", "title": f"memory of a loop over {clips} clips, batches of 16, 2 threads"} | judged(
        json.loads(done.stdout)
    )


def judged(series: Sequence[float]) -> dict[str, Any]:
    """What a series of resident megabytes says, one value a batch.

    Args:
        series: At least one value.
    """
    first, later = max(series[:SETTLED]), max(series[SETTLED:], default=None)
    return {
        "batches": len(series),
        "peak_mb": round(max(series), 1),
        "limit_mb": LIMIT_MB,
        "later_to_first": None if later is None else round(later / first, 4),
        "is_flat": later is None or later <= FLAT * first,
        "series_mb": [round(value, 1) for value in series],
    }


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
