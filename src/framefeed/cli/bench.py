"""``framefeed bench``: find the fastest way to load your media, or compare decoders and formats of stored frames."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from framefeed._checks import check_known
from framefeed._files import check_writable, name_special_kind, write_errors
from framefeed._names import is_url
from framefeed._units import format_seconds
from framefeed.bench import BenchOptions, Rounds, Suite, describe_closing, describe_row, run_suite
from framefeed.bench.advice import (
    LEAST_MINUTES,
    AdviceOptions,
    Recommendation,
    Setting,
    describe_measured,
    describe_settings,
    is_catalog,
    list_settings,
    measure_all,
    recommend,
)
from framefeed.bench.cache import CACHE, FRAMES, describe_table, refuse_pictures
from framefeed.bench.decode import DECODE
from framefeed.cli._arguments import (
    read_at_least,
    read_byte_size,
    read_local_path,
    read_milliseconds,
    read_positive,
    read_rates,
    read_rectangle,
)
from framefeed.cli._functions import check_function
from framefeed.cli._io import Exit, ensure_folder, print_error, print_out
from framefeed.cli._plans import read_start
from framefeed.errors import UsageError
from framefeed.report import SettingRow, check_advice_page, write_advice_page

SUITES: Mapping[str, Suite] = {"decode": DECODE, "cache": CACHE}
MINUTES = 5.0
_BEGIN = b'{\n "bench": '  # of each result
Report = dict[str, Any]
# Options of one kind of bench, which the others refuse: a word that is ignored would be a wrong answer.
_OF_ALL = ("rates", "start", "clips_per_video", "batch_size", "step_ms", "epochs", "transform", "space", "html", "root")
_OF_SUITES = ("rows", "pairs")
_OF_CACHE = ("frames", "crops")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "what",
        choices=[*SUITES, "all"],
        metavar="WHAT",
        help="all: measure which way to load your media is fastest here (the files as they are, a cache of "
        "decoded frames, or proxies: smaller copies), and advise; decode: compare decoders; cache: "
        "compare formats of stored frames",
    )
    parser.add_argument("media", nargs="*", metavar="MEDIA", default=[],
                        help="your videos or pictures, files or folders, for 'all' also a catalog (default: the folder "
                        "that FRAMEFEED_MEDIA names; decode, cache: else a generated video)")  # fmt: skip
    parser.add_argument("--media", dest="named_media", action="append", default=[], metavar="MEDIA",
                        help="the same as MEDIA")  # fmt: skip
    parser.add_argument("--work", type=read_local_path, metavar="FOLDER", help="folder for what is generated")
    parser.add_argument("--minutes", type=read_positive("minutes"), metavar="M",
                        help=f"end within this time, at least {LEAST_MINUTES:g} for all: nothing longer is begun "
                        f"(default: {MINUTES:g} for all, else no limit)")  # fmt: skip
    parser.add_argument("--json", type=read_local_path, metavar="FILE", help="write the result to this file too")
    parser.add_argument("--size", type=read_rectangle, default=(224, 224), metavar="SIZE",
                        help="size of the pictures that you train with: HEIGHTxWIDTH, or one number for both (default: "
                        "224x224)")  # fmt: skip
    parser.add_argument("--workers", type=read_at_least(1), metavar="N",
                        help="number of threads or workers at most (default: one for each core)")  # fmt: skip
    parser.add_argument("--disk", type=read_local_path, metavar="FOLDER",
                        help="folder on the disk where frames or proxies would be stored (default: all: the current "
                        "folder; cache: that of temporary files)")  # fmt: skip
    own = parser.add_argument_group("all")
    own.add_argument("--rates", type=read_rates, metavar="FPS:FRAMES,...",
                     help="frames of a clip: 1:8,2:8 means 8 frames at 1 per second, then 8 at 2 (default: 16 frames, "
                     "4 apart; of pictures, each one)")  # fmt: skip
    own.add_argument("--start", type=read_start, metavar="random|SECONDS",
                     help="time at which clips start (default: random, so each epoch has other frames); needs --rates",
                     )  # fmt: skip
    own.add_argument("--clips-per-video", type=read_at_least(1), metavar="N",
                     help="number of clips from each video in an epoch (default: 1)")  # fmt: skip
    own.add_argument("--batch-size", type=read_at_least(1), metavar="N", help="clips per batch (default: 16)")
    own.add_argument("--step-ms", type=read_milliseconds, metavar="MS",
                     help="duration of your training step in milliseconds: what is faster than it counts as "
                     "equal; without it, the wait of a step of 50 ms is said",
                     )  # fmt: skip
    own.add_argument("--epochs", type=read_at_least(1), metavar="N",
                     help="epochs that you train, within which a cache or proxies must pay (default: 10)")  # fmt: skip
    own.add_argument("--transform", metavar="MODULE:FUNCTION",
                     help="your function transform(clip, rng), which the loader calls with each clip, "
                     "uint8 [T, C, H, W]")  # fmt: skip
    own.add_argument("--space", type=read_byte_size, metavar="SIZE",
                     help="bytes that a cache or proxies may take, such as 200GB (default: most of what is free)",
                     )  # fmt: skip
    own.add_argument("--html", type=read_local_path, metavar="FILE", help="write a page of the result")
    own.add_argument("--root", metavar="FOLDER", help="folder that relative paths of a catalog start at")
    own.add_argument("--peers", action="store_true", help="compare with other decoders that are installed too")
    suites = parser.add_argument_group("decode and cache")
    suites.add_argument("--rows", metavar="ROW,...",
                        help="only these rows; "
                        + "; ".join(f"{name}: {', '.join(suite.rows)}" for name, suite in SUITES.items()))  # fmt: skip
    suites.add_argument("--pairs", type=read_at_least(1), metavar="N",
                        help="number of rounds; in each, every library runs once "
                        f"(default: {DECODE.pairs}; cache: {CACHE.pairs})")  # fmt: skip
    cache = parser.add_argument_group("cache")
    cache.add_argument("--frames", type=read_at_least(1), metavar="N",
                       help=f"frames, spread over the video (default: {FRAMES})")  # fmt: skip
    cache.add_argument("--crops", type=read_local_path, metavar="FOLDER",
                       help="write a contact sheet to this folder that shows the loss of lossy formats; with --json it "
                       "is written beside that file")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure, and print the figures."""
    # As Ctrl-C, so that temporary folders and processes go; nohup ignores SIGHUP, which stays ignored.
    ending = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) == signal.SIG_DFL]
    for number in ending:
        signal.signal(number, _interrupt)
    try:
        return _run(args)
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")


def _run(args: argparse.Namespace) -> int:
    _refuse_other_options(args)
    named = [*args.media, *args.named_media] or list(filter(None, [os.environ.get("FRAMEFEED_MEDIA")]))
    if (url := next(filter(is_url, named), None)) is not None:
        raise UsageError(f"{url}: the benchmarks measure files: download it first")
    media = tuple(map(Path, named))
    for path in media:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder: check its spelling")
        if not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path}: is {name_special_kind(os.fspath(path))}, not a file or folder")
    if args.disk is not None and not args.disk.is_dir():
        raise UsageError(f"--disk {args.disk}: no such folder: name a folder on the disk to measure")
    if args.json is not None:
        _check_target(args.json, "--json")
    if args.what == "all":
        return _advise(args, named)
    if args.what == "cache":
        refuse_pictures(media)
    suite = SUITES[args.what]
    report = _measure(suite, args, media, choose_rows(suite, args.rows))
    _write_json(args.json, report)
    return Exit.WELL


def _refuse_other_options(args: argparse.Namespace) -> None:
    """Raise UsageError for an option of another bench."""
    wrong = {"all": (*_OF_SUITES, *_OF_CACHE), "decode": (*_OF_ALL, *_OF_CACHE), "cache": _OF_ALL}[args.what]
    given = [name for name in wrong if getattr(args, name) is not None]
    given += ["peers"] if args.peers and args.what != "all" else []
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} is no option of 'bench {args.what}': leave it out")


def _write_json(path: Path | None, report: Report) -> None:
    if path is not None:
        with write_errors(os.fspath(path)):
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _is_result(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def _check_target(path: Path, option: str) -> None:
    """Make sure that a file can be written before anything is measured."""
    if path.is_dir():
        raise UsageError(
            f"{option} {path}: expected a file, got a folder: name a file in it, such as {path / 'bench.json'}"
        )
    ensure_folder(os.fspath(path.parent))
    check_writable(os.fspath(path), "result of 'framefeed bench'", "bench.json", _is_result)
    is_new = not path.exists()
    with write_errors(os.fspath(path)):
        path.open("a").close()
        if is_new:
            path.unlink()


def _advise(args: argparse.Namespace, media: list[str]) -> int:
    """Measure all that decides, and print the advice."""
    if not media:
        raise UsageError("'bench all' measures your files: name videos, pictures, folders or a catalog")
    minutes = MINUTES if args.minutes is None else args.minutes
    if minutes < LEAST_MINUTES:
        raise UsageError(f"--minutes {minutes:g}: too little to measure anything: give at least {LEAST_MINUTES:g}")
    if args.start is not None and args.rates is None:
        raise UsageError("--start needs --rates: it is the time at which their clips start")
    if args.root is not None and not is_catalog(media):
        raise UsageError("--root needs a catalog as MEDIA: it is where the relative paths of one start")
    if args.html is not None and args.json is not None and args.html.resolve() == args.json.resolve():
        raise UsageError(f"--html {args.html}: is the file of --json too: name another")
    if args.transform is not None:
        check_function("--transform", args.transform)
    if args.html is not None:
        ensure_folder(os.fspath(args.html.parent))
        check_advice_page(args.html)
    options = AdviceOptions(
        media=tuple(media),
        root=args.root,
        rates=None if args.rates is None else tuple((str(fps), count) for fps, count in args.rates),
        start="random" if args.start is None else str(args.start),
        clips_per_video=args.clips_per_video or 1,
        size=args.size,
        batch_size=args.batch_size or 16,
        step_seconds=None if args.step_ms is None else args.step_ms / 1000,
        epochs=args.epochs or 10,
        transform=args.transform,
        seconds=60 * minutes,
        disk=os.fspath(args.disk or "."),
        space_bytes=args.space,
        work=args.work,
        peers=args.peers,
        workers=args.workers,
    )
    print_out(f"measuring for {format_seconds(60 * minutes)} at most (--minutes); Ctrl-C stops it, and advises")
    results = measure_all(options, lambda row, measured: print_out(*describe_measured(row, measured)), print_error)
    settings = list_settings(results)
    print_out(*describe_settings(settings, results))
    advice = recommend(results) if settings else None
    compared = [{"name": each.name, **asdict(each)} for each in settings]
    _write_json(args.json, {**results, "advice": advice and asdict(advice), "compared": compared})
    print_out("", *(["nothing was measured until it was interrupted"] if advice is None else str(advice).splitlines()))
    if args.html is not None:
        lines = (
            []
            if advice is None
            else [advice.summary, *advice.reasons, "import framefeed as ff", *advice.code.splitlines()]
        )
        write_advice_page(args.html, results, lines, [_make_row(each, advice) for each in settings])
        print_out(f"saved as {args.html}")
    return Exit.INTERRUPTED if results["interrupted"] else Exit.WELL


def _make_row(setting: Setting, advice: Recommendation | None) -> SettingRow:
    """Make the line of a setting on the page."""
    return SettingRow(
        setting.name,
        setting.clips_per_second,
        setting.low,
        setting.high,
        is_advised=advice is not None and setting.name == advice.setting,
        is_measured=setting.is_measured,
        note=setting.why_not or setting.note,
        is_excluded=bool(setting.why_not),
    )


def choose_rows(suite: Suite, rows: str | None) -> tuple[str, ...]:
    """Choose the rows of a suite, () for all."""
    if rows is None:
        return ()
    given = tuple(rows.split(","))
    check_known("--rows", given, set(suite.rows))
    return given


def _make_progress(until: float | None) -> Callable[[str], None]:
    """Make a function that prints each step on a terminal."""

    def begin(what: str) -> None:
        if not sys.stderr.isatty():
            return
        if until is not None:
            what += f" ({format_seconds(round(max(0.0, until - time.perf_counter())))} left)"
        print_error(what)

    return begin


def _measure(suite: Suite, args: argparse.Namespace, media: tuple[Path, ...], rows: tuple[str, ...]) -> Report:
    crops = None if args.json is None else args.json.with_suffix(".crops.png")
    if args.crops is not None:
        crops = args.crops / "crops.png"
    until = None if args.minutes is None else time.perf_counter() + 60 * args.minutes
    options = BenchOptions(
        media=media,
        work=args.work,
        rows=rows,
        rounds=Rounds(args.pairs or suite.pairs, until=until),
        frames=args.frames or FRAMES,
        size=args.size,
        workers=args.workers,
        disk=args.disk,
        crops=crops,
    )

    def tell(row: Report) -> None:
        is_table = suite is CACHE and row["key"] == "table"
        print_out(*(describe_table(row, crops) if is_table else describe_row(row)))

    report = run_suite(suite, options, tell, _make_progress(until))
    print_out(*describe_closing(report))
    return report
