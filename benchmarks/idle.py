"""A decoder that does nothing, in a module that worker processes import; the memory that it is given stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import framefeed as ff


class IdleDecoder:
    """Writes no picture of any source, so that what a loader takes is its own."""

    name = "idle"

    def decode(self, source: object, index: ff.FrameIndex, slots: Sequence[ff.ClipSlot]) -> ff.DecodeReport:
        """Say that all frames are there."""
        return ff.DecodeReport([None] * len(slots))

    def close(self) -> None:
        """Release nothing."""
