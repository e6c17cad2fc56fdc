"""``framefeed bench decode``: every row, one after the other, into one report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._checks import check_known
from framefeed.bench._measuring import NO_TIME, Rounds, machine_facts
from framefeed.bench._media import MediaStore
from framefeed.bench._memory import feed_memory
from framefeed.bench._psnr import compare_resizing, spread_ordinals
from framefeed.bench._workloads import COPIES, SEED, WORKLOADS, Workload
from framefeed.bench.baselines import load_module
from framefeed.bench.decode._comparing import Field, compare, find_field
from framefeed.bench.decode._indexing import index_rows
from framefeed.bench.decode._lengths import compare_lengths
from framefeed.bench.decode._loader import loader_overhead, moving_batches
from framefeed.bench.decode._owned import own_workloads
from framefeed.errors import MissingMedia

OTHER_ROWS = {
    "length": "the same clip in a video 50 times as long",
    "resize": "difference of the default resize from a high-quality resize",
    "overhead": "cost of the loader on top of decoding",
    "moving": "time of the loader for batches that need no decoding",
    "memory": "resident memory of a loading loop",
}


ROW_SECONDS = 8
"""Of a row on the user's own videos with its first round, about, on two x86-64 cores."""


@dataclass(frozen=True, slots=True)
class DecodeBench:
    """What to run.

    Attributes:
        media: The folder with the trailer, or the user's own videos, or none: then only generated media are used.
        work: Folder for what is made, kept; None for one that is removed at the end.
        rows: Keys of the rows, or () for all.
        rounds: How often.
    """

    media: tuple[Path, ...] = ()
    work: Path | None = None
    rows: tuple[str, ...] = ()
    rounds: Rounds = field(default_factory=Rounds)

    def __post_init__(self) -> None:
        check_known("rows", self.rows, known_rows())


def known_rows() -> set[str]:
    """Keys of all rows; "own" stands for those on the user's own videos."""
    return {*WORKLOADS, *OTHER_ROWS, "own"}


def run_decode(
    bench: DecodeBench,
    tell: Callable[[dict[str, Any]], None] = lambda row: None,
    begin: Callable[[str], object] = lambda what: None,
) -> dict[str, Any]:
    """Run the rows.

    Args:
        bench: What to run.
        tell: Called with each row's report as soon as there is one.
        begin: Called with each row before it is measured.

    Returns:
        The whole report; a row that could not be run is listed with the reason.
    """
    peers = find_field()
    report: dict[str, Any] = {
        "bench": "decode",
        "machine": machine_facts(),
        "versions": peers.versions,
        "missing": peers.missing,
        "settings": {"pairs": bench.rounds.pairs, "pilot": bench.rounds.pilot, "slack": bench.rounds.slack,
                     "seed": SEED, "threads": 1},
        "rows": [],
        "skipped": {},
    }  # fmt: skip
    with _work_folder(bench.work) as work:
        store = MediaStore(_media_root(bench.media), work)
        workloads = {**WORKLOADS, **{workload.key: workload for workload in own_workloads(bench.media)}}
        for key, run in _runs(bench, store, peers, workloads).items():
            if not bench.rounds.has(ROW_SECONDS):
                report["skipped"][key] = NO_TIME
                continue
            begin(f"decode, {key}")
            try:
                row = run()
            except MissingMedia as error:
                report["skipped"][key] = str(error)
                continue
            report["rows"].append(row)
            tell(row)
        videos = {key: workloads[key].video(store) for key in _measured(report) if key in workloads}
        report["index"] = index_rows(videos, report["rows"])
    return report


def _measured(report: Mapping[str, Any]) -> list[str]:
    return [row["key"] for row in report["rows"]]


def _runs(
    bench: DecodeBench, store: MediaStore, peers: Field, workloads: Mapping[str, Workload]
) -> dict[str, Callable[[], dict[str, Any]]]:
    rounds = bench.rounds
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        key: lambda workload=workload: compare(workload, store, peers, rounds)  # type: ignore[misc]
        for key, workload in workloads.items()
    }
    runs["length"] = lambda: compare_lengths(store.test_video, store.long_test_video, peers.methods, rounds)
    runs["resize"] = lambda: _resizing(store, peers)
    runs["overhead"] = lambda: loader_overhead(store.work / "ready", rounds)
    runs["moving"] = lambda: moving_batches(store.work / "ready", rounds)
    runs["memory"] = lambda: feed_memory(
        store.copies(store.short_gop_trailer, COPIES), store.work / "memory.parquet", stride=2
    )
    return {key: run for key, run in runs.items() if not bench.rows or key.partition(":")[0] in bench.rows}


def _resizing(store: MediaStore, peers: Field) -> dict[str, Any]:
    row = {"key": "resize", "title": "PSNR to Pillow's antialiased bilinear on full-chroma RGB"}
    pillow = load_module("pillow")
    if isinstance(pillow, str):
        return {**row, "missing": {"pillow": pillow}}
    videos = (store.trailer, store.small_trailer, store.test_video)
    resized = [
        compare_resizing(video, peers.methods, pillow.resized_by_pillow(video, spread_ordinals(len(video))))
        for video in videos
    ]
    return {**row, "videos": resized, "floor": 0.0, "aim": 5.0}


def _media_root(media: Sequence[Path]) -> Path | None:
    return next((path for path in media if MediaStore.has_trailer(path)), None)


@contextmanager
def _work_folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with TemporaryDirectory(prefix="framefeed-bench-") as folder:
        yield Path(folder)
