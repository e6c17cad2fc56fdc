"""``framefeed bench cache``: every format on the user's own video, the paired rows, and what to make of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._checks import check_known
from framefeed.bench._cache_samples import take_sample, video_of
from framefeed.bench._measuring import NO_TIME, Rounds, machine_facts
from framefeed.bench.cache._advice import advice_on
from framefeed.bench.cache._batches import batches_row
from framefeed.bench.cache._checking import crops_sheet
from framefeed.bench.cache._decoding import original_entries
from framefeed.bench.cache._exact import exact_row
from framefeed.bench.cache._field import find_frames
from framefeed.bench.cache._original import checksums_row, original_row
from framefeed.bench.cache._ours import sized
from framefeed.bench.cache._pages import disk_speed
from framefeed.bench.cache._passes import filling_row, second_row
from framefeed.bench.cache._scene import Scene
from framefeed.bench.cache._table import FormatTable, all_formats, measure_table
from framefeed.cache import read_memory_size
from framefeed.encode import save_still
from framefeed.errors import FramefeedError, MissingMedia

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


ROW_SECONDS = {TABLE: 30, "original": 20}
"""Of a row on 16 frames of 1280x720 with its first round, about, on two x86-64 cores."""


@dataclass(frozen=True, slots=True)
class CacheBench:
    """What to run.

    Attributes:
        media: The user's videos, files or folders: the first that can be read is measured; without any one is made.
        work: Folder for what is made, kept; None for one that is removed at the end.
        disk: Folder on the disk that the frames are to be stored on; None for the folder of what is made.
        rows: Keys of the rows, or () for all.
        frames: Of the video, spread over it.
        size: (height, width) of outputs.
        workers: Of a DataLoader, and threads; None for the cores.
        rounds: How often, in the paired rows.
        crops: File for the contact sheet of the lossy formats, or None.
    """

    media: tuple[Path, ...] = ()
    work: Path | None = None
    disk: Path | None = None
    rows: tuple[str, ...] = ()
    frames: int = FRAMES
    size: tuple[int, int] = (224, 224)
    workers: int | None = None
    rounds: Rounds = field(default_factory=lambda: Rounds(PAIRS))
    crops: Path | None = None

    def __post_init__(self) -> None:
        check_known("rows", self.rows, ROWS)


def run_cache(
    bench: CacheBench,
    tell: Callable[[dict[str, Any]], None] = lambda row: None,
    begin: Callable[[str], object] = lambda what: None,
) -> dict[str, Any]:
    """Run the rows.

    Args:
        bench: What to run.
        tell: Called with each row's report as soon as there is one.
        begin: Called with each row, and each format of the table, before it is measured.

    Returns:
        The whole report; a row that failed is listed with the reason.
    """
    peers = find_frames()
    workers = bench.workers or len(os.sched_getaffinity(0))
    report: dict[str, Any] = {
        "bench": "cache",
        "machine": machine_facts(),
        "versions": peers.versions,
        "missing": peers.missing,
        "settings": {"pairs": bench.rounds.pairs, "frames": bench.frames, "size": list(bench.size), "workers": workers},
        "rows": [],
        "skipped": {},
    }
    with _folders(bench) as (work, disk):
        if not bench.rounds.has(min(ROW_SECONDS.get(key, 0) for key in bench.rows or ROWS)):
            report["skipped"] = dict.fromkeys(bench.rows or ROWS, NO_TIME)
            return report
        begin(f"decoding {bench.frames} frames")
        try:
            sample = take_sample(video_of(bench.media, work), bench.frames, bench.size)
        except MissingMedia as error:
            report["skipped"] = dict.fromkeys(bench.rows or ROWS, str(error))
            return report
        for number, key in enumerate(bench.rows or ROWS, 1):
            if not bench.rounds.has(ROW_SECONDS.get(key, 0)):
                report["skipped"][key] = NO_TIME
                continue
            title = f"row {number} of {len(bench.rows or ROWS)}, {key}"
            begin(f"{title}: {ROWS[key]}")
            try:
                with TemporaryDirectory(prefix="row-", dir=disk) as scratch:
                    scene = Scene(sample, Path(scratch), peers, bench.rounds, workers)
                    row = _run(key, scene, bench, lambda name, title=title: begin(f"{title}: {name}"))  # type: ignore[misc]
            except FramefeedError as error:
                # What the other rows have measured is not lost.
                report["skipped"][key] = f"{type(error).__name__}: {error}"
                continue
            report["rows"].append(row)
            if key == TABLE:
                report["advice"] = advice_on(row, read_memory_size())
                # The user reads a whole path, a report names no folder.
                row = row | {"advice": report["advice"], "crops": row["crops"] and str(bench.crops)}
            tell(row)
    return report


def _run(key: str, scene: Scene, bench: CacheBench, begin: Callable[[str], object]) -> dict[str, Any]:
    runs: Mapping[str, Callable[[Scene], dict[str, Any]]] = {
        TABLE: lambda scene: _table_row(scene, bench.crops, begin),
        "exact": exact_row,
        "original": original_row,
        "second": second_row,
        "batches": batches_row,
        "filling": filling_row,
        "checksums": checksums_row,
    }
    return runs[key](scene)


def _table_row(scene: Scene, crops: Path | None, begin: Callable[[str], object]) -> dict[str, Any]:
    sample = scene.sample
    disk = disk_speed(str(scene.work / "disk"), DISK_BYTES)
    table = measure_table(all_formats(sample, scene.field, scene.workers), sample, scene.work, begin)
    height, width = sample.video.index.stream.displayed
    frames = len(sample.video)
    return {
        "key": TABLE,
        "title": f"{sample.video.path.name}: {frames:,} frames of {width}x{height}, in every format",
        "note": f"measured on {len(sample)} frames spread over it; MB are of all {frames:,}, in proportion; FPS on the "
        "clock; write FPS of framefeed's with fsync",
        "frames": len(sample),
        "num_frames": frames,
        "workers": scene.workers,
        "size": sized(sample),
        "disk": disk,
        "entries": [*original_entries(scene), *table.entries],
        "failed": table.failed,
        "wrong": [f"{entry['title']}: {what}" for entry in table.entries for what in entry["wrong"]],
        "crops": _draw(table, crops),
        "goals": [],
    }


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


@contextmanager
def _folders(bench: CacheBench) -> Iterator[tuple[Path, Path]]:
    """Folder for what is made, and the one on the disk that is measured."""
    if bench.work is not None:
        bench.work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="framefeed-bench-") as made:
        work = bench.work or Path(made)
        with TemporaryDirectory(prefix="framefeed-bench-", dir=bench.disk or work) as disk:
            yield work, Path(disk)
