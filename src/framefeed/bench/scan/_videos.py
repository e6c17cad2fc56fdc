"""Row "videos": a made-up catalog of very many videos, opened, and planned from by several processes at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from framefeed.bench._goals import Mark
from framefeed.bench.scan._family import family_megabytes
from framefeed.bench.scan._programs import HOUR, command, run_program

FRAMES = 300
WORKERS = 4
OPENINGS = 5


def videos_row(make: Callable[[Path, int, int], Path], count: int, work: Path) -> dict[str, Any]:
    """Make up a catalog of videos, open it, and plan clips from it in several processes at once.

    Args:
        make: Writes a catalog of so many videos of so many frames into a folder, and says where.
        count: How many videos.
        work: Folder for the catalog.
    """
    catalog = make(work, count, FRAMES)
    openings = [run_program("open", catalog) for _ in range(OPENINGS)]
    ranks = [command("plan", catalog, str(rank), str(WORKERS)) for rank in range(WORKERS)]
    with _waiting(ranks) as workers:
        planned = [said for _, said in workers]
        held = sum(family_megabytes(process.pid) for process, _ in workers)
    with _waiting([command("idle")] * WORKERS) as workers:
        idle = sum(family_megabytes(process.pid) for process, _ in workers)
    sizes = {
        path.name: path.stat().st_size for path in sorted(catalog.parent.glob(f"{catalog.stem}.*")) if path.is_file()
    }
    return {
        "key": "videos",
        "title": f"a made-up catalog of {count} videos of {FRAMES} frames",
        "wrong": [f"{said['rows']} rows of {count}" for said in openings if said["rows"] != count],
        "bytes": sizes,
        "planned": {name: [round(said[name], 3) for said in planned] for name in ("positions", "wall_seconds")},
        "resident_mb": {"planning": round(held, 1), "imports alone": round(idle, 1)},
        "goals": [
            Mark("opening it", 1, 0.2, at_most=True, unit=" s").judge(
                {key: median(said[f"{key}_seconds"] for said in openings) for key in ("wall", "cpu")}
            ),
            Mark(f"{WORKERS} workers that plan from it, in all", 1000, 300, at_most=True, unit=" MB").judge(
                {"memory": held}
            ),
        ],
    }


@contextmanager
def _waiting(commands: Sequence[Sequence[str]]) -> Iterator[list[tuple[subprocess.Popen[str], dict[str, Any]]]]:
    """Run programs until each has said its line, hold them all there, and let them end."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for words in commands:
            processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        said = [json.loads(_line(process)) for process in processes]
        yield list(zip(processes, said, strict=True))
        for process in processes:
            process.communicate("\n", timeout=HOUR)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise subprocess.CalledProcessError(process.wait(), process.args)
    return line
