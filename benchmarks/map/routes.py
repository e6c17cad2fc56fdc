"""Routes from a video through a function to a video; each runs as a program in a process of its own.

The time of a route begins after its imports, and ends with the finished file; processes that it starts count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.map.functions import NAMED, join_tiles, stack_tiles
from benchmarks.processes import run_program
from framefeed.bench import read_family_clocks
from framefeed.bench.baselines import FileFormat, load_module
from framefeed.decode import Pixels
from framefeed.transcode import map_video

QUALITY = 23
X264: Mapping[str, str] = {"preset": "veryfast", "crf": str(QUALITY), "bf": "0"}
"""What ``map_video`` takes by default for H.264, given to all routes."""
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Job:
    """What a route does: key of `ROUTES`, files, key of `NAMED` with its turns, and the rate, such as "24000/1001".

    ``kind`` of workers is for ours; ``format`` of the baselines' ``module`` for the store.
    """

    route: str
    source: str
    out: str
    function: str
    rate: str
    turns: int = 0
    kind: str = "threads"
    format: str = ""
    module: str = ""

    def run(self) -> dict[str, Any]:
        """Run it in a fresh process; returns its seconds, "cpu" and "wall", and the bytes that it "stored"."""
        result: dict[str, Any] = run_program(run_job, json.dumps(asdict(self)))
        return result

    def call(self) -> Callable[..., Any]:
        """Make the function."""
        return NAMED[self.function](self.turns)


def run_job(text: str) -> dict[str, Any]:
    """Do a job whose fields are given as JSON; returns its seconds, and the bytes that it stored."""
    job = Job(**json.loads(text))
    run = ROUTES[job.route](job)
    before = read_family_clocks()
    stored = run()
    took = read_family_clocks() - before
    return {"cpu": took.cpu, "wall": took.wall, "stored": stored}


def prepare_ours(job: Job) -> Callable[[], int]:
    """Map with two workers."""

    def run() -> int:
        options: dict[str, Any] = {"workers": WORKERS, "kind": job.kind, "codec": "h264", "quality": QUALITY}
        map_video(job.source, job.call(), job.out, **options, resume=False, overwrite=True, progress=False)
        return 0

    return run


def prepare_loop(job: Job) -> Callable[[], int]:
    """Decode with OpenCV, call the function, encode with PyAV: one after the other, each with all its threads.

    The channels stay in OpenCV's order, which costs no conversion: the functions treat all alike.
    """
    # The first limits OpenCV's threads as it is imported: now, and not later.
    opencv, pyav = load_module("opencv"), load_module("benchmarks.peers.pyav")
    load_module("benchmarks.peers.opencv").use_all_threads()
    function, rate = job.call(), Fraction(job.rate)

    def make_pictures() -> Iterator[Pixels]:
        for index, frame in enumerate(opencv.read_bgr(job.source)):
            result = function(frame, index=index, pts_seconds=float(index / rate))
            yield join_tiles(np.stack(result)) if isinstance(result, list) else result

    def run() -> int:
        pyav.write_video(job.out, make_pictures(), rate, dict(X264), "bgr24")
        return 0

    return run


def read_tiles(read: Callable[[str], Pixels], path: str) -> Pixels:
    """Read a stored frame, whose number is its name, and split it: what a data set does for an item."""
    return stack_tiles(read(path), int(Path(path).stem))


def prepare_store(job: Job) -> Callable[[], int]:
    """Store every frame, read them with torch's DataLoader in two processes, split them, write the tiles."""
    opencv, pyav, torch = load_module("opencv"), load_module("benchmarks.peers.pyav"), load_module("torch")
    load_module("benchmarks.peers.opencv").use_all_threads()
    formats: list[FileFormat] = load_module(job.module).FORMATS
    chosen = next(each for each in formats if each.name == job.format)
    folder = Path(f"{job.out}.frames")

    def run() -> int:
        folder.mkdir()
        paths = []
        for index, frame in enumerate(opencv.read_in_order(job.source)):
            paths.append(os.fspath(folder / f"{index:06}{chosen.suffix}"))
            chosen.write(paths[-1], frame)
        loader = torch.load_files(paths, partial(read_tiles, chosen.read), WORKERS)
        pictures = (join_tiles(tiles) for batch in loader for tiles in batch.numpy())
        pyav.write_video(job.out, pictures, Fraction(job.rate), dict(X264))
        return sum(Path(path).stat().st_size for path in paths)

    return run


def prepare_ffmpeg(job: Job) -> Callable[[], int]:
    """Decode and encode again with the ffmpeg program, whatever the function: no picture leaves it."""
    ffmpeg = load_module("benchmarks.peers.ffmpeg")

    def run() -> int:
        ffmpeg.encode_again(job.source, job.out, dict(X264), WORKERS)
        return 0

    return run


ROUTES: dict[str, Callable[[Job], Callable[[], int]]] = {
    "ours": prepare_ours,
    "loop": prepare_loop,
    "store": prepare_store,
    "ffmpeg": prepare_ffmpeg,
}
