"""The prover of each codec whose packets can prove which frames come of them, and the walk that asks it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from framefeed.media.av1 import Av1Prover
from framefeed.media.container import DecodedFact, Packet, VideoContainer, decode_alone
from framefeed.media.details import StreamColors, stream_colors
from framefeed.media.intra import IntraProver, mjpeg_reader, read_dnxhd, read_ffv1, read_png, read_prores
from framefeed.media.packets import PacketWalk, walk_packets
from framefeed.media.proving import FirstPicture, Proof, Unproved
from framefeed.media.upright import is_upright
from framefeed.media.vp8 import Vp8Prover
from framefeed.media.vp9 import Vp9Prover

_LOG = logging.getLogger("framefeed.index")


class Prover(Protocol):
    """Reads what the packets of one stream say of their frames."""

    def add(self, packet: memoryview) -> None:
        """Take the next packet, in demuxing order; its bytes are gone afterwards.

        Raises:
            Unproved: It does not say so; no further packet is given.
        """

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which frames come of all packets.

        Args:
            walk: Of the same packets.

        Raises:
            Unproved: They do not say so.
        """


_PROVERS: dict[str, Callable[[VideoContainer], Prover]] = {
    "av1": lambda container: Av1Prover(container.limits),
    "dnxhd": lambda _: IntraProver(read_dnxhd),
    "ffv1": lambda _: IntraProver(read_ffv1),
    "mjpeg": lambda container: IntraProver(mjpeg_reader(container.decoder().height)),
    "png": lambda _: IntraProver(read_png),
    "prores": lambda _: IntraProver(read_prores),
    "vp8": lambda container: Vp8Prover(container.limits),
    "vp9": lambda container: Vp9Prover(container.limits),
}


def has_prover(container: VideoContainer) -> bool:
    """Whether packets of the chosen stream's codec are read."""
    return container.codec_name in _PROVERS


@dataclass(frozen=True, slots=True)
class ProvenStream:
    """What is known of a stream without decoding it.

    Attributes:
        proof: Its frames.
        first: The first frame.
        colors: How its sample values are meant.
    """

    proof: Proof
    first: DecodedFact
    colors: StreamColors


def walk_and_prove(container: VideoContainer) -> tuple[PacketWalk, ProvenStream | None]:
    """Demux a whole stream, and prove which frames come of it; None where its packets do not.

    Args:
        container: Stands at its beginning.

    Raises:
        UnreadableMedia: As ``walk_packets``.
        LimitExceeded: As ``walk_packets``.
    """
    if not has_prover(container):
        return walk_packets(container), None
    colors = stream_colors(container)
    reading, first = _Reading(_PROVERS[container.codec_name](container)), list[Packet]()
    walk = walk_packets(container, reading.add, first.append)
    try:
        proof = reading.proof(walk)
        fact = _first_fact(container, proof, first[0])
    except Unproved as reason:
        _LOG.debug("%s: decoded, for its packets do not prove their frames: %s", container.source.name, reason)
        return walk, None
    known = proof.first.colors if proof.first is not None else {}
    return walk, ProvenStream(proof, fact, replace(colors, **known))


class _Reading:
    """Gives packets to a prover until it has enough."""

    def __init__(self, prover: Prover) -> None:
        self._prover = prover
        self._reason: str | None = None

    def add(self, packet: memoryview) -> None:
        if self._reason is None:
            try:
                self._prover.add(packet)
            except Unproved as reason:
                self._reason = str(reason)

    def proof(self, walk: PacketWalk) -> Proof:
        if self._reason is not None or not len(walk):
            raise Unproved(self._reason or "it has no packets")
        return self._prover.prove(walk)


def _first_fact(container: VideoContainer, proof: Proof, packet: Packet) -> DecodedFact:
    """Tell of the first frame what its header and the container's say; where they do not, decode it."""
    if proof.first is not None and is_upright(container):
        return _fact_of(proof.first, int(proof.order[0]))
    facts = decode_alone(container, packet)
    if not facts:
        raise Unproved("the first packet gives no frame by itself")
    return facts[0]


def _fact_of(picture: FirstPicture, packet: int) -> DecodedFact:
    width, height = picture.width, picture.height
    return DecodedFact(packet, width, height, width, height, picture.pixel_format, is_key=True, is_corrupt=False)
