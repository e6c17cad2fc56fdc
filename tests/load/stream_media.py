"""Two folders of self-naming videos of the same scenes: one of 15 frames a second, one of 30 in another size."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from framefeed.catalog import Catalog
from framefeed.plan import ClipRule, EpochPlan, RandomSegments, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, make_folder, write_clip

VIDEOS = 4
FAST_SIZE = (72, 96)


@cache
def folder() -> Path:
    """Folders "slow" (2 x 2 videos of 30 frames, 48 x 64) and "fast" (60 frames, 72 x 96); read only."""
    path = Path(tempfile.mkdtemp(prefix="framefeed-streams-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    files = make_folder(path / "slow", classes=2, videos_per_class=VIDEOS // 2, seconds=2.0, fps=15, size=(48, 64))
    (path / "fast").mkdir()
    for number, file in enumerate(files):
        file.rename(file.with_name(f"scene_{number}.mp4"))
        spec = ClipSpec(num_frames=60, height=FAST_SIZE[0], width=FAST_SIZE[1], fps=30, first_stamp=100)
        # In the other order of names, so that rows of one number do not belong together.
        write_clip(path / "fast" / f"scene_{number}.mp4", spec)
    return path


@cache
def slow() -> Catalog:
    """The catalog whose clips lead; frame k says k."""
    return scan(folder() / "slow", label_from="parent", workers=0)


@cache
def fast() -> Catalog:
    """The catalog whose clips follow, with its rows in the reverse order; frame k says 100 + k."""
    scanned = scan(folder() / "fast", workers=0)
    return scanned.take(list(reversed(range(len(scanned)))))


def plan_both(rule: ClipRule | None = None, **options: Any) -> EpochPlan:
    """A plan of both streams; by default 8 clips of 4 random frames."""
    given = {"seed": 7, "clips_per_video": 2, "columns": ["label"], "on": "stem", **options}
    return plan_clips(None, rule or RandomSegments(4), streams={"slow": slow(), "fast": fast()}, **given)
