"""Section A: every frame of a long video, stored one by one and read back, or not stored at all.

The write-up decodes a 1080p film with OpenCV, writes each frame to a file of its own, and reads the files. Here the
same loop writes and reads 600 frames of a trailer, enlarged to 1080p (of a generated scene, where there is no trailer);
megabytes are scaled to the film's 6,030 frames. framefeed's cache holds the decoder's planes, and is filled and read by
one thread, as the loop is; OpenCV decodes with all its threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import framefeed as ff
from benchmarks.media import OwnStore
from benchmarks.sections.section import Result, Section, Table
from framefeed.bench import Begin, BenchOptions, BenchVideo, Findings, MakeRow, Row, psnr, take_time
from framefeed.bench.baselines import FileFormat, Peers, load_module
from framefeed.cache import find_codec
from framefeed.decode import Pixels
from framefeed.errors import MissingMedia
from framefeed.parallel import Err, catch_outcome

FRAMES, FILM_FRAMES = 600, 6030
HEIGHT, WIDTH, FPS = 1080, 1920, 24
BATCH, WORKERS = 8, 2
CHECKED = 6
"""Frames of each format that are compared with the decoded ones."""
LEAST_PSNR = 30.0
"""dB of a frame that a lossy format gives back."""
CODECS = ("raw", "lz4", "lz4hc", "zstd", "magicyuv", "jpeg:90")
"""Of framefeed's cache."""
PUBLISHED = {
    "decoding alone (OpenCV)": (67, None, 123),
    "JPEG q70 (OpenCV)": (774, 25.7, 41.6),
    "JPEG q80 (OpenCV)": (934, 25.4, 41.1),
    "JPEG q90 (OpenCV)": (1307, 24.8, 39.0),
    "JPEG q95 (OpenCV)": (1834, 24.0, 36.8),
    "JPEG q100 (OpenCV)": (3477, 20.2, 29.6),
    "PNG (OpenCV)": (7918, 12.1, 24.3),
    "joblib raw": (35780, 37.5, 34.0),
    "joblib gzip 1": (8698, 9.0, 24.8),
    "joblib gzip 3": (8292, 8.3, 26.2),
    "joblib lz4 1": (11714, 37.2, 53.9),
    "joblib lz4 2": (11714, 39.7, 48.5),
    "joblib lz4 3": (9635, 11.6, 58.1),
    "joblib lz4 5": (9459, 9.4, 55.4),
}
"""Route -> MB, frames a second written, and read."""
Entry = dict[str, Any]
Measure = Callable[[Path], Entry]
"""Measures a route with an empty folder."""


def exhaust(items: Iterable[object]) -> None:
    """Take every item, and drop it."""
    for item in items:
        del item


def rate(what: str, count: int, work: Callable[[], object]) -> Entry:
    """Do some work, and say how many frames it does a second on the clock, and a second of the processor."""
    took = take_time(work)
    return {f"{what}_fps": count / took.wall, f"{what}_cpu_fps": count / took.cpu}


def choose_checked(video: BenchVideo) -> list[int]:
    """Ordinals of the frames that are compared."""
    return list(range(0, len(video), max(1, len(video) // CHECKED)))


def find_wrong(decoded: Sequence[Pixels], stored: Sequence[Pixels], *, is_exact: bool) -> list[str]:
    """Say which frames came back otherwise than they should."""
    least = float("inf") if is_exact else LEAST_PSNR
    decibels = [psnr(each, other) for each, other in zip(stored, decoded, strict=True)]
    return [f"checked frame {number}: {value:.1f} dB" for number, value in enumerate(decibels) if value < least]


def store_files(form: FileFormat, read: Callable[[str], Iterator[Pixels]], video: BenchVideo, folder: Path) -> Entry:
    """Write a file for each frame as it is decoded, and read them back."""
    paths = [os.fspath(folder / f"{number:06}{form.suffix}") for number in range(len(video))]
    chosen, decoded = set(choose_checked(video)), []

    def write() -> None:
        for number, (path, frame) in enumerate(zip(paths, read(str(video.path)), strict=True)):
            form.write(path, frame)
            if number in chosen:
                decoded.append(frame)

    rates = rate("write", len(video), write) | rate("read", len(video), lambda: exhaust(map(form.read, paths)))
    stored = [form.read(paths[number]) for number in sorted(chosen)]
    return rates | {
        "is_exact": form.is_exact,
        "megabytes": sum(map(os.path.getsize, paths)) / 1e6,
        "wrong": find_wrong(decoded, stored, is_exact=form.is_exact),
    }


def store_cache(codec: str, video: BenchVideo, folder: Path) -> Entry:
    """Fill a cache with the planes of all frames, and read them as batches of RGB."""
    catalog = ff.scan([str(video.path)], progress=False)
    plan = ff.plan_clips(catalog, ff.EveryFrame(), seed=0, shuffle=False)
    checked = ff.plan_clips(catalog, ff.AtIndices(choose_checked(video)), seed=0)
    with ff.FrameCache(folder, codec=codec, form="planes") as cache:
        rates = rate("write", len(video), lambda: ff.cache.build(plan, cache, workers=0, progress=False))
        with ff.ClipLoader(plan, batch_size=BATCH, workers=0, cache=cache) as loader:
            rates |= rate("read", len(video), lambda: exhaust(loader))
        decoded, stored = (
            next(iter(ff.ClipLoader(checked, batch_size=1, workers=0, cache=each))).data[0] for each in (None, cache)
        )
        is_exact = find_codec(codec).is_exact
        return rates | {
            "is_exact": is_exact,
            "megabytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
            "wrong": find_wrong(decoded, stored, is_exact=is_exact),
        }


def load_in_order(video: BenchVideo, folder: Path) -> Entry:
    """Decode in our loader, in order; nothing is stored."""
    plan = ff.plan_clips(ff.scan([str(video.path)], progress=False), ff.EveryFrame(), seed=0, shuffle=False)
    with ff.ClipLoader(plan, batch_size=BATCH, workers=WORKERS) as loader:
        return rate("read", len(video), lambda: exhaust(loader))


def keep(frame: Pixels, *, index: int, pts_seconds: float) -> Pixels:
    """Give a frame back as it is."""
    return frame


def map_frames(video: BenchVideo, folder: Path) -> Entry:
    """Pass every frame through a function, in order; nothing is stored."""
    return rate("read", len(video), lambda: exhaust(ff.map_video(str(video.path), keep, workers=WORKERS)))


def list_routes(video: BenchVideo, peers: Peers) -> dict[str, Measure]:
    """How each route is measured, by name: the write-up's first, then ours."""
    routes: dict[str, Measure] = {}
    if "opencv" in peers.modules:
        read = peers.modules["opencv"].read_in_order
        routes["decoding alone (OpenCV)"] = lambda folder: {
            "megabytes": video.path.stat().st_size / 1e6,
            **rate("read", len(video), lambda: exhaust(read(str(video.path)))),
        }
        routes |= {form.name: partial(store_files, form, read, video) for form in peers.list_all("FORMATS")}
    routes |= {f"framefeed {codec}, planes": partial(store_cache, codec, video) for codec in CODECS}
    return routes | {
        f"framefeed ClipLoader, {WORKERS} threads": partial(load_in_order, video),
        f"framefeed map_video, {WORKERS} threads": partial(map_frames, video),
    }


def measure_routes(routes: Mapping[str, Measure], work: Path, begin: Begin) -> dict[str, Entry]:
    """Measure one route after the other; the files of each are gone before the next is begun."""
    entries = {}
    for name, measure in routes.items():
        begin(f"A: {name}")
        folder = work / "frames"
        folder.mkdir()
        outcome = catch_outcome(measure, folder)
        rmtree(folder)
        if isinstance(outcome, Err):
            if not isinstance(outcome.error, Exception):
                raise outcome.error
            entries[name] = {"failed": f"{type(outcome.error).__name__}: {outcome.error}"}
        else:
            entries[name] = outcome.value
    return entries


def plan(frames: int, options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan the table of formats."""

    def make(scratch: Path, stack: ExitStack) -> Row:
        store = OwnStore(options.media, work, options.rounds)
        try:
            video = store.large_trailer(frames)
        except MissingMedia:
            video = store.scene(HEIGHT, WIDTH, frames, FPS)
        if "opencv" in peers.modules:
            load_module("benchmarks.peers.opencv").use_all_threads()
        entries = measure_routes(list_routes(video, peers), scratch, begin)
        facts = {"video": video.path.stem, "frames": len(video), "entries": entries, "missing": dict(peers.missing)}
        wrong = [f"{name}: {line}" for name, each in entries.items() for line in each.get("wrong", ())]
        return Row("A", "frames of a 1080p video", conclude=lambda timings: Findings(facts=facts, wrong=wrong))

    return {"A": make}


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    """Megabytes and rates of each format."""
    facts = rows["A"]["facts"]
    entries = facts["entries"]
    scale = FILM_FRAMES / facts["frames"]
    lines = []
    for name in dict.fromkeys([*PUBLISHED, *entries]):
        entry = entries.get(name, {"failed": "; ".join(facts["missing"].values())})
        published = [_show(value) for value in PUBLISHED.get(name, (None, None, None))]
        reasons = [entry["failed"]] if "failed" in entry else entry.get("wrong", [])
        if reasons:
            lines.append([name, *published, reasons[0], "", ""])
            continue
        megabytes = entry["megabytes"] * scale if "megabytes" in entry else None
        lines.append([name, *published, *map(_show, (megabytes, entry.get("write_cpu_fps"), entry["read_cpu_fps"]))])
    header = ["", "published: MB", "write FPS", "read FPS", "here: MB", "written a CPU second", "read a CPU second"]
    note = (
        f"MB here are of {facts['frames']} frames ({facts['video']}), scaled to {FILM_FRAMES:,}; frames are counted a "
        "second of the processor, all threads together, because other work may run beside it"
    )
    return {"Frames of a 1080p video, stored and read back": Table(header, lines, [note])}


def _show(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def make_section(frames: int = FRAMES) -> Section:
    """Make the section, of so many frames."""
    title = "frames of a long video, in parallel and in order"
    return Section(title, ("opencv", "joblib"), partial(plan, frames), tabulate, 120)
