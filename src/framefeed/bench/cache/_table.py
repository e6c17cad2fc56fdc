"""Row "table": every format, one after the other, on the same frames; and the original itself.

The original is decoded in order, and clip by clip at random.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from framefeed.bench._peers import FileFormat
from framefeed.bench._printing import align
from framefeed.bench._runner import Reading, read_clocks
from framefeed.bench.cache._checking import Checked, CropRequest, FrameSquare, check
from framefeed.bench.cache._holdings import ALONE, FileHolding, Gives, Holding, Loaded, StoreHolding
from framefeed.bench.cache._pages import forget
from framefeed.bench.cache._passes import plan_random_clips
from framefeed.bench.cache._samples import FULL_SIZE, Sample
from framefeed.bench.cache._scene import Scene
from framefeed.cache import known_codecs
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.load import ClipLoader
from framefeed.parallel import Ok, catch_outcome

LEAST_SECONDS = 0.25
"""Reading is repeated for so long."""
CLIPS = 4
MOST_SECONDS = 4.0
"""So much of a film is decoded in order."""
QUALITIES = {"jpeg": (80, 90, 95)}
"""Lossy codecs of ours are measured at several."""
Make = Callable[[Path], Holding]


@dataclass(slots=True)
class FormatTable:
    """What was found.

    Attributes:
        entries: One of each format that could be measured.
        checks: Entry's title -> what came back in the form that is mostly wanted.
        failed: Format -> why it could not be measured.
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    checks: dict[str, Checked] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def first_worst(self) -> FrameSquare | None:
        """The square that the first lossy format is worst at: where the others are looked at too."""
        return next((checked.worst for checked in self.checks.values() if checked.worst is not None), None)


def all_formats(sample: Sample, formats: Sequence[FileFormat], loader: Loaded | None, workers: int) -> dict[str, Make]:
    """How each format is made, by name: theirs first, then ours as planes, as RGB, and at the output's size."""

    def files(form: FileFormat) -> Make:
        return lambda folder: FileHolding(form, sample, folder, loader, workers)

    def stored(codec: str, of: Gives) -> Make:
        return lambda folder: StoreHolding(codec, of, sample, folder, workers)

    makes = {form.name: files(form) for form in formats}
    makes |= {f"framefeed {codec}, planes": stored(codec, "planes") for codec in our_codecs()}
    makes["framefeed lz4, RGB"] = stored("lz4", "rgb")
    return makes | {f"framefeed {codec}, output": stored(codec, "small") for codec in our_codecs()}


def our_codecs() -> list[str]:
    """What a cache can be told, exact codecs first."""
    known = known_codecs()
    exact = [name for name in known if name not in QUALITIES]
    return exact + [f"{name}:{quality}" for name in known for quality in QUALITIES.get(name, ())]


def measure_table(
    makes: dict[str, Make], sample: Sample, work: Path, tell: Callable[[str], object] = lambda name: None
) -> FormatTable:
    """Measure one format after the other; the files of each are gone before the next is written.

    Args:
        makes: How each is made.
        sample: The frames.
        work: Folder on the disk that is meant.
        tell: Called with each name before it is measured.
    """
    table = FormatTable()
    for name, make in makes.items():
        tell(name)
        folder = work / "format"
        # Baselines are other people's code: what one raises is told, and the others go on.
        outcome = catch_outcome(partial(_measure_format, make, sample, CropRequest(table.first_worst)), folder)
        rmtree(folder, ignore_errors=True)
        if isinstance(outcome, Ok):
            entry, checked = outcome.value
            table.entries.append(entry)
            table.checks[entry["title"]] = checked
        elif isinstance(outcome.error, Exception):
            table.failed[name] = f"{type(outcome.error).__name__}: {outcome.error}"
        else:
            raise outcome.error
    return table


def _measure_format(make: Make, sample: Sample, request: CropRequest, folder: Path) -> tuple[dict[str, Any], Checked]:
    holding = make(folder)
    try:
        before = read_clocks()
        holding.write()
        wrote = read_clocks() - before
        checks = {
            gives: check(
                holding.read(range(len(sample)), gives),
                [getattr(frame, gives) for frame in sample.frames],
                request if gives == "rgb" and not holding.is_exact else None,
            )
            for gives in holding.gives
        }
        first = checks[holding.gives[0]]
        wrong = [
            f"{len(numbers)} of the frames as {gives} {what}"
            for gives, checked in checks.items()
            for what, numbers in (("did not come", checked.missing), ("differ", checked.differing * holding.is_exact))
            if numbers
        ]
        psnr = {"mean": first.psnr_mean, "worst": first.psnr_worst}
        return {
            **_entry(holding, sample, wrote),
            "wrong": wrong,
            "psnr_db": {name: None if math.isinf(value) else round(value, 2) for name, value in psnr.items()},
            **_reading(holding, sample.order),
        }, first
    finally:
        holding.close()


def _entry(holding: Holding, sample: Sample, wrote: Reading) -> dict[str, Any]:
    count, nbytes = len(sample), sum(map(os.path.getsize, holding.paths))
    # What can be read back last is what lies in the files.
    stored = holding.gives[-1]
    return {
        "title": f"{holding.name}, {holding.form}" if holding.group == "framefeed" else holding.name,
        "name": holding.name,
        "form": holding.form,
        "group": holding.group,
        "is_exact": holding.is_exact,
        "bytes_a_frame": round(nbytes / count),
        "raw_bytes_a_frame": round(sum(getattr(frame, stored).nbytes for frame in sample.frames) / count),
        "mb_whole": round(nbytes / sample.share / 1e6, 1),
        "share_of_rgb": round(nbytes / sum(frame.rgb.nbytes for frame in sample.frames), 4),
        "write_fps": round(count / wrote.wall, 1),
        "write_cpu_ms": round(1000 * wrote.cpu / count, 4),
        **({"encode_cpu_ms": round(1000 * holding.encode_cpu / count, 4)} if isinstance(holding, StoreHolding) else {}),
    }


def _reading(holding: Holding, order: Sequence[int]) -> dict[str, Any]:
    """Frames a second on the clock, cold once and warm again and again, and processor time of each form."""
    why = forget(holding.paths)
    main = holding.gives[0]
    rates = {} if why else {"cold": _rate(lambda: holding.read(order, main), len(order), 0)[0]}
    cpu = {}
    for gives in holding.gives:
        rate, milliseconds = _rate(partial(holding.read, order, gives), len(order))
        rates["warm" if gives == main else f"as {gives}"] = rate
        cpu[gives] = milliseconds
    for name, one_pass in holding.passes(order).items():
        if name != ALONE:
            _exhaust(one_pass)  # workers start
        rates[name] = _rate(lambda one_pass=one_pass: one_pass, len(order))[0]  # type: ignore[misc]
    return {"read_fps": rates, "read_cpu_ms": cpu, "not_cold": why}


def _rate(begin: Callable[[], Iterable[object]], count: int, least: float | None = None) -> tuple[float, float]:
    """Frames a second, and processor milliseconds a frame of this process, of passes over so many frames."""
    start, done, took = read_clocks(), 0, Reading(0, 0)
    while not done or took.wall < (LEAST_SECONDS if least is None else least):
        _exhaust(begin())
        done += count
        took = read_clocks() - start
    return round(done / took.wall, 1), round(1000 * took.cpu / done, 4)


def _exhaust(items: Iterable[object]) -> None:
    for item in items:
        del item


def original_entries(scene: Scene) -> list[dict[str, Any]]:
    """Frames a second of the original; the first reader is the plain loop that the write-up compares with."""
    video = scene.sample.video

    def entry(title: str, rates: dict[str, float]) -> dict[str, Any]:
        return {
            "title": f"original, {title}",
            "group": "original",
            "form": "video",
            "is_exact": True,
            "mb_whole": round(video.path.stat().st_size / 1e6, 1),
            "read_fps": rates,
            "wrong": [],
        }

    def rate(frames: Iterable[object]) -> dict[str, float]:
        start, count = time.perf_counter(), 0
        for frame in frames:
            del frame
            count += 1
            if time.perf_counter() - start > MOST_SECONDS:
                break
        return {"warm": round(count / (time.perf_counter() - start), 1)}

    entries = [
        entry(f"in order ({reader.name})", rate(reader.read(str(video.path))))
        for reader in scene.peers.list_all("in_order")
    ]
    pictures = PyAVDecoder().iter_rgb(video.source, video.index, range(len(video)), FULL_SIZE)
    entries.append(entry("in order (framefeed)", rate(pictures)))
    clips = entry(f"random clips to {scene.sample.size} (framefeed)", {})
    plan = plan_random_clips(scene, CLIPS)
    for name, workers in (("warm", 0), (f"{scene.workers} threads", scene.workers)):
        before, frames = read_clocks(), 0
        with ClipLoader(plan, batch_size=1, workers=workers) as loader:
            for batch in loader:
                frames += batch.data.shape[1]
        took = read_clocks() - before
        clips["read_fps"][name] = round(frames / took.wall, 1)
        if not workers:
            clips["read_cpu_ms"] = {"small": round(1000 * took.cpu / frames, 4)}
    return [*entries, clips]


_COLUMNS = (
    "cold: pages dropped before; DataLoader N: one file a frame, read by a torch DataLoader with N workers, batch 16; "
    "{workers} threads: our ordered threads; to {size}: read and resized; planes alone: without conversion to RGB"
)


def describe_table(row: Mapping[str, Any], crops: Path | None = None) -> list[str]:
    """The advice, and the table that it rests on, every format on a line.

    Args:
        row: Result of the row.
        crops: The file of crops, whose folder no report names.
    """
    table = row["facts"]
    workers, advice = table["workers"], table["advice"]
    lines = ["", *advice["lines"]] if advice else []
    lines += ["", row["title"], f"  {table['note']}"]
    header = ["", "exact", "MB", "write FPS", "read FPS: cold", "warm", "DataLoader 0", f"DataLoader {workers}",
              f"{workers} threads", f"to {table['size']}", "planes alone", "PSNR dB: mean", "worst"]  # fmt: skip
    lines += align([header, *(_cells(entry, workers) for entry in table["entries"])])
    lines.append(f"  {_COLUMNS.format(workers=workers, size=table['size'])}")
    for entry in table["entries"]:
        lines += [f"  WRONG: {entry['title']}: {what}" for what in entry["wrong"]]
    lines += [f"  not measured: {name}: {why}" for name, why in table["not_measured"].items()]
    reasons = {entry["not_cold"] for entry in table["entries"] if entry.get("not_cold")}
    lines += [f"  cold not measured: {why}" for why in sorted(reasons)]
    disk = table["disk"]
    if isinstance(disk, str):
        lines.append(f"  the disk's own speed not measured: {disk}")
    else:
        lines.append(f"  the disk, one large file: reads {disk['read']:,.0f} MB/s cold, writes {disk['write']:,.0f}")
    return lines + ([f"  crops: {crops}"] if table["crops"] else [])


def _cells(entry: Mapping[str, Any], workers: int) -> list[str]:
    rates, psnr = entry["read_fps"], entry.get("psnr_db", {})
    exact = "WRONG" if entry["wrong"] else "yes" if entry["is_exact"] else "no"
    names = ("cold", "warm", "DataLoader 0", f"DataLoader {workers}", f"{workers} threads", "as small", "as planes")
    return [
        entry["title"],
        exact,
        f"{entry['mb_whole']:,.0f}",
        _number(entry.get("write_fps")),
        *(_number(rates.get(name)) for name in names),
        *("" if entry["is_exact"] or psnr.get(which) is None else f"{psnr[which]:.1f}" for which in ("mean", "worst")),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
