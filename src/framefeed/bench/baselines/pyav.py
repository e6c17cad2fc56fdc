"""PyAV: open each file, and ask its first video stream; and ffvhuff, one file a frame, which libav has."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import av
import numpy as np
from av import CodecContext, Packet, VideoCodecContext
from tqdm import tqdm

from framefeed.bench.baselines import BenchFrame, Engine, Facts, FileFormat, ReadSizes, Size, one_by_one
from framefeed.decode import Pixels, PlaneLayout, copy_planes, get_thread_converter, rebuild_picture
from framefeed.index import StreamFacts
from framefeed.plan import OutputSpec

PACKAGES = ("av",)
VERSIONS = {"av's avcodec": ".".join(map(str, av.library_versions["libavcodec"]))}
CHUNK = 256
_CODEC = "ffvhuff"
_HEAD = np.dtype([("rotation", "<i4"), ("mirrored", "<i4"), ("header", "<i4"), ("layout", "S80")])
_FULL_SIZE = OutputSpec(dimension_order="NHWC")


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


def write_packet(path: str, frame: BenchFrame) -> None:
    """Write how the picture is to be turned, its layout, the codec's own header and the one packet.

    The planes are predicted from their neighbours and Huffman-coded.
    """
    context = _context("w", frame.layout)
    context.time_base = Fraction(1, 25)
    context.options = {"context": "1", "pred": "median"}
    packets = [*context.encode(rebuild_picture(frame.layout, frame.planes)), *context.encode(None)]
    header = context.extradata or b""
    stream = frame.stream
    head = np.array([(stream.rotation, stream.mirrored, len(header), frame.layout.text.encode())], dtype=_HEAD)
    Path(path).write_bytes(head.tobytes() + header + b"".join(map(bytes, packets)))


def read_packet(path: str) -> Pixels:
    """Read a frame and convert it as our decoder path does."""
    data = Path(path).read_bytes()
    head = np.frombuffer(data, _HEAD, 1)[0]
    stop = _HEAD.itemsize + int(head["header"])
    layout = PlaneLayout.parse(head["layout"].decode())
    context = _context("r", layout)
    context.extradata = data[_HEAD.itemsize : stop]
    (decoded,) = [*context.decode(Packet(data[stop:])), *context.decode(None)]
    # The codec does not keep what swscale looks at: the planes are taken, and the picture is made of them.
    planes = np.empty(layout.nbytes, dtype=np.uint8)
    copy_planes(decoded, planes)
    stream = StreamFacts(
        0, "", _CODEC, None, layout.width, layout.height, layout.pixel_format, int(head["rotation"]),
        bool(head["mirrored"]),
    )  # fmt: skip
    out = np.empty((*stream.displayed, 3), dtype=np.uint8)
    get_thread_converter().write(rebuild_picture(layout, planes), stream, _FULL_SIZE, out)
    return out


def _context(mode: str, layout: PlaneLayout) -> VideoCodecContext:
    context = CodecContext.create(_CODEC, "r" if mode == "r" else "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = layout.width, layout.height, layout.pixel_format
    context.thread_count = 1
    return context


ENGINES = [
    Engine("PyAV", one_by_one(size_of), "steady"),
    Engine("PyAV, process pool", _start_pool, "pooled"),
]
# With Huffman tables of the frame's own.
FORMATS = [FileFormat("ffvhuff of planes (PyAV)", ".ffvhuff", True, write_packet, read_packet)]
