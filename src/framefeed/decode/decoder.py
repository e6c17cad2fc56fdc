"""The Decoder protocol: frames of one source, for one clip or many, written where the caller wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected
from framefeed.errors import FramefeedError, UsageError
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.media.source import MediaSource
from framefeed.parallel.shortage import allocate
from framefeed.plan.request import OutputSpec

Pixels = npt.NDArray[np.uint8]


def new_pixels(
    shape: Sequence[int], what: str, advice: str = "use a smaller size", source: str | None = None
) -> Pixels:
    """Allocate memory for pictures, of any content; see ``allocate``."""
    return allocate(lambda: np.empty(shape, dtype=np.uint8), math.prod(shape), what, advice, source)


@dataclass(frozen=True, slots=True, eq=False)
class ClipSlot:
    """One clip to decode and the memory that it goes to.

    Attributes:
        indices: Ordinals of its frames in any order, repeats allowed, int64 [T].
        output: Form of the pixels.
        out: Memory for them, uint8 [T, C, H, W] or [T, H, W, C], C-contiguous frames; wholly overwritten on success.
        accepts_damaged: Take each picture as a decoder gives it when it decodes in order from the frame's start on,
            damaged or not, and store none of them. Else what does not come undamaged is `CorruptMedia`.
    """

    indices: IntArray
    output: OutputSpec
    out: Pixels
    accepts_damaged: bool = False

    def __post_init__(self) -> None:
        # By each argument: a slot is often made by hand, for a decoder of one's own.
        given = self.indices
        if not isinstance(given, np.ndarray) or given.ndim != 1 or given.dtype.kind not in "iu":
            raise expected("indices", "a NumPy array of integers of shape (T,)", given)
        if not isinstance(self.output, OutputSpec):
            raise expected("output", "an ff.OutputSpec(...)", self.output)
        if not isinstance(self.out, np.ndarray):
            raise expected("out", "a NumPy array, uint8 of shape (T, C, H, W) or (T, H, W, C)", self.out)
        if self.out.ndim != 4 or len(self.out) != len(self.indices) or self.out.dtype != np.uint8:
            raise UsageError(
                f"out: expected uint8 of shape (T, C, H, W) or (T, H, W, C) with T={len(self.indices)}, the number of "
                f"indices, got {self.out.dtype} of shape {self.out.shape}"
            )


@dataclass(slots=True)
class DecodeCounts:
    """What decoding cost; adding two gives their sum.

    Attributes:
        packets_sent: Packets given to a decoder.
        frames_decoded: Frames that came out of it.
        frames_delivered: Frames written to slots.
        frames_converted: Conversions to RGB; fewer than delivered where clips share frames.
        bytes_read: Bytes of packets read.
        opens: Containers opened.
        contexts_made: Decoder contexts set up.
        runs: Times that decoding started anew.
        frames_cached: Of the delivered frames, those that a cache had.
        frames_stored: Frames that were put into a cache.
    """

    packets_sent: int = 0
    frames_decoded: int = 0
    frames_delivered: int = 0
    frames_converted: int = 0
    bytes_read: int = 0
    opens: int = 0
    contexts_made: int = 0
    runs: int = 0
    frames_cached: int = 0
    frames_stored: int = 0

    def __iadd__(self, other: DecodeCounts) -> Self:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass(slots=True)
class DecodeReport:
    """Outcome of one call.

    Attributes:
        errors: One entry a slot: None where all its frames were written, else why not.
        counts: What it cost.
    """

    errors: list[FramefeedError | None]
    counts: DecodeCounts = field(default_factory=DecodeCounts)

    def raise_first(self) -> None:
        """Raise the first slot's error, if there is one."""
        for error in self.errors:
            if error is not None:
                raise error


@runtime_checkable
class Decoder(Protocol):
    """Anything that turns requests into pixels. Safe to call from several threads at once.

    Attributes:
        name: The name by which the registry knows it.
    """

    name: str

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source, each wanted frame once.

        Args:
            source: Where the bytes are.
            index: The source's frames; ordinals mean its ordinals.
            slots: What is wanted, and where it goes.

        Returns:
            A report with one entry a slot: a frame that does not come spoils only the slots that want it.

        Raises:
            MediaError: The source as a whole cannot be read: missing, replaced since it was indexed, unreadable.
        """
        ...

    def close(self) -> None:
        """Release contexts and files; the decoder may be used again afterwards."""
        ...
