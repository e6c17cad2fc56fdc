"""The prover of each codec whose packets can prove which frames come of them, and the walk that asks it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from framefeed.media._container import Packet, VideoContainer
from framefeed.media._decoding import DecodedFact, decode_alone, decode_facts
from framefeed.media._details import StreamColors, stream_colors
from framefeed.media._nal import cut_first_slice, nal_length_size
from framefeed.media._packets import NAL_CODECS, PacketWalk, walk_packets
from framefeed.media._parameter_sets import make_packet
from framefeed.media._upright import is_upright
from framefeed.media.proofs._av1 import Av1Prover
from framefeed.media.proofs._intra import IntraProver, mjpeg_reader, read_dnxhd, read_ffv1, read_png, read_prores
from framefeed.media.proofs._nal import NalProver
from framefeed.media.proofs._proving import FirstPicture, Proof, Refuted, Unproved
from framefeed.media.proofs._vpx import Vp8Prover, Vp9Prover

_LOG = logging.getLogger("framefeed.index")
_SLICE_BYTES = 128
"""Of the first slice: its header, and nothing to speak of that takes time."""


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
    "av1": lambda _: Av1Prover(),
    "dnxhd": lambda _: IntraProver(read_dnxhd),
    "h264": NalProver,
    "hevc": NalProver,
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
        first: The first frame; None where the proof does not begin with it.
        colors: How its sample values are meant.
    """

    proof: Proof
    first: DecodedFact | None
    colors: StreamColors


@dataclass(frozen=True, slots=True)
class DemuxedStream:
    """A stream that was demuxed as a whole.

    Attributes:
        walk: Its packets.
        proven: What they prove; None where they do not.
        is_refuted: They say that frames come of them in another way.
    """

    walk: PacketWalk
    proven: ProvenStream | None = None
    is_refuted: bool = False


def walk_and_prove(container: VideoContainer, known: PacketWalk | None = None) -> DemuxedStream:
    """Demux a whole stream, and prove which frames come of it.

    Args:
        container: Stands at its beginning.
        known: The packets, where they need no demuxing.

    Raises:
        UnreadableMedia: As ``walk_packets``.
        LimitExceeded: As ``walk_packets``.
    """
    if not has_prover(container):
        return DemuxedStream(known or walk_packets(container))
    colors = stream_colors(container)
    reading, first = _ProverFeed(_PROVERS[container.codec_name](container)), list[Packet]()
    walk = known or walk_packets(container, reading.add, first.append)
    try:
        proof = reading.proof(walk)
        fact = (
            None
            if proof.begin
            else _find_first_fact(container, proof, first[0] if first else next(container.packets()))
        )
    except Unproved as reason:
        _LOG.debug("%s: decoded, for its packets do not prove their frames: %s", container.source.name, reason)
        return DemuxedStream(walk, is_refuted=isinstance(reason, Refuted))
    values = proof.first.colors if proof.first is not None else {}
    # Sequence parameter sets count before what the container says, headers of other codecs behind it.
    known_colors = replace(colors, **values) if container.codec_name in NAL_CODECS else colors.fill(values)
    return DemuxedStream(walk, ProvenStream(proof, fact, known_colors))


class _ProverFeed:
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


def _find_first_fact(container: VideoContainer, proof: Proof, packet: Packet) -> DecodedFact:
    """Tell of the first frame what its header and the container's say; where they do not, decode it."""
    if proof.first is not None and not proof.first.may_turn and is_upright(container):
        return _fact_of(proof.first, int(proof.order[0]))
    found = _decode_first_header(container, packet) if container.codec_name in NAL_CODECS else None
    facts = [found] if found is not None else decode_alone(container, packet)
    if not facts:
        raise Unproved("the first packet gives no frame by itself")
    return facts[0]


def _decode_first_header(container: VideoContainer, packet: Packet) -> DecodedFact | None:
    """Have libav tell of the first frame from the headers of its packet, without decoding its slices.

    The container must be reopened before anything else is decoded.
    """
    codec, options, log = container.codec_name, container.decoder().options, list(container.log)
    length_size = nal_length_size(codec, container.decoder().extradata)
    beginning = make_packet(cut_first_slice(bytes(packet), codec, length_size, _SLICE_BYTES))
    # Concealment of what is missing would take longer than decoding it.
    container.decoder().options = options | {"ec": "0"}
    found = next(decode_facts(container, iter([(0, beginning)])), None)
    container.decoder().options, container.log = options, log
    if found is None:
        container.reopen()
    return found


def _fact_of(picture: FirstPicture, packet: int) -> DecodedFact:
    width, height = picture.width, picture.height
    coded = picture.coded_size or (width, height)
    return DecodedFact(packet, width, height, *coded, picture.pixel_format, is_key=True, is_corrupt=False, dts=None)
