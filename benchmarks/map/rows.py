"""Rows of ``map_video``: routes from a video through a function to a video, timed in turn."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.map.functions import find_turns, free_lock, hold_lock
from benchmarks.map.outputs import PSNR_TOLERANCE, Quality, check_small, compare_output, write_small
from benchmarks.map.routes import WORKERS, Job
from framefeed.bench import (
    METRICS,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    Reading,
    Row,
    Run,
    Timings,
    compare_times,
    median_interval,
    ready,
)
from framefeed.bench.baselines import FileFormat, Peers
from framefeed.errors import MissingMedia

FUNCTION_SECONDS = 0.005
"""CPU time of the functions of the rows "lock" and "free"."""
OURS, THREADS, PROCESSES = "framefeed", "framefeed, threads", "framefeed, processes"
LOOP = "OpenCV loop"
BEST_STORED = "joblib lz4"
"""The write-up's best route; its levels 1 to 5."""
FORMAT_MODULES = ("opencv", "joblib")


@dataclass(frozen=True, slots=True)
class Entry:
    """A route that takes part in a row, with the job of the long video."""

    name: str
    job: Job
    library: str = ""  # what must be installed for it; empty for ours
    most_rounds: int | None = None  # after so many rounds it leaves; None: never


@dataclass(slots=True)
class Outcome:
    """What the runs of a row have shown, by contender: facts of the last output, and bytes of the frames stored."""

    quality: dict[str, Quality] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Facts for the result."""
        return {
            "PSNR_of_luma_dB": {name: each.psnr for name, each in self.quality.items()},
            "output_MB": {name: each.megabytes for name, each in self.quality.items()},
        }


Conclude = Callable[[Timings, Outcome], Sequence[Comparison]]


def make_row(
    key: str, title: str, video: BenchVideo, entries: Sequence[Entry], folder: Path, conclude: Conclude
) -> Row:
    """Make a row of routes over one video, ours first, each in a process of its own with outputs in an empty folder."""
    by_name, outcome, small = {each.name: each for each in entries}, Outcome(), write_small(folder)
    is_marked = entries[0].job.function != "identity"

    def time_route(entry: Entry) -> Run:
        def run(number: int) -> Reading:
            clear(entry.job)
            result = entry.job.run()
            outcome.stored[entry.name] = result["stored"]
            shutil.rmtree(f"{entry.job.out}.frames", ignore_errors=True)
            return Reading(result["cpu"], result["wall"])

        return run

    def check(contender: Contender) -> list[str]:
        job = by_name[contender.name].job
        job = replace(job, source=str(small.path), out=str(folder / "small_mapped.mp4"), rate="25")
        clear(job)
        job.run()
        wrong = check_small(Path(job.out), is_marked=is_marked)
        clear(job)
        return wrong

    def recheck(contender: Contender) -> list[str]:
        job = by_name[contender.name].job
        wrong, quality = compare_output(video, Path(job.out), is_marked=is_marked)
        if quality is not None:
            outcome.quality[contender.name] = quality
        return wrong

    def conclude_all(timings: Timings) -> Findings:
        return Findings(conclude(timings, outcome), outcome.describe(), find_unequal(outcome.quality))

    contenders = [
        Contender(each.name, ready(time_route(each)), each.library, amount=len(video), most_rounds=each.most_rounds)
        for each in entries
    ]
    facts = f"{len(video):,} frames of {video.index.stream.width} x {video.index.stream.height}"
    return Row(
        key,
        f"{title}: {facts}, x264 veryfast, crf 23",
        contenders,
        conclude_all,
        unit="frames",
        check=check,
        recheck=recheck,
        between=lambda: None,
    )


def clear(job: Job) -> None:
    """Remove what an earlier run left."""
    Path(job.out).unlink(missing_ok=True)
    shutil.rmtree(f"{job.out}.frames", ignore_errors=True)


def find_unequal(quality: Mapping[str, Quality]) -> list[str]:
    """Say which of our outputs is worse than the loop's, which encodes with the same settings."""
    if LOOP not in quality:
        return []
    least = quality[LOOP].psnr - PSNR_TOLERANCE
    return [
        f"{name}: {each.psnr} dB, and {LOOP} has {quality[LOOP].psnr} dB"
        for name, each in quality.items()
        if name.startswith(OURS) and each.psnr < least
    ]


def start_job(video: BenchVideo, folder: Path, route: str, function: str, **fields: Any) -> Job:
    """Make a job of the long video; its output is named after route, kind and format."""
    # Of most videos; any rate serves the loops, whose frames have equal distances.
    rate = Fraction(video.index.average_fps or 25).limit_denominator(1001)
    name = "_".join(filter(None, [route, fields.get("kind"), fields.get("format")])).replace(" ", "_")
    return Job(route, str(video.path), str(folder / f"{name}.mp4"), function, str(rate), **fields)


def need_loop(peers: Peers) -> None:
    """Raise MissingMedia where the sequential loop cannot be run: OpenCV is not installed."""
    for name in ("opencv", "pyav"):
        if name not in peers.modules:
            raise MissingMedia(f"it needs the loop over OpenCV: {peers.missing[name]}")


def lock_row(key: str, video: BenchVideo, peers: Peers, folder: Path) -> Row:
    """A function that lets no other thread run, against the sequential loop."""
    need_loop(peers)
    turns = find_turns(hold_lock, FUNCTION_SECONDS)
    ours = start_job(video, folder, "ours", "lock", turns=turns, kind="processes")
    loop = start_job(video, folder, "loop", "lock", turns=turns)

    def conclude(timings: Timings, outcome: Outcome) -> list[Comparison]:
        figures = compare_times(timings, PROCESSES, LOOP, ("wall", "cpu"))
        if not figures:
            return []
        loops, mapped = timings.of[LOOP], timings.of[PROCESSES]
        bounds = {number: loops[number].wall / (loops[number].cpu / WORKERS) for number in loops}
        shares = [loops[each].wall / mapped[each].wall / bounds[each] for each in sorted(loops.keys() & mapped.keys())]
        return [
            Comparison("lock", f"the speed of the {LOOP}", figures),
            Comparison(
                "bound",
                f"the speed of the {LOOP} if it kept {WORKERS} cores busy with the same CPU time, and our share of it",
                {
                    "wall": Figure(median_interval(list(bounds.values())), LOOP),
                    "share": Figure(median_interval(shares), PROCESSES),
                },
            ),
        ]

    title = f"a function that holds the interpreter's lock for {1000 * FUNCTION_SECONDS:.0f} ms, {WORKERS} processes"
    entries = [Entry(PROCESSES, ours), Entry(LOOP, loop, "opencv")]
    return make_row(key, title, video, entries, folder, conclude)


def free_row(video: BenchVideo, folder: Path) -> Row:
    """The same with a function that lets other threads run: threads against processes."""
    turns = find_turns(free_lock, FUNCTION_SECONDS)

    def conclude(timings: Timings, outcome: Outcome) -> list[Comparison]:
        figures = compare_times(timings, THREADS, PROCESSES, ("wall", "cpu"))
        return [Comparison("free", "the speed of processes, with threads", figures)] if figures else []

    entries = [
        Entry(name, start_job(video, folder, "ours", "free", turns=turns, kind=name.split()[-1]))
        for name in (THREADS, PROCESSES)
    ]
    title = f"a function that works without the lock for {1000 * FUNCTION_SECONDS:.0f} ms, {WORKERS} workers"
    return make_row("free", title, video, entries, folder, conclude)


def tiles_row(video: BenchVideo, peers: Peers, folder: Path) -> Row:
    """Four tiles of every frame: ours, the loop, and the write-up's route with each of its formats."""
    need_loop(peers)
    entries = [
        Entry(OURS, start_job(video, folder, "ours", "tiles")),
        Entry(LOOP, start_job(video, folder, "loop", "tiles"), "opencv"),
    ]
    if "torch" in peers.modules:
        modules = [name for name in FORMAT_MODULES if name in peers.modules]
        formats: list[tuple[str, FileFormat]] = [
            (name, each) for name in modules for each in peers.modules[name].FORMATS
        ]
        for module, each in formats:
            job = start_job(video, folder, "store", "tiles", format=each.name, module=module)
            # The others are slow, and are shown once.
            most = None if each.name == f"{BEST_STORED} 1" else 1
            entries.append(Entry(each.name, job, module, most))

    def conclude(timings: Timings, outcome: Outcome) -> list[Comparison]:
        stored = [each.name for each in entries if each.job.route == "store" and each.name in timings.of]
        best = [name for name in stored if name.startswith(BEST_STORED)]
        comparisons = [
            Comparison("loop", f"the speed of the {LOOP}", compare_times(timings, OURS, LOOP, ("wall", "cpu")))
        ]
        if best:
            figures = {
                title: figure
                for title, metric in (("wall", METRICS["wall"]), ("CPU", METRICS["CPU"]))
                for figure in compare_times(timings, OURS, timings.best(best, metric), (metric,)).values()
            }
            comparisons.append(Comparison("tiles", "the speed of the write-up's route with lz4", figures))
            speeds = {name: Figure(timings.median(name, "wall") / timings.median(OURS, "wall"), OURS, name)
                      for name in stored if OURS in timings.of}  # fmt: skip
            comparisons.append(Comparison("formats", "the speed of the same with each format", speeds))
        disk = {name: Figure(outcome.stored[name] / 1e6, name) for name in (OURS, *stored) if name in outcome.stored}
        comparisons.append(Comparison("disk", "frames that are stored on the way", disk, " MB"))
        return comparisons

    title = f"four tiles of every frame, {WORKERS} workers"
    return make_row("tiles", title, video, entries, folder, conclude)


def identity_row(video: BenchVideo, peers: Peers, folder: Path, others: Sequence[Entry] = ()) -> Row:
    """No function at all, against the sequential loop and others."""
    entries = [Entry(THREADS, start_job(video, folder, "ours", "identity")), *others]
    if "opencv" in peers.modules and "pyav" in peers.modules:
        entries.append(Entry(LOOP, start_job(video, folder, "loop", "identity"), "opencv"))

    def conclude(timings: Timings, outcome: Outcome) -> list[Comparison]:
        return [
            *(
                Comparison("identity", f"the speed of {each.name}", compare_times(timings, THREADS, each.name))
                for each in others
            ),
            Comparison("loop", f"the speed of the {LOOP}", compare_times(timings, THREADS, LOOP)),
        ]

    return make_row("identity", f"frames as they are, {WORKERS} threads", video, entries, folder, conclude)
