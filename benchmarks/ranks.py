"""Ranks that scan to one catalog at the same moment, against one process that scans alone.

    python -m benchmarks.ranks [--rounds 7] [--seconds 6] [--json OUT]      (in the project's folder)

The videos are made first, as many as one worker scans in about so many seconds. Each rank is a fresh process that
imports framefeed and calls ``ff.scan(folder, out=..., workers=1)``. The wall seconds of a side are those from the start
of its processes until the last of them has its catalog, imports included; the CPU seconds are those of all of them. The
sides take turns, each round in another order. A ratio is that of the ranks to one process, as the median of the rounds
with its interval: 1 would be ranks that cost nothing. "behind" is what the last rank waits for after the first has its
catalog, as a share of the first one's wall in the same run: other work on the machine changes it less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import framefeed as ff
from benchmarks.compare import interval
from framefeed.bench import describe_machine
from framefeed.testing import ClipSpec, write_clip

SIDES = (1, 2, 4)
"""Processes that scan at once."""
FRAMES = 3000
_RANK = """
import sys, time
import framefeed as ff
catalog = ff.scan(sys.argv[1], out=sys.argv[2], workers=1, progress=False)
print(len(catalog), catalog.fingerprint, time.monotonic())
"""


def make_media(folder: Path, seconds: float) -> int:
    """Make one video, and so many copies of it that a scan of them takes these seconds; return their number."""
    folder.mkdir()
    first = folder / "0.ts"
    write_clip(first, ClipSpec(num_frames=FRAMES, gop=30, b_frames=2, height=48, width=64))
    took = []
    for _ in range(10):
        began = time.perf_counter()
        ff.build_index(first)
        took.append(time.perf_counter() - began)
    count = max(2, round(seconds / statistics.median(took)))
    for number in range(1, count):
        shutil.copyfile(first, folder / f"{number}.ts")
    return count


def scan_at_once(folder: Path, out: Path, ranks: int) -> dict[str, float]:
    """Start so many processes; give the seconds until the first and the last have their catalog, and the CPU of all."""
    words = [sys.executable, "-c", _RANK, str(folder), str(out)]
    before, began = os.times(), time.monotonic()
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(ranks)]
    reports = [process.communicate()[0].split() for process in processes]
    after = os.times()
    if any(process.returncode for process in processes) or len({tuple(report[:2]) for report in reports}) != 1:
        raise SystemExit(f"{ranks} ranks did not get one catalog: {reports}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    ends = sorted(float(report[2]) - began for report in reports)
    return {"first": ends[0], "wall": ends[-1], "CPU": cpu}


def run_rounds(folder: Path, work: Path, rounds: int) -> dict[int, list[dict[str, float]]]:
    """Let the sides scan in turns, each time to a new catalog; the round before the first fills the page cache."""
    runs: dict[int, list[dict[str, float]]] = {ranks: [] for ranks in SIDES}
    for number in range(rounds + 1):
        first = number % len(SIDES)
        for ranks in SIDES[first:] + SIDES[:first]:
            out = work / f"{number}-{ranks}"
            out.mkdir()
            found = scan_at_once(folder, out / "cat.parquet", ranks)
            runs[ranks] += [found] if number else []
            shutil.rmtree(out)
    return runs


def compare_sides(runs: dict[int, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Make one comparison for each number of ranks."""
    comparisons = []
    for ranks in SIDES[1:]:
        figures = {}
        for unit in ("wall", "CPU"):
            pairs = zip(runs[ranks], runs[1], strict=True)
            figures[unit] = _describe([many[unit] / one[unit] for many, one in pairs])
        figures["behind"] = _describe([run["wall"] / run["first"] - 1 for run in runs[ranks]])
        comparisons.append({"key": f"{ranks} ranks", "figures": figures})
    return comparisons


def _describe(values: list[float]) -> dict[str, float]:
    return dict(zip(("median", "low", "high"), (round(value, 4) for value in interval(values)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=Path, metavar="OUT")
    args = parser.parse_args()
    machine = describe_machine()
    with TemporaryDirectory(prefix="framefeed-ranks-") as name:
        folder = Path(name, "media")
        count = make_media(folder, args.seconds)
        runs = run_rounds(folder, Path(name), args.rounds)
    comparisons = compare_sides(runs)
    wall = statistics.median(run["wall"] for run in runs[1])
    print(f"{count} videos of {FRAMES} frames, one process: {wall:.2f} s")
    for comparison in comparisons:
        cells = [
            f"{unit} {it['median']:.3f} ({it['low']:.3f}-{it['high']:.3f})"
            for unit, it in comparison["figures"].items()
        ]
        print(f"{comparison['key']} / one process: {'  '.join(cells)}")
    if args.json is not None:
        report = {
            "bench": "ranks",
            "machine": machine,
            "settings": {"videos": count, "frames": FRAMES, "rounds": args.rounds, "workers": 1},
            "rows": [{"key": "scan", "comparisons": comparisons, "runs": {str(n): runs[n] for n in SIDES}}],
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
