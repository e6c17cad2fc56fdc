"""``framefeed bench``: measure framefeed on this machine, with your media, against other installed libraries."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from framefeed._checks import check_known
from framefeed._files import check_writable, name_special_kind, write_errors
from framefeed._names import is_url
from framefeed._units import format_count, format_seconds, format_table
from framefeed.bench import BenchOptions, Rounds, Suite, describe_closing, describe_row, run_suite
from framefeed.bench.cache import CACHE, FRAMES, describe_table, refuse_pictures
from framefeed.bench.decode import DECODE
from framefeed.cli._arguments import read_at_least, read_local_path, read_positive, read_rectangle
from framefeed.cli._io import Exit, ensure_folder, print_error, print_out
from framefeed.errors import UsageError

SUITES: Mapping[str, Suite] = {"decode": DECODE, "cache": CACHE}
WHAT = (*SUITES, "all")
MINUTES = 3.0
# Rows that 'bench all' measures without --rows: the most informative short ones, the shortest first.
IN_ALL: Mapping[str, Sequence[str]] = {"decode": ("own",), "cache": ("table", "original")}
# Settings of 'bench all': a measurement takes seconds, not minutes.
_BEGIN = b'{\n "bench": '  # of each result
_SMALL = {"pairs": 4, "frames": 16}
Report = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "what",
        choices=WHAT,
        metavar="WHAT",
        help="what to measure: decode, cache, or all (a little of both, within --minutes)",
    )
    parser.add_argument("media", nargs="*", metavar="MEDIA", default=[],
                        help="your videos, files or folders (default: the folder that FRAMEFEED_MEDIA names, else a "
                        "generated video; 'bench all' needs MEDIA or --generated)")  # fmt: skip
    parser.add_argument("--media", dest="named_media", action="append", default=[], metavar="MEDIA",
                        help="the same as MEDIA")  # fmt: skip
    parser.add_argument("--work", type=read_local_path, metavar="FOLDER",
                        help="keep generated files in this folder, and use them again")  # fmt: skip
    parser.add_argument("--rows", metavar="ROW,...",
                        help="only these rows; "
                        + "; ".join(f"{name}: {', '.join(suite.rows)}" for name, suite in SUITES.items()))  # fmt: skip
    parser.add_argument("--minutes", type=read_positive("minutes"), metavar="M",
                        help="end within this time: measurements that would take longer are not started "
                        f"(default: {MINUTES:g} for all, else no limit)")  # fmt: skip
    parser.add_argument("--generated", action="store_true", help="all: measure a generated video")
    parser.add_argument("--pairs", type=read_at_least(1), metavar="N",
                        help="number of rounds; in each, every library runs once "
                        f"(default: {DECODE.pairs}; cache: {CACHE.pairs}; all: {_SMALL['pairs']})")  # fmt: skip
    parser.add_argument(
        "--json",
        type=read_local_path,
        metavar="FILE",
        help="write the report to this file too; cache writes crops of lossy formats beside it",
    )
    cache = parser.add_argument_group("cache")
    cache.add_argument("--size", type=read_rectangle, default=(224, 224), metavar="SIZE",
                       help="size of outputs: HEIGHTxWIDTH, or one number for both (default: 224x224)")  # fmt: skip
    cache.add_argument("--frames", type=read_at_least(1), metavar="N",
                       help=f"frames, spread over the video (default: {FRAMES}; all: {_SMALL['frames']})")  # fmt: skip
    cache.add_argument("--workers", type=read_at_least(1), metavar="N",
                       help="number of DataLoader workers and of threads (default: one for each core)")  # fmt: skip
    cache.add_argument("--disk", type=read_local_path, metavar="FOLDER",
                       help="folder on the disk to measure (default: the folder of temporary files)")  # fmt: skip
    cache.add_argument("--crops", type=read_local_path, metavar="FOLDER",
                       help="write a contact sheet to this folder that shows the loss of lossy formats")  # fmt: skip


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
    _fill_defaults(args)
    named = [*args.media, *args.named_media] or list(filter(None, [os.environ.get("FRAMEFEED_MEDIA")]))
    if (url := next(filter(is_url, named), None)) is not None:
        raise UsageError(f"{url}: the benchmarks measure files: download it first")
    media = tuple(map(Path, named))
    for path in media:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder: check its spelling")
        if not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path}: is {name_special_kind(os.fspath(path))}, not a file or folder")
    if args.what == "cache":
        refuse_pictures(media)
    if args.disk is not None and not args.disk.is_dir():
        raise UsageError(f"--disk {args.disk}: no such folder: name a folder on the disk to measure")
    chosen = choose_rows(args.what, args.rows)
    if args.json is not None:
        _check_target(args.json, "--json")
    if args.what == "all" and not media and not args.generated:
        raise UsageError("'bench all' measures your files: name videos or folders, or use --generated to measure a "
                         "generated video")  # fmt: skip
    if args.what == "all":
        print_out(*_describe_work(args, media, chosen))
    reports = {what: _measure(SUITES[what], args, media, rows) for what, rows in chosen.items()}
    if args.json is not None:
        document = {"bench": "all", **reports} if args.what == "all" else reports[args.what]
        with write_errors(os.fspath(args.json)):
            args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return Exit.WELL


def _is_result(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def _fill_defaults(args: argparse.Namespace) -> None:
    """Set the defaults of the command, and check for contradicting options."""
    is_all = args.what == "all"
    if args.generated and not is_all:
        raise UsageError(
            f"--generated is for 'bench all' only: 'bench {args.what}' without MEDIA measures a generated video"
        )
    if is_all:
        args.minutes = args.minutes or MINUTES
    for name, default in {"frames": FRAMES, "pairs": None}.items():
        if getattr(args, name) is None:
            setattr(args, name, _SMALL[name] if is_all else default)
    args.until = None if args.minutes is None else time.perf_counter() + 60 * args.minutes


def _describe_work(args: argparse.Namespace, media: Sequence[Path], chosen: Mapping[str, Sequence[str]]) -> list[str]:
    what = "a generated video" if args.generated else ", ".join(map(os.fspath, media))
    rows = []
    for bench, names in chosen.items():
        for row in names:
            seconds = SUITES[bench].row_seconds.get(row)
            least = "" if seconds is None else f"{format_seconds(seconds)} or more"
            rows.append((bench, row, least, SUITES[bench].rows[row]))
    all_of_it = (
        f"within {format_seconds(60 * args.minutes)} (--minutes): measurements that would take longer are not started"
    )
    return [
        f"{format_count(len(rows), 'measurement')} of {what}, {all_of_it}",
        *format_table(rows, "llrl", indent="  "),
    ]


def _make_progress(args: argparse.Namespace) -> Callable[[str], None]:
    """Make a function that prints each step; only 'bench all' prints to files and pipes too."""

    def begin(what: str) -> None:
        if args.what != "all" and not sys.stderr.isatty():
            return
        if args.until is not None:
            what += f" ({format_seconds(round(max(0.0, args.until - time.perf_counter())))} left)"
        print_error(what)

    return begin


def _check_target(path: Path, option: str) -> None:
    """Make sure that a file can be written before anything is measured."""
    if path.is_dir():
        raise UsageError(
            f"{option} {path}: expected a file, got a folder: name a file in it, such as {path / 'bench.json'}"
        )
    ensure_folder(os.fspath(path.parent))
    check_writable(os.fspath(path), "result of 'framefeed bench'", "bench.json", _is_result)
    with write_errors(os.fspath(path)), path.open("a"):
        pass


def choose_rows(what: str, rows: str | None) -> dict[str, tuple[str, ...]]:
    """Choose the benches to run and the rows of each, () for all."""
    benches = [name for name in SUITES if what == name or (what == "all" and name in IN_ALL)]
    if rows is None:
        return {name: tuple(IN_ALL[name]) if what == "all" else () for name in benches}
    given = rows.split(",")
    all_known = set().union(*(SUITES[name].rows for name in benches))
    check_known("--rows", given, all_known)
    chosen = {name: tuple(row for row in given if row in SUITES[name].rows) for name in benches}
    return {name: names for name, names in chosen.items() if names}


def _measure(suite: Suite, args: argparse.Namespace, media: tuple[Path, ...], rows: tuple[str, ...]) -> Report:
    crops = None if args.json is None else args.json.with_suffix(".crops.png")
    if args.crops is not None:
        crops = args.crops / "crops.png"
    options = BenchOptions(
        media=() if args.generated else media,
        work=args.work,
        rows=rows,
        rounds=Rounds(args.pairs or suite.pairs, until=args.until),
        frames=args.frames,
        size=args.size,
        workers=args.workers,
        disk=args.disk,
        crops=crops,
    )

    def tell(row: Report) -> None:
        is_table = suite is CACHE and row["key"] == "table"
        print_out(*(describe_table(row, crops) if is_table else describe_row(row)))

    report = run_suite(suite, options, tell, _make_progress(args))
    print_out(*describe_closing(report))
    return report
