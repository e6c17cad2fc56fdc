"""``framefeed map``: every frame of one video, or of many, through a function."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn, cast

from tqdm import tqdm

from framefeed._units import format_count, format_number, format_seconds
from framefeed.cli._arguments import read_at_least, read_positive, read_rate, read_workers
from framefeed.cli._functions import import_function, importing_from_current_folder
from framefeed.cli._io import (
    Exit,
    Failed,
    ensure_folder,
    list_as_json,
    print_error,
    print_failed,
    print_json,
    print_out,
)
from framefeed.cli._map_jobs import Job, Jobs, list_jobs
from framefeed.cli._map_ledger import MapLedger
from framefeed.errors import FramefeedError, LoadError, MediaError, TimeUnavailable, UsageError
from framefeed.parallel import find_shortage
from framefeed.transcode import MapResult, has_unfinished_run, list_existing, map_video

Progress = bool | Callable[[int, int], object]
Map = Callable[..., MapResult]
"""``map_video`` with all arguments but source, ``out`` and ``progress``."""

_AGAIN = "run the same command again to continue"
_AFTER_FIX = (
    f"after a fix, {_AGAIN}; --on-error skip leaves such frames out, and --on-error keep writes them as they were"
)
_FUNCTION, _SETUP = "function", "setup"
"""Stages of errors of the user's functions."""
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Options that make another output of the same source.
_SETTINGS = ("function", "setup", "batch_size", "codec", "quality", "pixel_format", "gop", "fps", "audio", "images",
             "on_error")  # fmt: skip
# Frames that are listed on standard error; the ledger and ``--json`` have them all.
_MAX_FRAMES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = "framefeed map IN... OUT --function MODULE:FUNCTION [options]"
    parser.add_argument("paths", nargs="+", metavar="IN... OUT",
                        help="IN: videos, folders, glob patterns or lists; OUT, last: for one video a video, a name "
                        "with {picture}, or a folder for pictures; for several a folder, or folder/{name}.mkv",
                        )  # fmt: skip
    parser.add_argument("--function", required=True, metavar="MODULE:FUNCTION",
                        help="called as function(frame, index=, pts_seconds=); returns a picture, a list of pictures "
                        "or None; modules of the current folder are found")  # fmt: skip
    parser.add_argument("--setup", metavar="MODULE:FUNCTION",
                        help="called once in each worker; the function gets its result as state=")  # fmt: skip
    parser.add_argument("--workers", type=read_workers, metavar="N",
                        help="number of workers, or auto (default: auto, the thread budget)")  # fmt: skip
    parser.add_argument(
        "--kind",
        choices=["threads", "processes"],
        default="threads",
        help="what runs the function: threads (default), or processes, for functions in pure Python",
    )
    parser.add_argument("--batch-size", type=read_at_least(1), metavar="N",
                        help="give the function N frames at once, as an array [N, H, W, C]")  # fmt: skip
    parser.add_argument(
        "--codec",
        metavar="NAME",
        help="h264 (default in mp4, mov and mkv), hevc, vp9, av1, mpeg4, mjpeg, ffv1 or prores",
    )
    parser.add_argument("--quality", type=read_at_least(0), metavar="N",
                        help="quality on the scale of the codec, smaller is better (default: 23 for h264); of jpg and "
                        "webp pictures 1 to 100, larger is better")  # fmt: skip
    parser.add_argument("--pixel-format", metavar="NAME", help="pixel format of the video (default: yuv420p)")
    parser.add_argument("--gop", type=read_at_least(1), metavar="N", help="largest distance of key frames")
    parser.add_argument("--fps", type=read_rate, metavar="FPS",
                        help="constant frames per second (default: the times of the source's own frames)")  # fmt: skip
    parser.add_argument("--audio", action="store_true", help="copy the first audio stream")
    parser.add_argument("--images", choices=["png", "jpg", "webp"], help="write pictures of this format into folders")
    parser.add_argument("--on-error", choices=["raise", "skip", "keep"], default="raise",
                        help="for frames at which the function fails: raise (default) stops, skip leaves the frame "
                        "out, keep writes the frame as it was")  # fmt: skip
    parser.add_argument("--deadline-seconds", type=read_positive("seconds"), default=60, metavar="S",
                        help="longest time for one frame (default: 60)")  # fmt: skip
    parser.add_argument("--no-resume", dest="resume", action="store_false",
                        help="begin anew, and map finished videos again")  # fmt: skip
    parser.add_argument("--overwrite", action="store_true",
                        help="replace videos that are already there, and that no earlier run of this command wrote",
                        )  # fmt: skip
    parser.add_argument("--json", action="store_true",
                        help="print the results as JSON; what the function prints goes to standard error")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Map the videos, and print what was written."""
    *inputs, out = args.paths
    if not inputs:
        raise UsageError(f"expected IN... OUT, one or more videos and then the output, got {out} alone")
    # What the user's function prints is no JSON.
    with importing_from_current_folder(), _printing_to_stderr() if args.json else nullcontext():
        function = import_function("--function", args.function)
        setup = None if args.setup is None else import_function("--setup", args.setup)
        work = cast(Map, partial(map_video, function=function, setup=setup, **_make_options(args)))
        jobs = list_jobs(inputs, out, as_pictures=args.images is not None)
        if jobs.folder is None:
            done = _map_one(jobs.jobs[0], partial(work, overwrite=args.overwrite), as_json=args.json)
        else:
            done = _map_many(jobs, work, args)
    if args.json:
        print_json(done.make_document())
    else:
        done.print_result()
    return Exit.WELL if done.is_faultless else Exit.FAILED_FILES


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Print on standard error in place of standard output, also in the processes that are started meanwhile."""
    sys.stdout.flush()
    before = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def _make_options(args: argparse.Namespace) -> dict[str, Any]:
    names = ("kind", "batch_size", "quality", "pixel_format", "gop", "fps", "audio", "on_error", "deadline_seconds")
    if args.images is not None and args.codec is not None:
        raise UsageError("--codec is for videos, and --images writes pictures: choose one of them")
    return {
        **{name: getattr(args, name) for name in (*names, "resume")},
        "workers": "auto" if args.workers is None else args.workers,
        "codec": args.images or args.codec,
    }


class _Written(NamedTuple):
    job: Job
    result: MapResult


@dataclass(slots=True)
class _Done:
    """What the command did."""

    written: list[_Written] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)  # inputs that failed as a whole
    num_known: int = 0  # number of outputs that an earlier run had finished
    num_known_faults: int = 0  # number of frames that it left out of them, or kept as they were
    ledger: str | None = None

    @property
    def is_faultless(self) -> bool:
        """Whether every frame of every video has the result of the function."""
        return not (self.failed or self.num_known_faults or any(each.result.ledger for each in self.written))

    def make_document(self) -> dict[str, Any]:
        """Describe it for ``--json``."""
        return {
            "written": [
                {
                    "source": each.job.name,
                    "outputs": list(each.result.outputs),
                    "num_frames": each.result.num_frames,
                    "num_pictures": each.result.num_pictures,
                    "num_resumed_frames": each.result.num_resumed_frames,
                    "seconds": each.result.seconds,
                    "frames": [fault.to_json() for fault in each.result.ledger],
                }
                for each in self.written
            ],
            "finished_before": self.num_known,
            "frames_failed_before": self.num_known_faults,
            "failed": list_as_json(self.failed),
            "ledger": self.ledger,
        }

    def print_result(self) -> None:
        """Print what an earlier run had done, and list what failed."""
        if self.num_known:
            print_out(
                f"{format_count(self.num_known, 'video')} finished by an earlier run and unchanged since: --no-resume "
                "maps them again"
            )
        if self.num_known_faults:
            print_error(f"{format_count(self.num_known_faults, 'frame')} of them failed: the ledger lists them")
        for job, result in self.written:
            lines = [f"{job.name}: {fault}" for fault in result.ledger[:_MAX_FRAMES]]
            if rest := len(result.ledger) - len(lines):
                lines.append(f"{job.name}: {format_count(rest, 'more frame')}, not shown")
            print_error(*lines)
        print_failed(self.failed)
        if self.ledger is not None:
            count = len(self.written) + self.num_known
            total = count + len(self.failed)
            print_out(f"{count:,} of {format_count(total, 'video')} mapped; ledger: {self.ledger}")


def _map_one(job: Job, work: Map, *, as_json: bool) -> _Done:
    try:
        with _explaining_interrupts(""):
            written = _Written(job, work(job.source, out=job.out, progress=None))
    except LoadError as error:
        _raise_failure(error)
    if not as_json:
        print_out(_describe(written))
    return _Done([written])


def _check_existing(job: Job, ledger: MapLedger) -> None:
    """Check that a video replaces no file, but one that an earlier run of this command wrote."""
    if has_unfinished_run(job.out):
        return
    for path in list_existing(job.out):
        is_source = os.path.exists(job.source) and os.path.samefile(path, job.source)  # map_video refuses that
        if not is_source and os.path.getsize(path) and not ledger.has_written(path):
            raise UsageError(
                f"{path}: this file is already there and was not written by 'framefeed map' with the ledger "
                f"{ledger.path}, and is not overwritten: choose another folder, or give --overwrite"
            )


def _map_many(jobs: Jobs, work: Map, args: argparse.Namespace) -> _Done:
    """Map each video that is not finished; one that fails is listed, and the others are mapped."""
    assert jobs.folder is not None
    ledger = MapLedger(ensure_folder(jobs.folder), {name: getattr(args, name) for name in _SETTINGS})
    known = {job for job in jobs.jobs if args.resume and ledger.find_finished(job) is not None}
    todo = [job for job in jobs.jobs if job not in known]
    if not args.overwrite:
        for job in todo:
            _check_existing(job, ledger)
    ledger.begin(job.name for job in jobs.jobs)
    faults = sum(ledger.count_faults(job.name) for job in known)
    done = _Done(failed=list(jobs.failed), num_known=len(known), num_known_faults=faults, ledger=ledger.path)
    for number, job in enumerate(todo, 1):
        count = f"{number + len(known)} of {len(jobs.jobs)}"
        ensure_folder(os.path.dirname(job.out) or os.curdir)
        try:
            with _explaining_interrupts(f" at {job.name}, {count}"), _showing(f"[{count}]") as progress:
                may_replace = args.overwrite or args.images is None or ledger.has_written(job.out)
                result = work(job.source, out=job.out, overwrite=may_replace, progress=progress)
        except (MediaError, LoadError, TimeUnavailable, UsageError) as error:
            _check_is_of_file(error, is_first=not (done.written or known))
            if type(error) is LoadError and not any(kind == LoadError.__name__ for _, kind, _ in done.failed):
                print_error(*_list_traceback(error))
            done.failed.append((job.name, type(error).__name__, str(error)))
            ledger.add_failed(job.name, error)
            continue
        done.written.append(_Written(job, result))
        counts = {"num_frames": result.num_frames, "num_pictures": result.num_pictures}
        ledger.add_written(job, result.outputs, counts, [fault.to_json() for fault in result.ledger])
        if not args.json:
            print_out(f"[{count}] {_describe(done.written[-1])}")
    return done


@contextmanager
def _showing(count: str) -> Iterator[Progress]:
    """Show a bar that names the video by its number, on a terminal."""
    if not sys.stderr.isatty():
        yield False
        return
    with tqdm(desc=count, unit="frame", file=sys.stderr, leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _check_is_of_file(error: FramefeedError, *, is_first: bool) -> None:
    """Raise an error that other files would have too: of the machine, the disk, the setup, or the command's options.

    A function that has worked for one video, or options that have, may still not fit another.
    """
    is_written = isinstance(error, UsageError) and isinstance(error.__cause__, OSError)
    if is_written or find_shortage(error) is not None:
        raise error
    if isinstance(error, UsageError) and is_first:
        raise error
    if type(error) is LoadError and error.stage != _FUNCTION:
        _raise_failure(error)


@contextmanager
def _explaining_interrupts(where: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or f"interrupted{where}; {_AGAIN}") from None


def _raise_failure(error: LoadError) -> NoReturn:
    """Stop the command; where the user's function raised an error, with its traceback and as a mistake of the user."""
    # Of a lost or hanging worker, the message says what to do; and another stage is our bug.
    if type(error) is not LoadError or error.stage not in (_FUNCTION, _SETUP):
        raise error
    print_error(*_list_traceback(error))
    advice = _AFTER_FIX if error.stage == _FUNCTION else f"after a fix, {_AGAIN}"
    raise UsageError(f"{error}; {advice}", source=error.source, position=error.position, stage=error.stage) from error


def _list_traceback(error: LoadError) -> list[str]:
    """List the lines of the traceback of the user's function, if there is one, without calls of framefeed's own."""
    text, cause = error.remote_traceback, error.__cause__
    if text is None and cause is not None:
        text = "".join(traceback.format_exception(cause))
    own, lines = f'  File "{_PACKAGE}{os.sep}', list[str]()
    is_own = False
    for line in (text or "").splitlines():
        if not line.startswith("    "):
            is_own = line.startswith(own)
        if not is_own:
            lines.append(line)
    return lines


def _describe(written: _Written) -> str:
    result = written.result
    outputs = ", ".join(result.outputs[:3]) + (f" and {len(result.outputs) - 3} more" if result.outputs[3:] else "")
    rate = f" ({format_number(result.num_frames / result.seconds)} frames/s)" if result.seconds > 0 else ""
    resumed = result.num_resumed_frames
    before = f"; {format_count(resumed, 'frame')} of them by an earlier run" if resumed else ""
    return (
        f"{outputs}: {format_count(result.num_pictures, 'picture')} of {format_count(result.num_frames, 'frame')} in "
        f"{format_seconds(result.seconds)}{rate}{before}"
    )
