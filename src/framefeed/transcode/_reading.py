"""Read frames of one source in ascending order, each once, with damaged ones as errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from framefeed._arrays import IntArray
from framefeed.decode import BaseDecoder, ClipSlot, Pixels, allocate_pixels, make_auto_decoder, suggest_next_step
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia, FramefeedError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from framefeed.transcode._results import FrameFault, describe_fault

OUTPUT = OutputSpec(dimension_order="NHWC")

DECODER: BaseDecoder = make_auto_decoder(PyAVDecoder(is_accurate=True))
"""Shared by all threads."""

_CATCH_UP_STEP = 64
"""Frames between two that are converted while a decoder catches up, to show that it is not stuck."""
_DECODED_AT_ONCE = 8
"""Missing frames that are decoded in one call, each in memory of its own."""


class FrameReader:
    """Reads frames of one source for one thread; its decoder stays behind the last frame."""

    def __init__(self, source: MediaSource, index: FrameIndex) -> None:
        self._source = source
        self._index = index
        self._stream: Iterator[tuple[int, Pixels]] | None = None
        self._next = -1
        self._ahead: tuple[int, Pixels] | None = None

    def read(self, ordinals: IntArray, following: IntArray) -> Iterator[tuple[int, Pixels | CorruptMedia] | None]:
        """Yield the number and the pixels of each frame, uint8 [H, W, 3] in new memory, or the error of a damaged one.

        None is yielded now and then while the decoder catches up.

        Args:
            ordinals: Numbers of the frames, ascending, each once, int64 [T].
            following: Frames that may be read next: they are decoded without a new start, int64 [F].
        """
        self._source.check_identity(self._index.identity)
        if self._stream is None or self._next != ordinals[0]:
            self._open(ordinals, following)
        self._next = -1
        missing: list[int] = []
        for ordinal in ordinals.tolist():
            while self._ahead is None or self._ahead[0] < ordinal:
                self._ahead = next(self._stream or iter(()), None)
                if self._ahead is None:
                    break
                if self._ahead[0] < ordinal:
                    yield None
            if self._ahead is None or self._ahead[0] != ordinal:
                missing.append(ordinal)
                if len(missing) == _DECODED_AT_ONCE:
                    yield from self._decode(missing)
                    missing = []
                continue
            if missing:
                yield from self._decode(missing)
                missing = []
            (_, pixels), self._ahead = self._ahead, None
            yield ordinal, pixels
            del pixels
        if missing:
            yield from self._decode(missing)
        self._next = int(following[0]) if len(following) else -1

    def _open(self, ordinals: IntArray, following: IntArray) -> None:
        self.close()
        first = int(ordinals[0])
        # Frames from the decoder's start on: those that are shown before the first one, of its own start.
        same = np.flatnonzero(self._index.frame_start[:first] == self._index.frame_start[first])
        before = same[_CATCH_UP_STEP::_CATCH_UP_STEP]
        frames = np.concatenate([before, ordinals, following])
        self._stream = DECODER.iter_rgb(self._source, self._index, frames, OUTPUT)  # type: ignore[arg-type]

    def _decode(self, ordinals: list[int]) -> Iterator[tuple[int, Pixels | CorruptMedia]]:
        """Decode frames that did not come in order: most are damaged."""
        shape = 1, *OUTPUT.shape(*self._index.stream.displayed)
        name = self._source.name
        slots = [
            ClipSlot(np.array([each], dtype=np.int64), OUTPUT, allocate_pixels(shape, f"{name}: a frame", source=name))
            for each in ordinals
        ]
        report = DECODER.decode(self._source, self._index, slots)
        for ordinal, slot, error in zip(ordinals, slots, report.errors, strict=True):
            if error is not None and not isinstance(error, CorruptMedia):
                raise error
            yield ordinal, slot.out[0] if error is None else error

    def close(self) -> None:
        """Close the decoder's stream; the reader can be used again."""
        stream, self._stream, self._ahead, self._next = self._stream, None, None, -1
        close = getattr(stream, "close", None)
        if close is not None:
            with suppress(FramefeedError):
                close()


def describe_damage(index: FrameIndex, ordinal: int, error: CorruptMedia) -> FrameFault:
    """Describe a frame that is left out because it cannot be decoded, without the advice for plans."""
    reason = str(error).removesuffix(f"; {suggest_next_step(index, [ordinal])}")
    return describe_fault(ordinal, float(index.pts_seconds[ordinal]), "decode", CorruptMedia(reason), "skipped")
