"""Decoder: the interface of a backend. BaseDecoder: the same with defaults for the optional methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed._shortage import allocate
from framefeed.errors import FramefeedError, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

Pixels = npt.NDArray[np.uint8]
Ordinals = Sequence[int] | IntArray


def allocate_pixels(
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
        # Users make slots by hand, for a decoder of their own.
        indices = self.indices
        if not isinstance(indices, np.ndarray) or indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise expected("indices", "a NumPy array of integers of shape (T,)", indices)
        if not isinstance(self.output, OutputSpec):
            raise expected("output", "an ff.OutputSpec(...)", self.output)
        if not isinstance(self.out, np.ndarray):
            raise expected("out", "a NumPy array, uint8 of shape (T, C, H, W) or (T, H, W, C)", self.out)
        if self.out.ndim != 4 or len(self.out) != len(self.indices) or self.out.dtype != np.uint8:
            raise UsageError(
                f"out: expected uint8 of shape (T, C, H, W) or (T, H, W, C) with T={len(self.indices)}, the number of "
                f"indices, got {self.out.dtype} of shape {self.out.shape}"
            )


def make_slot(indices: IntArray, output: OutputSpec, out: Pixels, accepts_damaged: bool = False) -> ClipSlot:
    """Make a slot of a planned clip and its own memory, without checks."""
    slot = object.__new__(ClipSlot)
    put: Any = object.__setattr__
    put(slot, "indices", indices)
    put(slot, "output", output)
    put(slot, "out", out)
    put(slot, "accepts_damaged", accepts_damaged)
    return slot


SourceClips = tuple[MediaSource, FrameIndex, Sequence[ClipSlot]]
"""Clips of one source to be decoded: the arguments of ``Decoder.decode``."""


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
        runs: How often decoding started at another packet.
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
        # One by one: a loop over the names takes ten times as long, and a loader adds two counts for each clip.
        self.packets_sent += other.packets_sent
        self.frames_decoded += other.frames_decoded
        self.frames_delivered += other.frames_delivered
        self.frames_converted += other.frames_converted
        self.bytes_read += other.bytes_read
        self.opens += other.opens
        self.contexts_made += other.contexts_made
        self.runs += other.runs
        self.frames_cached += other.frames_cached
        self.frames_stored += other.frames_stored
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


class BaseDecoder:
    """A decoder with defaults for all that is optional: it has nothing besides ``decode``.

    A subclass has an optional method if it overrides it.

    Attributes:
        reduction: Divisor of height and width of the picture files that ``iter_native`` gives.
    """

    name: str
    reduction: int = 1

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        raise NotImplementedError

    def close(self) -> None:
        """Release decoder contexts and files; by default there are none."""

    def read_ready(self, clips: Iterable[SourceClips]) -> list[DecodeReport | None]:
        """Write the clips of several sources that need no decoding; the others get None, and are left to ``decode``.

        Optional: a cache reads them together. Errors are left to ``decode`` too.
        """
        return [None for _ in clips]

    def list_ranges(self, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> list[tuple[int, int]]:
        """List the bytes of a source that decoding frames reads: first of each range, and behind the last one.

        Optional: remote bytes are then asked for ahead. None are listed where they are not known before.
        """
        return []

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, RGB pixels) of consecutive frames, each in new memory, without those that cannot be decoded.

        Optional: with it, reading one frame after the other costs one decoded frame each.
        """
        raise NotImplementedError

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames as the decoder made them, without those that cannot be decoded.

        Each frame comes once. A picture is a PyAV ``VideoFrame``; it is valid until the next one is requested.
        Optional: with it, a cache can store planes.
        """
        raise NotImplementedError

    def can_iter_rgb(self, index: FrameIndex) -> bool:
        """Whether ``iter_rgb`` can be called for a source of this kind."""
        return type(self).iter_rgb is not BaseDecoder.iter_rgb

    def can_iter_native(self, index: FrameIndex) -> bool:
        """Whether ``iter_native`` can be called for a source of this kind."""
        return type(self).iter_native is not BaseDecoder.iter_native

    def for_output(self, index: FrameIndex, output: OutputSpec) -> BaseDecoder:
        """Return the decoder whose ``iter_native`` and ``recipe`` are those of an output: itself for most."""
        return self

    def recipe(self, index: FrameIndex) -> str:
        """Name all that decides the pixels besides the source: the decoder, its libraries and their versions."""
        return _name_class(self)


class _AdaptedDecoder(BaseDecoder):
    """A decoder of another package, which may have any of the optional methods without being a BaseDecoder."""

    def __init__(self, decoder: Any) -> None:
        self.name, self._inner = decoder.name, decoder
        for name in ("close", "iter_rgb", "iter_native"):
            if hasattr(decoder, name):
                setattr(self, name, getattr(decoder, name))

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report: object = self._inner.decode(source, index, slots)
        if (odd := _find_oddity(report, len(slots))) is not None or not isinstance(report, DecodeReport):
            raise UsageError(
                f"{source.name}: the decoder {self.name!r} returned {odd}: expected a DecodeReport with an entry in "
                f"errors for each of the {len(slots)} slots, an ff.FramefeedError or None where all frames were written"
            )
        return report

    def can_iter_rgb(self, index: FrameIndex) -> bool:
        return self._can("iter_rgb", index)

    def can_iter_native(self, index: FrameIndex) -> bool:
        return self._can("iter_native", index)

    def _can(self, name: str, index: FrameIndex) -> bool:
        # For a wrapper, such as a cache, its inner decoder decides.
        decide = getattr(self._inner, f"can_{name}", None)
        return hasattr(self._inner, name) if decide is None else bool(decide(index))

    def recipe(self, index: FrameIndex) -> str:
        return str(self._inner.recipe(index)) if hasattr(self._inner, "recipe") else _name_class(self._inner)


def _find_oddity(report: object, count: int) -> str | None:
    """Say what is wrong with a report of so many slots; None if it is right."""
    if not isinstance(report, DecodeReport) or not isinstance(report.counts, DecodeCounts):
        return f"a {type(report).__name__}"
    if len(report.errors) != count:
        return f"{len(report.errors)} errors"
    odd = next((each for each in report.errors if not isinstance(each, FramefeedError | None)), None)
    return None if odd is None else f"a {type(odd).__name__} as an error"


def adapt_decoder(decoder: Decoder) -> BaseDecoder:
    """Give any decoder the optional methods; a BaseDecoder is returned itself."""
    return decoder if isinstance(decoder, BaseDecoder) else _AdaptedDecoder(decoder)


def describe_recipe(decoder: Decoder, index: FrameIndex) -> str:
    """Name all that decides a decoder's pixels besides the source; see ``BaseDecoder.recipe``."""
    return adapt_decoder(decoder).recipe(index)


def _name_class(decoder: Decoder) -> str:
    kind = type(decoder)
    return f"{decoder.name}, {kind.__module__}.{kind.__qualname__}"
