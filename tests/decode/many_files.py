"""Run as a program: read thousands of files with 128 descriptors, and report how many were open at most.

    python -m tests.decode.many_files FOLDER COUNT     -> JSON on standard output, of COUNT files that are read directly

FOLDER holds clip.mp4 and clip.mkv of two frames; more names are made for them here.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from framefeed.decode._decoder import ClipSlot
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.testing import read_stamp

CONTAINED, THREADED, ALIVE, DROPPED = 150, 150, 160, 130


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def names(folder: Path, ending: str, count: int) -> Iterator[Path]:
    """Other names of one file: each is a source of its own."""
    for number in range(count):
        path = folder / f"{number}{ending}"
        if not path.exists():
            os.link(folder / f"clip{ending}", path)
        yield path


def main(folder: Path, count: int) -> dict[str, int]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    decoder, most = PyAVDecoder(), {}
    indexes = {ending: build_index(folder / f"clip{ending}") for ending in (".mp4", ".mkv")}

    def read(path: Path) -> int:
        out = np.empty((1, 3, 48, 64), dtype=np.uint8)
        slot = ClipSlot(np.array([1]), OutputSpec(), out)
        decoder.decode(MediaSource.of(path), indexes[path.suffix], [slot]).raise_first()
        assert read_stamp(out[0]) == 1
        return num_open()

    most["direct"] = max(read(path) for path in names(folder, ".mp4", count))
    most["contained"] = max(read(path) for path in names(folder, ".mkv", CONTAINED))
    with ThreadPoolExecutor(4) as pool:
        most["threads"] = max(pool.map(read, [*names(folder, ".mp4", THREADED), *names(folder, ".mkv", THREADED)]))
    alive = []
    for path in names(folder, ".mp4", ALIVE):
        alive.append(VideoDecoder(path))
        assert [read_stamp(alive[-1][number]) for number in (0, 1)] == [0, 1]  # one after the other: it stands there
    most["alive"] = num_open()
    for path in names(folder, ".mkv", DROPPED):
        assert read_stamp(VideoDecoder(path)[0]) == 0
        assert VideoDecoder(path).metadata.num_frames == 2
    most["dropped"] = num_open()
    # Those that had to leave their file read on.
    assert [read_stamp(decoder[1]) for decoder in alive[:3]] == [1, 1, 1]
    return most


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
