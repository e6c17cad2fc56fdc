"""Frame after frame without going back: the decoder stays where it stands between calls."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol, cast

import numpy as np

from framefeed.decode.decoder import ClipSlot, Decoder, Pixels
from framefeed.errors import FramefeedError
from framefeed.index.frame_index import FrameIndex
from framefeed.media.source import MediaSource
from framefeed.plan.request import OutputSpec

_STRETCH = 1024
"""Frames planned at once when reading forward."""
_REACH = 8
"""A frame this far ahead of the last one is reached by decoding on."""
_MAX_STANDING = 16
"""Readers of a process that stand in a file; each holds a descriptor, so that those of a thousand may not (L09)."""


class PictureStream(Protocol):
    """An ability that a decoder may have besides ``decode``: pictures one by one, in order."""

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels in memory of their own) for consecutive frames; missing ones are left out."""
        ...


class ForwardReader:
    """Reads single frames; consecutive ones cost one decoded frame each. Safe to share between threads."""

    def __init__(self, decoder: Decoder, source: MediaSource, index: FrameIndex, output: OutputSpec) -> None:
        self._decoder = decoder
        self._source = source
        self._index = index
        self._output = output
        self._lock = threading.Lock()
        self._last = -1
        self._standing: Iterator[tuple[int, Pixels]] | None = None

    def read(self, ordinal: int) -> Pixels:
        """Decode one frame.

        Raises:
            CorruptMedia: It does not come out of the decoder.
            StaleSource: The file is another than the one that was indexed.
        """
        self._source.check_identity(self._index.identity)
        with self._lock:
            ahead = ordinal - self._last
            follows = 0 < ahead <= _REACH and (self._last >= 0 or ordinal == 0)
            self._last = ordinal
            if follows and hasattr(self._decoder, "pictures"):
                found = self._read_on(ordinal)
                if found is not None:
                    return found
            else:
                self._stop()
        return self._read_alone(ordinal)

    def close(self) -> None:
        """Let go of the decoder."""
        with self._lock:
            self._stop()

    def close_if_idle(self) -> None:
        """Let go of the decoder unless a frame is being read."""
        if self._lock.acquire(blocking=False):
            try:
                self._stop()
            finally:
                self._lock.release()

    def _read_on(self, ordinal: int) -> Pixels | None:
        if self._standing is None:
            self._start(ordinal)
        found = self._advance(ordinal)
        if found is None:
            self._start(ordinal)
            found = self._advance(ordinal)
        return found

    def _advance(self, ordinal: int) -> Pixels | None:
        for number, pixels in self._standing or ():
            if number == ordinal:
                return pixels
            if number > ordinal:
                break
        self._stop()
        return None

    def _start(self, ordinal: int) -> None:
        self._stop()
        stretch = range(ordinal, min(ordinal + _STRETCH, len(self._index)))
        stream = cast("PictureStream", self._decoder)
        self._standing = stream.pictures(self._source, self._index, stretch, self._output)
        for surplus in _STANDING.join(self):
            surplus.close_if_idle()

    def _stop(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            _STANDING.leave(self)
            close = getattr(standing, "close", None)
            if close is not None:
                close()

    def _read_alone(self, ordinal: int) -> Pixels:
        out = np.empty((1, *self._output.shape(*self._index.stream.displayed)), dtype=np.uint8)
        slot = ClipSlot(np.array([ordinal], dtype=np.int64), self._output, out)
        error: FramefeedError | None = self._decoder.decode(self._source, self._index, [slot]).errors[0]
        if error is not None:
            raise error
        single: Pixels = out[0]
        return single


class _Readers:
    """Those that stand in a file, the one that has stood there longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: OrderedDict[int, weakref.ref[ForwardReader]] = OrderedDict()

    def join(self, reader: ForwardReader) -> list[ForwardReader]:
        """Add a reader; give those that should leave for it."""
        with self._lock:
            self._members[id(reader)] = weakref.ref(reader)
            surplus = [self._members.popitem(last=False)[1]() for _ in range(len(self._members) - _MAX_STANDING)]
        return [other for other in surplus if other is not None]

    def leave(self, reader: ForwardReader) -> None:
        """Take a reader out."""
        with self._lock:
            self._members.pop(id(reader), None)


_STANDING = _Readers()
