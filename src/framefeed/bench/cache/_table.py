"""Row "table": every format, one after the other, on the same frames; and the original itself.

The original is decoded in order, and clip by clip at random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from shutil import rmtree
from typing import Any

from framefeed._units import format_table
from framefeed.bench._runner import NO_TIME, Reading, read_clocks, take_time
from framefeed.bench.cache._checking import Checked, FrameSquare, check, draw_crops
from framefeed.bench.cache._pages import forget, measure_disk
from framefeed.bench.cache._sample import FULL_SIZE, plan_random_clips
from framefeed.bench.cache._stored import (
    CLIP,
    CachedSample,
    FileSample,
    Scene,
    Stores,
    count_bytes,
    exhaust,
)
from framefeed.cache import CODECS
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.encode import save_still
from framefeed.load import ClipLoader
from framefeed.parallel import Ok, catch_outcome, ordered_map

LEAST_SECONDS = 0.25
"""Reading is repeated for so long."""
CLIPS = 4
MOST_SECONDS = 4.0
"""So much of a film is decoded in order."""
DISK_BYTES = 256 * 10**6
"""Of the file that the disk's speed is measured with."""
QUALITIES = {"jpeg": (80, 90, 95)}
"""Lossy codecs of ours are measured at several."""
Make = Callable[[Path], FileSample | CachedSample]


@dataclass(slots=True)
class FormatTable:
    """What was measured: entries, what came back as RGB by their titles, and formats that failed, with the reason."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    checks: dict[str, Checked] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def first_worst(self) -> FrameSquare | None:
        """The square that the first lossy format is worst at: it is cut out of the others too."""
        return next((checked.worst for checked in self.checks.values() if checked.worst is not None), None)


def list_formats(scene: Scene) -> dict[str, Make]:
    """How each format is made, by name: theirs first, then ours as planes, as RGB, and at the output's size."""

    def store(codec: str, stores: Stores) -> Make:
        return lambda folder: CachedSample(codec, stores, scene.sample, folder)

    makes: dict[str, Make] = {
        form.name: partial(FileSample, form, scene.sample) for form in scene.peers.list_all("FORMATS")
    }
    makes |= {f"framefeed {codec}, planes": store(codec, "planes") for codec in our_codecs()}
    makes["framefeed lz4, RGB"] = store("lz4", "rgb")
    return makes | {f"framefeed {codec}, output": store(codec, "small") for codec in our_codecs()}


def our_codecs() -> list[str]:
    """The codecs that a cache can be given by name, exact ones first."""
    exact = [name for name, entry in CODECS.items() if entry.is_exact]
    return exact + [f"{name}:{quality}" for name in CODECS for quality in QUALITIES.get(name, ())]


def measure_table(makes: Mapping[str, Make], scene: Scene, begin: Callable[[str], object]) -> FormatTable:
    """Measure one format after the other; the files of each are gone before the next is written."""
    table = FormatTable()
    for name, make in makes.items():
        if not scene.rounds.has(0):
            table.failed[name] = NO_TIME
            continue
        begin(f"table: {name}")
        folder = scene.work / "format"
        # Baselines are other people's code: what one raises is shown, and the others go on.
        outcome = catch_outcome(partial(_measure_format, make, scene, table.first_worst), folder)
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


def _measure_format(make: Make, scene: Scene, at: FrameSquare | None, folder: Path) -> tuple[dict[str, Any], Checked]:
    stored, sample = make(folder), scene.sample
    count = len(sample)
    try:
        wrote = take_time(stored.write)
        checks = {
            gives: check(
                stored.read(range(count), gives),
                [getattr(frame, gives) for frame in sample.frames],
                crops=gives == "rgb" and not stored.is_exact,
                at=at if gives == "rgb" and not stored.is_exact else None,
            )
            for gives in stored.gives
        }
        first, nbytes = checks[stored.gives[0]], count_bytes(stored)
        psnr = {"mean": first.psnr_mean, "worst": first.psnr_worst}
        return {
            "title": stored.title,
            "name": stored.name,
            "form": stored.form,
            "group": stored.group,
            "is_exact": stored.is_exact,
            "bytes_a_frame": round(nbytes),
            "mb_whole": round(nbytes * count / sample.share / 1e6, 1),
            "share_of_rgb": round(nbytes / sample.frames[0].rgb.nbytes, 4),
            "write_fps": round(count / wrote.wall, 1),
            "write_cpu_ms": round(1000 * wrote.cpu / count, 4),
            "wrong": [
                f"{len(numbers)} of the frames as {gives} {what}"
                for gives, checked in checks.items()
                for what, numbers in (
                    ("did not come", checked.missing), ("differ", checked.differing * stored.is_exact)
                )
                if numbers
            ],
            "psnr_db": {name: None if math.isinf(value) else round(value, 2) for name, value in psnr.items()},
            **_measure_reading(stored, scene),
        }, first  # fmt: skip
    finally:
        stored.close()


def _measure_reading(stored: FileSample | CachedSample, scene: Scene) -> dict[str, Any]:
    """Frames a second on the clock, cold once and warm again and again, and processor time of each form."""
    order, workers, main = scene.sample.order, scene.workers, stored.gives[0]
    why = forget(stored.paths)
    rates = {} if why else {"cold": _measure_rate(lambda: stored.read(order, main), len(order), 0)[0]}
    cpu = {}
    for gives in stored.gives:
        rate, milliseconds = _measure_rate(partial(stored.read, order, gives), len(order))
        rates["warm" if gives == main else f"as {gives}"] = rate
        cpu[gives] = milliseconds
    if isinstance(stored, CachedSample):
        clips = [order[first : first + CLIP] for first in range(0, len(order), CLIP)]

        def read_in_threads() -> Iterator[None]:
            with ordered_map(
                lambda clip: exhaust(stored.read(clip, main)), clips, workers=workers, max_in_flight=2 * workers
            ) as done:
                yield from done

        rates[f"{workers} threads"] = _measure_rate(read_in_threads, len(order))[0]
    elif "torch" in scene.peers.modules:
        load = partial(scene.peers.modules["torch"].load_files, [stored.paths[n] for n in order], stored.format.read)
        for number in dict.fromkeys((0, workers)):
            loader = load(number)
            exhaust(loader if number else ())  # workers start
            rates[f"DataLoader {number}"] = _measure_rate(lambda loader=loader: loader, len(order))[0]  # type: ignore[misc]
    return {"read_fps": rates, "read_cpu_ms": cpu, "not_cold": why}


def _measure_rate(begin: Callable[[], Iterable[object]], count: int, least: float | None = None) -> tuple[float, float]:
    """Frames a second, and processor milliseconds a frame of this process, of passes over so many frames."""
    start, done, took = read_clocks(), 0, Reading(0, 0)
    while not done or took.wall < (LEAST_SECONDS if least is None else least):
        exhaust(begin())
        done += count
        took = read_clocks() - start
    return round(done / took.wall, 1), round(1000 * took.cpu / done, 4)


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
        entry(f"in order ({name})", rate(read(str(video.path)))) for name, read in scene.peers.list_all("IN_ORDER")
    ]
    pictures = PyAVDecoder().iter_rgb(video.source, video.index, range(len(video)), FULL_SIZE)
    entries.append(entry("in order (framefeed)", rate(pictures)))
    clips = entry(f"random clips to {scene.sample.size} (framefeed)", {})
    plan = plan_random_clips(video, CLIPS, scene.sample.output.size)
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


def measure_formats(
    scene: Scene, crops: Path | None, begin: Callable[[str], object]
) -> tuple[dict[str, Any], list[str]]:
    """Measure every format, and say which one to take: facts of the row, and what is wrong with ours, a line each."""
    sample = scene.sample
    disk = measure_disk(str(scene.work / "disk"), DISK_BYTES)
    table = measure_table(list_formats(scene), scene, begin)
    facts: dict[str, Any] = {
        "note": f"measured on {len(sample)} frames spread over it; MB are of all {len(sample.video):,}, in proportion; "
        "FPS on the clock; write FPS of framefeed's with fsync",
        "frames": len(sample),
        "num_frames": len(sample.video),
        "workers": scene.workers,
        "size": sample.size,
        "disk": disk,
        "entries": [*original_entries(scene), *table.entries],
        "not_measured": table.failed,
        "crops": _save_crops(table, crops),
    }
    facts["advice"] = choose_codecs(facts["entries"], scene.workers, disk)
    return facts, [f"{entry['title']}: {what}" for entry in table.entries for what in entry["wrong"]]


WORTH = 1.5
"""A cache that is less than so many times as fast as the original is not worth its disk."""
USES = {"output": "the same pixels in every epoch", "planes": "random crops, or whole pictures"}


def choose_codecs(
    entries: Sequence[Mapping[str, Any]], workers: int, disk: Mapping[str, float] | str
) -> list[dict[str, Any]]:
    """Choose, for each form of a cache, the exact codec that reads fastest from memory, and from the disk; pure.

    ``workers`` cores read at once; the disk reads so many megabytes a second, or a text says why that is not known.
    """
    sound = [each for each in entries if not each["wrong"] and "small" in each.get("read_cpu_ms", {})]
    original = [_count_fps(each, workers) for each in sound if each["group"] == "original"]
    speeds = {"memory": math.inf} if isinstance(disk, str) else {"memory": math.inf, "disk": disk["read"]}
    rows = []
    for form, (where, disk_mb) in product(USES, speeds.items()):
        ours = [each for each in sound if each["group"] == "framefeed" and each["is_exact"]]
        rates = {
            each["name"].removeprefix("framefeed "): _count_fps(each, workers, disk_mb)
            for each in ours
            if (each["form"] == "planes") == (form == "planes")
        }
        if original and rates:
            codec, fps = max(rates.items(), key=itemgetter(1))
            gain = round(fps / original[0], 2)
            rows.append({"form": form, "from": where, "codec": codec if gain >= WORTH else None, "fps": round(fps, 1),
                         "gain": gain})  # fmt: skip
    return rows


def _count_fps(entry: Mapping[str, Any], workers: int, disk_mb: float = math.inf) -> float:
    """Count the frames a second of all cores, or of the disk if it is slower."""
    return float(min(1000 * workers / entry["read_cpu_ms"]["small"], disk_mb * 1e6 / entry.get("bytes_a_frame", 1)))


def describe_choice(rows: Sequence[Mapping[str, Any]], workers: int) -> list[str]:
    """Show what ``choose_codecs`` chose, a line each."""
    if not rows:
        return []
    table = [["to store", "read from", "codec", "frames a second", "times the original"]]
    for row in rows:
        use, codec = f"{USES[row['form']]} (form={row['form']!r})", row["codec"] or "no cache: it is hardly faster"
        table.append([use, row["from"], codec, _number(row["fps"]), _number(row["gain"])])
    return ["", f"the exact codec that reads fastest, with {workers} threads", *format_table(table, indent="  ")]


def _save_crops(table: FormatTable, path: Path | None) -> str | None:
    """Write the contact sheet of the lossy formats, and give its name."""
    worst, same = [], []
    for entry in table.entries:
        checked, name = table.checks[entry["title"]], entry["name"]
        if checked.worst is not None:
            worst.append((f"{name}: {checked.psnr_worst:.1f} dB in this frame", checked.worst))
            caption = f"{name}: {checked.psnr_mean:.1f} dB in all, {_number(entry['mb_whole'])} MB"
            same.append((caption, checked.same or checked.worst))
    if path is None or not worst:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    save_still(path, draw_crops([
        ("where each lossy format differs most: left as decoded, right as stored, enlarged four times", worst),
        ("the same square in each", same),
    ]))  # fmt: skip
    return path.name


_COLUMNS = (
    "cold: pages dropped before; DataLoader N: one file a frame, read by a torch DataLoader with N workers, batch 16; "
    "{workers} threads: our ordered threads; to {size}: read and resized"
)


def describe_table(row: Mapping[str, Any], crops: Path | None = None) -> list[str]:
    """Show the choice, and the table that it rests on, every format on a line; reports name no folder of crops."""
    table = row["facts"]
    workers = table["workers"]
    lines = [*describe_choice(table["advice"], workers), "", row["title"], f"  {table['note']}"]
    header = ["", "exact", "MB", "write FPS", "read FPS: cold", "warm", "DataLoader 0", f"DataLoader {workers}",
              f"{workers} threads", f"to {table['size']}", "PSNR dB: mean", "worst"]  # fmt: skip
    lines += format_table([header, *(_cells(entry, workers) for entry in table["entries"])], indent="  ")
    lines.append(f"  {_COLUMNS.format(workers=workers, size=table['size'])}")
    for entry in table["entries"]:
        lines += [f"  WRONG: {entry['title']}: {what}" for what in entry["wrong"]]
    for why in dict.fromkeys(table["not_measured"].values()):
        names = ", ".join(repr(name) for name, other in table["not_measured"].items() if other == why)
        lines.append(f"  not measured: {names}: {why}")
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
    names = ("cold", "warm", "DataLoader 0", f"DataLoader {workers}", f"{workers} threads", "as small")
    return [
        entry["title"],
        exact,
        _number(entry["mb_whole"]),
        _number(entry.get("write_fps")),
        *(_number(rates.get(name)) for name in names),
        *("" if entry["is_exact"] or psnr.get(which) is None else f"{psnr[which]:.1f}" for which in ("mean", "worst")),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
