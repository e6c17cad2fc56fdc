"""Measure the sections that are named, or all, and print their tables: published figures beside those of each route.

usage: python -m benchmarks.sections [A B C D E] [--media FOLDER] [--rounds N] [--json FILE]; --help lists the others

It runs in the project's folder. Whatever cannot run here, for want of a library, a file or a GPU, says so in its line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.sections import a, c, d
from benchmarks.sections.section import describe_table
from benchmarks.sections.suite import SECTIONS, make_sections, make_suite, tabulate
from framefeed.bench import BenchOptions, Rounds, describe_closing, run_suite


def read_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sections", description=__doc__.splitlines()[0])
    least = ", ".join(f"{key} ({max(1, round(each.seconds / 60))} min at least)" for key, each in SECTIONS.items())
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        type=lambda word: word[:1].upper() + word[1:],
        help=f"{least}, or one of the rows C:alone C:training C:parts D:test D:trailer D:VP9 (default: all sections)",
    )
    parser.add_argument("--media", type=Path, metavar="FOLDER", help="real media (default: FRAMEFEED_MEDIA)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="JPEG files for section C (default: made here)")
    parser.add_argument(
        "--epochs", type=int, default=c.EPOCHS, metavar="N", help="C: of training, in a round (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="measurements of each route (default: %(default)s)"
    )
    parser.add_argument(
        "--frames", type=int, default=a.FRAMES, metavar="N", help="A: of the video (default: %(default)s)"
    )
    parser.add_argument(
        "--clips",
        type=int,
        default=d.CLIPS,
        metavar="N",
        help="D: clips in all (default: %(default)s; the write-up has 128)",
    )
    parser.add_argument(
        "--lengths",
        default=",".join(map(str, d.LENGTHS)),
        metavar="SECONDS,...",
        help="D: of the videos (default: %(default)s)",
    )
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keep generated files here, and use them again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file too")
    given = parser.parse_args(words)
    given.sections = given.sections or list(SECTIONS)
    unknown = sorted(key for key in given.sections if key.partition(":")[0] not in SECTIONS)
    if unknown:
        parser.error(f"SECTION: expected some of {' '.join(SECTIONS)}, got {' '.join(unknown)}")
    return given


def describe_sections(report: dict[str, Any]) -> list[str]:
    """Write a report as lines of text."""
    lines = []
    for key, tables in tabulate(report["rows"], SECTIONS).items():
        lines += ["", f"Section {key}: {SECTIONS[key].title}"]
        for title, table in tables.items():
            lines += describe_table(title, table)
    return [*lines, "", *describe_closing(report)]


def main(words: list[str] | None = None) -> int:
    """Run the sections, and print their tables."""
    given = read_arguments(words)
    lengths = tuple(map(int, given.lengths.split(",")))
    media = given.media or os.environ.get("FRAMEFEED_MEDIA")
    sections = make_sections(given.pictures, given.epochs, given.frames, given.clips, lengths)
    options = BenchOptions(
        media=(Path(media),) if media else (),
        work=given.work,
        rows=tuple(dict.fromkeys(key.partition(":")[0] for key in given.sections)),
        rounds=Rounds(given.rounds, pilot=1),
    )
    report = run_suite(
        make_suite(given.sections, sections), options, begin=lambda what: print(what, file=sys.stderr, flush=True)
    )
    print(*describe_sections(report), sep="\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
