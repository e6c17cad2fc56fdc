"""What packets of NAL units prove of their frames, whichever codec they are of."""

from __future__ import annotations

from framefeed.media import proof_h264, proof_hevc
from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.units import UnitFacts
from framefeed.media.packets import PacketWalk
from framefeed.media.proof_rules import name_unknown
from framefeed.media.proving import Proof, Refuted, Unproved


def prove_units(configuration: Configuration, units: UnitFacts, walk: PacketWalk, held: int = 0) -> Proof:
    """Prove which frames come of packets.

    Args:
        configuration: The stream's parameter sets.
        units: NAL units of all packets.
        walk: The same packets.
        held: Pictures that libav's H.264 decoder holds back from the start, as far as is known.

    Raises:
        Unproved: The packets do not say so.
        Refuted: Not even that frames come in the order of their times.
    """
    is_h264 = configuration.codec == "h264"
    unknown = name_unknown(units, proof_h264.KNOWN_KINDS if is_h264 else proof_hevc.KNOWN_KINDS)
    try:
        if is_h264:
            proof = proof_h264.prove_h264(configuration, units, walk, held)
        else:
            proof = proof_hevc.prove_hevc(configuration, units, walk)
    except Refuted as reason:
        raise Refuted(f"{unknown}; {reason}" if unknown else str(reason)) from None
    if unknown:
        raise Unproved(unknown)
    return proof
