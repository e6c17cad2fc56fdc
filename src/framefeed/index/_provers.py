"""Choose the prover of a codec, and prove the frames of a stream from its packets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from framefeed._values import Limits, PacketWalk, PictureFormat, StreamColors
from framefeed.bitstreams import (
    PACKET_READERS,
    IntraReader,
    OddUnits,
    PacketReader,
    cut_first_slice,
    make_mjpeg_reader,
    read_dnxhd,
    read_ffv1,
    read_nal_length_size,
    read_png,
    read_prores,
)
from framefeed.index._upright import is_upright
from framefeed.index.proofs._nal import NalProver
from framefeed.index.proofs._packet_order import PacketOrderProver
from framefeed.index.proofs._proving import Proof, Refuted, Unproved
from framefeed.media import (
    DecodedFact,
    Packet,
    VideoContainer,
    decode_alone,
    decode_facts,
    make_packet,
    read_stream_colors,
    walk_packets,
)

_LOG = logging.getLogger("framefeed.index")
_SLICE_BYTES = 128
"""Bytes of the first slice that are decoded: its header and little else."""


class Prover(Protocol):
    """Reads the packets of one stream, and proves which frames come of them."""

    def add(self, packet: memoryview) -> None:
        """Read the next packet, in demuxing order; its bytes are not valid afterwards. None follows an OddUnits."""

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which frames come of all packets."""


def _prove_in_order(make_reader: Callable[[Limits], PacketReader], container: VideoContainer) -> Prover:
    return PacketOrderProver(make_reader(container.limits))


_PROVERS: dict[str, Callable[[VideoContainer], Prover]] = {
    "dnxhd": lambda _: PacketOrderProver(IntraReader(read_dnxhd)),
    "h264": NalProver,
    "hevc": NalProver,
    "ffv1": lambda _: PacketOrderProver(IntraReader(read_ffv1)),
    "mjpeg": lambda container: PacketOrderProver(IntraReader(make_mjpeg_reader(container.decoder().height))),
    "png": lambda _: PacketOrderProver(IntraReader(read_png)),
    "prores": lambda _: PacketOrderProver(IntraReader(read_prores)),
    **{codec: partial(_prove_in_order, make) for codec, make in PACKET_READERS.items()},
}


def has_prover(container: VideoContainer) -> bool:
    """Whether packets of the chosen stream's codec are read."""
    return container.codec_name in _PROVERS


class DemuxedStream(NamedTuple):
    """A stream that was demuxed as a whole."""

    walk: PacketWalk
    colors: StreamColors
    proof: Proof | None = None  # which frames come of the packets; None if they do not prove it
    # Format of the first frame; None without a proof, or if the proof begins behind it.
    first: PictureFormat | None = None
    is_refuted: bool = False  # the packets deny, or leave open, that each gives a frame, in the order of their times


def walk_and_prove(container: VideoContainer, known: PacketWalk | None = None) -> DemuxedStream:
    """Demux a whole stream from its first packet, and prove which frames come of it; a known walk is not made again."""
    colors = read_stream_colors(container)
    if not has_prover(container):
        return DemuxedStream(known or walk_packets(container), colors)
    feed, firsts = _ProverFeed(_PROVERS[container.codec_name](container)), list[Packet]()
    walk = known or walk_packets(container, feed.add, firsts.append)
    try:
        proof = feed.prove(walk)
        first = None
        if not proof.begin:
            first = _find_first_format(container, proof, firsts[0] if firsts else next(container.packets()))
    except Unproved as reason:
        _LOG.debug("%s: decoded, for its packets do not prove their frames: %s", container.source.name, reason)
        # Of other codecs nothing but a proof says which packets give a frame.
        is_refuted = isinstance(reason, Refuted) or container.codec.units is None
        return DemuxedStream(walk, colors, is_refuted=is_refuted)
    if proof.colors is not None:
        # Sequence parameter sets count before the container, headers of other codecs behind it.
        colors = colors.fill(proof.colors) if container.codec.units is None else proof.colors
    return DemuxedStream(walk, colors, proof, first)


class _ProverFeed:
    """Gives packets to a prover until one of them proves nothing."""

    def __init__(self, prover: Prover) -> None:
        self._prover = prover
        self._odd: OddUnits | None = None

    def add(self, packet: memoryview) -> None:
        if self._odd is None:
            try:
                self._prover.add(packet)
            except OddUnits as odd:
                self._odd = odd

    def prove(self, walk: PacketWalk) -> Proof:
        if self._odd is not None:
            raise Unproved(str(self._odd))
        if not len(walk):
            raise Unproved("it has no packets")
        return self._prover.prove(walk)


def _find_first_format(container: VideoContainer, proof: Proof, packet: Packet) -> PictureFormat:
    """Take the format of the first frame from headers, or decode the frame if they do not suffice."""
    if proof.first is not None and not proof.may_turn and is_upright(container):
        return proof.first
    fact = None if container.codec.units is None else _decode_first_header(container, packet)
    facts = [fact] if fact is not None else decode_alone(container, packet)
    if not facts:
        raise Unproved("the first packet gives no frame by itself")
    return facts[0].format


def _decode_first_header(container: VideoContainer, packet: Packet) -> DecodedFact | None:
    """Decode the headers of the first packet to the facts of its frame, without its slices.

    The container must be reopened before anything else is decoded.
    """
    codec, log = container.codec_name, list(container.log)
    length_size = read_nal_length_size(codec, container.decoder().extradata)
    beginning = make_packet(cut_first_slice(bytes(packet), codec, length_size, _SLICE_BYTES))
    # Concealment of the missing slices would take longer than decoding them.
    container.decoder().options |= {"ec": "0"}
    fact = next(decode_facts(container, iter([(0, beginning)])), None)
    container.log = log
    if fact is None:
        container.reopen()
    return fact
