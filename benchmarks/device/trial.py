"""Run the trial on this machine: what a GPU gives to framefeed.

usage: python benchmarks/device/trial.py PACK [--json FILE] [--only 1,2] [--seconds 480] [--rehearse] [--by-hand]

PACK is the folder that ``python -m benchmarks.device.pack`` wrote. Each part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    # As a script it finds its own folder alone, whose modules are not meant to be imported by their short names.
    sys.path[0] = str(ROOT)

from benchmarks.device.report import clean, print_report, read_rows  # noqa: E402
from benchmarks.device.unpacking import Unpacked, unpack  # noqa: E402

# Part, module and share of the time, in the order in which they run: what earlier ones leave over, later ones get. The
# second part has several processes, because a decoder that is asked too much may end its own.
STEPS = (
    (1, "machine", 25),
    (2, "hardware", 80),
    (2, "refusals", 35),
    (2, "peers", 55),
    (7, "whole_clips", 140),
    (5, "preprocessing", 50),
    (3, "dlpack_planes", 40),
    (4, "upload", 25),
    (6, "jpegs", 30),
)
NAMES = {
    1: "what is there",
    2: "hardware decoding",
    3: "planes by DLPack",
    4: "upload",
    5: "planes to tensors",
    6: "JPEG",
    7: "whole clips",
}
_KEPT = 8
"""Lines of what a part printed, from its beginning and from its end, if it did not end by itself."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trial.py")
    parser.add_argument("pack", type=Path)
    parser.add_argument("--json", type=Path, help="write the results to this file too, after every part")
    parser.add_argument("--only", default="", metavar="PART,...", help="numbers of parts")
    parser.add_argument("--seconds", type=float, default=480, help="for all parts together (default: 480)")
    parser.add_argument("--rehearse", action="store_true", help="parts 3, 5 and route (a) of 7 on CPU tensors")
    parser.add_argument("--by-hand", action="store_true", help="rehearse torch.compile and the Triton kernel as well")
    given = parser.parse_args(words)
    only = [int(word) for word in given.only.split(",") if word]
    if unknown := set(only) - set(NAMES):
        parser.error(f"--only: there is no part {min(unknown)}; parts are {', '.join(map(str, NAMES))}")
    if not (given.pack / "media.tar").is_file():
        parser.error(f"{given.pack} is not a pack: write one with python -m benchmarks.device.pack")
    steps = [step for step in STEPS if not only or step[0] in only]
    until = time.monotonic() + given.seconds
    report: dict[str, Any] = {"rehearsal": given.rehearse, "seconds": given.seconds, "rows": []}
    with tempfile.TemporaryDirectory(prefix="framefeed-device-") as work:
        unpacked = unpack(given.pack, Path(work))
        report["packages"] = unpacked.describe()
        for position, (part, module, share) in enumerate(steps):
            seconds = (until - time.monotonic()) * share / sum(step[2] for step in steps[position:])
            seconds = max(0.0, seconds)
            report["rows"] += run_step(part, module, unpacked, seconds, given)
            if given.json is not None:
                cleaned = clean(report, {work: "WORK", str(given.pack.resolve()): "PACK", str(ROOT): "PROJECT"})
                given.json.write_text(json.dumps(cleaned, indent=1) + "\n", encoding="utf-8")
        print_report(clean(report, {work: "WORK", str(ROOT): "PROJECT"}), {part: NAMES[part] for part, _, _ in steps})
    return 0


def run_step(
    part: int, module: str, unpacked: Unpacked, seconds: float, given: argparse.Namespace
) -> list[dict[str, Any]]:
    """Run a part, or a step of it, in a process of its own; return its rows, and how it ended."""
    rows = unpacked.folder / f"{module}.jsonl"
    begin = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "benchmarks.device.part",
        str(part),
        module,
        str(unpacked.folder),
        f"{seconds:.1f}",
    ]
    command += ["--rehearse"] * given.rehearse + ["--by-hand"] * given.by_hand
    environment = os.environ | unpacked.environment(ROOT)
    with (unpacked.folder / f"{module}.txt").open("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            command, env=environment, stdout=said, stderr=subprocess.STDOUT, cwd=unpacked.folder, start_new_session=True
        )
        try:
            status: int | None = process.wait(seconds + give_ending(seconds))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            # Also what the part itself started, and when this command is interrupted.
            kill_session(process)
        said.seek(0)
        lines = [line.strip() for line in said.read().splitlines() if line.strip()]
        # A crash begins with what happened, an exception ends with it.
        output = lines if len(lines) <= 2 * _KEPT else [*lines[:_KEPT], "...", *lines[-_KEPT:]]
    took = round(time.monotonic() - begin, 1)
    found = read_rows(rows)
    if status == 0:
        state: dict[str, Any] = {"state": "ended"}
    elif status is None:
        state = {"state": "failed", "reason": f"still ran after {took} s, and was killed", "output": output}
    else:
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        state = {"state": "failed", "reason": f"the process crashed: {how}", "output": output}
    return [*found, {"part": part, "name": "process", "module": module, **state, "seconds": took}]


def give_ending(seconds: float) -> float:
    """Give the seconds that a step has after its time to end a row that it has begun, before it is killed."""
    return min(15.0, max(3.0, seconds / 4))


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
