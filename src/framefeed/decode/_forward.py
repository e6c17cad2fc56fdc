"""Frame after frame without going back: the decoder stays where it stands between calls."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Protocol, cast

import numpy as np

from framefeed.decode._decoder import ClipSlot, Decoder, Pixels, new_pixels
from framefeed.errors import FramefeedError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import finalise_after_fork, renew_after_fork, try_again_in_shortage
from framefeed.plan import OutputSpec

_STRETCH = 1024
"""Frames planned at once when reading forward."""
_REACH = 8
"""A frame this far ahead of the last one is reached by decoding on."""
_MAX_STANDING = 16
"""Readers of a process that stand in a file; each holds a descriptor, so that those of a thousand may not (L09)."""


class PictureStream(Protocol):
    """A decoder that also decodes pictures one after the other, in order."""

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels in memory of their own) for consecutive frames; missing ones are left out."""
        ...


class ForwardReader:
    """Reads single frames; consecutive ones cost one decoded frame each. Safe to share between threads.

    One call at a time goes on where the last one stood; a call that comes meanwhile decodes its frame by itself. So no
    call waits for another, also where a finaliser reads or closes in the middle of a call of its own thread.
    """

    def __init__(self, decoder: Decoder, source: MediaSource, index: FrameIndex, output: OutputSpec) -> None:
        self._decoder = decoder
        self._source = source
        self._index = index
        self._output = output
        self._in_use = threading.Lock()
        self._last = -1
        self._standing: Iterator[tuple[int, Pixels]] | None = None
        self._is_to_stop = False
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Leave the half-read stream of pictures to the parent: the decoder in it has the parent's threads."""
        self._in_use = threading.Lock()
        finalise_after_fork(self._standing)
        self._standing, self._last, self._is_to_stop = None, -1, False

    def read(self, ordinal: int) -> Pixels:
        """Decode one frame.

        Raises:
            CorruptMedia: It does not come out of the decoder.
            StaleSource: The file is another than the one that was indexed.
            ResourceExhausted: Memory, descriptors or the like ran out, also after what was idle had been released.
        """
        try_again_in_shortage(lambda: self._source.check_identity(self._index.identity), self._source.name, "decode")
        if self._in_use.acquire(blocking=False):
            try:
                found = self._read_near(ordinal)
            finally:
                self._in_use.release()
                self._stop_if_asked()
            if found is not None:
                return found
        return self._read_alone(ordinal)

    def close(self) -> None:
        """Release what the decoder lends, at once or at the end of the call that is reading."""
        self._is_to_stop = True
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        # Looked at again after each release: who asks during a call finds the lock taken, and does not wait for it.
        while self._is_to_stop and self._in_use.acquire(blocking=False):
            try:
                self._is_to_stop = False
                self._stop()
            finally:
                self._in_use.release()

    def _read_near(self, ordinal: int) -> Pixels | None:
        ahead = ordinal - self._last
        follows = 0 < ahead <= _REACH and (self._last >= 0 or ordinal == 0)
        self._last = ordinal
        if follows and hasattr(self._decoder, "pictures"):
            return self._read_on(ordinal)
        self._stop()
        return None

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
            surplus.close()

    def _stop(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            _STANDING.leave(self)
            close = getattr(standing, "close", None)
            if close is not None:
                close()

    def _read_alone(self, ordinal: int) -> Pixels:
        shape = 1, *self._output.shape(*self._index.stream.displayed)
        out = new_pixels(shape, f"{self._source.name}: a frame {list(shape[1:])}", source=self._source.name)
        slot = ClipSlot(np.array([ordinal], dtype=np.int64), self._output, out)
        error: FramefeedError | None = self._decoder.decode(self._source, self._index, [slot]).errors[0]
        if error is not None:
            raise error
        single: Pixels = out[0]
        return single


class _Readers:
    """Those that stand in a file, the one that has stood there longest first; single operations on a dict each."""

    def __init__(self) -> None:
        self._members: dict[int, weakref.ref[ForwardReader]] = {}
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Forget the readers of the parent: they stand in no file here."""
        self._members = {}

    def join(self, reader: ForwardReader) -> list[ForwardReader]:
        """Add a reader; give those that should leave for it."""
        self._members[id(reader)] = weakref.ref(reader)
        surplus = []
        for key in list(self._members)[: max(0, len(self._members) - _MAX_STANDING)]:
            reference = self._members.pop(key, None)
            other = None if reference is None else reference()
            if other is not None and other is not reader:
                surplus.append(other)
        return surplus

    def leave(self, reader: ForwardReader) -> None:
        """Take a reader out."""
        self._members.pop(id(reader), None)


_STANDING = _Readers()
