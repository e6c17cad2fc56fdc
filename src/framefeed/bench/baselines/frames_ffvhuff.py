"""ffvhuff, one file a frame: the decoder's planes predicted from their neighbours and Huffman-coded, by libav."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av import CodecContext, Packet, VideoCodecContext

from framefeed.bench._cache_formats import FileFormat
from framefeed.bench._cache_samples import FULL_SIZE, BenchFrame
from framefeed.decode import Pixels, PlaneLayout, copy_planes, get_thread_converter, rebuild_picture
from framefeed.index import StreamFacts

_CODEC = "ffvhuff"
_HEAD = np.dtype([("rotation", "<i4"), ("mirrored", "<i4"), ("header", "<i4"), ("layout", "S80")])


def write_packet(path: str, frame: BenchFrame) -> None:
    """Write how the picture is to be turned, its layout, the codec's own header and the one packet."""
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
    get_thread_converter().write(rebuild_picture(layout, planes), stream, FULL_SIZE, out)
    return out


def _context(mode: str, layout: PlaneLayout) -> VideoCodecContext:
    context = CodecContext.create(_CODEC, "r" if mode == "r" else "w")
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = layout.width, layout.height, layout.pixel_format
    context.thread_count = 1
    return context


def versions() -> dict[str, str]:
    """PyAV brings the codecs along."""
    return {"libavcodec": ".".join(map(str, av.library_versions["libavcodec"]))}


def formats() -> list[FileFormat]:
    """With Huffman tables of the frame's own."""
    return [FileFormat("ffvhuff of planes (PyAV)", ".ffvhuff", True, write_packet, read_packet)]
