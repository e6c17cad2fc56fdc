"""What packets of NAL units prove of their frames, whichever codec they are of."""

from __future__ import annotations

from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.units import UnitFacts
from framefeed.media.packets import PacketWalk
from framefeed.media.proof_h264 import prove_h264
from framefeed.media.proof_hevc import prove_hevc
from framefeed.media.proving import Proof


def prove_units(configuration: Configuration, units: UnitFacts, walk: PacketWalk, held: int = 0) -> Proof:
    """Prove which frames come of packets.

    Args:
        configuration: The stream's parameter sets.
        units: NAL units of all packets.
        walk: The same packets.
        held: Pictures that libav's H.264 decoder holds back from the start, as far as is known.

    Raises:
        Unproved: The packets do not say so.
    """
    if configuration.codec == "h264":
        return prove_h264(configuration, units, walk, held)
    return prove_hevc(configuration, units, walk)
