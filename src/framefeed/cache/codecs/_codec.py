"""FrameCodec: the interface of codecs, which compress the planes of one picture and read them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import UsageError


class BrokenFrame(Exception):
    """Stored bytes cannot be decoded as their label says; the cache treats the frame as missing."""


class FrameCodec(Protocol):
    """Interface of a codec for the planes of one picture, and its usual answers. Several threads may call it at once.

    A codec need not detect damaged bytes, because the cache has checksums. Decoding damaged bytes gives any picture of
    the layout, or ``BrokenFrame``; never another error, and never takes more memory than the layout needs.
    """

    @property
    def name(self) -> str:
        """Name of the codec in ``codec=``."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether decoding gives back the planes bit for bit."""
        return True

    @property
    def recipe(self) -> str:
        """Library, version, quality and subsampling, which decide the pixels of a lossy codec; empty if lossless."""
        return ""

    @property
    def label(self) -> str:
        """Text that is stored with each frame; ``find_codec`` finds the codec that reads it."""
        return self.name

    def can_store(self, layout: PlaneLayout) -> bool:
        """Whether the codec can store planes of this layout."""
        return True

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes | memoryview:
        """Encode planes.

        Args:
            layout: Of the planes; one that the codec takes.
            planes: uint8 [nbytes], contiguous.

        Returns:
            The bytes to store; they may be the planes' own memory.

        Raises:
            UsageError: The codec does not take the layout, or the planes have another layout.
        """
        ...

    def decode_into(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Decode planes into the caller's memory.

        Args:
            data: Bytes from ``encode``, or any others.
            layout: Of the planes.
            out: uint8 [nbytes], contiguous; undefined after an error.

        Raises:
            BrokenFrame: The bytes are not such planes.
        """
        ...

    def decode(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Decode planes into new memory, uint8 [nbytes], which may be read-only.

        Raises:
            BrokenFrame: The bytes are not such planes.
        """
        out = allocate_memory(layout.nbytes)
        self.decode_into(data, layout, out)
        return out


def check_planes(codec: FrameCodec, layout: PlaneLayout, planes: Pixels) -> None:
    """Raise UsageError if a codec cannot store planes of a layout, or the planes do not have that layout."""
    if not codec.can_store(layout):
        raise UsageError(
            f"layout: the codec {codec.name} cannot store {layout.text}: use codec 'zstd', which stores all"
        )
    if planes.dtype != np.uint8 or planes.shape != (layout.nbytes,) or not planes.flags.c_contiguous:
        raise UsageError(
            f"planes: expected contiguous uint8 [{layout.nbytes}] for {layout.text}, got {planes.dtype} "
            f"{list(planes.shape)}"
        )


def allocate_memory(nbytes: int) -> Pixels:
    """Make memory of arbitrary content, uint8 [nbytes].

    Arrow's allocator aligns it, so that pictures can be views of it, and reuses memory, so that the system need
    not clear it.
    """
    return np.frombuffer(pa.allocate_buffer(nbytes), np.uint8)


PACKED = {"rgb24": (0, 1, 2), "bgr24": (2, 1, 0)}
"""Formats of one plane with three samples a pixel: indices of red, green and blue."""


def view_planes(layout: PlaneLayout, planes: Pixels) -> Sequence[Pixels]:
    """View each plane as uint8 [rows, row bytes]."""
    views, start = [], 0
    for rows, row_bytes in layout.planes:
        stop = start + rows * row_bytes
        views.append(planes[start:stop].reshape(rows, row_bytes))
        start = stop
    return views


def view_channels(layout: PlaneLayout, planes: Pixels) -> Sequence[Pixels]:
    """View each plane as `view_planes` does, and packed pixels as red, green and blue, each [rows, columns]."""
    order = PACKED.get(layout.pixel_format)
    if order is None:
        return view_planes(layout, planes)
    pixels = planes.reshape(layout.height, layout.width, 3)
    return [pixels[:, :, channel] for channel in order]
