"""The rows of ``framefeed bench map``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.map._rows import free_row, identity_row, lock_row, tiles_row
from framefeed.errors import MissingMedia

ROWS: Mapping[str, str] = {
    "lock": "a function of 5 ms that holds the interpreter's lock, against a loop over OpenCV",
    "free": "a function of 5 ms that lets other threads run: threads against processes",
    "tiles": "four tiles of every frame, against frames that are stored first",
    "identity": "no function, against a loop over OpenCV",
}
PEERS = ("opencv", "pyav", "torch", "joblib")
ROW_SECONDS = {"lock": 60, "free": 40, "tiles": 300, "identity": 40}
PAIRS = 5
LEAST_FRAMES = 250


def choose_video(store: MediaStore) -> BenchVideo:
    """The user's first video that is long enough, one of 720 rows before all others.

    Raises:
        MissingMedia: None is.
    """
    own = [video for video in store.iter_own() if len(video) >= LEAST_FRAMES]
    if not own:
        raise MissingMedia(f"none of your videos has {LEAST_FRAMES} frames")
    return next((video for video in own if video.index.stream.displayed[0] == 720), own[0])


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for."""
    store = MediaStore(options.media, work, options.rounds)

    def choose() -> BenchVideo:
        begin("choosing a video")
        return choose_video(store)

    makes: dict[str, Callable[[Path, ExitStack], Row]] = {
        "lock": lambda scratch, stack: lock_row("lock", choose(), peers, scratch),
        "free": lambda scratch, stack: free_row(choose(), scratch),
        "tiles": lambda scratch, stack: tiles_row(choose(), peers, scratch),
        "identity": lambda scratch, stack: identity_row(choose(), peers, scratch),
    }
    return [PlannedRow(key, makes[key]) for key in makes if not options.rows or key in options.rows]


MAP = Suite(
    "map", ROWS, PEERS, plan_rows, ROW_SECONDS, PAIRS, lambda options: {"workers": 2, "own_media": bool(options.media)}
)
