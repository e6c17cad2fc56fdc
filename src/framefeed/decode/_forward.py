"""ForwardReader: read single frames; between calls the decoder stays behind the last one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import numpy as np

from framefeed._per_process import PerProcess
from framefeed.decode._decoder import BaseDecoder, ClipSlot, Pixels, allocate_pixels
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

# Frames planned at once when reading forward: few at first, because most callers read few. Through a container, each
# plan costs a seek.
_FIRST_FRAMES_PLANNED = 8
_MAX_FRAMES_PLANNED = 1024
# A frame at most this far ahead of the last one is reached by decoding on.
_MAX_FRAMES_AHEAD = 8
# Readers of a process with an open stream. Each holds a descriptor, so a thousand readers may not all have one (L09).
_MAX_OPEN_READERS = 16


class _OpenStream:
    """The frames behind the last one that was read, in one process."""

    def __init__(self) -> None:
        self.in_use = threading.Lock()
        self.last = -1
        self.num_planned = 0
        self.frames: Iterator[tuple[int, Pixels]] | None = None
        self.is_close_requested = False


class ForwardReader:
    """Reads single frames; consecutive ones cost one decoded frame each. Threads may share it.

    One call at a time goes on behind the last frame; a call in the meantime decodes its frame by itself. So no call
    waits for another, not even if a finaliser reads or closes in the middle of a call of its own thread.
    """

    def __init__(self, decoder: BaseDecoder, source: MediaSource, index: FrameIndex, output: OutputSpec) -> None:
        self._decoder = decoder
        self._source = source
        self._index = index
        self._output = output
        # The parent keeps its stream: the decoder has threads that are there.
        self._own = PerProcess(_OpenStream)

    def read(self, ordinal: int, *, goes_on: bool = False) -> Pixels:
        """Decode one frame.

        With ``goes_on``, the frames behind it are expected to be read next: the decoder then stays behind a frame that
        is elsewhere, too, and not only behind one that follows the last one.
        """
        own = self._own.value
        if own.in_use.acquire(blocking=False):
            try:
                pixels = self._read_forward(ordinal, goes_on)
            finally:
                own.in_use.release()
                self._close_if_requested()
            if pixels is not None:
                return pixels
        shape = 1, *self._output.shape(*self._index.stream.displayed)
        out = allocate_pixels(shape, f"{self._source.name}: a frame {list(shape[1:])}", source=self._source.name)
        slot = ClipSlot(np.array([ordinal], dtype=np.int64), self._output, out)
        self._decoder.decode(self._source, self._index, [slot]).raise_first()
        single: Pixels = out[0]
        return single

    def close(self) -> None:
        """Close the open stream, at once or at the end of the call that is reading."""
        self._own.value.is_close_requested = True
        self._close_if_requested()

    def _close_if_requested(self) -> None:
        # Also called after each release: a request during a call cannot take the lock, and does not wait for it.
        own = self._own.value
        while own.is_close_requested and own.in_use.acquire(blocking=False):
            try:
                own.is_close_requested = False
                self._close_stream()
            finally:
                own.in_use.release()

    def _read_forward(self, ordinal: int, goes_on: bool) -> Pixels | None:
        own = self._own.value
        ahead = ordinal - own.last
        is_next = 0 < ahead <= _MAX_FRAMES_AHEAD and (own.last >= 0 or ordinal == 0)
        own.last = ordinal
        if not is_next:
            self._close_stream()
            own.num_planned = 0
        if not (is_next or goes_on) or not self._decoder.can_iter_rgb(self._index):
            return None
        if own.frames is None:
            self._open_stream(ordinal)
        else:  # an identity is checked where a file is opened; here it has been open since another call
            self._source.check_identity(self._index.identity)
        pixels = self._advance(ordinal)
        if pixels is None:
            self._open_stream(ordinal)
            pixels = self._advance(ordinal)
        return pixels

    def _advance(self, ordinal: int) -> Pixels | None:
        for number, pixels in self._own.value.frames or ():
            if number == ordinal:
                return pixels
            if number > ordinal:
                break
        self._close_stream()
        return None

    def _open_stream(self, ordinal: int) -> None:
        self._close_stream()
        own, starts = self._own.value, self._index.frame_start[ordinal : ordinal + _MAX_FRAMES_PLANNED]
        is_direct = self._index.stream.contiguous
        least = own.num_planned or (_FIRST_FRAMES_PLANNED if is_direct else _MAX_FRAMES_PLANNED)
        # Up to a frame with a start of its own: the next plan decodes at most that start again.
        begins = np.flatnonzero(starts[least:] != starts[least - 1 : -1])
        stop = ordinal + (least + int(begins[0]) if len(begins) else len(starts))
        own.num_planned = min(8 * least, _MAX_FRAMES_PLANNED)
        own.frames = self._decoder.iter_rgb(self._source, self._index, range(ordinal, stop), self._output)
        members = _OPEN_READERS.value
        members[id(self)] = weakref.ref(self)
        for key in list(members)[:-_MAX_OPEN_READERS]:
            reference = members.pop(key, None)
            surplus = None if reference is None else reference()
            if surplus is not None:
                surplus.close()

    def _close_stream(self) -> None:
        own = self._own.value
        stream, own.frames = own.frames, None
        if stream is not None:
            _OPEN_READERS.value.pop(id(self), None)
            close = getattr(stream, "close", None)
            if close is not None:
                close()


# Readers with an open stream, the first to open it first; safe without a lock: single operations on a dict.
_OPEN_READERS = PerProcess[dict[int, weakref.ref[ForwardReader]]](dict)
