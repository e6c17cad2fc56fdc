"""PyAV: open each file, and ask its first video stream; write pictures as a video."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from multiprocessing import get_context

import av
from tqdm import tqdm

from benchmarks.peers.kinds import Engine, Facts, ReadSizes, Size, one_by_one
from framefeed.decode import Pixels

PACKAGES = ("av",)
VERSIONS = {"av's avcodec": ".".join(map(str, av.library_versions["libavcodec"]))}
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


def _start_pool(processes: int, stack: ExitStack) -> ReadSizes:
    """Start the quickest way of the write-up: ``ProcessPoolExecutor.map`` in chunks of 256, with a bar."""
    # Not forked: the process that measures has threads.
    pool = ProcessPoolExecutor(processes, mp_context=get_context("forkserver"))
    stack.callback(pool.shutdown, cancel_futures=True)
    nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as the pool
    # A chunk a worker and more: all of them have started and imported PyAV once this is done.
    list(pool.map(size_of, [os.devnull] * CHUNK * 2 * processes, chunksize=CHUNK))
    return lambda paths: list(tqdm(pool.map(size_of, paths, chunksize=CHUNK), total=len(paths), file=nowhere))


def write_video(
    path: str, pictures: Iterable[Pixels], rate: Fraction, options: dict[str, str], layout: str = "rgb24"
) -> None:
    """Encode pictures, uint8 [H, W, 3] in the layout "rgb24" or "bgr24", with x264 and all its threads."""
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=rate, options=options)
        stream.pix_fmt = "yuv420p"
        # PyAV's own choice are slices, which are slower; a thread count of 0 leaves the number to x264.
        stream.codec_context.thread_type = "FRAME"
        stream.codec_context.thread_count = 0
        for number, picture in enumerate(pictures):
            if number == 0:
                stream.height, stream.width = picture.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format=layout)))
        container.mux(stream.encode())


ENGINES = [
    Engine("PyAV", one_by_one(size_of), "steady"),
    Engine("PyAV, process pool", _start_pool, "pooled"),
]
