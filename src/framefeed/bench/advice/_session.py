"""Run the rows of ``bench all`` within its time, and put what they report into one result."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._units import format_bytes, format_seconds
from framefeed.bench._isolated import Ended, Interrupted, Program, run_isolated
from framefeed.bench._processes import count_busy_seconds, read_family_clocks
from framefeed.bench._suites import describe_machine
from framefeed.bench.advice._files import (
    measure_cache,
    measure_decoding,
    measure_files,
    measure_proxies,
    measure_storage,
)
from framefeed.bench.advice._loading import measure_loaders, measure_peer, measure_transform
from framefeed.bench.advice._recommend import HELD, predict_speed
from framefeed.errors import MissingMedia, UsageError
from framefeed.parallel import thread_budget

Result = dict[str, Any]
SHARES: Mapping[str, float] = {
    "media": 0.10,
    "decode": 0.20,
    "storage": 0.07,
    "cache": 0.17,
    "proxies": 0.17,
    "loader": 0.27,
}
"""Row -> share of the time; that of a row that is left out goes to the others."""
PROGRAMS: Mapping[str, tuple[Program, str]] = {
    "media": (measure_files, "finding out what the files are"),
    "decode": (measure_decoding, "CPU time of clips of sampled files, in one thread"),
    "storage": (measure_storage, "speed of the storage"),
    "cache": (measure_cache, "storing frames of some clips"),
    "proxies": (measure_proxies, "making proxies of parts of some files"),
    "loader": (measure_loaders, "whole loaders, in turns"),
}
_OF_ALL_FILES = ("kind", "kinds", "usable", "frames", "clips", "bytes", "pixels", "predicted_seconds")
"""What the row "media" says of all files to the others."""
PEERS = ("torchcodec", "decord2", "spdl", "opencv")
_SMALL_SHARE = 0.08
"""Of each peer, and of a transform."""
LEAST_MINUTES = 0.5
_LATE = 15.0
"""Seconds that a row may take longer than it is given, before it is ended; the last ones less."""
_LAST = 20.0
"""Seconds after the end of the time, at which every row is ended."""
_LEAST_SECONDS = 1.0
"""That a row may take, or it is not begun: ending one that hangs takes seconds too."""
_USABLE_SHARE = 0.9
"""Of the free space, that a cache or proxies may take."""
_LEAST_RATIO = 0.3
"""Bytes of a frame in a cache that compresses, as a share of raw ones, at best."""
_ENOUGH = 1.5
"""Times what a training step needs, above which no cache and no proxies are measured."""


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """What is asked for."""

    media: tuple[str, ...]
    root: str | None = None  # folder that relative paths of a catalog start at
    rates: tuple[tuple[str, int], ...] | None = None  # (frames a second, frames); None for 16 frames 4 apart
    start: str = "random"  # of clips, or seconds
    clips_per_video: int = 1
    size: tuple[int, int] = (224, 224)
    batch_size: int = 16
    step_seconds: float | None = None  # of a training step; None if it is not known
    epochs: int = 10
    transform: str | None = None  # module:function
    seconds: float = 300.0
    disk: str = "."  # folder for a cache or proxies
    space_bytes: int | None = None  # that these may take; None for what is free
    work: Path | None = None
    peers: bool = False
    workers: int | None = None  # None for all cores


_STEP_SECONDS = 0.05
"""Of the step that waits are given for where none was named."""


@dataclass(slots=True)
class _Session:
    """What was measured so far, and the time that is left."""

    options: AdviceOptions
    result: Result
    folder: Path
    tell: Callable[[str, Any], object]
    begin: Callable[[str], object]
    ends: float
    left: dict[str, float] = field(default_factory=dict)
    given: Result = field(default_factory=dict)  # for the programs, beside the settings, and in place of some

    def run(self, row: str, program: Program, what: str, **more: Any) -> Ended:
        """Run one row for its share of the time that is left."""
        remaining = max(0.0, self.ends - time.perf_counter())
        seconds = remaining * self.left.pop(row) / max(1e-9, self.left_share(row))
        longest = min(seconds + _LATE, self.ends + _LAST - time.perf_counter())
        if longest < _LEAST_SECONDS:
            self.result["failed"][row] = "no time was left: raise --minutes"
            return Ended(None, self.result["failed"][row])
        self.begin(f"{row}: {what} ({format_seconds(max(1.0, round(seconds)))})")
        given = {**self.result["settings"], **self.given, **more, "row_seconds": seconds}
        ended = run_isolated(program, given, self.folder, seconds=longest)
        self.result["notes"] += [f"{row}: {note}" for note in ended.notes]
        if ended.failure:
            self.result["failed"][row] = ended.failure
        return ended

    def left_share(self, row: str) -> float:
        """Shares of the rows that are left, and of the one that is run."""
        return sum(self.left.values()) + SHARES.get(row, _SMALL_SHARE)

    def leave_out(self, row: str, why: str) -> None:
        """Do not run a row."""
        self.left.pop(row, None)
        self.result["left_out"][row] = why


def measure_all(
    options: AdviceOptions,
    tell: Callable[[str, Any], object] = lambda row, value: None,
    begin: Callable[[str], object] = lambda what: None,
) -> Result:
    """Measure what decides which way of loading is fastest; return the result, for `recommend`.

    Each row runs in a process of its own. ``KeyboardInterrupt`` ends the measurement, and what was measured is kept.
    ``begin`` is called before each row, ``tell`` with its name and what it measured.

    Raises:
        MissingMedia: There is nothing to measure.
    """
    began, others = time.perf_counter(), _count_others()
    result = _begin_result(options)
    with ExitStack() as stack:
        if options.work is not None:
            options.work.mkdir(parents=True, exist_ok=True)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="framefeed-bench-", dir=options.work)))
        session = _Session(options, result, folder, tell, begin, began + options.seconds, dict(SHARES))
        session.left |= {f"peer {name}": _SMALL_SHARE for name in PEERS} if options.peers else {}
        try:
            _measure(session, stack)
        except KeyboardInterrupt:
            result["interrupted"] = True
    seconds = time.perf_counter() - began
    result["seconds"] = round(seconds, 1)
    if others is not None and (after := _count_others()) is not None:
        result["machine"]["cores_of_others"] = round((after - others) / max(1e-3, seconds), 2)
    return result


def _count_others() -> float | None:
    """Processor time of all programs but this one and those that it has started, which have ended."""
    whole = count_busy_seconds()
    return None if whole is None else whole - read_family_clocks().cpu


def _begin_result(options: AdviceOptions) -> Result:
    free = shutil.disk_usage(options.disk).free
    space = round(_USABLE_SHARE * free) if options.space_bytes is None else min(free, options.space_bytes)
    return {
        "bench": "all",
        "machine": describe_machine(),
        "versions": {},
        "settings": {
            "media": list(options.media),
            "is_catalog": is_catalog(options.media),
            "root": options.root,
            "rule": "",
            "has_random_draws": True,
            "size": list(options.size),
            "frames_per_clip": 0,
            "clips_per_video": options.clips_per_video,
            "batch_size": options.batch_size,
            "step_seconds": _STEP_SECONDS if options.step_seconds is None else options.step_seconds,
            "is_step_given": options.step_seconds is not None,
            "epochs": options.epochs,
            "seconds": options.seconds,
            "transform": options.transform,
            "short_side": choose_short_side(options.size),
            "cores": options.workers or thread_budget().threads,
            "disk": options.disk,
            "proxies_folder": choose_proxies_folder(options),
            "space_bytes": space,
            "is_space_given": options.space_bytes is not None,
        },
        "media": None,
        "decode": None,
        "storage": None,
        "cache": None,
        "proxies": None,
        "runs": [],
        "peers": [],
        "failed": {},
        "left_out": {},
        "notes": [],
        "interrupted": False,
        "seconds": 0.0,
    }


def choose_short_side(size: tuple[int, int]) -> int:
    """Choose the short side of proxies, as 256 for training at 224: an even number that they can have."""
    return min(4096, max(16, 2 * round(min(size) * 8 / 7 / 2)))


def choose_proxies_folder(options: AdviceOptions) -> str:
    """Choose a folder for proxies on the disk that was named, outside of those of the originals."""
    folder = os.path.normpath(os.path.join(options.disk, "proxies"))
    for root in options.media:
        whole = os.path.abspath(root)
        if os.path.isdir(whole) and os.path.commonpath([whole, os.path.abspath(folder)]) == whole:
            return os.path.relpath(os.path.join(os.path.dirname(whole), "proxies"))
    return folder


def is_catalog(media: Sequence[str]) -> bool:
    """Whether what is measured is a catalog."""
    return len(media) == 1 and media[0].endswith(".parquet")


def _measure(session: _Session, stack: ExitStack) -> None:
    options, result = session.options, session.result
    settings = result["settings"]
    session.given = {
        "media": [os.path.abspath(path) for path in options.media],
        "root": _find_root(options),
        "rates": options.rates,
        "start": options.start,
        "work": os.fspath(session.folder),
        "folder": os.getcwd(),
    }
    ended = session.run("media", *PROGRAMS["media"])
    if ended.value is None:
        advice = ": scan them first (framefeed scan), and give the catalog, or raise --minutes" if ended.is_late else ""
        raise MissingMedia(f"{ended.failure}{advice}")
    measured = ended.value
    settings |= {name: measured[name] for name in ("rule", "has_random_draws", "frames_per_clip")}
    result["media"] = measured
    session.given |= {name: measured[name] for name in _OF_ALL_FILES}
    session.tell("media", measured)
    settings |= {"holds_lock": False, "transform_seconds": 0.0}
    if options.transform is not None:
        settings |= _try_transform(session)
    _run_row(session, "decode")
    decode = result["decode"]
    if decode is None:
        raise MissingMedia(result["failed"]["decode"])
    median = decode["clip_cpu_seconds"]["median"]
    session.given |= {"factor": decode["factor"], "decode_seconds": median / decode["factor"]}
    session.given |= {"decoded_clips": decode["clips"], "cached_clips": 0, "disk_written_per_second": None}
    _leave_out_what_decides_nothing(session)
    disk = None
    try:
        disk = stack.enter_context(TemporaryDirectory(prefix="framefeed-bench-", dir=options.disk))
    except OSError as error:
        for row in ("cache", "proxies"):
            session.leave_out(row, f"{options.disk} cannot be written: {error.strerror}")
    session.given |= {"disk_work": disk, "cache": os.path.join(disk or "", "cache")}
    for row in ("storage", "cache", "proxies"):
        if row in session.left:
            _run_row(session, row)
        if row == "storage" and result["storage"]:
            session.given["disk_written_per_second"] = result["storage"]["disk_written_per_second"]
    if result["cache"]:
        session.given["cached_clips"] = result["cache"]["clips"]
    _run_row(session, "loader")
    for name in PEERS if options.peers else ():
        _run_peer(session, name)


def _try_transform(session: _Session) -> Result:
    """Time the user's transform, and find out whether it holds Python's lock; UsageError where it cannot be called."""
    session.left["transform"] = _SMALL_SHARE
    ended = session.run("transform", measure_transform, "whether it holds Python's lock (GIL)")
    if ended.value is None:
        raise UsageError(f"--transform {session.options.transform}: {ended.failure}")
    if not ended.value["holds_lock"]:
        session.result["left_out"]["processes"] = "the transform does not hold Python's lock (GIL)"
    return {"holds_lock": ended.value["holds_lock"], "transform_seconds": ended.value["seconds"]}


def _find_root(options: AdviceOptions) -> str | None:
    """Find where relative paths of a catalog start: said once for all, the parts of it that are written keep them."""
    if not is_catalog(options.media):
        return options.root
    return options.root or os.path.dirname(os.path.abspath(options.media[0]))


def _run_row(session: _Session, row: str) -> None:
    """Run a row, and keep what it reports, also until it is interrupted."""
    try:
        value = session.run(row, *PROGRAMS[row]).value
    except Interrupted as interrupt:
        if interrupt.value is not None:
            _keep(session.result, row, interrupt.value)
        raise
    if value is None:
        session.result["failed"].setdefault(row, "nothing was measured in its time: raise --minutes")
        return
    _keep(session.result, row, value)
    session.tell(row, value)


def _keep(result: Result, row: str, value: Any) -> None:
    if row == "loader":
        result["runs"] = value["runs"]
    else:
        result[row] = value


def _leave_out_what_decides_nothing(session: _Session) -> None:
    """Leave out rows that cannot change the advice, so that the others have their time."""
    settings, media = session.result["settings"], session.result["media"]
    speed = predict_speed(session.result, settings["cores"])
    is_enough = speed * settings["step_seconds"] >= _ENOUGH * settings["batch_size"]
    if settings["is_step_given"] and is_enough:
        for row in ("cache", "proxies"):
            step = format_seconds(settings["step_seconds"])
            session.leave_out(row, f"not needed: the files as they are keep a step of {step} busy")
        return
    if not media["larger"]:
        session.leave_out("proxies", f"no file is larger than {settings['short_side']} pixels")
    height, width = settings["size"]
    holds = "every frame" if settings["has_random_draws"] else "clips"
    frames = media["frames"] if settings["has_random_draws"] else media["clips"] * settings["frames_per_clip"]
    raw = frames * 3 * height * width
    if _LEAST_RATIO * raw > settings["space_bytes"]:
        free = format_bytes(settings["space_bytes"])
        session.leave_out("cache", f"no room for {HELD[holds]}: {format_bytes(raw)} raw, of {free} that may be used")


def _run_peer(session: _Session, name: str) -> None:
    row = f"peer {name}"
    if session.result["media"]["kind"] == "image":
        session.leave_out(row, "only videos are compared")
        return
    ended = session.run(row, measure_peer, f"random clips by {name}", peer=name)
    if "No module named" in ended.failure and ended.value is None:
        session.leave_out(row, session.result["failed"].pop(row))
    elif ended.value is not None:
        session.result["peers"].append(ended.value["row"])
        session.result["versions"] |= ended.value["versions"]
        session.tell(row, ended.value["row"])
