"""One part, or a step of it, in a process of its own, as trial.py starts it."""

from __future__ import annotations

import argparse
import faulthandler
import os
import time
from pathlib import Path

from benchmarks.device.rows import Trial, require_module


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", type=int)
    parser.add_argument("module")
    parser.add_argument("work", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    given = parser.parse_args()
    # Before the parent kills a part that hangs, the stack says where it does.
    faulthandler.dump_traceback_later(given.seconds + 2.5)
    trial = Trial(
        media=given.work / "media",
        output=given.work / f"{given.module}.jsonl",
        part=given.part,
        deadline=time.monotonic() + given.seconds,
        is_rehearsal=given.rehearse,
        by_hand=given.by_hand,
        packed=tuple(filter(None, os.environ.get("PACKED_MODULES", "").split(","))),
    )
    trial.run(given.module, lambda: require_module(f"benchmarks.device.{given.module}").measure(trial))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
