"""Section D: random clips of long videos, for someone who wants DALI's speed and control over frames and batches.

As the write-up has it: 720p60 H.264, flat blue with the frame's number, of 60 to 3,000 s; clips of 16 frames 60 apart
from a random start, in batches of 64, as float32 NCHW of 224x224 in [0, 1]. The longer videos repeat the first one by
stream copy, and their clips are its clips, each in a random repetition: so only the length differs. Each route is a
program of its own, timed from the end of its imports to its last batch, with all processes that it starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.load.programs import Loop, run_loop
from benchmarks.media import OwnStore
from benchmarks.sections.section import Result, Section, Table, list_reasons, say_seconds
from framefeed._units import format_share
from framefeed.bench import (
    NUM_FRAMES,
    SEED,
    SIZE,
    Begin,
    BenchOptions,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    MakeRow,
    Reading,
    Reference,
    Row,
    Run,
    Timings,
    compare_times,
    read_family_clocks,
    ready,
    take_time,
)
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia
from framefeed.scanning import scan

STRIDE, BATCH = 60, 64
CLIPS, PUBLISHED_CLIPS = 32, 128
"""As many as two cores read in a quarter of an hour, by all routes, and as the write-up has."""
LENGTHS = (60, 120, 300, 3000)
"""Seconds."""
WORKERS, OPENCV_WORKERS = 2, 4
NUM_CHECKED = 4
"""Clips of each route whose frames are compared with the reference."""
WATCH = 0.25
"""Seconds between two readings of memory."""
TRAILER_CLIPS = 8
"""Times as few clips as of the test video: its frames take about eight times as long to decode."""
PUBLISHED = {
    "OpenCV, 4 workers": {60: 48.8, 3000: 71.5},
    "DALI file reader, GPU": {60: 52.5, 3000: 51.9},
    "DALI proxy, CPU": {60: 25.6, 3000: 728.0},
    "DALI proxy, mixed": {60: 36.2, 3000: 1254.0},
}
"""Route -> length -> seconds for so many clips as the write-up has."""

OURS, ALONE, OPENCV = "framefeed, ClipLoader", "framefeed, clip by clip", "OpenCV, 4 workers"
_PRELUDE = "import torch, framefeed, framefeed.torch"
_loop = partial(Loop, program=Path(__file__).with_name("loops.py"))
OWN_LOOPS = (
    _loop(OURS, "framefeed list", _PRELUDE, ("torch",)),
    _loop("framefeed, torch's DataLoader and a Sampler", "framefeed under torch's DataLoader", _PRELUDE, ("torch",)),
    _loop("framefeed, its DataLoader and a Sampler", "framefeed under its DataLoader", _PRELUDE, ("torch",)),
    _loop(ALONE, "framefeed list, clip by clip", _PRELUDE, ("torch",)),
)
# A seek a frame, as a data set that is given a list of frames does it.
OPENCV_LOOP = _loop(OPENCV, "opencv", needs=("opencv", "torch"))
PEER_LOOPS = (
    _loop(f"{OPENCV}, one seek a clip", "opencv one-seek", needs=("opencv", "torch")),
    _loop("TorchCodec, exact", "torchcodec exact", needs=("torchcodec",)),
    _loop("TorchCodec, approximate", "torchcodec approximate", needs=("torchcodec",)),
    _loop("decord2", "decord2", needs=("decord2",)),
)
DALI_LOOPS = (
    _loop("DALI, frames by number", "dali frames", needs=("dali",)),
    _loop("DALI, reader", "dali reader", needs=("dali",)),
)
WITHOUT_CUDA = "it needs PyTorch with CUDA, for its marks of a profiler"
AT_THE_ENDS = {ALONE, OWN_LOOPS[2].name, OPENCV, "TorchCodec, exact"}
"""Routes that the shortest and the longest video are enough for."""
ON_GPU = {
    "DALI file reader, GPU": "it needs CUDA: readers.video has no CPU variant",
    "DALI proxy, CPU": "DALI decodes no H.264 without a GPU",
    "DALI proxy, mixed": WITHOUT_CUDA,
}
"""Route of the write-up -> why it cannot run without a GPU."""


@dataclass(frozen=True, slots=True)
class LongVideo:
    """A video of one length, and the same clips of it, by ordinals, as of the others; and what indexing it took."""

    video: BenchVideo
    seconds: int
    clips: Sequence[Sequence[int]]
    catalog: Path
    indexing: Reading

    def write(self, folder: Path, loop: Loop, batch: int) -> Path:
        """Write the specification for a program, which keeps some clips in `kept.npy`."""
        path = os.path.abspath(self.video.path)
        index = self.video.index
        half = index.step / 2 * float(index.time_base)
        specification: dict[str, Any] = {
            "catalog": os.fspath(self.catalog),
            "clips": [(path, clip) for clip in self.clips],
            "windows": [
                (path, [index.pts_seconds[clip[0]] - half, index.pts_seconds[clip[-1]] + half],
                 [ordinal - clip[0] for ordinal in clip])
                for clip in self.clips
            ],
            "file_list": os.fspath(folder / "clips.txt"),
            "side": SIZE,
            "batch": batch,
            "workers": OPENCV_WORKERS if loop.library == "opencv" else WORKERS,
            "most_batches": None,
            "dump": os.fspath(folder / "kept.npy"),
            "every": max(1, len(self.clips) // NUM_CHECKED),
        }  # fmt: skip
        lines = [
            f"{path} {number} {clip[0]} {clip[0] + NUM_FRAMES * STRIDE}\n" for number, clip in enumerate(self.clips)
        ]
        Path(specification["file_list"]).write_text("".join(lines), encoding="utf-8")
        file = folder / "specification.json"
        file.write_text(json.dumps(specification), encoding="utf-8")
        return file


def draw_clips(base: int, times: Mapping[int, int], count: int) -> dict[int, list[list[int]]]:
    """Draw clips of a video of so many frames, and for each length the same in a random repetition; by length."""
    rng = np.random.Generator(np.random.Philox(key=SEED))
    span = (NUM_FRAMES - 1) * STRIDE
    # DALI's reader wants a whole stride after the last frame too.
    starts = rng.integers(0, base - span - STRIDE, count)
    return {
        length: [
            list(range(at, at + span + 1, STRIDE)) for at in (starts + base * rng.integers(0, repeats, count)).tolist()
        ]
        for length, repeats in times.items()
    }


def make_videos(
    store: OwnStore, video: BenchVideo, lengths: Sequence[int], count: int, folder: Path
) -> dict[int, LongVideo]:
    """Lengthen a video, scan the files, and draw their clips; by length."""
    rate = float(video.index.average_fps)
    times = {length: max(1, round(length * rate / len(video))) for length in lengths}
    clips = draw_clips(len(video), times, count)
    made = {}
    for length, repeats in times.items():
        longer, catalog = store.repeat(video, repeats), folder / f"{length}.parquet"
        indexing = take_time(
            lambda longer=longer, catalog=catalog: scan([str(longer.path)], out=catalog, progress=False),  # type: ignore[misc]
            read_family_clocks,
        )
        made[length] = LongVideo(longer, round(len(longer) / rate), clips[length], catalog, indexing)
    return made


@dataclass(slots=True)
class Records:
    """By contender, peak memory of each round, and clips of the last one, uint8 [N, T, 3, H, W]."""

    megabytes: dict[str, list[float]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)


def time_route(
    loop: Loop, video: LongVideo, batch: int, folder: Path, name: str, records: Records, begin: Begin
) -> Run:
    """Run a route as a program, note its memory, and take the clips that it kept."""

    def run(number: int) -> Reading:
        begin(f"round {number + 1}: {name}")
        marks = run_loop(loop, video.write(folder, loop, batch), watch=WATCH)
        records.megabytes.setdefault(name, []).append(marks.peak_megabytes)
        dump = folder / "kept.npy"
        records.kept[name] = np.rint(np.load(dump) * 255).astype(np.uint8)
        dump.unlink()
        return marks.of["done"] - marks.of["ready"]

    return run


def refuse(reason: str) -> Callable[[], Run]:
    """Give a contender that cannot run here."""

    def open_route() -> Run:
        raise MissingMedia(reason)

    return open_route


def clips_row(
    key: str,
    title: str,
    videos: Mapping[int, LongVideo],
    loops: Sequence[Loop],
    peers: Peers,
    folder: Path,
    begin: Begin = lambda what: None,
) -> Row:
    """Compare routes on videos of several lengths; the first video has the frames that the others repeat."""
    first = next(iter(videos.values()))
    count, base = len(first.clips), len(first.video)
    batch = min(BATCH, max(1, count // 2))
    records, references = Records(), list[Reference]()
    ends = {min(videos), max(videos)}
    by_name = {
        _title(loop.name, video.seconds): (loop, video)
        for length, video in videos.items()
        for loop in loops
        if length in ends or loop.name not in AT_THE_ENDS
    }

    def enter(name: str) -> Contender:
        loop, video = by_name[name]
        missing = [each for each in loop.needs if each not in peers.modules]
        groups = () if not loop.library or loop is OPENCV_LOOP else (f"{video.seconds} s",)
        run = time_route(loop, video, batch, folder, name, records, begin)
        return Contender(
            name,
            refuse(f"it needs {missing[0]}: {peers.missing.get(missing[0], 'not installed')}")
            if missing
            else ready(run),
            loop.library,
            rule=loop.name,
            groups=groups,
            amount=count,
            most_rounds=1 if loop is OPENCV_LOOP else None,
        )

    def recheck(contender: Contender) -> list[str]:
        every = max(1, count // NUM_CHECKED)
        if not references:
            references.extend(Reference(first.video, [at % base for at in clip]) for clip in first.clips[::every])
        return [
            f"clip {every * number}: {format_share(1 - share)} of the frames are not the ones that were asked for"
            for number, (reference, clip) in enumerate(zip(references, records.kept[contender.name], strict=True))
            if (share := reference.share_matching(clip, "NCHW")) < 1
        ]

    contenders = list(map(enter, by_name))
    return Row(
        key,
        f"{title}: {count} clips of {NUM_FRAMES} frames {STRIDE} apart, batches of {batch}",
        contenders,
        lambda timings: conclude(timings, videos, loops, records),
        unit="clips",
        # All are compared after the rounds, with clips that they kept.
        check=lambda contender: [],
        recheck=recheck,
        between=lambda: None,
    )


def conclude(timings: Timings, videos: Mapping[int, LongVideo], loops: Sequence[Loop], records: Records) -> Findings:
    """Our speed against OpenCV and against the best other engine, and ours by length, clip by clip."""
    opencv, best = dict[str, Figure](), dict[str, Figure]()
    peers = [loop.name for loop in loops if loop.library and loop is not OPENCV_LOOP]
    for video in videos.values():
        ours, key = _title(OURS, video.seconds), f"{video.seconds} s"
        theirs = [name for each in peers if (name := _title(each, video.seconds)) in timings.of]
        opencv |= _rename(compare_times(timings, ours, _title(OPENCV, video.seconds)), key)
        if theirs:
            best |= _rename(compare_times(timings, ours, timings.best(theirs, "wall")), key)
    ends = [
        _title(ALONE, video.seconds) for video in (min(videos.values(), key=_length), max(videos.values(), key=_length))
    ]
    comparisons = [
        Comparison("opencv", f"the speed of {OPENCV}", opencv),
        Comparison("best", "the speed of the fastest other engine", best),
        Comparison(
            "length", "a clip of the longest video, in times of the same of the shortest", compare_times(timings, *ends)
        ),
    ]
    facts = {
        "routes": [loop.name for loop in loops],
        "peak_MB": {name: round(max(values)) for name, values in records.megabytes.items()},
        "indexing_seconds": {f"{video.seconds}": round(video.indexing.wall, 2) for video in videos.values()},
        "file_MB": {f"{video.seconds}": round(video.video.path.stat().st_size / 1e6, 1) for video in videos.values()},
    }
    return Findings(comparisons, facts)


def _length(video: LongVideo) -> int:
    return video.seconds


def _rename(figures: Mapping[str, Figure], length: str) -> dict[str, Figure]:
    return {f"{name}, {length}": figure for name, figure in figures.items()}


def _title(route: str, seconds: int | str) -> str:
    return f"{route}, {seconds} s"


def add_refused(row: Row, reasons: Mapping[str, str]) -> Row:
    """Add the routes that the row does not have, with the reason of each."""
    refused = [
        Contender(name, refuse(why), "dali", rule=name)
        for name, why in reasons.items()
        if all(each.rule != name for each in row.contenders)
    ]
    return replace(row, contenders=[*row.contenders, *refused])


def plan_rows(
    clips: int, lengths: Sequence[int], options: BenchOptions, peers: Peers, work: Path, begin: Begin
) -> Mapping[str, MakeRow]:
    """Plan the test video at all lengths, a trailer at the two ends, and the test video as VP9, for DALI."""
    store = OwnStore(options.media, work, options.rounds)

    def make_test(scratch: Path, stack: ExitStack) -> Row:
        begin("making the test video and its longer ones")
        videos = make_videos(store, store.test_video, lengths, clips, scratch)
        loops = (*OWN_LOOPS, OPENCV_LOOP, *PEER_LOOPS)
        return add_refused(
            clips_row("D:test", "720p60 test video, H.264", videos, loops, peers, scratch, begin), ON_GPU
        )

    def make_trailer(scratch: Path, stack: ExitStack) -> Row:
        ends = sorted({lengths[0], lengths[-1]})
        videos = make_videos(store, store.trailer, ends, max(2, clips // TRAILER_CLIPS), scratch)
        loops = (*OWN_LOOPS, OPENCV_LOOP, *PEER_LOOPS)
        return clips_row("D:trailer", "720p24 trailer, H.264", videos, loops, peers, scratch, begin)

    def make_vp9(scratch: Path, stack: ExitStack) -> Row:
        begin("making the test video as VP9")
        videos = make_videos(store, store.vp9_test_video, lengths[:1], clips, scratch)
        loops = (OWN_LOOPS[0], *DALI_LOOPS)
        row = clips_row("D:VP9", "720p60 test video, VP9", videos, loops, peers, scratch, begin)
        return add_refused(row, {name: WITHOUT_CUDA for name in ON_GPU if "proxy" in name})

    return {"D:test": make_test, "D:trailer": make_trailer, "D:VP9": make_vp9}


def tabulate(rows: Mapping[str, Result]) -> Mapping[str, Table]:
    """Seconds, CPU seconds and memory of each route in one cell, a column for each length."""
    return {title: table for row in rows.values() for title, table in _tabulate_row(row).items()}


def _tabulate_row(row: Result) -> dict[str, Table]:
    lengths = list(row["facts"]["indexing_seconds"])
    by_name = {each["name"]: each for each in row["contenders"] if not each["num_wrong"]}
    reasons, peaks = list_reasons(row), row["facts"]["peak_MB"]

    def fill(route: str, length: str) -> str:
        name = _title(route, length)
        if name not in by_name:
            return reasons.get(name, "")
        each = by_name[name]
        return f"{say_seconds(each['wall_seconds'])} / {median(each['cpu_seconds']):.1f} / {peaks[name]:,}"

    published = PUBLISHED if row["key"] == "D:test" else {}
    columns = list(dict.fromkeys(length for seconds in published.values() for length in seconds))
    lines = [[route, *(fill(route, length) for length in lengths)] for route in row["facts"]["routes"]]
    lines += [[name, reasons[name], *[""] * (len(lengths) - 1)] for name in ON_GPU if name in reasons]
    for line in lines:
        line[1:1] = [str(published.get(line[0], {}).get(length, "")) for length in columns]
    indexing = ", ".join(f"{each} s of {length} s" for length, each in row["facts"]["indexing_seconds"].items())
    header = ["", *(f"published, {length} s" for length in columns), *(f"{length} s" for length in lengths)]
    notes = [f"framefeed's index is made once for all epochs, and is not in its seconds: {indexing}"]
    notes += [f"the published seconds are for {PUBLISHED_CLIPS} clips"] * bool(published)
    return {f"{row['title']}: seconds / CPU seconds / peak MB": Table(header, lines, notes)}


def make_section(clips: int = CLIPS, lengths: Sequence[int] = LENGTHS) -> Section:
    """Make the section for so many clips, and videos of these seconds."""
    return Section(
        "explicit control over frames and batches of long videos",
        ("opencv", "torch", "torchcodec", "decord2", "benchmarks.peers.dali"),
        partial(plan_rows, clips, lengths),
        tabulate,
        900,
    )
