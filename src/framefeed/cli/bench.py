"""``framefeed bench``: this machine, on your media, beside the other libraries that are installed."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from framefeed.bench.decode import DecodeBench, known_rows, run_decode
from framefeed.bench.measuring import Rounds
from framefeed.bench.reports import closing_lines, row_lines
from framefeed.cli.exits import Exit
from framefeed.cli.parsing import at_least
from framefeed.cli.printing import say
from framefeed.errors import UsageError

WHAT = ("decode", "all")
NOT_YET = ("scan", "cache", "load", "gpu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=(*WHAT, *NOT_YET), help="what to measure; all: whatever this version has")
    parser.add_argument("media", nargs="*", type=Path, metavar="MEDIA",
                        help="your videos, or the folder of the known media (default: FRAMEFEED_MEDIA)")  # fmt: skip
    parser.add_argument("--media", dest="named_media", action="append", type=Path, default=[], metavar="MEDIA",
                        help="the same")  # fmt: skip
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep what is made there, and use it again")
    parser.add_argument("--rows", metavar="ROW,...", help=f"only these: {', '.join(sorted(known_rows()))}")
    parser.add_argument("--pairs", type=at_least(1), default=20, metavar="N",
                        help="rounds, each with every contender once (default: 20)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there too")


def run(args: argparse.Namespace) -> int:
    """Measure, and say what was found."""
    if args.what in NOT_YET:
        raise UsageError(f"'bench {args.what}' is not in this version of framefeed: there is 'bench decode'")
    named = [*args.media, *args.named_media]
    media = tuple(named or map(Path, filter(None, [os.environ.get("FRAMEFEED_MEDIA")])))
    for path in media:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    rows = tuple(args.rows.split(",")) if args.rows else ()
    bench = DecodeBench(media, args.work, rows, Rounds(args.pairs))
    report = run_decode(bench, lambda row: say(*row_lines(row)))
    say(*closing_lines(report))
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return Exit.WELL
