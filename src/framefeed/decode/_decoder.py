"""The Decoder protocol: decode frames of one source, for one clip or many, into the caller's memory.

Methods that a decoder may have besides ``decode``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed.errors import FramefeedError, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import allocate
from framefeed.plan import OutputSpec

Pixels = npt.NDArray[np.uint8]


def new_pixels(
    shape: Sequence[int], what: str, advice: str = "use a smaller size", source: str | None = None
) -> Pixels:
    """Allocate memory for pictures without clearing it; see ``allocate``."""
    return allocate(lambda: np.empty(shape, dtype=np.uint8), math.prod(shape), what, advice, source)


@dataclass(frozen=True, slots=True, eq=False)
class ClipSlot:
    """One clip to decode, and the memory that its pixels are written to.

    Attributes:
        indices: Ordinals of the frames in any order, repeats allowed, int64 [T].
        output: Size, crop and dimension order of the pixels.
        out: Memory for the pixels, uint8 [T, C, H, W] or [T, H, W, C]; each frame is C-contiguous. On success all of
            it is overwritten.
        accepts_damaged: True also delivers damaged pictures, as the decoder gives them when it decodes in order; no
            cache stores them. With False, a frame that is damaged is a `CorruptMedia` error.
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
    """Counts of the work that decoding took; ``+=`` adds two of them.

    Attributes:
        packets_sent: Packets given to a decoder.
        frames_decoded: Frames that the decoder gave.
        frames_delivered: Frames written to slots.
        frames_converted: Frames converted to RGB; fewer than delivered if clips share frames.
        bytes_read: Bytes of packets read.
        opens: Containers opened.
        contexts_made: Decoder contexts set up.
        runs: How often decoding started at a new place.
        frames_cached: Delivered frames that a cache had.
        frames_stored: Frames that were stored in a cache.
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
    """Result of one call of ``Decoder.decode``.

    Attributes:
        errors: One entry for each slot: None if all its frames were written, else the error.
        counts: Counts of the work.
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
    """Interface of a backend, which decodes frames. Several threads may call it at once.

    Attributes:
        name: Name for messages, and for ``backend=`` if the decoder is registered.
    """

    name: str

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source, each frame once.

        Args:
            source: The source to read.
            index: The index of the source's frames; ``ClipSlot.indices`` are ordinals in it.
            slots: The frames to decode, and the memory to write them to.

        Returns:
            A report with one entry for each slot. A frame that cannot be decoded fails only the slots that have it.

        Raises:
            MediaError: The whole source cannot be read: it is missing, unreadable, or replaced since it was indexed.
        """
        ...

    def close(self) -> None:
        """Release decoder contexts and files; the decoder can be used again after that."""
        ...


class FrameStream(Protocol):
    """A decoder that also gives its pictures before their conversion to RGB."""

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames, each once; frames that cannot be decoded are left out.

        A picture is a PyAV ``VideoFrame``; it is valid until the next one is requested.
        """
        ...


def gives_frames(decoder: Decoder, index: FrameIndex) -> bool:
    """Whether a decoder has the methods of ``FrameStream`` for a source of this kind."""
    asked = getattr(decoder, "gives_frames", None)
    return bool(asked(index)) if asked is not None else hasattr(decoder, "frames")


def recipe_of(decoder: Decoder, index: FrameIndex) -> str:
    """Name what decides a decoder's pixels besides the source: the decoder, its libraries and their versions.

    This is the text of the decoder's method ``recipe(index) -> str``; without that method, its name and class.
    """
    tell = getattr(decoder, "recipe", None)
    if tell is not None:
        return str(tell(index))
    kind = type(decoder)
    return f"{decoder.name}, {kind.__module__}.{kind.__qualname__}"
