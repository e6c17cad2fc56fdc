"""The command line of this project's own suites, on the runner of ``framefeed bench``.

usage: python -m benchmarks.NAME [MEDIA...] [--rows ROW,...] [--pairs N] [--json FILE]      (in the project's folder)

NAME is archives, cache, decode, load, map, pictures, remote or scan. MEDIA are files or folders;
FRAMEFEED_MEDIA names a folder too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from framefeed.bench import BenchOptions, Rounds, Suite, describe_closing, describe_row, run_suite

Add = Callable[[argparse.ArgumentParser], object]


def read_arguments(name: str, words: list[str] | None = None, add: Add = lambda parser: None) -> argparse.Namespace:
    """Read the options of a suite, and those that it adds."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("media", nargs="*", metavar="MEDIA", type=Path)
    parser.add_argument("--rows", metavar="ROW,...", default="")
    parser.add_argument("--pairs", type=int, metavar="N", help="number of rounds")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no row after this time")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keep generated files here, and use them again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file too")
    add(parser)
    return parser.parse_args(words)


def run_scaled(name: str, whole: str, make_suite: Callable[[float], Suite]) -> int:
    """Run a suite whose files have a scale, as a command: what it made goes, also if the command is ended."""

    def add_scale(parser: argparse.ArgumentParser) -> None:
        help_ = f"share of all sizes (default: 1, {whole})"
        parser.add_argument("--scale", type=float, default=1, metavar="S", help=help_)

    tidy_when_ended()
    given = read_arguments(name, add=add_scale)
    return main(make_suite(given.scale), given)


def tidy_when_ended() -> None:
    """Have SIGTERM end this process as Ctrl-C does, so that temporary folders and processes go."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def main(suite: Suite, given: argparse.Namespace | None = None) -> int:
    """Run a suite, and print its rows as they are done."""
    given = given or read_arguments(suite.name)
    media = given.media or [Path(folder) for folder in filter(None, [os.environ.get("FRAMEFEED_MEDIA")])]
    until = None if given.minutes is None else time.perf_counter() + 60 * given.minutes
    options = BenchOptions(
        media=tuple(media),
        work=given.work,
        rows=tuple(filter(None, given.rows.split(","))),
        rounds=Rounds(given.pairs or suite.pairs, until=until),
    )
    report = run_suite(
        suite,
        options,
        tell=lambda row: print(*describe_row(row), sep="\n", flush=True),
        begin=lambda what: print(what, file=sys.stderr, flush=True),
    )
    print(*describe_closing(report), sep="\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0
