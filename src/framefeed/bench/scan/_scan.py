"""``framefeed bench scan``: every row, one after the other, into one report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import SubprocessError
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._checks import check_known
from framefeed.bench._measuring import NO_TIME, Rounds, machine_facts
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._headers import EngineField, find_engines, headers_row
from framefeed.bench.scan._made_up import make_catalog
from framefeed.bench.scan._media import STILL_SUFFIXES, VIDEO_SUFFIXES, Originals, find_originals, make_videos
from framefeed.bench.scan._memory import memory_row
from framefeed.bench.scan._mp4 import mp4_row
from framefeed.bench.scan._trees import Tree, linked_tree
from framefeed.bench.scan._videos import videos_row
from framefeed.bench.scan._whole import Pair, scan_row, second_row
from framefeed.errors import FramefeedError

FILES = 100_000
ROWS = {
    "headers": "sizes from headers of pictures, file by file, against other libraries",
    "scan": "a whole scan, against listing the files and reading their headers without parsing",
    "second": "a second scan, when no file has changed",
    "mp4": "facts and frame tables of MP4 files",
    "memory": "memory of a scan of ten times as many pictures",
    "videos": "opening and planning of a generated catalog with ten times as many videos",
}


ROW_SECONDS = {"headers": 35, "second": 12, "mp4": 8}
"""Of a row over 2000 files with its first round, about, on two x86-64 cores."""


@dataclass(frozen=True, slots=True)
class ScanBench:
    """What to run.

    Attributes:
        media: The user's pictures and videos, files or folders; without any some are made.
        work: Folder for what is made, in which the originals are kept; None for one that is removed at the end.
        rows: Keys of the rows, or () for all.
        files: Pictures of a scanned tree; "headers" takes a fifth of them, "memory" and "videos" ten times as many.
        rounds: How often.
        makes: Whether pictures and videos are made where the user's files have none.
    """

    media: tuple[Path, ...] = ()
    work: Path | None = None
    rows: tuple[str, ...] = ()
    files: int = FILES
    rounds: Rounds = field(default_factory=Rounds)
    makes: bool = True

    def __post_init__(self) -> None:
        check_known("rows", self.rows, ROWS)


def run_scan(
    bench: ScanBench,
    tell: Callable[[dict[str, Any]], None] = lambda row: None,
    begin: Callable[[str], object] = lambda what: None,
) -> dict[str, Any]:
    """Run the rows.

    Args:
        bench: What to run.
        tell: Called with each row's report as soon as there is one.
        begin: Called with each row before it is measured.

    Returns:
        The whole report; a row that failed is listed with the reason.
    """
    engines = find_engines()
    torchcodec = load_module("table_torchcodec")
    if isinstance(torchcodec, str):
        engines.missing["torchcodec"] = torchcodec
    else:
        engines.versions.update(torchcodec.versions())
    report: dict[str, Any] = {
        "bench": "scan",
        "machine": machine_facts(),
        "versions": engines.versions,
        "missing": engines.missing,
        "settings": {"pairs": bench.rounds.pairs, "files": bench.files, "own_media": bool(bench.media)},
        "rows": [],
        "skipped": {},
    }
    with _work_folder(bench.work) as work:
        originals = find_originals(bench.media, work / "originals", makes=bench.makes)
        for key, run in _runs(bench, originals, engines).items():
            lack = _lacking(bench, originals, key) if bench.rounds.has(ROW_SECONDS.get(key, 0)) else NO_TIME
            if lack:
                report["skipped"][key] = lack
                continue
            begin(f"scan, {key}: {ROWS[key]}")
            try:
                with TemporaryDirectory(prefix="row-", dir=work) as scratch:
                    row = run(Path(scratch))
            except (FramefeedError, SubprocessError) as error:
                # What the other rows have measured is not lost.
                report["skipped"][key] = f"{type(error).__name__}: {error}"
                continue
            report["rows"].append(row)
            tell(row)
    return report


def _lacking(bench: ScanBench, originals: Originals, key: str) -> str:
    """Say which files of the user's a row lacks, where none are made; empty where it can be run."""
    if bench.makes:
        return ""
    if key == "videos":
        return "it measures a generated catalog: use 'framefeed bench scan'"
    if key == "mp4":
        return "" if originals.videos else f"none of your files is a video ({', '.join(VIDEO_SUFFIXES)})"
    return "" if originals.stills else f"none of your files is a picture ({', '.join(STILL_SUFFIXES)})"


def _runs(bench: ScanBench, originals: Originals, engines: EngineField) -> dict[str, Callable[[Path], dict[str, Any]]]:
    rounds, processes, files = bench.rounds, len(os.sched_getaffinity(0)), bench.files
    fewest = len(originals.stills)

    def over_trees(row: Callable[..., dict[str, Any]], *counts: int) -> Callable[[Path], dict[str, Any]]:
        def run(work: Path) -> dict[str, Any]:
            with ExitStack() as stack:
                trees = [
                    stack.enter_context(linked_tree(originals.stills, work / f"tree_{number}", max(count, fewest)))
                    for number, count in enumerate(counts)
                ]
                return row(*trees, work)

        return run

    def whole_scan(small: Tree, large: Tree, larger: Tree, largest: Tree, work: Path) -> dict[str, Any]:
        return scan_row(Pair(small, large), Pair(larger, largest), work, rounds, processes)

    runs: dict[str, Callable[[Path], dict[str, Any]]] = {
        "headers": over_trees(
            lambda tree, work: headers_row(tree, originals, engines.engines, rounds, processes), files // 5
        ),
        "scan": over_trees(whole_scan, files // 50, *(max(files, 2 * fewest) * times for times in (1, 2, 5))),
        "second": over_trees(lambda tree, work: second_row(tree, work, rounds), files),
        "mp4": lambda work: mp4_row(originals.videos or make_videos(work), rounds),
        "memory": over_trees(memory_row, 10 * files),
        "videos": lambda work: videos_row(make_catalog, 10 * files, work),
    }
    return {key: run for key, run in runs.items() if not bench.rows or key in bench.rows}


@contextmanager
def _work_folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with TemporaryDirectory(prefix="framefeed-bench-") as folder:
        yield Path(folder)
