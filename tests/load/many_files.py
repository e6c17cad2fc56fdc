"""Run as a program: open thousands of files with at most 128 descriptors (L09). Prints opens and descriptors left."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

from framefeed.load._loader import ClipLoader
from framefeed.plan import AtIndices, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

FILES = 100


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def make_files(folder: Path) -> None:
    """One tiny file under many names, half of them copies and half links."""
    first = write_clip(folder / "0.mp4", ClipSpec(num_frames=2, height=24, width=32, gop=1))
    for number in range(1, FILES):
        (shutil.copyfile if number % 2 else os.link)(first, folder / f"{number}.mp4")


def main(opens: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name))
        plan = plan_clips(scan(name, workers=0), AtIndices([0]), seed=0)
        before = count_descriptors()
        with ClipLoader(plan, batch_size=25, workers=2) as loader:
            while loader.stats().counts.opens < opens:
                for batch in loader:
                    del batch
        left = count_descriptors() - before
    sys.stdout.write(f"{loader.stats().counts.opens >= opens} {left}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
