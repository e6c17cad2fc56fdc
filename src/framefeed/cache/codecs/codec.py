"""What a frame codec is: the planes of one picture as few bytes, and back."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.decode.planes import PlaneLayout
from framefeed.errors import UsageError

Pixels = npt.NDArray[np.uint8]


class BrokenFrame(Exception):
    """Stored bytes are not what they claim to be: to the cache, the frame is not there."""


class FrameCodec(Protocol):
    """Stores the planes of one picture. Safe to call from several threads at once.

    Damage to the bytes need not be noticed, for the cache has checksums: what comes out is then some picture of the
    same layout, or ``BrokenFrame``; never another error, and never more memory than the layout says.
    """

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether the planes come back bit for bit."""
        ...

    @property
    def recipe(self) -> str:
        """Of a lossy codec what decides its pixels: library, version, quality, subsampling; else empty."""
        ...

    @property
    def label(self) -> str:
        """Written beside each stored frame; ``codec_labelled`` finds a codec that reads what this one wrote."""
        ...

    def takes(self, layout: PlaneLayout) -> bool:
        """Whether it can store such planes."""
        ...

    def encode(self, layout: PlaneLayout, planes: Pixels) -> bytes | memoryview:
        """Store planes.

        Args:
            layout: Of the planes; one that it takes.
            planes: uint8 [nbytes], contiguous.

        Returns:
            The bytes to store; they may be the planes' own memory.

        Raises:
            UsageError: It does not take the layout, or the planes are not of it.
        """
        ...

    def decode(self, data: memoryview, layout: PlaneLayout, out: Pixels) -> None:
        """Read planes into the caller's memory.

        Args:
            data: Bytes that ``encode`` gave, or any others.
            layout: Of the planes.
            out: uint8 [nbytes], contiguous; undefined after an error.

        Raises:
            BrokenFrame: The bytes are no such planes.
        """
        ...

    def decoded(self, data: memoryview, layout: PlaneLayout) -> Pixels:
        """Read planes into memory of their own, uint8 [nbytes], which may be read-only.

        Raises:
            BrokenFrame: The bytes are no such planes.
        """
        ...


def check_planes(codec: FrameCodec, layout: PlaneLayout, planes: Pixels) -> None:
    """Raise UsageError if a codec is asked to store what it does not take."""
    if not codec.takes(layout):
        raise UsageError(
            f"layout: the codec {codec.name} cannot store {layout.text}: use codec 'zstd', which stores all"
        )
    if planes.dtype != np.uint8 or planes.shape != (layout.nbytes,) or not planes.flags.c_contiguous:
        raise UsageError(
            f"planes: expected contiguous uint8 [{layout.nbytes}] for {layout.text}, got {planes.dtype} "
            f"{list(planes.shape)}"
        )


def new_memory(nbytes: int) -> Pixels:
    """Make memory of arbitrary content, uint8 [nbytes].

    It is Arrow's: aligned, so that pictures can be views of it, and taken from what was in use just before, which saves
    the system the work of clearing it.
    """
    return np.frombuffer(pa.allocate_buffer(nbytes), np.uint8)
