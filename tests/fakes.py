"""Real implementations of the protocols, simple enough to be obviously right. No mocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from framefeed.decode.decoder import ClipSlot, DecodeCounts, DecodeReport
from framefeed.errors import FramefeedError
from framefeed.index.frame_index import FrameIndex
from framefeed.media.source import MediaSource


class FlatDecoder:
    """A decoder whose every picture is one grey: its ordinal modulo 256.

    Args:
        before: Called with the source's name before its clips are written; what it raises, `decode` raises.
        spoil: Called with the ordinals of a clip; an error that it returns is that clip's alone.
    """

    name = "flat"

    def __init__(
        self,
        before: Callable[[str], None] = lambda name: None,
        spoil: Callable[[list[int]], FramefeedError | None] = lambda ordinals: None,
    ) -> None:
        self._before = before
        self._spoil = spoil
        self._counting = threading.Lock()
        self.calls: list[tuple[str, int]] = []

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        with self._counting:
            self.calls.append((source.name, len(slots)))
        self._before(source.name)
        frames = sum(len(slot.indices) for slot in slots)
        report = DecodeReport([None] * len(slots), DecodeCounts(frames_decoded=frames, frames_delivered=frames))
        for number, slot in enumerate(slots):
            report.errors[number] = self._spoil(slot.indices.tolist())
            for place, ordinal in enumerate(slot.indices.tolist()):
                slot.out[place] = ordinal % 256
        return report

    def close(self) -> None:
        pass
