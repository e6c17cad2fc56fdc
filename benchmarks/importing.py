"""What importing costs: framefeed, its command's help, and the libraries it stands on.

    python benchmarks/importing.py [--repeats 20] [--json OUT]

Each run is a process of its own, in turns, in CPU seconds of the whole process less those of one that imports nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

LIBRARIES = "numpy, av, pyarrow, pyarrow.parquet"
COMMANDS = {
    "nothing": ["-c", "pass"],
    LIBRARIES: ["-c", f"import {LIBRARIES}"],
    "framefeed": ["-c", "import framefeed"],
    "framefeed: a loop over a ready catalog": ["-c", "from framefeed import Catalog, plan_clips, ClipLoader"],
    "framefeed: a scan, and a loop": ["-c", "from framefeed import scan, plan_clips, ClipLoader"],
    "framefeed --help": ["-m", "framefeed", "--help"],
}


def cpu_seconds(words: list[str]) -> float:
    """Run Python with these arguments; give the CPU seconds of that process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Installed libraries have their bytecode; a checkout has not where the environment forbids writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    runs: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for words in COMMANDS.values():
        cpu_seconds(words)  # so that all files are in the page cache
    for _ in range(args.repeats):
        for name, words in COMMANDS.items():
            runs[name].append(cpu_seconds(words))
    nothing = statistics.median(runs.pop("nothing"))
    rows = {
        name: {"median CPU s": round(statistics.median(found) - nothing, 3), "min": round(min(found) - nothing, 3)}
        for name, found in runs.items()
    }
    libraries = rows[LIBRARIES]["median CPU s"]
    for row in rows.values():
        row["by the libraries"] = round(row["median CPU s"] / libraries, 2)
    print(json.dumps(rows, indent=2))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
