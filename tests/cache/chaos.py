"""Builders of a cache killed at seeded points: every frame that is found afterwards is exact, and the next build ends.

``python -m tests.cache.chaos --seeds 200 --log build/chaos.log`` (``make chaos``). Each run forks builders of one
folder, up to two at once and up to three one after the other. Each is killed by SIGKILL at a call that writes: before
it, after it, or in its middle. Then a process of its own checks what they left.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exc
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from framefeed.cache._frame_cache import FrameCache
from framefeed.cli import describe_version
from framefeed.decode import find_decoder
from framefeed.plan import EpochPlan, RandomSegments, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.cache.builders import Watched, assert_served, built, clips_through, count_needed
from tests.programs import report_lines

WRITING = ("open", "write", "pwrite", "writev", "pwritev", "fsync", "fdatasync", "rename", "replace", "unlink", "mkdir")
"""Of ``os``; a kill is counted in calls of these and in steps that the builder reports."""
_BY_PATH = frozenset({"open", "rename", "replace", "unlink", "mkdir"})
MOST_CALLS = 50
"""A builder that is not killed makes 40 to 80."""
VIDEOS, FRAMES = 8, 24


@dataclass(frozen=True)
class Kill:
    """When a builder dies.

    Attributes:
        after: Calls and steps before that.
        how: "before" the call, "after" it, or "torn": half of what the call writes is written, if it writes.
    """

    after: int
    how: str


@dataclass(frozen=True)
class Scenario:
    """What a seed stands for.

    Attributes:
        codec: Of the cache.
        form: Of the cache.
        workers: Of each builder.
        flush_every: Steps after which what was stored is sealed.
        rounds: The builders that run at once, one round after the other.
    """

    codec: str
    form: Any
    workers: int
    flush_every: int
    rounds: tuple[tuple[Kill, ...], ...]

    @classmethod
    def of(cls, seed: int) -> Scenario:
        rng = np.random.default_rng(seed)

        def kills() -> tuple[Kill, ...]:
            count = int(rng.choice([1, 2], p=[0.7, 0.3]))
            return tuple(
                Kill(int(rng.integers(0, MOST_CALLS)), str(rng.choice(["before", "after", "torn"])))
                for _ in range(count)
            )

        return cls(
            str(rng.choice(["raw", "lz4", "zstd"])),
            str(rng.choice(["output", "planes"])),
            int(rng.choice([0, 2])),
            int(rng.integers(1, 4)),
            tuple(kills() for _ in range(int(rng.integers(1, 4)))),
        )

    def cache(self, folder: Path, **options: Any) -> FrameCache:
        return FrameCache(folder, codec=self.codec, form=self.form, **options)


class Killer:
    """Counts, and kills this process when it is time.

    Args:
        kill: When that is.
        folder: Of the cache.
        sabotage: First do what a store must never do: give an unfinished file its final name.
    """

    def __init__(self, kill: Kill, folder: Path, sabotage: bool) -> None:
        self._left = kill.after
        self._kill = kill
        self._folder = folder
        self._sabotage = sabotage
        self.last = "start"

    def install(self) -> None:
        for name in WRITING:
            setattr(os, name, self._watched(name, getattr(os, name)))

    def step(self, *_: object) -> None:
        self._watched("step", lambda: None)()

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            if name in _BY_PATH and not os.fspath(arguments[0]).startswith(os.fspath(self._folder)):
                return call(*arguments, **named)
            self._left -= 1
            if self._left >= 0:
                return call(*arguments, **named)
            how = self._kill.how
            if how == "after":
                call(*arguments, **named)
            elif how == "torn" and name == "pwritev":
                data = b"".join(arguments[1])
                _PWRITE(arguments[0], data[: len(data) // 2], arguments[2])
            else:
                how = "before"
            return self._die(f"{how} {name}")

        return watched

    def _die(self, at: str) -> NoReturn:
        if self._sabotage:
            for part in self._folder.glob("*.new"):
                _RENAME(part, part.with_name(f"{part.name.partition('.')[0]}.rows"))
        _WRITE(_said, f"{at}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


HEADER = (
    f"framefeed {describe_version()}, PyArrow {pa.__version__}, Python {platform.python_version()}, "
    f"{platform.system()} {platform.machine()}",
    f"{VIDEOS} videos of {FRAMES} frames; 'at N' is after N calls of {', '.join(WRITING)} and steps of the builder; "
    "'then' is the next builder of the same folder, 'and' one at the same time",
)
_PWRITE, _RENAME, _WRITE = os.pwrite, os.rename, os.write
_said = -1


def forked(work: Callable[[], None]) -> int:
    """Do something in a process of its own; its number."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    except BaseException:
        sys.stderr.write(format_exc())
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def run_child(work: Callable[[int], None]) -> tuple[int, str]:
    """Do something in a process of its own, which may write to a pipe; its wait status, and what it wrote."""
    reading, writing = os.pipe()
    process = forked(lambda: work(writing))
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    return os.waitpid(process, 0)[1], text


class Run:
    """One seed.

    Args:
        plan: What is built.
        fresh: Pixels of its clips, decoded.
        folder: Of the cache.
        sabotage: See `Killer`.
    """

    def __init__(self, plan: EpochPlan, fresh: Sequence[Any], folder: Path, sabotage: bool) -> None:
        self._plan = plan
        self._fresh = fresh
        self._folder = folder
        self._sabotage = sabotage

    def report(self, seed: int) -> dict[str, Any]:
        scenario = Scenario.of(seed)
        ends: list[str] = []
        for kills in scenario.rounds:
            ends.append(" and ".join(self._round(scenario, kills)))
        status, text = run_child(lambda pipe: self._check(scenario, pipe))
        facts = {"seed": seed, "cache": f"{scenario.codec} {scenario.form}", "killed": ", then ".join(ends)}
        return {**facts, **(json.loads(text) if status == 0 else {"wrong": text or f"status {status}"})}

    def _round(self, scenario: Scenario, kills: Sequence[Kill]) -> list[str]:
        """Let builders run at once until they are dead; say at what each died."""
        started = []
        for kill in kills:
            reading, writing = os.pipe()
            process = forked(lambda kill=kill, writing=writing: self._build(scenario, kill, writing))
            os.close(writing)
            started.append((kill, process, reading))
        ends = []
        for kill, process, reading in started:
            with os.fdopen(reading) as file:
                at = file.read().partition("\n")[0]  # with several threads a second may be dying too
            status = os.waitpid(process, 0)[1]
            if status and os.WTERMSIG(status) != signal.SIGKILL:
                raise AssertionError(f"a builder ended by itself with status {status}")
            ends.append(f"{at} at {kill.after}" if status else "never")
        return ends

    def _build(self, scenario: Scenario, kill: Kill, pipe: int) -> None:
        global _said
        _said = pipe
        killer = Killer(kill, self._folder, self._sabotage)
        steps = 0

        def step(*_: object) -> None:
            nonlocal steps
            steps += 1
            killer.step()
            if steps % scenario.flush_every == 0:
                cache.flush()

        killer.install()
        cache = scenario.cache(self._folder)
        built(self._plan, cache, workers=scenario.workers, progress=step)
        cache.close()

    def _check(self, scenario: Scenario, pipe: int) -> None:
        left = len(list(self._folder.glob("*.new")))
        with scenario.cache(self._folder) as cache:
            verified = cache.verify()
            assert not verified.damaged, verified.damaged
            assert not verified.refused, verified.refused
        # Too small to store anything: what is found is what the killed ones left.
        with scenario.cache(self._folder, max_bytes=1) as cache:
            for position, clip in enumerate(clips_through(self._plan, cache, Watched())):
                np.testing.assert_array_equal(clip, self._fresh[position])
        num_needed = count_needed(self._plan)
        with scenario.cache(self._folder) as cache:
            report = built(self._plan, cache, workers=scenario.workers)
            assert report.is_complete, report
            assert report.frames_present + report.frames_stored == num_needed, report
            assert cache.verify().num_frames >= num_needed
        with scenario.cache(self._folder) as cache:
            assert_served(self._plan, cache)
            assert built(self._plan.with_epoch(1), cache, workers=scenario.workers).frames_stored
        assert not list(self._folder.glob("*.new")), "who writes removes what dead writers left"
        summary = {"found": report.frames_present, "of": num_needed, "unfinished": left, "verdict": "exact"}
        _WRITE(pipe, json.dumps(summary).encode())


def line_of(report: dict[str, Any]) -> str:
    start = f"seed {report['seed']:3d}  {report['cache']:13}"
    if "wrong" in report:
        return f"{start}  WRONG: {report['wrong']}  killed {report['killed']}"
    summary = f"found {report['found']:3d} of {report['of']}, {report['unfinished']} unfinished"
    return f"{start}  {summary:32}  {report['verdict']}  killed {report['killed']}"


def made_plan(folder: Path) -> EpochPlan:
    for number in range(VIDEOS):
        write_clip(folder / f"{number}.mp4", ClipSpec(num_frames=FRAMES, height=48, width=64, gop=6, seed=number))
    return plan_clips(scan(folder, workers=0), RandomSegments(8), seed=1, clips_per_video=2, size=(32, 40))


def run_seeds(seeds: range, *, sabotage: bool = False) -> list[dict[str, Any]]:
    """Say what became of each seed."""
    folder = Path(tempfile.mkdtemp(prefix="framefeed-chaos-"))
    try:
        plan = made_plan(folder)
        fresh = list(clips_through(plan, None, find_decoder()))
        reports = []
        for seed in seeds:
            reports.append(Run(plan, fresh, folder / f"cache{seed}", sabotage).report(seed))
            shutil.rmtree(folder / f"cache{seed}", ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return reports


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--log", type=Path)
    args = parser.parse_args(words)
    warnings.simplefilter("ignore", UserWarning)
    reports = run_seeds(range(args.first, args.first + args.seeds))
    wrong = sum("wrong" in report for report in reports)
    killed = sum(report["killed"].count(" at ") for report in reports)
    summary = f"{len(reports)} runs, {killed} builders killed: {f'{wrong} WRONG' if wrong else 'all exact'}"
    report_lines([*HEADER, *map(line_of, reports), summary], args.log)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
