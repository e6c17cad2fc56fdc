"""Clips of any length in one plan against the same clips in a plan for each length; and a million captions.

    python -m benchmarks.lengths [--rounds 5] [--rows 1000000] [--json FILE]      (in the project's folder)

The two ways of the first part run in turns in one process, CPU seconds of an epoch: with decoding, and with a decoder
that writes nothing. The second part opens a plan over a catalog with a caption of 100 characters in each row, in fresh
processes: the first makes the file that the others map. Memory is that of four worker processes of torch's DataLoader
(Pss), with captions less without, after a batch each: their own, and their parts of files that are mapped. Of these,
pages of 2 MB are mapped where the file system has them, and the system takes them back when it needs memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from benchmarks.idle import IdleDecoder
from framefeed.testing import ClipSpec, write_clip

LENGTHS = (4, 6, 9, 12, 16)
CLIPS, BATCH = 960, 8

OPEN = """
import sys, time
import framefeed as ff
catalog = ff.Catalog.open(sys.argv[1])
begin = time.perf_counter()
plan = ff.plan_clips(catalog, ff.Uniform(1), seed=0, size=(8, 8), columns=sys.argv[2:])
list(plan.columns_at(0))
print(time.perf_counter() - begin)
"""
WORKERS = """
import sys, warnings
import torch
import framefeed as ff
from benchmarks.lengths import read_pss
plan = ff.plan_clips(ff.Catalog.open(sys.argv[1]), ff.Uniform(1), seed=0, size=(8, 8), columns=sys.argv[2:])
loader = torch.utils.data.DataLoader(ff.torch.ClipDataset(plan), batch_size=8, num_workers=4)
batches = iter(loader)
for _ in range(4):
    next(batches)
print(*(sum(read_pss(worker.pid, kind) for worker in batches._workers) for kind in ("Anon", "File")))
"""


def read_pss(process: int, kind: str) -> int:
    """Read the bytes of memory of a process, of what others share with it its part: "Anon" or "File"."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"Pss_{kind}:"))


def plan_requests(folder: Path) -> list[ff.DecodeRequest]:
    """Request clips of five lengths of twelve videos."""
    requests = []
    for number in range(CLIPS):
        first, length = number * 7 % 40, LENGTHS[number * 3 % len(LENGTHS)]
        requests.append(ff.DecodeRequest(folder / f"{number % 12}.mp4", range(first, first + length)))
    return requests


def measure_lengths(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Measure CPU seconds, unequal / grouped, of each round."""
    for number in range(12):
        write_clip(folder / f"{number}.mp4", ClipSpec(num_frames=64, gop=8, b_frames=0, height=96, width=128))
    requests = plan_requests(folder)
    together = [ff.plan_requests(requests, size=(64, 64), shuffle=True, unequal=True)]
    apart = [ff.plan_requests([each for each in requests if len(each) == length], size=(64, 64), shuffle=True)
             for length in LENGTHS]  # fmt: skip

    def run(plans: list[Any], backend: Any) -> float:
        loaders = [ff.ClipLoader(plan, batch_size=BATCH, workers=0, backend=backend) for plan in plans]
        begin = time.process_time()
        for loader in loaders:
            for _ in loader:
                pass
        seconds = time.process_time() - begin
        for loader in loaders:
            loader.close()
        return seconds

    ratios: dict[str, list[float]] = {}
    makers: dict[str, Callable[[], Any]] = {"decoding": lambda: "auto", "no decoding": IdleDecoder}
    for name, make in makers.items():
        run(together, make()), run(apart, make())
        pairs = [(run(together, make()), run(apart, make())) for _ in range(rounds)]
        ratios[f"unequal / grouped by length, {name}"] = [one / other for one, other in pairs]
    return ratios


def make_captions(folder: Path, rows: int) -> Path:
    """Make a catalog of so many rows of one picture, with a caption each."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "one.png")
    names = pa.array([f"{folder}/one.png"] * rows)
    captions = pa.array([f"{number:>9} {'a picture of something that is black':.<90}" for number in range(rows)])
    listed, path = folder / "list.parquet", folder / "cat.parquet"
    pq.write_table(pa.table({"path": names, "caption": captions}), listed)
    ff.scan(listed, out=path, depth="header", progress=False)
    return path


def run_python(code: str, *words: str, home: Path) -> list[float]:
    """Run code in a fresh process; give the numbers that it prints."""
    home.mkdir(exist_ok=True)  # also for temporary folders: workers of torch that are stopped leave theirs
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "TMPDIR": str(home), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code, *words]
    run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return [float(number) for number in run.stdout.split()]


def measure_captions(folder: Path, rows: int) -> dict[str, float]:
    """Measure what captions take."""
    path, home = str(make_captions(folder, rows)), folder / "cache"
    _, *plain = [run_python(OPEN, path, home=home)[0] for _ in range(4)]  # the first fills the page cache
    opened = [run_python(OPEN, path, "caption", home=home)[0] for _ in range(4)]
    pairs = [[run_python(WORKERS, path, *columns, home=home) for columns in (("caption",), ())] for _ in range(7)]
    own, mapped = ([(one[at] - other[at]) / 1e6 for one, other in pairs] for at in (0, 1))
    return {
        "s to plan with captions, the first time": opened[0],
        "s to plan with captions, later": statistics.median(opened[1:]),
        "s to plan without captions": statistics.median(plain),
        "MB of 4 workers for captions, their own": statistics.median(own),
        "MB of 4 workers for captions, their own, least": min(own),
        "MB of 4 workers for captions, their own, most": max(own),
        "MB of 4 workers for captions, of files that are mapped": statistics.median(mapped),
    }


def main() -> None:
    """Measure both parts, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="framefeed-lengths-") as name:
        ratios = measure_lengths(Path(name), args.rounds)
        for row, values in ratios.items():
            print(f"{row}: {statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})", flush=True)
        captions = measure_captions(Path(name), args.rows)
        for row, value in captions.items():
            print(f"{row}, {args.rows:,} rows: {value:.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"ratios": ratios, "captions": captions, "rows": args.rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
