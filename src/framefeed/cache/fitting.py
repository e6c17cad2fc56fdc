"""Fitting: which exact codec the next frames are stored with, so that all that are to come fit a budget. Pure.

The choice rests on samples and is revised while a cache is filled: where what was stored already took more than was
expected, and the frames to come would not fit any more, a codec that makes them smaller takes over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from framefeed.cache.codecs.choice import CodecFigures, Conditions, choose_codec


class Fitting:
    """A choice of codec that is revised.

    Args:
        figures: Of each codec; their ratios are what is to be expected of all frames, rather too large.
        conditions: With the bytes of all frames to come, before they are encoded, and the budget that they have.
        overhead: Bytes that a frame takes besides its data, by its bytes before it is encoded.
        kept: Label of the codec to go on with if that fits, or None.

    Attributes:
        codec: Label of the codec for the next frames.
    """

    def __init__(
        self, figures: Sequence[CodecFigures], conditions: Conditions, overhead: float = 0.0, kept: str | None = None
    ) -> None:
        self._figures = [
            replace(each, stored_bytes=math.ceil(each.stored_bytes + overhead * each.raw_bytes)) for each in figures
        ]
        self._conditions = conditions
        self._overhead = overhead
        self._total = conditions.expected_raw_bytes or 0
        self._room = conditions.max_bytes or 0
        self._raw = 0
        self._used = 0.0
        fits = any(each.codec == kept and self._fits(each) for each in self._figures)
        self.codec: str = kept if kept is not None and fits else self._chosen()

    def note(self, raw_bytes: int, stored_bytes: int) -> None:
        """Take note of frames that were stored, and revise the choice.

        Args:
            raw_bytes: Of them before.
            stored_bytes: After.
        """
        self._raw += raw_bytes
        self._used += stored_bytes + self._overhead * raw_bytes
        if not any(each.codec == self.codec and self._fits(each) for each in self._figures):
            self.codec = self._chosen()

    @property
    def _to_come(self) -> int:
        """Bytes of the frames to come, before they are encoded."""
        return max(0, self._total - self._raw)

    def _fits(self, figures: CodecFigures) -> bool:
        return self._used + figures.ratio * self._to_come <= self._room

    def _chosen(self) -> str:
        left = max(0, math.floor(self._room - self._used))
        conditions = replace(self._conditions, expected_raw_bytes=self._to_come, max_bytes=left)
        return choose_codec(self._figures, conditions).codec
