"""Row "memory": the most that a scan of very many pictures holds, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from framefeed.bench._goals import Mark
from framefeed.bench.scan._family import family_megabytes
from framefeed.bench.scan._programs import HOUR, command
from framefeed.bench.scan._trees import Tree

_EVERY = 0.2
"""Seconds from one look at a process's memory to the next."""


def memory_row(tree: Tree, work: Path) -> dict[str, Any]:
    """Scan a tree in a fresh process, and see the most that it held.

    The kernel's own mark (VmHWM) is of the process that scans; what workers of it add is seen by looking often.

    Args:
        tree: Many files.
        work: Folder for the table.
    """
    words = command("once", tree.root, work / "memory.parquet")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        seen = [0.0, *_measure_often(process)]
        facts = json.loads(_printed(process))
    peak = max(facts["peak_mb"], *seen)
    return {
        "key": "memory",
        "title": f"memory of a scan of {len(tree)} pictures",
        "wrong": [] if facts["rows"] == len(tree) else [f"{facts['rows']} rows of {len(tree)} files"],
        "seconds": {"cpu": round(facts["cpu_seconds"], 3), "wall": round(facts["wall_seconds"], 3)},
        "peak_mb": {"kernel's mark": round(facts["peak_mb"], 1), "with workers": round(max(seen), 1)},
        "goals": [Mark("peak", 1500, 600, at_most=True, unit=" MB").judge({"memory": peak})],
    }


def _measure_often(process: subprocess.Popen[str]) -> Iterator[float]:
    while process.poll() is None:
        yield family_megabytes(process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_EVERY)


def _printed(process: subprocess.Popen[str]) -> str:
    printed = process.communicate(timeout=HOUR)[0]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return printed
