"""Rows of ``map_video`` beside a program; results name them as those of ``framefeed bench map``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.media import OwnStore
from framefeed.bench import Begin, BenchOptions, BenchVideo, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.map import LEAST_FRAMES, Entry, identity_row, lock_row, start_job
from framefeed.errors import MissingMedia

ROWS: Mapping[str, str] = {
    "lock-1080p": "a function of 5 ms that holds the interpreter's lock, for a 1080p video",
    "identity": "no function, against the ffmpeg program",
}
PEERS = ("opencv", "pyav", "benchmarks.peers.ffmpeg")
ROW_SECONDS = {"lock-1080p": 120, "identity": 40}
SECONDS, FPS = 60, 25
"""Of a generated video."""


def choose_video(store: OwnStore, height: int) -> BenchVideo:
    """The user's first video of a height as displayed; the trailer; a generated scene."""
    for video in store.iter_own() if store.media else ():
        if len(video) >= LEAST_FRAMES and video.index.stream.displayed[0] == height:
            return video
    if height == 720:
        try:
            return store.trailer
        except MissingMedia:
            pass
    return store.scene(height, height * 16 // 9, SECONDS * FPS, FPS)


def make_identity_row(video: BenchVideo, peers: Peers, folder: Path) -> Row:
    """Frames as they are, against the program, which converts no picture to RGB, with as many threads."""
    others = []
    if "ffmpeg" in peers.modules:
        from benchmarks.map.routes import FfmpegJob

        job = start_job(video, folder, "ffmpeg", "identity")
        others.append(Entry("ffmpeg", FfmpegJob(**asdict(job)), "ffmpeg"))
    return identity_row(video, peers, folder, others)


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows."""
    store = OwnStore(options.media, work, options.rounds)
    return {
        "lock-1080p": lambda scratch, stack: lock_row("lock-1080p", choose_video(store, 1080), peers, scratch),
        "identity": lambda scratch, stack: make_identity_row(choose_video(store, 720), peers, scratch),
    }


SUITE = Suite("map", ROWS, PEERS, plan_rows, ROW_SECONDS, 5, lambda options: {"workers": 2})
