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
    "lock-1080p": "the same for a 1080p video",
    "free": "a function of 5 ms that lets other threads run: threads against processes",
    "tiles": "four tiles of every frame, against frames that are stored first",
    "identity": "no function, against the ffmpeg program",
}
PEERS = ("opencv", "pyav", "torch", "joblib", "ffmpeg")
ROW_SECONDS = {"lock": 60, "lock-1080p": 120, "free": 40, "tiles": 300, "identity": 40}
PAIRS = 5
SECONDS, FPS = 60, 25
"""Of a generated video."""


def choose_video(store: MediaStore, height: int, least: int) -> BenchVideo:
    """The user's first video of a height; the trailer; a generated scene where no media are named.

    Args:
        store: The media.
        height: Rows as displayed.
        least: Fewest frames.

    Raises:
        MissingMedia: Media are named, and none fits.
    """
    own = [video for video in store.iter_own() if len(video) >= least]
    fitting = [video for video in own if video.index.stream.displayed[0] == height]
    if fitting:
        return fitting[0]
    if height == 720:
        try:
            return store.trailer
        except MissingMedia:
            pass
        if own:
            return own[0]
    if store.is_given:
        raise MissingMedia(f"none of your videos has {height} rows and {least} frames")
    return store.scene(height, height * 16 // 9, SECONDS * FPS, FPS)


LEAST_FRAMES = 250


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for."""
    store = MediaStore(options.media, work, options.rounds)

    def choose(height: int = 720) -> BenchVideo:
        begin(f"choosing a video of {height} rows")
        return choose_video(store, height, LEAST_FRAMES)

    makes: dict[str, Callable[[Path, ExitStack], Row]] = {
        "lock": lambda scratch, stack: lock_row("lock", choose(), peers, scratch),
        "lock-1080p": lambda scratch, stack: lock_row("lock-1080p", choose(1080), peers, scratch),
        "free": lambda scratch, stack: free_row(choose(), scratch),
        "tiles": lambda scratch, stack: tiles_row(choose(), peers, scratch),
        "identity": lambda scratch, stack: identity_row(choose(), peers, scratch),
    }
    return [PlannedRow(key, makes[key]) for key in makes if not options.rows or key in options.rows]


MAP = Suite(
    "map", ROWS, PEERS, plan_rows, ROW_SECONDS, PAIRS, lambda options: {"workers": 2, "own_media": bool(options.media)}
)
