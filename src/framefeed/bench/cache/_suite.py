"""The rows of ``framefeed bench cache``: every format on the user's own video, the paired rows, and the advice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from framefeed.bench._runner import NO_TIME, Findings, Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.cache._advice import advice_on
from framefeed.bench.cache._checking import crops_sheet
from framefeed.bench.cache._pages import disk_speed
from framefeed.bench.cache._passes import batches_row, filling_row, second_row
from framefeed.bench.cache._reads import checksums_row, exact_row, original_row
from framefeed.bench.cache._samples import take_sample, video_of
from framefeed.bench.cache._scene import Scene
from framefeed.bench.cache._table import FormatTable, all_formats, measure_table, original_entries
from framefeed.cache import read_memory_size
from framefeed.encode import save_still

FRAMES = 64
PAIRS = 6
"""The fewest whose interval holds the median in 95 of 100 cases."""
DISK_BYTES = 256 * 10**6
"""Of the file that the disk's speed is measured with."""
TABLE = "table"
ROWS: Mapping[str, str] = {
    TABLE: "one video's frames in every format of framefeed and of other libraries",
    "exact": "framefeed's best lossless codec, against joblib's lz4 and PNG",
    "original": "reading stored frames, against decoding them from the original",
    "second": "a second pass over the same clips, against the first",
    "batches": "reading whole batches stored raw, against memcpy",
    "filling": "cost of storing frames in a first pass",
    "checksums": "share of checksums in the cost of reading",
}
PEERS = ("opencv", "joblib", "blosc2", "pillow", "pyav", "jpegxl", "torchcodec", "decord2", "torch")
ROW_SECONDS = {TABLE: 30, "original": 20}
"""Of a row on 16 frames of 1280x720 with its first round, about, on two x86-64 cores."""


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for, and decode the frames that all of them read.

    Raises:
        MissingMedia: Media are named, and none is a video.
    """
    asked = options.rows or tuple(ROWS)
    if not options.rounds.has(min(ROW_SECONDS.get(key, 0) for key in asked)):
        return [PlannedRow(key, lambda scratch, stack: Row("", ""), lack=NO_TIME) for key in asked]
    begin(f"decoding {options.frames} frames")
    sample = take_sample(video_of(options.media, work), options.frames, options.size)
    workers = _count_workers(options)
    makes: Mapping[str, Callable[[Scene, ExitStack], Row]] = {
        TABLE: lambda scene, stack: table_row(scene, options.crops, begin),
        "exact": exact_row,
        "original": original_row,
        "second": second_row,
        "batches": batches_row,
        "filling": filling_row,
        "checksums": checksums_row,
    }

    def make(key: str) -> Callable[[Path, ExitStack], Row]:
        return lambda scratch, stack: makes[key](Scene(sample, scratch, peers, options.rounds, workers), stack)

    return [PlannedRow(key, make(key), ROW_SECONDS.get(key, 0)) for key in asked]


def _count_workers(options: BenchOptions) -> int:
    return options.workers or len(os.sched_getaffinity(0))


def table_row(scene: Scene, crops: Path | None, begin: Begin) -> Row:
    """Measure every format, and say which one to take."""
    sample, peers = scene.sample, scene.peers
    disk = disk_speed(str(scene.work / "disk"), DISK_BYTES)
    loader = peers.modules["torch"].load_files if "torch" in peers.modules else None
    formats = all_formats(sample, peers.list_all("formats"), loader, scene.workers)
    table = measure_table(formats, sample, scene.work, lambda name: begin(f"{TABLE}: {name}"))
    height, width = sample.video.index.stream.displayed
    frames = len(sample.video)
    facts = {
        "note": f"measured on {len(sample)} frames spread over it; MB are of all {frames:,}, in proportion; FPS on the "
        "clock; write FPS of framefeed's with fsync",
        "frames": len(sample),
        "num_frames": frames,
        "workers": scene.workers,
        "size": sample.size,
        "disk": disk,
        "entries": [*original_entries(scene), *table.entries],
        "not_measured": table.failed,
        "crops": _draw(table, crops),
    }
    facts["advice"] = advice_on(facts, read_memory_size())
    wrong = [f"{entry['title']}: {what}" for entry in table.entries for what in entry["wrong"]]
    title = f"{sample.video.path.name}: {frames:,} frames of {width}x{height}, in every format"
    return Row(TABLE, title, conclude=lambda timings: Findings(facts=facts, wrong=wrong))


def _draw(table: FormatTable, path: Path | None) -> str | None:
    """Write the contact sheet of the lossy formats, and give its name."""
    lossy = [entry for entry in table.entries if table.checks[entry["title"]].worst is not None]
    if path is None or not lossy:
        return None
    worst, same = [], []
    for entry in lossy:
        checked, name = table.checks[entry["title"]], entry["name"]
        assert checked.worst is not None
        worst.append((f"{name}: {checked.worst.psnr:.1f} dB here", checked.worst))
        same.append(
            (f"{name}: {checked.psnr_mean:.1f} dB in all, {entry['mb_whole']:,.0f} MB", checked.same or checked.worst)
        )
    rows = [
        ("where each lossy format differs most: left as decoded, right as stored, enlarged four times", worst),
        ("the same place in each", same),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    save_still(path, crops_sheet(rows))
    return path.name


CACHE = Suite(
    "cache",
    ROWS,
    PEERS,
    plan_rows,
    PAIRS,
    lambda options: {"frames": options.frames, "size": list(options.size), "workers": _count_workers(options)},
    measures_disk=True,
)
