"""What a scan saves where single files are opened, and how soon a training over very many pictures begins.

    python benchmarks/opening.py FOLDER [--rounds 3] [--json OUT]
    python benchmarks/opening.py --pictures 800000 [--rounds 3] [--json OUT]

The first measures VideoDecoder(path) beside VideoDecoder(entry of a catalog), in CPU seconds. The second makes up a
labelled catalog of headers, and opens it, plans from it and loads the first batch, each time in a fresh process on one
core, in wall seconds. Its rows are photos of 64 sizes; the files of the first batches are there, as links to these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

import framefeed as ff
from framefeed.catalog import CatalogHeader, content_fingerprint, encode_labels, write_catalog

WHAT = {"open": None, "open, first frame": 0, "open, frame in the middle": 0.5}
PHOTOS = 64
CLASSES = tuple(f"n{number:08d}" for number in range(1000))
BATCH = 256
LINKED_BATCHES = 16
"""The loader begins some batches after the first."""


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


def measure_files(folder: Path, rounds: int) -> dict[str, Any]:
    """Compare opening by path and by catalog entry over the videos of a folder."""
    rows: dict[str, dict[str, float]] = {}
    entries = [entry for entry in ff.scan(folder, workers=1) if entry.info is not None]
    for what, at in WHAT.items():
        pairs = []
        for entry in entries:
            if entry.info.kind == "video":
                try:
                    measure(entry.source, at, 1)  # into the page cache
                    pairs.append((measure(entry.source, at, rounds), measure(entry, at, rounds)))
                except ff.FramefeedError:
                    continue
        ratios = [path / scanned for path, scanned in pairs]
        path, scanned = (1e3 * sum(each) / len(pairs) for each in zip(*pairs, strict=True))
        rows[what] = {
            "files": len(pairs), "ms by path": path, "ms by entry": scanned, "total ratio": path / scanned,
            "median ratio": statistics.median(ratios),
        }  # fmt: skip
    return rows


# --- a catalog of very many pictures ----------------------------------------------------------------


def make_photos(folder: Path) -> None:
    """Write JPEGs of about 500 x 375, smooth and with some noise."""
    rng = np.random.default_rng(0)
    for number in range(PHOTOS):
        width, height = 500 - number % 8, 375 + number // 8
        smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize((width, height), Image.BICUBIC)
        noise = rng.integers(-12, 13, (height, width, 3))
        Image.fromarray(np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8)).save(folder / f"{number:02}.jpg")


def make_catalog(folder: Path, count: int) -> Path:
    """Write a catalog of headers, as a scan of so many files in folders of classes gives it."""
    photos = folder / "photos"
    photos.mkdir()
    make_photos(photos)
    scanned = ff.scan(photos, depth="header", workers=0, progress=False)
    photo_of_row = np.arange(count) % PHOTOS
    class_of_row = np.sort(np.arange(count) % len(CLASSES))
    names = [f"train/{CLASSES[c]}/{CLASSES[c]}_{row}.JPEG" for row, c in enumerate(class_of_row.tolist())]
    labels = pa.array(CLASSES).take(pa.array(class_of_row))
    table = scanned.table.take(pa.array(photo_of_row))
    own = {"source": pa.array(names), "label": encode_labels(pa.chunked_array([labels]), CLASSES)}
    for name, column in own.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    path = folder / "made_up.parquet"
    fingerprint = content_fingerprint(table, ["made up"])
    write_catalog(str(path), table, CatalogHeader(fingerprint, "header", "proof", list(CLASSES)), None)
    plan = plan_pictures(ff.Catalog.open(path))
    for position in range(min(len(plan), BATCH * LINKED_BATCHES)):
        row = plan[position].row
        link = folder / names[row]
        link.parent.mkdir(parents=True, exist_ok=True)
        os.link(photos / f"{photo_of_row[row]:02}.jpg", link)
    return path


def plan_pictures(catalog: ff.Catalog) -> ff.EpochPlan:
    return ff.plan_clips(catalog, ff.Uniform(1), seed=0, size=(224, 224), columns=["label"])


def load_first_batch(path: Path) -> dict[str, float]:
    """Open, plan and load on one core; give wall seconds, and the memory beyond that of the imports."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    before = read_megabytes()
    began = time.perf_counter()
    catalog = ff.Catalog.open(path)
    opened = time.perf_counter()
    plan = plan_pictures(catalog)
    planned, planned_megabytes = time.perf_counter(), read_megabytes()
    with ff.ClipLoader(plan, batch_size=BATCH, workers=1) as loader:
        batch = next(iter(loader))
        loaded = time.perf_counter()
        assert batch.ok.all()
    return {
        "open s": opened - began, "plan s": planned - opened, "first batch s": loaded - planned,
        "all s": loaded - began,
        "planned bytes a row": 1e6 * (planned_megabytes - before) / len(catalog),
        "bytes a row": 1e6 * (read_megabytes() - before) / len(catalog),
    }  # fmt: skip


def read_megabytes() -> float:
    """Read the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_pictures(count: int, rounds: int) -> dict[str, Any]:
    """Take medians over fresh processes."""
    with TemporaryDirectory() as folder:
        path = make_catalog(Path(folder), count)
        words = [sys.executable, __file__, "--load", str(path)]
        runs = [json.loads(subprocess.run(words, check=True, capture_output=True).stdout) for _ in range(rounds)]
    return {"pictures": count, "batch": BATCH, **{key: statistics.median(run[key] for run in runs) for key in runs[0]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--pictures", type=int, metavar="N")
    parser.add_argument("--load", type=Path, metavar="CATALOG", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="OUT")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.load:
        found = load_first_batch(args.load)
    elif args.pictures:
        found = measure_pictures(args.pictures, args.rounds)
    elif args.folder:
        found = measure_files(args.folder, args.rounds)
    else:
        parser.error("give FOLDER, or --pictures N")
    print(json.dumps(found, indent=1))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
