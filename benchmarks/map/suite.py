"""Rows of ``map_video``, beside other routes from a video to a video.

The row "tiles" stores a video's frames in each format, one after the other: some GB in the folder of temporary files,
or of ``--work``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.map.routes import WORKERS
from benchmarks.map.rows import Entry, free_row, identity_row, lock_row, start_job, tiles_row
from benchmarks.media import OwnStore
from framefeed.bench import Begin, BenchOptions, BenchVideo, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia

ROWS: Mapping[str, str] = {
    "lock": "a function of 5 ms that holds the interpreter's lock, against a loop over OpenCV",
    "lock-1080p": "the same for a 1080p video",
    "free": "a function of 5 ms that lets other threads run: threads against processes",
    "tiles": "four tiles of every frame, against frames that are stored first",
    "identity": "no function, against a loop over OpenCV and the ffmpeg program",
}
PEERS = ("opencv", "torch", "joblib", "benchmarks.peers.pyav", "benchmarks.peers.ffmpeg")
ROW_SECONDS = {"lock": 60, "lock-1080p": 120, "free": 40, "tiles": 300, "identity": 40}
LEAST_FRAMES = 250
HEIGHT = 720
"""Of the video of all rows but one."""
SECONDS, FPS = 60, 25
"""Of a generated video."""


def choose_video(store: OwnStore, height: int = HEIGHT) -> BenchVideo:
    """The user's first long video of a height as displayed, for 720 rows else his first long one; a generated scene."""
    own = [video for video in store.iter_own() if len(video) >= LEAST_FRAMES] if store.media else []
    for video in own:
        if video.index.stream.displayed[0] == height:
            return video
    if height != HEIGHT or not store.media:
        return store.scene(height, height * 16 // 9, SECONDS * FPS, FPS)
    if not own:
        raise MissingMedia(f"none of your videos has {LEAST_FRAMES} frames")
    return own[0]


def make_identity_row(video: BenchVideo, peers: Peers, folder: Path) -> Row:
    """Frames as they are, against the program too, which converts no picture to RGB, with as many threads."""
    job = start_job(video, folder, "ffmpeg", "identity")
    return identity_row(video, peers, folder, [Entry("ffmpeg", job, "ffmpeg")] if "ffmpeg" in peers.modules else [])


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows."""
    store = OwnStore(options.media, work, options.rounds)

    def choose(height: int = HEIGHT) -> BenchVideo:
        begin("choosing a video")
        return choose_video(store, height)

    return {
        "lock": lambda scratch, stack: lock_row("lock", choose(), peers, scratch),
        "lock-1080p": lambda scratch, stack: lock_row("lock-1080p", choose(1080), peers, scratch),
        "free": lambda scratch, stack: free_row(choose(), scratch),
        "tiles": lambda scratch, stack: tiles_row(choose(), peers, scratch),
        "identity": lambda scratch, stack: make_identity_row(choose(), peers, scratch),
    }


SUITE = Suite(
    "map",
    ROWS,
    PEERS,
    plan_rows,
    ROW_SECONDS,
    5,
    lambda options: {"workers": WORKERS, "own_media": bool(options.media)},
)
