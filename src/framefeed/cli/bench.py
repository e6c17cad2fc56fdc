"""``framefeed bench``: this machine, on your media, beside the other libraries that are installed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from framefeed.bench.cache import FRAMES, PAIRS, CacheBench, run_cache
from framefeed.bench.cache import ROWS as CACHE_ROWS
from framefeed.bench.cache_reports import cache_closing_lines, cache_row_lines
from framefeed.bench.cache_samples import refuse_pictures
from framefeed.bench.decode import DecodeBench, known_rows, run_decode
from framefeed.bench.measuring import Rounds
from framefeed.bench.reports import closing_lines, row_lines
from framefeed.bench.scan import FILES, ROWS, ScanBench, run_scan
from framefeed.bench.scan_charts import rates_chart
from framefeed.bench.scan_reports import scan_closing_lines, scan_row_lines
from framefeed.cli.exits import Exit
from framefeed.cli.folders import made_folder
from framefeed.cli.parsing import at_least, size
from framefeed.cli.printing import say
from framefeed.errors import UsageError
from framefeed.index.targets import writing
from framefeed.media.regular_files import kind_at

WHAT = ("decode", "scan", "cache", "all")
NOT_YET = ("load", "gpu")
DEFAULT_PAIRS = 20
Report = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=(*WHAT, *NOT_YET), help="what to measure; all: whatever this version has")
    parser.add_argument("media", nargs="*", type=Path, metavar="MEDIA",
                        help="your media (default: the folder named by FRAMEFEED_MEDIA, else made ones)")  # fmt: skip
    parser.add_argument("--media", dest="named_media", action="append", type=Path, default=[], metavar="MEDIA",
                        help="the same")  # fmt: skip
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep what is made there, and use it again")
    parser.add_argument("--rows", metavar="ROW,...",
                        help=f"only these; decode: {', '.join(sorted(known_rows()))}; scan: {', '.join(ROWS)}; "
                        f"cache: {', '.join(CACHE_ROWS)}")  # fmt: skip
    parser.add_argument("--files", type=at_least(1), default=FILES, metavar="N",
                        help=f"scan: pictures in the scanned tree; other trees in proportion (default: {FILES})",
                        )  # fmt: skip
    parser.add_argument("--pairs", type=at_least(1), metavar="N",
                        help=f"rounds, each with every contender once (default: {DEFAULT_PAIRS}; cache: {PAIRS})",
                        )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="write the report there too; the rates of scan as a picture beside it, and crops of the "
                        "lossy formats of cache")  # fmt: skip
    _add_cache_arguments(parser)


def _add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    cache = parser.add_argument_group("cache")
    cache.add_argument("--size", type=size, default=(224, 224), metavar="SIZE",
                       help="of outputs: HEIGHTxWIDTH, or one number for both (default: 224x224)")  # fmt: skip
    cache.add_argument("--frames", type=at_least(1), default=FRAMES, metavar="N",
                       help=f"of the video, spread over it (default: {FRAMES})")  # fmt: skip
    cache.add_argument("--workers", type=at_least(1), metavar="N",
                       help="of the DataLoader that reads, and threads (default: the cores)")  # fmt: skip
    cache.add_argument("--disk", type=Path, metavar="FOLDER",
                       help="on the disk that frames are to be stored on (default: that of temporary files)",
                       )  # fmt: skip
    cache.add_argument("--crops", type=Path, metavar="FOLDER",
                       help="write what lossy formats do to the picture there, as one contact sheet")  # fmt: skip
    cache.add_argument("--goals", action="store_true",
                       help="say how figures stand to what this project aims at")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure, and say what was found."""
    if args.what in NOT_YET:
        raise UsageError(f"'bench {args.what}' is not in this version of framefeed: there are {', '.join(WHAT)}")
    named = [*args.media, *args.named_media]
    media = tuple(named or map(Path, filter(None, [os.environ.get("FRAMEFEED_MEDIA")])))
    for path in media:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        if not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path}: is {kind_at(os.fspath(path))}, not a file or folder")
    if args.what == "cache":
        refuse_pictures(media)
    if args.disk is not None and not args.disk.is_dir():
        raise UsageError(f"--disk {args.disk}: no such folder")
    if args.json is not None:
        _check_target(args.json)
    reports = {what: _BENCHES[what](args, media, rows) for what, rows in chosen_rows(args.what, args.rows).items()}
    if args.json is not None:
        document = {"bench": "all", **reports} if args.what == "all" else reports[args.what]
        with writing(os.fspath(args.json)):
            args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        _draw(reports, args.json)
    return Exit.WELL


def _check_target(path: Path) -> None:
    """Make sure that a file can be written before anything is measured.

    Raises:
        UsageError: It cannot.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it, such as {path / 'bench.json'}")
    if (kind := kind_at(os.fspath(path))) is not None:
        raise UsageError(f"cannot write {path}: {kind} is already there; choose another name")
    made_folder(os.fspath(path.parent))
    with writing(os.fspath(path)), path.open("a"):
        pass


def chosen_rows(what: str, rows: str | None) -> dict[str, tuple[str, ...]]:
    """The benches to run and the rows of each, () for all of them.

    Raises:
        UsageError: No bench that was asked for has such a row.
    """
    known = {"decode": known_rows(), "scan": set(ROWS), "cache": set(CACHE_ROWS)}
    benches = [name for name in known if what in (name, "all")]
    if rows is None:
        return dict.fromkeys(benches, ())
    wanted = rows.split(",")
    all_known = set().union(*(known[name] for name in benches))
    unknown = sorted(set(wanted) - all_known)
    if unknown:
        raise UsageError(f"no row {', '.join(unknown)}: the rows are {', '.join(sorted(all_known))}")
    chosen = {name: tuple(row for row in wanted if row in known[name]) for name in benches}
    return {name: of for name, of in chosen.items() if of}


def _decode(args: argparse.Namespace, media: tuple[Path, ...], rows: tuple[str, ...]) -> Report:
    bench = DecodeBench(media, args.work, rows, Rounds(args.pairs or DEFAULT_PAIRS))
    report = run_decode(bench, lambda row: say(*row_lines(row)))
    say(*closing_lines(report))
    return report


def _scan(args: argparse.Namespace, media: tuple[Path, ...], rows: tuple[str, ...]) -> Report:
    bench = ScanBench(media, args.work, rows, args.files, Rounds(args.pairs or DEFAULT_PAIRS))
    report = run_scan(bench, lambda row: say(*scan_row_lines(row)))
    say(*scan_closing_lines(report))
    return report


def _cache(args: argparse.Namespace, media: tuple[Path, ...], rows: tuple[str, ...]) -> Report:
    side = (args.size, args.size) if isinstance(args.size, int) else args.size
    rounds = Rounds(args.pairs or PAIRS)
    bench = CacheBench(media, args.work, args.disk, rows, args.frames, side, args.workers, rounds, _crops_file(args))
    hidden = not sys.stderr.isatty()
    with tqdm(total=0, bar_format="{desc}", file=sys.stderr, disable=hidden, leave=False) as progress:

        def tell(row: dict[str, Any]) -> None:
            progress.clear()
            say(*cache_row_lines(row, args.goals))

        report = run_cache(bench, tell, progress.set_description_str)
    say(*cache_closing_lines(report))
    return report


def _crops_file(args: argparse.Namespace) -> Path | None:
    if args.crops is not None:
        return Path(args.crops) / "crops.png"
    return None if args.json is None else Path(args.json).with_suffix(".crops.png")


_BENCHES: Mapping[str, Callable[[argparse.Namespace, tuple[Path, ...], tuple[str, ...]], Report]] = {
    "decode": _decode,
    "scan": _scan,
    "cache": _cache,
}


def _draw(reports: Mapping[str, Report], beside: Path) -> None:
    """Draw the rates of the engines, where they were measured."""
    drawn = rates_chart(reports["scan"]) if "scan" in reports else None
    if drawn is not None:
        picture = beside.with_suffix(".svg")
        with writing(os.fspath(picture)):
            picture.write_text(drawn, encoding="utf-8")
        say(f"rates as a picture: {picture}")
