"""The readers of codecs whose packets say which frame they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framefeed._values import Limits, PictureFormat, StreamColors
from framefeed.bitstreams._av1 import Av1Reader
from framefeed.bitstreams._vpx import Vp8Reader, Vp9Reader


class PacketReader(Protocol):
    """Reads the packets of a stream, one after the other."""

    @property
    def format(self) -> PictureFormat | None:
        """Format of the frames read so far; None if only decoding gives it."""

    @property
    def colors(self) -> StreamColors | None:
        """Their colour tags; None if headers have none."""

    @property
    def changes_size(self) -> bool:
        """Whether headers say that a frame has another size than the first."""

    def read(self, packet: memoryview) -> int:
        """Read the next packet; return the flags of its frame, 0 if it shows none.

        Raises:
            OddUnits: A decoder may give another number of frames.
        """


PACKET_READERS: dict[str, Callable[[Limits], PacketReader]] = {
    "av1": lambda _: Av1Reader(),
    "vp8": Vp8Reader,
    "vp9": Vp9Reader,
}
"""By canonical name of the codec; they are made with limits, which say how large pictures may be."""
