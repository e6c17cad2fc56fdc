"""PyAV: open each file, and ask its first video stream; in this process, and in a pool of processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context

import av
from tqdm import tqdm

from framefeed.bench._sizing import Engine, Facts, Size, in_process

CHUNK = 256


def size_of(path: str) -> Size:
    """Size of the first video stream; text under a picture's name is opened as one of 0 x 0."""
    try:
        with av.open(path) as container:
            stream = container.streams.video[0]
            return (stream.width, stream.height) if stream.width else None
    except (av.FFmpegError, IndexError):
        return None


def facts_of(path: str) -> Facts:
    """Facts of the first video stream, as far as opening finds them."""
    try:
        with av.open(path) as container:
            stream = container.streams.video[0]
            # Asked for as every survey does, whether or not it is compared.
            _ = stream.average_rate, stream.duration, stream.time_base, stream.frames
            return stream.codec_context.name, stream.width, stream.height
    except (av.FFmpegError, IndexError):
        return None


class _Pool:
    """The quickest way of the write-up: ``ProcessPoolExecutor.map`` in chunks of 256, with a bar."""

    def __init__(self, processes: int) -> None:
        # Not forked: the process that measures has threads.
        self._pool = ProcessPoolExecutor(processes, mp_context=get_context("forkserver"))
        self._nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the pool
        # A chunk a worker and more: all of them have started and imported PyAV once this is done.
        list(self._pool.map(size_of, [os.devnull] * CHUNK * 2 * processes, chunksize=CHUNK))

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        sizes = self._pool.map(size_of, paths, chunksize=CHUNK)
        return list(tqdm(sizes, total=len(paths), file=self._nowhere))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._nowhere.close()


def versions() -> dict[str, str]:
    """The library, and the codec libraries under it, by name."""
    codec = ".".join(map(str, av.library_versions["libavcodec"]))
    return {"av": version("av"), "av's avcodec": codec}


def engines() -> list[Engine]:
    """Both ways."""
    return [in_process("PyAV", size_of, "steady"), Engine("PyAV, process pool", _Pool, "pooled")]
