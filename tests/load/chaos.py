"""Run as a program: load 20,000 clips and check that the memory of the process stops growing.

``python -m tests.load.chaos --clips 20000 --log build/chaos_load.log`` (``make chaos``). Clips of copies of small
files in several containers, two workers; the resident memory is read after every thousandth clip.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import framefeed as ff
from framefeed.testing import ClipSpec, clip_bytes
from tests.programs import report_lines

FORMATS = {
    "mp4": ("mp4", "libx264"), "mkv": ("matroska", "libx264"), "ts": ("mpegts", "libx264"),
    "avi": ("avi", "mpeg4"), "webm": ("webm", "libvpx"),
}  # fmt: skip
COPIES = 40
MOST_GROWTH_BYTES = 8 * 2**20
"""Of the second half of the clips."""


def read_resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def write_copies(folder: Path) -> None:
    """Write copies of one small clip a container."""
    for ending, (name, codec) in FORMATS.items():
        data = clip_bytes(ClipSpec(num_frames=30, gop=10, b_frames=2 if codec == "libx264" else 0, codec=codec), name)
        for number in range(COPIES):
            (folder / f"{number:03}.{ending}").write_bytes(data)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=20_000)
    parser.add_argument("--log", type=Path)
    args = parser.parse_args(words)
    sizes: list[int] = []
    lines = ["# clips, resident memory in MB"]
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as folder:
        write_copies(Path(folder))
        catalog = ff.scan(folder)
        plan = ff.plan_clips(catalog, ff.RandomSegments(4), seed=1, size=(64, 64), clips_per_video=5)
        with ff.ClipLoader(plan, batch_size=10, workers=2) as loader:
            count = 0
            while count < args.clips:
                for batch in loader:
                    count += len(batch.positions)
                    if count % 1000 == 0:
                        sizes.append(read_resident_bytes())
                        lines.append(f"{count} {sizes[-1] / 2**20:.1f}")
                    if count >= args.clips:
                        break
    grown = sizes[-1] - sizes[len(sizes) // 2]
    settles = grown < MOST_GROWTH_BYTES
    lines.append(f"{count} clips; the second half added {grown / 2**20:.1f} MB: {'settled' if settles else 'IT GROWS'}")
    report_lines(lines, args.log)
    return 0 if settles else 1


if __name__ == "__main__":
    sys.exit(main())
