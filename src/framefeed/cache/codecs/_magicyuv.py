"""MagicYUV: compress each picture without loss through libav, and its packet with LZ4.

The packets are Huffman codes of at least one bit a sample. LZ4 removes repetitions in plain areas, and costs nothing to
read. Of all measured lossless codecs, this one gave the fewest bytes for its reading time
(design/0008-frame-cache-codecs.md).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, cast

import av
import numpy as np
from av import CodecContext, VideoCodecContext
from av.packet import Packet
from av.video.frame import VideoFrame

from framefeed._lru import Lru
from framefeed.cache.codecs._codec import PACKED, BrokenFrame, FrameCodec, check_planes, view_channels
from framefeed.cache.codecs._plain import compress_block, decompress_block
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout, view_plane
from framefeed.errors import MissingDependency
from framefeed.media import LIBAV_EXCEPTIONS

_FIRST_SAFE = (62, 28, 102)
"""libavcodec of FFmpeg 8.1.2; in earlier ones, a packet makes the decoder write outside its memory (CVE-2026-8461)."""

_PADDING = 64
"""Zero bytes that must follow every packet: AV_INPUT_BUFFER_PADDING_SIZE of libavcodec/defs.h."""
_LENGTH_BYTES = 4
_HEADER_BYTES = 32
"""Format, size and slices, equal in all packets of one kind of picture (libavcodec/magicyuvenc.c)."""
_ROW_PADDING = 128
_MAX_CONTEXTS = 4
_LZ4_LEVEL = 1

_CARRIERS: dict[str, tuple[str, tuple[int, ...]]] = {
    **{name: (name, (0, 1, 2)) for name in ("yuv420p", "yuv422p", "yuv444p", "gbrp")},
    **{f"yuvj{name}p": (f"yuv{name}p", (0, 1, 2)) for name in ("420", "422", "444")},
    **{name: (name, (0, 1, 2, 3)) for name in ("yuva444p", "gbrap")},
    **dict.fromkeys((RGB_PLANAR, *PACKED), ("gbrp", (1, 2, 0))),
    "gray": ("gray", (0,)),
}
"""Maps a pixel format to the format that is encoded, and to the channel of each of that format's planes."""


def check_version(libavcodec: tuple[int, int, int]) -> None:
    """Refuse a libavcodec whose decoder is known to be unsafe."""
    if libavcodec < _FIRST_SAFE:
        raise MissingDependency(
            f"the codec 'magicyuv' needs libavcodec {'.'.join(map(str, _FIRST_SAFE))} (FFmpeg 8.1.2) or later, found "
            f"{'.'.join(map(str, libavcodec))}, whose decoder can write outside its memory (CVE-2026-8461): run "
            "pip install -U av, or use codec='zstd'"
        )


def make_magicyuv() -> MagicYuvCodec:
    """Make the MagicYUV codec, unless this libavcodec is unsafe."""
    check_version(av.library_versions["libavcodec"])
    return MagicYuvCodec()


@dataclass(frozen=True, slots=True)
class MagicYuvCodec(FrameCodec):
    """Compress 8-bit YUV 4:2:0, 4:2:2 and 4:4:4, RGB and grey with MagicYUV, and the result with LZ4."""

    name: str = "magicyuv"

    def can_store(self, layout: PlaneLayout) -> bool:
        return layout.pixel_format in _CARRIERS

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        check_planes(self, layout, planes)
        carrier = _make_carrier(layout)
        picture = VideoFrame(carrier.width, carrier.height, carrier.pixel_format)
        for plane, channel in zip(picture.planes, _order_channels(layout, planes), strict=True):
            view_plane(plane, channel.shape[1])[:] = channel
        packet = _contexts.encode(carrier, picture)
        padded = np.zeros(len(packet) + _PADDING, np.uint8)
        padded[: len(packet)] = np.frombuffer(packet, np.uint8)
        return len(padded).to_bytes(_LENGTH_BYTES, "little") + compress_block(padded, _LZ4_LEVEL)

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        if not self.can_store(layout):
            raise BrokenFrame(f"{layout.text} is not stored as MagicYUV")
        carrier = _make_carrier(layout)
        length = int.from_bytes(data[:_LENGTH_BYTES], "little")
        if not _HEADER_BYTES + _PADDING < length <= 2 * layout.nbytes + 2**16:
            raise BrokenFrame(f"a MagicYUV packet of {length} bytes for {layout.text}")
        padded = decompress_block(data[_LENGTH_BYTES:], length)
        if padded[:_HEADER_BYTES].tobytes() != _make_header(carrier) or padded[-_PADDING:].any():
            raise BrokenFrame(f"a MagicYUV packet of another picture than {layout.text}")
        picture = _contexts.decode(carrier, padded[:-_PADDING])
        for plane, channel in zip(picture.planes, _order_channels(layout, out), strict=True):
            channel[:] = view_plane(plane, channel.shape[1])


@lru_cache(maxsize=256)
def _make_carrier(layout: PlaneLayout) -> PlaneLayout:
    """Make the layout of the picture that is encoded; it has the facts that a codec context is set up for."""
    return PlaneLayout(_CARRIERS[layout.pixel_format][0], layout.width, layout.height)


def _order_channels(layout: PlaneLayout, planes: Pixels) -> Sequence[Pixels]:
    """View each channel, uint8 [rows, columns], in the order of the encoded format's planes."""
    channels = view_channels(layout, planes)
    return [channels[number] for number in _CARRIERS[layout.pixel_format][1]]


class _Contexts(threading.local):
    """Encoders and decoders of one thread; no picture depends on another."""

    def __init__(self) -> None:
        self._encoders = Lru[PlaneLayout, VideoCodecContext](_MAX_CONTEXTS)
        self._decoders = Lru[PlaneLayout, VideoCodecContext](_MAX_CONTEXTS)

    def encode(self, layout: PlaneLayout, picture: VideoFrame) -> bytes:
        encoder = self._encoders.pop(layout)
        if encoder is None:
            encoder = _make_context("w", layout)
            encoder.time_base = Fraction(1, 25)
            # One slice: several slices are for several threads.
            encoder.options = {"pred": "gradient", "slices": "1"}
        picture.pts = 0
        (packet,) = encoder.encode(picture)
        self._encoders.put(layout, encoder)
        return bytes(packet)

    def decode(self, layout: PlaneLayout, packet: Pixels) -> VideoFrame:
        decoder = self._decoders.pop(layout)
        if decoder is None:
            decoder = _make_context("r", layout)
            # libav pads rows.
            decoder.options = {"max_pixels": str((layout.width + _ROW_PADDING) * layout.height)}
        try:
            # PyAV takes any buffer; its stub names bytes only.
            pictures = decoder.decode(Packet(cast("bytes", packet)))
        except LIBAV_EXCEPTIONS as error:
            if isinstance(error, MemoryError):
                raise
            raise BrokenFrame(f"MagicYUV: {error}") from error
        if [(each.format.name, each.width, each.height) for each in pictures] != [
            (layout.pixel_format, layout.width, layout.height)
        ]:
            raise BrokenFrame(f"MagicYUV gives {pictures} instead of {layout.text}")
        # A decoder that raised an error is not used again.
        self._decoders.put(layout, decoder)
        return pictures[0]


def _make_context(mode: Literal["r", "w"], layout: PlaneLayout) -> VideoCodecContext:
    context = CodecContext.create("magicyuv", mode)
    assert isinstance(context, VideoCodecContext)
    context.width, context.height, context.pix_fmt = layout.width, layout.height, layout.pixel_format
    context.thread_count, context.thread_type = 1, "NONE"
    return context


@lru_cache(maxsize=256)
def _make_header(layout: PlaneLayout) -> bytes:
    """Make the first bytes of every packet of such pictures."""
    picture = VideoFrame(layout.width, layout.height, layout.pixel_format)
    return _Contexts().encode(layout, picture)[:_HEADER_BYTES]


_contexts = _Contexts()
