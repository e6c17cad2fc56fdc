"""The prover of each codec whose packets can prove which frames come of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framefeed.media.container import VideoContainer
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import Proof
from framefeed.media.vp8 import Vp8Prover


class Prover(Protocol):
    """Reads what the packets of one stream say of their frames."""

    def add(self, packet: memoryview) -> None:
        """Take the next packet, in demuxing order; its bytes are gone afterwards."""

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which frames come of all packets.

        Args:
            walk: Of the same packets.

        Raises:
            Unproved: They do not say so.
        """


_PROVERS: dict[str, Callable[[VideoContainer], Prover]] = {
    "vp8": lambda _: Vp8Prover(),
}


def prover_of(container: VideoContainer) -> Prover | None:
    """Make a prover for the chosen stream; None where its codec has none."""
    make = _PROVERS.get(container.codec_name)
    return make(container) if make is not None else None
