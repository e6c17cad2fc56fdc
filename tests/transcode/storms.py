"""Disturb `map_video` at random frames, run it again until it succeeds, and compare with an undisturbed run.

Run as a program (``make chaos``): ``python -m tests.transcode.storms --seeds 200 --log build/chaos_map.log``. Each seed
draws a small video, an output, options and a disturbance: the function fails, hangs, kills its process or the whole
program, or presses Ctrl-C at some frames; a worker process is killed from outside; an iterator is left. The run is
repeated, with other numbers of workers, until it succeeds. Its files are then those of an undisturbed run, byte by
byte, but for frames that ``on_error`` leaves out or keeps, and nothing else is left.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip
from framefeed.transcode._folder import name_work_folder
from framefeed.transcode._segments import plan_segments
from framefeed.transcode._timetable import make_timetable
from tests.parallel.functions import shared_memory
from tests.parallel.living import children_of, ending_time_of, lives, wait_until
from tests.patience import PATIENCE_SECONDS
from tests.seeds import read_options, report_seeds, try_seeds
from tests.transcode.functions import INTERRUPTED, HarmfulFunction, Substitute

RATE = 12
"""Frames a second of the videos: segments are as short as they can be, 12 to 24 frames."""
VIDEOS = {"out.mp4": None, "out.mkv": "ffv1", "out.avi": "mjpeg"}
OUTPUTS = {"iterator": [None], "video": list(VIDEOS), "mosaic": ["out.mp4"], "videos": ["tile{picture}.mp4"],
           "images": ["images"]}  # fmt: skip
ENDINGS = {"raise": ff.LoadError, "interrupt": KeyboardInterrupt, "hang": ff.DeadlineExceeded, "die": ff.WorkerLost}

MapVideo = Callable[..., Any]


@dataclass(frozen=True)
class Storm:
    """What happens at a seed, all of it drawn from the seed.

    Attributes:
        kind: "inline", "threads" or "processes".
        output: A key of `OUTPUTS`.
        name: Name of the output; None for an iterator.
        spec: The video.
        settings: Options of each run.
        workers: Workers of the runs, one after the other and again.
        harms: By the number of a frame, what its first calls do; see `HarmfulFunction`.
        failing: Frames for which every call fails.
        strike_after: Pictures after which a worker process is killed from outside.
        leave_after: Results after which the iterator is left.
        is_dropped: Whether it is then dropped, and not closed.
    """

    kind: str
    output: str
    name: str | None
    spec: ClipSpec
    settings: dict[str, Any]
    workers: tuple[int, ...]
    harms: dict[int, tuple[str, ...]]
    failing: frozenset[int]
    strike_after: int | None
    leave_after: int | None
    is_dropped: bool

    @classmethod
    def draw(cls, seed: int) -> Storm:
        rng = random.Random(seed)
        # A process takes half a second to start.
        kind = rng.choice(["inline", "threads", "threads", "processes"])
        output = rng.choice(list(OUTPUTS))
        spec = ClipSpec(
            num_frames=rng.randint(36, 80), gop=rng.choice([5, 16, 250]), fps=RATE, seed=seed,
            height=rng.choice([32, 48]), width=rng.choice([32, 64]),
        )  # fmt: skip
        settings = {
            "batch_size": rng.choice([None, None, 1, 3, 8]),
            "fps": rng.choice([None, None, 2 * RATE, RATE // 2]),
        }
        # A frame is no list of tiles, of which each has a video.
        settings["on_error"] = rng.choice(["raise", "raise", "skip", "skip" if output == "videos" else "keep"])
        # Frames of AVI have equal distances.
        name = rng.choice([name for name in OUTPUTS[output] if name != "out.avi" or settings["on_error"] != "skip"])
        if name is not None:
            settings["codec"] = rng.choice(["png", "jpg"]) if output == "images" else VIDEOS.get(name)
        used = list_frames(spec, settings)
        # No two of these frames are in one call.
        chosen = rng.sample(used[:: settings["batch_size"] or 1], 3)
        failing = frozenset(chosen[:1] if settings["on_error"] != "raise" else [])
        harm = rng.choice(cls.list_harms(kind, output, settings["on_error"]))
        harms: dict[int, tuple[str, ...]] = {}
        if harm in ("raise", "die"):
            # With processes, a frame that kills one is tried again, and one that kills two is an error.
            harms = dict.fromkeys(chosen[1 : rng.randint(2, 3)], (harm,) * rng.choice([1, 1, 2]))
        elif harm in ("interrupt", "hang"):
            harms = {chosen[1]: (harm,) * (rng.randint(1, 2) if harm == "interrupt" else 1)}
        if harm == "hang":
            settings["deadline_seconds"] = PATIENCE_SECONDS
        most = 3 if kind == "threads" else 2
        return cls(
            kind, output, name, spec, settings,
            workers=(0,) if kind == "inline" else tuple(rng.randint(1, most) for _ in range(3)),
            harms=harms,
            failing=failing,
            strike_after=rng.randrange(len(used) // 2) if harm == "strike" else None,
            leave_after=rng.randrange(len(used) // 2) if harm == "left" else None,
            is_dropped=rng.choice([True, False]),
        )  # fmt: skip

    @staticmethod
    def list_harms(kind: str, output: str, on_error: str) -> list[str]:
        harms = ["interrupt"]
        if on_error == "raise":
            harms.append("raise")
        if kind == "processes":
            harms += ["die", "strike", "hang"]
        elif output != "iterator":
            harms.append("die")
        if output == "iterator":
            harms.append("left")
        return harms

    @property
    def is_program_killed(self) -> bool:
        """Whether a call kills the process that called `map_video`."""
        return self.kind != "processes" and ("die" in {harm for harms in self.harms.values() for harm in harms})

    def make_options(self, run: int) -> dict[str, Any]:
        kind = "threads" if self.kind == "inline" else self.kind
        return {**self.settings, "kind": kind, "workers": self.workers[run % len(self.workers)]}


def list_frames(spec: ClipSpec, settings: dict[str, Any]) -> list[int]:
    """List the frames that are shown."""
    return list(range(0, spec.num_frames, 2 if settings["fps"] == RATE // 2 else 1))


class Field:
    """The files of a seed, and what must be true of them.

    Args:
        storm: What happens.
        folder: An empty folder.
    """

    def __init__(self, storm: Storm, folder: Path) -> None:
        self.storm = storm
        for name in ("calls", "out", "expected"):
            (folder / name).mkdir()
        self.clip = write_clip(folder / "clip.mp4", storm.spec)
        self.out, self.reference = folder / "out", folder / "expected"
        has_tiles = storm.output in ("videos", "mosaic")
        self.function = HarmfulFunction(folder / "calls", storm.harms, storm.failing, has_tiles)
        index = ff.build_index(self.clip)
        fps = storm.settings["fps"]
        times = make_timetable(index, fps and Fraction(fps), "clip")
        frames = sorted(set(times.ordinals.tolist()))
        assert frames == list_frames(storm.spec, storm.settings)
        self.segments = [frames]
        if storm.name is not None:
            self.segments = [
                sorted(set(times.ordinals[each.first : each.stop].tolist())) for each in plan_segments(times, index)
            ]
        size = storm.settings["batch_size"] or 1
        self.calls = [part[first : first + size] for part in self.segments for first in range(0, len(part), size)]
        self.failed = frozenset(frame for call in self.calls if storm.failing & set(call) for frame in call)
        self.num_repeats = 2 if storm.settings["fps"] == 2 * RATE else 1

    def name_target(self, folder: Path) -> Path | None:
        return None if self.storm.name is None else folder / self.storm.name

    def run_undisturbed(self) -> list[tuple[Any, ...]]:
        """Write what is expected, and return the results of an iterator."""
        keeps = self.storm.settings["on_error"] == "keep"
        function = Substitute(self.function, self.failed, keeps)
        options = {**self.storm.settings, "batch_size": None, "workers": 0, "on_error": "raise"}
        mapped = ff.map_video(self.clip, function, self.name_target(self.reference), **options)
        if self.storm.name is not None:
            return []
        return [describe(each) for each in mapped if keeps or each.index not in self.failed]

    def list_calls(self) -> Counter[int]:
        return Counter({frame: self.function.count_calls(frame) for part in self.segments for frame in part})

    def list_ended(self, before: Counter[int], after: Counter[int]) -> dict[int, str]:
        """List the frames whose calls must have ended the run, by what they did, of all that were made meanwhile."""
        ended = {}
        for frame, harms in self.storm.harms.items():
            for number, harm in enumerate(harms[: after[frame]]):
                # One death of a process in a run costs nothing.
                is_one_death = harm == "die" and self.storm.kind == "processes" and number == before[frame]
                if number >= before[frame] and not is_one_death:
                    ended[frame] = harm
        return ended

    def has_pending(self, made: Counter[int]) -> bool:
        """Whether a call is still to come that ends a run."""
        left = {frame: harms[made[frame] :] for frame, harms in self.storm.harms.items()}
        return any(harms and not (self.storm.kind == "processes" and harms == ("die",)) for harms in left.values())

    def list_finished(self) -> set[int]:
        """List the numbers of finished segments, and assert that nothing else is left of a run that has failed."""
        target = self.name_target(self.out)
        if target is None:
            return set()
        work = Path(name_work_folder(str(target)))
        names = {path.name for path in work.iterdir()} if work.exists() else set()
        records = {int(name[:6]) for name in names if re.fullmatch(r"\d{6}\.json", name)}
        if not self.storm.is_program_killed:
            others = {path.name for path in self.out.iterdir()} - {work.name, "images"}
            assert not others, f"left beside the output: {others}"
            unfinished = {name for name in names - {"identity.json"} if int(name[:6]) not in records}
            assert not unfinished, f"left in the work folder: {unfinished}"
            has_images = target.is_dir() and any(target.iterdir())
            assert has_images or bool(names) == bool(records), f"left a work folder without segments: {names}"
        return records


def describe(frame: ff.MappedFrame) -> tuple[Any, ...]:
    return frame.index, frame.pts_seconds, frame.result.shape, frame.result.tobytes()


def read_all(folder: Path) -> dict[str, bytes | None]:
    """Read all files below a folder; folders are None."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


class Disturbed:
    """Makes the runs of a seed, one after the other.

    Args:
        field: The files.
        run: `map_video`, or another function that is to be found wrong.
        rng: Chooses the process that is killed.
    """

    def __init__(self, field: Field, run: MapVideo, rng: random.Random) -> None:
        self.field, self.storm, self.run, self.rng = field, field.storm, run, rng
        self.given: list[tuple[Any, ...]] = []
        self.happened = Counter[str]()
        self.is_struck = self.is_left = False
        self.children = children_of(os.getpid())

    def make_run(self, number: int) -> Any:
        """Make one run; return its result, and None for an iterator that was left."""
        options, target = self.storm.make_options(number), self.field.name_target(self.field.out)
        if target is not None:
            return self.run(self.field.clip, self.field.function, target, progress=self.strike, **options)
        self.given = []
        mapped = self.run(self.field.clip, self.field.function, **options)
        if self.storm.leave_after is not None and not self.is_left:
            self.is_left = True
            self.happened["left"] += 1
            for _ in range(self.storm.leave_after):
                self.given.append(describe(next(mapped)))
            if not self.storm.is_dropped:
                mapped.close()
            return None
        with mapped:
            for frame in mapped:
                self.given.append(describe(frame))
                self.strike(len(self.given))
        return mapped

    def strike(self, done: int, total: int = 0) -> None:
        """Kill a worker process, once."""
        if self.storm.strike_after is None or self.is_struck or done < self.storm.strike_after:
            return
        workers = [child for child in children_of(os.getpid()) - self.children if lives(child)]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(sorted(workers)), signal.SIGKILL)
            self.is_struck = True
            self.happened["strike"] += 1

    def make_run_in_fork(self, number: int) -> None:
        """Make one run in a process that it kills."""
        process = os.fork()
        if process == 0:
            try:
                self.make_run(number)
            finally:
                os._exit(3)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), f"the program ended by itself with status {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL


def survive(seed: int, folder: Path, run: MapVideo = ff.map_video) -> Counter[str]:
    """Make the runs of a seed, and assert that the last one gives what an undisturbed run gives.

    Returns:
        How often each thing happened.
    """
    storm = Storm.draw(seed)
    field = Field(storm, folder)
    expected = field.run_undisturbed()
    disturbed = Disturbed(field, run, random.Random(seed))
    happened, number, result = disturbed.happened, 0, None
    while result is None:
        made, finished = field.list_calls(), field.list_finished()
        if storm.is_program_killed and field.has_pending(made):
            disturbed.make_run_in_fork(number)
            happened["program killed"] += 1
        else:
            INTERRUPTED.clear()
            try:
                with ending_time_of(field.function.list_hung):
                    result = disturbed.make_run(number)
            except (ff.FramefeedError, KeyboardInterrupt) as error:
                ended = field.list_ended(made, field.list_calls())
                check_error(error, ended, field)
                happened[type(error).__name__] += 1
                error.__traceback__ = None
        assert disturbed.given == expected[: len(disturbed.given)], "a wrong result"
        number += 1
        assert number <= 8, "no end"
    assert not field.has_pending(made), "the run did not call the function for all frames, or hid an error"
    check_result(result, field, made, finished)
    deaths = sum("die" in harms for harms in storm.harms.values()) if storm.kind == "processes" else 0
    happened["worker killed by its frame"] += deaths
    happened["kept or left out"] += len(field.failed)
    assert disturbed.given == expected, f"{len(disturbed.given)} results, not {len(expected)}"
    assert read_all(field.out) == read_all(field.reference), "other files than those of the undisturbed run"
    return happened


def check_error(error: BaseException, ended: dict[int, str], field: Field) -> None:
    """Check that a run ended as one of its calls made it end, and that an error has its frame."""
    assert type(error) in {ENDINGS[harm] for harm in ended.values()}, f"{error!r} after {ended}"
    if isinstance(error, ff.FramefeedError):
        starts = {call[0] for call in field.calls for frame in call if ended.get(frame)}
        assert error.position in starts, f"frame {error.position}, not of {starts}: {error}"
        assert error.source == str(field.clip)


def check_result(result: Any, field: Field, made: Counter[int], finished: set[int]) -> None:
    """Check what the last run says of itself, and that it made no finished segment again."""
    action = {"skip": "skipped", "keep": "kept"}.get(field.storm.settings["on_error"])
    faults = [(fault.frame, fault.stage, fault.action) for fault in result.ledger]
    assert faults == [(frame, "function", action) for frame in sorted(field.failed)]
    if field.storm.name is None:
        return
    num_frames, num_resumed = sum(map(len, field.segments)), sum(len(field.segments[number]) for number in finished)
    assert (result.num_frames, result.num_resumed_frames) == (num_frames, num_resumed)
    num_left_out = len(field.failed) if action == "skipped" else 0
    per_frame = 4 if field.storm.output in ("videos", "mosaic") else 1
    num_outputs = per_frame if field.storm.output == "videos" else 1
    assert result.num_pictures == (num_frames - num_left_out) * field.num_repeats
    assert len(result.outputs) == num_outputs
    calls = field.list_calls()
    again = {frame for number in finished for frame in field.segments[number] if calls[frame] > made[frame]}
    assert not again, f"frames of finished segments were called again: {again}"
    if field.storm.kind != "processes":
        assert sum((calls - made).values()) == num_frames - num_resumed


@contextmanager
def nothing_left(temporary: Path) -> Iterator[None]:
    """Assert that no process, thread, shared memory, or file in the temporary folder is left."""
    children, threads, held = children_of(os.getpid()), set(threading.enumerate()), set(shared_memory(None))
    environment = {"TMPDIR": str(temporary)}
    with patch.dict(os.environ, environment), patch.object(tempfile, "tempdir", str(temporary)):
        yield
    wait_until(lambda: children_of(os.getpid()) <= children)
    wait_until(lambda: set(threading.enumerate()) <= threads)
    wait_until(lambda: set(shared_memory(None)) <= held)
    assert not list(temporary.iterdir()), f"left: {list(temporary.iterdir())}"


@contextmanager
def handling_interrupts() -> Iterator[None]:
    """Handle Ctrl-C as a program on a terminal does: a program in the background inherits that it is ignored."""

    def handle(number: int, frame: Any) -> None:
        INTERRUPTED.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_seed(seed: int, run: MapVideo = ff.map_video) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as name:
        temporary = Path(name, "tmp")
        temporary.mkdir()
        with handling_interrupts(), nothing_left(temporary):
            return survive(seed, Path(name), run)


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, words)
    title = f"{options.seeds} outputs of map_video, each of runs that are disturbed"
    verdict = "the bytes of undisturbed runs, finished segments made once, no process, thread, memory or file left"
    return report_seeds(title, try_seeds(run_seed, options), lambda: verdict, options)


if __name__ == "__main__":
    sys.exit(main())
