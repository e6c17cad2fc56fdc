"""A decoder that hurries the clock while it reads an object that stalls, so that its limits need not be short."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from framefeed import _stopping
from framefeed.decode import ClipSlot, DecodeReport
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from tests.patience import PATIENCE_SECONDS

STALLED = "base.mp4"
"""Of a container whose packets are asked for ahead."""


class _Clock(threading.local):
    """Seconds that are added to the clock of a thread at each reading."""

    step = 0.0
    added = 0.0

    def read(self) -> float:
        self.added += self.step
        return monotonic() + self.added


_clock = _Clock()
waited: list[float] = []
"""Seconds that threads of this process seem to have waited for the object, by their clocks."""


@contextmanager
def hurrying(name: str) -> Iterator[None]:
    """Let the limits of the calling thread pass soon, if it waits for the object that stalls."""
    _stopping.monotonic = _clock.read  # type: ignore[attr-defined]  # of this process, for good: by itself it is exact
    _clock.step = PATIENCE_SECONDS / 5 if name.endswith(STALLED) else 0.0
    try:
        yield
    finally:
        if _clock.step:
            waited.append(_clock.added)
        _clock.step = _clock.added = 0.0


class HurryingDecoder(PyAVDecoder):
    """Decodes, in any process, within `hurrying`."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        with hurrying(source.name):
            return super().decode(source, index, slots)
