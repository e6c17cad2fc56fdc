"""Rows "memory" and "videos": what a scan of very many pictures holds, and what a catalog of very many videos costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.processes import HOUR, command, family_megabytes, run_program
from benchmarks.scan.media import Tree
from benchmarks.scan.whole import scan_folder, time_work
from framefeed.bench import (
    NO_TIME,
    NUM_FRAMES,
    SIZE,
    Comparison,
    Figure,
    Findings,
    Rounds,
    Row,
    read_family_clocks,
)
from framefeed.catalog import (
    Catalog,
    CatalogHeader,
    FrameTableBuilder,
    FrameTables,
    content_fingerprint,
    encode_labels,
    write_catalog,
)
from framefeed.errors import MissingMedia
from framefeed.plan import Dense, plan_clips
from framefeed.scanning import scan
from framefeed.testing import AudioSpec, ClipSpec, write_clip

DISTINCT = 8
"""Real videos; those of the catalog take turns."""
_CLASSES = tuple(f"class {number:03d}" for number in range(400))
FRAMES = 300
WORKERS = 4
OPENINGS = 5
PLANNED = 5_000
"""Positions that a worker plans."""
_EVERY = 0.2
"""Seconds from one look at a process's memory to the next."""


def memory_row(tree: Tree, work: Path, rounds: Rounds) -> Row:
    """Scan a tree in a fresh process, and see the most that it held.

    The kernel's own mark (VmHWM) is of the process that scans; what workers of it add is seen by looking often.
    """
    words, seen = command(scan_folder, tree.root, work / "memory.parquet"), [0.0]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None:
                if not rounds.has(0):
                    raise MissingMedia(NO_TIME)
                seen.append(family_megabytes(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_EVERY)
            printed = process.communicate(timeout=HOUR)[0]
        except BaseException:
            # A signal to this process does not reach that one.
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    said = json.loads(printed)
    marks = {"most": max(*seen, said["peak_mb"]), "the kernel's mark": said["peak_mb"], "with workers": max(seen)}
    findings = Findings(
        [Comparison("peak", "peak memory", {name: Figure(value) for name, value in marks.items()}, " MB")],
        {"CPU_seconds": round(said["cpu_seconds"], 3), "wall_seconds": round(said["wall_seconds"], 3)},
        [] if said["rows"] == len(tree) else [f"{said['rows']} rows of {len(tree)} files"],
    )
    return Row("memory", f"memory of a scan of {len(tree)} pictures", conclude=lambda timings: findings)


def videos_row(count: int, work: Path, rounds: Rounds) -> Row:
    """Make up a catalog of videos, open it, and plan clips from it in several processes at once."""
    rounds.check_time_to_make(f"a catalog of {count:,} videos")
    catalog = make_catalog(work, count, FRAMES)
    openings = [run_program(open_catalog, catalog) for _ in range(OPENINGS)]
    ranks = [command(plan_and_wait, catalog, str(rank), str(WORKERS)) for rank in range(WORKERS)]
    with _waiting(ranks) as workers:
        planned = [said for _, said in workers]
        held = sum(family_megabytes(process.pid) for process, _ in workers)
    with _waiting([command(import_and_wait)] * WORKERS) as workers:
        idle = sum(family_megabytes(process.pid) for process, _ in workers)
    opening = {key: median(said[f"{key}_seconds"] for said in openings) for key in ("wall", "cpu")}
    findings = Findings(
        [
            Comparison("opening", "opening the catalog", {key: Figure(took) for key, took in opening.items()}, " s"),
            Comparison("planning", f"memory of {WORKERS} workers that plan from it, in all",
                       {"planning": Figure(held), "imports alone": Figure(idle)}, " MB"),
        ],
        {
            "bytes": {
                path.name: path.stat().st_size
                for path in sorted(catalog.parent.glob(f"{catalog.stem}.*"))
                if path.is_file()
            },
            "planned_positions": [said["positions"] for said in planned],
            "planning_wall_seconds": [round(said["wall_seconds"], 3) for said in planned],
        },
        [f"{said['rows']} rows of {count}" for said in openings if said["rows"] != count],
    )  # fmt: skip
    return Row("videos", f"a made-up catalog of {count} videos of {FRAMES} frames", conclude=lambda timings: findings)


def make_catalog(folder: Path, num_videos: int, num_frames: int = 300) -> Path:
    """Write a catalog of H.264 videos with B-frames and sound, constant rate, as `scan` would find them."""
    with TemporaryDirectory(dir=folder) as real:
        for number in range(DISTINCT):
            spec = ClipSpec(num_frames, height=48, width=80, fps=30, gop=50, b_frames=3, seed=number)
            write_clip(f"{real}/{number:02}.mp4", spec, AudioSpec(num_frames / 30))
        scanned = scan(real, progress=False)
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    for row in list(range(DISTINCT)) * (4096 // DISTINCT):
        builder.append(scanned.frame_index(row))
    builder.finish()
    numbers = np.arange(num_videos, dtype=np.int64)
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    labels = pa.array(_CLASSES).take(pa.array(numbers * 7 % len(_CLASSES)))
    own = {
        "source": pc.binary_join_element_wise(
            "videos/", pc.utf8_slice_codeunits(digits, 0, 4), "/", digits, ".mp4", ""
        ),
        "mtime_ns": pa.array(1_700_000_000_000_000_000 + numbers),
        "fingerprint": pc.utf8_lpad(digits, 32, "f"),
        "label": encode_labels(pa.chunked_array([labels]), _CLASSES).combine_chunks(),
    }
    table = scanned.table.take(pa.array(numbers % DISTINCT))
    for name, column in own.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    whole, rest = divmod(num_videos, batches[0].num_rows)
    # The same batch many times: memory for one of them.
    frames = FrameTables([batches[0]] * whole + [batches[0].slice(0, rest)])
    header = CatalogHeader(content_fingerprint(table, ["made up"]), "frames", "ends", list(_CLASSES))
    path = folder / "made_up.parquet"
    write_catalog(str(path), table, header, frames)
    return path


@contextmanager
def _waiting(commands: Sequence[Sequence[str]]) -> Iterator[list[tuple[subprocess.Popen[str], dict[str, Any]]]]:
    """Run programs until each has said its line, hold them all there, and let them end."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for words in commands:
            processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        said = []
        for process in processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise subprocess.CalledProcessError(process.wait(), process.args)
            said.append(json.loads(line))
        yield list(zip(processes, said, strict=True))
        for process in processes:
            process.communicate("\n", timeout=HOUR)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# --- programs for fresh processes ----------------------------------------------------------------


def open_catalog(catalog: str) -> dict[str, Any]:
    """Open a catalog."""
    return time_work(lambda: Catalog.open(catalog))


def plan_and_wait(catalog: str, rank: str, world_size: str) -> dict[str, Any]:
    """Plan clips over a part of a catalog, say so in a line, and hold everything until an answer comes."""
    before = read_family_clocks()
    plan = plan_clips(
        Catalog.open(catalog),
        Dense(NUM_FRAMES, stride=4),
        seed=0,
        size=(SIZE, SIZE),
        rank=int(rank),
        world_size=int(world_size),
    )
    asked = range(0, len(plan), max(1, len(plan) // PLANNED))
    frames = sum(len(plan[position]) for position in asked)
    took = read_family_clocks() - before
    return _say_and_wait({"positions": len(asked), "frames": frames, "wall_seconds": took.wall})


def import_and_wait() -> dict[str, Any]:
    """Hold nothing but what the imports of a planning worker bring along."""
    return _say_and_wait({"positions": 0})


def _say_and_wait(said: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return {}
