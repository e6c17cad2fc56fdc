"""JpegCodec: compress with JPEG through simplejpeg, which is lossy.

RGB is stored as RGB with full chroma. Each plane of YUV is stored as a grey picture of its own, so that JPEG converts
neither colours nor range.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import simplejpeg  # type: ignore[import-untyped]

from framefeed.cache.codecs._codec import PACKED, BrokenFrame, FrameCodec, check_planes, view_channels
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout

_PLANES_APART = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "gray"})
_RGB = {RGB_PLANAR: (0, 1, 2), "gbrp": (2, 0, 1), **dict.fromkeys(PACKED, (0, 1, 2))}
"""Indices of the red, green and blue channels."""
_SIZE = struct.Struct("<I")
_SEGMENT = struct.Struct(">HH")
_MARKER_BYTES = 2
_IMAGE_START_BYTES = 2
_START_OF_SCAN = 0xFFDA


@dataclass(frozen=True, slots=True)
class JpegCodec(FrameCodec):
    """Compress RGB into one baseline JPEG picture, and other planes into one picture each, with libjpeg's quality."""

    quality: int
    name: str = "jpeg"
    is_exact: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}:{self.quality}"

    @property
    def recipe(self) -> str:
        return f"simplejpeg {simplejpeg.__version__}, quality {self.quality}, RGB as 4:4:4, YUV planes apart"

    def can_store(self, layout: PlaneLayout) -> bool:
        return layout.pixel_format in _PLANES_APART or layout.pixel_format in _RGB

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes:
        check_planes(self, layout, planes)
        channels = view_channels(layout, planes)
        order = _RGB.get(layout.pixel_format)
        if order is None:
            pixels = [channel[:, :, None] for channel in channels]
        else:
            pixels = [np.stack([channels[number] for number in order], axis=2)]
        pictures = [_compress(each, self.quality) for each in pixels]
        return b"".join([_SIZE.pack(len(picture)) + picture for picture in pictures])

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        if not self.can_store(layout):
            raise BrokenFrame(f"{layout.text} is not stored as JPEG")
        channels = view_channels(layout, out)
        order = _RGB.get(layout.pixel_format)
        if order is None:
            for channel, picture in zip(channels, _split_pictures(data, len(channels)), strict=True):
                _decompress(picture, self.quality, channel[:, :, None])
            return
        (picture,) = _split_pictures(data, 1)
        pixels = np.empty((layout.height, layout.width, 3), np.uint8)
        _decompress(picture, self.quality, pixels)
        for number, target in enumerate(order):
            channels[target][:] = pixels[:, :, number]


def _compress(pixels: Pixels, quality: int) -> bytes:
    """Compress RGB, uint8 [H, W, 3], or a grey picture, uint8 [H, W, 1]."""
    grey = pixels.shape[2] == 1
    picture: bytes = simplejpeg.encode_jpeg(pixels, quality, "GRAY" if grey else "RGB", "Gray" if grey else "444")
    return picture


def _decompress(picture: memoryview, quality: int, out: Pixels) -> None:
    """Write a picture's pixels to ``out``, uint8 [rows, columns, channels], contiguous."""
    header = _make_header(out.shape, quality)
    if picture[: len(header)] != header:
        raise BrokenFrame(f"a JPEG picture of another kind than {out.shape} of quality {quality}")
    try:
        simplejpeg.decode_jpeg(picture, "GRAY" if out.shape[2] == 1 else "RGB", buffer=out)
    except ValueError as error:
        raise BrokenFrame(f"JPEG: {error}") from error


@lru_cache(maxsize=256)
def _make_header(shape: tuple[int, ...], quality: int) -> bytes:
    """Make the header that all pictures of one shape and quality have: size, components and tables."""
    picture = _compress(np.zeros(shape, np.uint8), quality)
    marker, offset = 0, _IMAGE_START_BYTES
    while marker != _START_OF_SCAN:
        marker, length = _SEGMENT.unpack_from(picture, offset)
        offset += _MARKER_BYTES + length
    return picture[:offset]


def _split_pictures(data: memoryview, count: int) -> Sequence[memoryview]:
    """Split stored bytes into pictures; each is preceded by its length."""
    parts = []
    for _ in range(count):
        end = _SIZE.size + (_SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else 0)
        if len(data) < end:
            raise BrokenFrame("JPEG pictures that end early")
        parts.append(data[_SIZE.size : end])
        data = data[end:]
    if len(data):
        raise BrokenFrame("more behind the last JPEG picture")
    return parts
