"""What workers hold that plan from one large catalog: each a fresh process that opens it, all at once."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from framefeed.catalog import Catalog
from framefeed.plan import ClipRule, Rates, Uniform, plan_clips

WORKERS = 4
POSITIONS = 1000
SIZE = (224, 224)
RULES: dict[str, ClipRule] = {"uniform": Uniform(8), "rates": Rates([(2, 8), (4, 8)])}


def planning_memory(
    catalog: Path, rule: str, *, workers: int = WORKERS, positions: int = POSITIONS
) -> dict[str, float]:
    """Open a catalog, plan from it and walk the plan, in some processes at once.

    Args:
        catalog: Path of it.
        rule: Key of ``RULES``.
        workers: Processes at once.
        positions: Random positions that each of them plans.

    Returns:
        Means over the workers: seconds of opening, of making the plan, of one position; resident megabytes (10^6
        bytes) of all workers, pages that they share counted once ("pss") and in each ("rss"), and the greatest that
        one of them ever had ("peak").
    """
    with ExitStack() as stack:
        started = [stack.enter_context(_worker(catalog, rule, number, positions)) for number in range(workers)]
        figures = [json.loads(_line(process)) for process in started]
        memory = [_resident(process.pid) for process in started]
        for process in started:
            process.communicate(b"done\n", timeout=60)
    means = {name: float(np.mean([each[name] for each in figures])) for name in figures[0]}
    return means | {
        "pss_mb": sum(each["Pss"] for each in memory),
        "rss_mb": sum(each["Rss"] for each in memory),
        "peak_mb": max(each["peak_mb"] for each in figures),
    }


def _worker(catalog: Path, rule: str, number: int, positions: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", __name__, str(catalog), rule, str(number), str(positions)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _resident(process_id: int) -> dict[str, float]:
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines}


def _walk(catalog: str, rule: str, number: int, positions: int) -> dict[str, Any]:
    begin = perf_counter()
    opened = Catalog.open(catalog)
    middle = perf_counter()
    plan = plan_clips(opened, RULES[rule], seed=0, size=SIZE)
    end = perf_counter()
    for position in np.random.default_rng(number).integers(0, len(plan), positions).tolist():
        plan[position]
    return {
        "open_seconds": middle - begin,
        "plan_seconds": end - middle,
        "position_seconds": (perf_counter() - end) / positions,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


if __name__ == "__main__":
    json.dump(_walk(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])), sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stdin.buffer.readline()  # The parent looks at the memory of all of them meanwhile.
