"""What a scan saves where single files are opened: VideoDecoder(path) beside VideoDecoder(entry of a catalog), CPU.

python benchmarks/opening.py FOLDER [--rounds 3] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import framefeed as ff

WHAT = {"open": None, "open, first frame": 0, "open, frame in the middle": 0.5}


def measure(source: Any, at: float | None, rounds: int) -> float:
    """Median CPU seconds."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        with ff.VideoDecoder(source) as video:
            if at is not None:
                _ = video[int(at * len(video))]
        spent.append(time.process_time() - began)
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, float]] = {}
    entries = [entry for entry in ff.scan(args.folder, workers=1) if entry.info is not None]
    for what, at in WHAT.items():
        pairs = []
        for entry in entries:
            if entry.info.kind == "video":
                try:
                    measure(entry.source, at, 1)  # into the page cache
                    pairs.append((measure(entry.source, at, args.rounds), measure(entry, at, args.rounds)))
                except ff.FramefeedError:
                    continue
        ratios = [path / scanned for path, scanned in pairs]
        path, scanned = (1e3 * sum(each) / len(pairs) for each in zip(*pairs, strict=True))
        rows[what] = {
            "files": len(pairs), "ms by path": path, "ms by entry": scanned, "total ratio": path / scanned,
            "median ratio": statistics.median(ratios),
        }  # fmt: skip
    print(json.dumps(rows, indent=1))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
