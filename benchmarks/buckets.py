"""Plans of buckets: a million videos into 24 buckets, and what a clip of a step costs beside one of a plain plan.

    python -m benchmarks.buckets [--videos 1000000] [--rounds 5] [--out build/buckets.json]
    python -m benchmarks.buckets --media ../shared/media

The second counts what each tail repeats or leaves out of a folder's videos, in batches of 4 on two ranks.

Planning is measured in fresh processes: wall and CPU seconds, memory beyond the opened catalog. Loading runs a plan of
buckets and a plan of the same clips one after the other, in turn, and counts CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import framefeed as ff
from benchmarks.opening import read_megabytes
from framefeed.catalog import CatalogHeader, FrameTableBuilder, FrameTables, content_fingerprint, write_catalog
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

SIZES = ((90, 160), (160, 90), (96, 128), (128, 96), (120, 120), (180, 320), (320, 180), (192, 256))
LENGTHS = (14, 24, 34, 48)
RATIOS = ("9:16", "1:1", "4:3", "16:9")
BUCKETS = ff.Buckets(frames=(5, 9, 13), pixels=(64 * 112, 112 * 192), multiple=16, ratios=RATIOS)
OPTIONS: dict[str, Any] = {"fps": 8, "seed": 0}
CLIPS_PLANNED = 4000
BATCH = 8


def make_videos(folder: Path, copies: int = 1) -> ff.Catalog:
    """Write videos of each size and length, and scan them."""
    for number, (height, width) in enumerate(SIZES):
        for frames in LENGTHS:
            for copy in range(copies):
                spec = ClipSpec(frames, height=height, width=width, fps=24 if number % 2 else 15, gop=12, seed=copy)
                write_clip(folder / f"{number}-{frames:02}-{copy}.mp4", spec)
    return scan(folder, progress=False)


def make_catalog(folder: Path, count: int) -> Path:
    """Write a catalog of so many videos, which are those of `make_videos` again and again."""
    real = folder / "real"
    real.mkdir()
    scanned = make_videos(real)
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    distinct = len(scanned)
    for row in list(range(distinct)) * (4096 // distinct):
        builder.append(scanned.frame_index(row))
    builder.finish()
    numbers = np.arange(count, dtype=np.int64)
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    table = scanned.table.take(pa.array(numbers % distinct))
    own = {
        "source": pc.binary_join_element_wise("videos/", digits, ".mp4", ""),
        "fingerprint": pc.utf8_lpad(digits, 32, "f"),
    }
    for name, column in own.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    whole, rest = divmod(count, batches[0].num_rows)
    frames = FrameTables([batches[0]] * whole + [batches[0].slice(0, rest)])
    path = folder / "made_up.parquet"
    header = CatalogHeader(content_fingerprint(table, ["made up"]), "frames", "ends", [])
    write_catalog(str(path), table, header, frames)
    return path


def plan_once(path: str) -> dict[str, float]:
    """Open a catalog, plan from it, and find clips; in a fresh process."""
    catalog = ff.Catalog.open(path)
    ff.plan_clips(catalog, ff.Dense(5, fps=8), seed=0, size=(64, 64))  # the columns that every plan reads
    before = read_megabytes()
    began, cpu = time.perf_counter(), time.process_time()
    plan = ff.plan_buckets(catalog, BUCKETS, global_batch=16, **OPTIONS)
    count = len(plan)
    planned, planned_cpu = time.perf_counter(), time.process_time()
    memory = read_megabytes() - before
    plain = ff.plan_clips(catalog, ff.Dense(9, fps=8), seed=0, size=(64, 64))
    took = {}
    for name, each in (("cold", plan), ("clip", plan), ("cold plain", plain), ("plain clip", plain)):
        cpu_before = time.process_time()
        for first in range(0, CLIPS_PLANNED, 512):
            found = each.clips_at(each.global_position(np.arange(first, first + 512, dtype=np.int64)))
            for slot in range(len(found)):
                found.plan(slot)
        took[f"{name} us"] = 1e6 * (time.process_time() - cpu_before) / CLIPS_PLANNED
    planning = {"plan wall s": planned - began, "plan CPU s": planned_cpu - cpu, "memory MB": memory}
    return {"positions": count, **planning, **took}


def measure_loading(rounds: int) -> dict[str, Any]:
    """Load an epoch of buckets, and the same clips as a plain plan of each shape, in turn: CPU seconds."""
    with TemporaryDirectory() as folder:
        catalog = make_videos(Path(folder), 8)
        plan = ff.plan_buckets(catalog, BUCKETS, global_batch=BATCH, tail="drop", start=0, **OPTIONS)
        rows: dict[tuple[int, int, int], list[int]] = {}
        for clip, shape in zip(plan, plan.shapes(), strict=True):
            rows.setdefault(shape, []).append(clip.row)
        plains = [
            ff.plan_clips(catalog.take(own), ff.Dense(shape[0], fps=8, start=0), seed=0, size=ff.Cover(*shape[1:]))
            for shape, own in rows.items()
        ]
        pairs = [(_load([plan], None), _load(plains, BATCH)) for _ in range(rounds + 1)][1:]
    ratios = sorted(plain / own for own, plain in pairs)
    return {
        "clips": len(plan), "buckets": len(rows), "CPU s": median(own for own, _ in pairs),
        "plain / buckets": median(ratios), "from": ratios[0], "to": ratios[-1],
    }  # fmt: skip


def _load(plans: list[ff.EpochPlan], batch_size: int | None) -> float:
    began = time.process_time()
    for plan in plans:
        with ff.ClipLoader(plan, batch_size=batch_size, workers=1) as loader:
            for batch in loader:
                assert batch.ok.all()
    return time.process_time() - began


def measure_state(folder: Path) -> dict[str, int]:
    """Count the bytes of the state of a plan of 150 buckets."""
    catalog = scan(folder / "real", progress=False)
    sizes = [(16 * rows, 16 * columns) for rows in (2, 3, 4) for columns in range(2, 7)]
    buckets = [(length, *size) for length in range(2, 12) for size in sizes]
    plan = ff.plan_buckets(catalog, buckets, fps=8, batch_size=1, seed=0, min_steps=0, per_video="all", max_crop=0.99)
    with ff.ClipLoader(plan, workers=0) as loader:
        return {"buckets": len(buckets), "state bytes": len(json.dumps(loader.state_dict()))}


def count_tails(folder: Path) -> list[str]:
    """Write a line for each area and ``min_steps``: buckets, clips, and what "pad" repeats and "drop" leaves out."""
    videos = scan(folder, progress=False).filter(kind="video")
    lines = [f"{len(videos)} videos"]
    for pixels in ((320 * 576, 480 * 832), (256 * 256,)):
        buckets = ff.Buckets(frames=(17, 33, 49), pixels=pixels)
        for least in (0, 1):
            options: dict[str, Any] = {"fps": 16, "batch_size": 4, "world_size": 2, "seed": 0, "min_steps": least}
            pad, drop = (
                ff.plan_buckets(videos, buckets, tail=tail, **options).describe().buckets.buckets
                for tail in ("pad", "drop")
            )
            clips = sum(each.clips for each in pad)
            repeated, left = sum(each.repeated for each in pad) / clips, sum(each.left for each in drop) / clips
            lines.append(
                f"{pixels}, min_steps={least}: {len(pad)} buckets, {clips} clips, pad repeats {repeated:.0%}, "
                f"drop leaves out {left:.0%}"
            )
    return lines


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--media", type=Path, help="a folder of videos, whose tails are counted instead")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if asked.plan:
        print(json.dumps(plan_once(asked.plan)))
        return
    if asked.media:
        print("\n".join(count_tails(asked.media)))
        return
    with TemporaryDirectory() as folder:
        path = make_catalog(Path(folder), asked.videos)
        words = [sys.executable, "-m", "benchmarks.buckets", "--plan", str(path)]
        runs = [json.loads(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(asked.rounds)]
        values = {key: sorted(run[key] for run in runs) for key in runs[0]}
        results: dict[str, Any] = {
            "planning": {key: [median(each), each[0], each[-1]] for key, each in values.items()},
            "state": measure_state(Path(folder)),
        }
    results["loading"] = measure_loading(asked.rounds)
    text = json.dumps(results, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
