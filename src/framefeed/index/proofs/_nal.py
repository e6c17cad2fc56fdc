"""Prove the frames of H.264 and HEVC streams; check that frames come in the order of their times."""

from __future__ import annotations

import re
from typing import cast

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import PacketWalk, StreamColors, UnitFacts
from framefeed.bitstreams import (
    Configuration,
    H264Sequence,
    OddUnits,
    UnitTypes,
    has_turning_message,
    read_configuration,
    read_nal_length_size,
    split_nal_units,
)
from framefeed.index.proofs import _h264, _hevc
from framefeed.index.proofs._proving import (
    Proof,
    Refuted,
    Unproved,
    check_sets,
    find_pictures,
    name_unknown,
)
from framefeed.media import VideoContainer, has_damaged_configuration, read_stream_colors


def prove_units(configuration: Configuration, units: UnitFacts, walk: PacketWalk, held: int = 0) -> Proof:
    """Prove which frames come of packets.

    ``held``: pictures that libav's H.264 decoder surely holds back from the start.
    """
    is_h264 = configuration.codec == "h264"
    unknown = name_unknown(units, _h264.KNOWN_KINDS if is_h264 else _hevc.KNOWN_KINDS)
    try:
        if is_h264:
            proof = _h264.prove_h264(configuration, units, walk, held)
        else:
            proof = _hevc.prove_hevc(configuration, units, walk)
    except Refuted as reason:
        raise Refuted(f"{unknown}; {reason}" if unknown else str(reason)) from None
    if unknown:
        raise Unproved(unknown)
    return proof


_PROBED_PACKETS = 24
"""More packets than libav decodes of a stream to learn its depth of reordering."""


class NalProver:
    """Reads the NAL units of the packet walk, of a container of which no packet was decoded yet."""

    def __init__(self, container: VideoContainer) -> None:
        context = container.decoder()
        self._codec = container.codec_name
        self._extradata = context.extradata or b""
        self._colors = read_stream_colors(container)
        self._known = context.width, context.height, context.pix_fmt
        self._is_withheld = container.is_withheld
        self._duration = container.stream.duration if container.format_name.startswith("mov") else None
        self._may_guess = self._is_withheld and self._codec == "h264" and container.format_name.startswith("matroska")
        # libav's guess without a decoder may be larger than the value with one.
        self._held = 0 if container.is_withheld else context.reorder_depth
        self._first: bytes | None = None

    def add(self, packet: memoryview) -> None:
        """Keep the first packet; the walk reads the units of all."""
        if self._first is None:
            self._first = bytes(packet)

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which frames come of all packets; see ``Prover.prove``."""
        try:
            configuration = read_configuration(self._codec, self._extradata, self._colors)
        except OddUnits as odd:
            raise Refuted(str(odd)) from None
        if walk.units is None:
            raise Refuted("packets whose NAL units are not known")
        self._check_times(configuration, walk)
        proof = prove_units(configuration, walk.units, walk, self._held)
        if has_damaged_configuration(self._codec, self._extradata):
            raise Unproved("a decoder complains of the parameter sets")
        picture = configuration.sequence.format
        is_known = self._known == (picture.width, picture.height, None if self._is_withheld else picture.pixel_format)
        if self._is_withheld and not is_known:
            raise Unproved("container and codec that differ in the size of pictures")
        return proof._replace(
            first=picture if is_known else None,
            # Sequence parameter sets count before the container; libav has done so where it opened a decoder.
            colors=configuration.sequence.colors if self._is_withheld else self._colors,
            may_turn=bool(proof.order[0]) or proof.begin > 0 or self._has_turning_message(),
        )

    def _check_times(self, configuration: Configuration, walk: PacketWalk) -> None:
        """Raise Unproved if libav's times of packets may change when it decodes them.

        Only decoding makes libav sure of an H.264 stream's depth of reordering. In Matroska it then makes up decoding
        times, and with them durations and the stream's start (``has_decode_delay_been_guessed``). It also makes up
        missing durations of packets in MP4, which their sum shows; for H.264 its parser knows the rate.
        """
        has_clock = self._codec == "h264" and cast("H264Sequence", configuration.sequence).clock_rate is not None
        is_made_up = self._duration is not None and int(walk.duration.sum()) > self._duration
        if self._is_withheld and is_made_up and not has_clock:
            raise Unproved("packets without a duration")
        depth = configuration.sequence.reorder
        is_short = self._may_guess and (not depth or len(walk) < _PROBED_PACKETS)
        if self._is_withheld and self._codec == "h264" and (depth is None or is_short):
            raise Unproved("a stream of which libav learns more by decoding")

    def _has_turning_message(self) -> bool:
        if self._first is None:
            return True
        types = UnitTypes.of(self._codec)
        units = split_nal_units(self._first, read_nal_length_size(self._codec, self._extradata))
        messages = (bytes(unit) for unit in units if types.find_type(unit) in types.messages)
        return any(has_turning_message(unit, self._codec) for unit in messages)


def count_missing_pictures(container: VideoContainer, walk: PacketWalk) -> IntArray | None:
    """Count the reference pictures of H.264 that are missing right before each packet, int64 [P].

    -1 for a picture whose number has come before. None if headers are not understood. All zeros for other codecs, and
    if packets are not one picture each, or have other parameter sets than the configuration.
    """
    missing = np.zeros(len(walk), np.int64)
    if container.codec_name != "h264" or walk.units is None:
        return missing
    try:
        configuration = read_configuration("h264", container.decoder().extradata or b"", StreamColors())
        packets = find_pictures(walk.units)
        check_sets(configuration, walk.units)
        missing[packets] = _h264.count_missing_before(configuration, walk.units, packets)
    except OddUnits:
        return None
    except Refuted:
        pass
    return missing


# ISO/IEC 14496-2 6.2.3 and 6.2.5: start codes of a video object layer, up to the next one, and of a VOP.
_LAYER = re.compile(rb"\x00\x00\x01[\x20-\x2f].*?(?=\x00\x00\x01|\Z)", re.DOTALL)
_VOP = b"\0\0\1\xb6"
_B_VOP = 2


def is_in_order_of_times(container: VideoContainer, walk: PacketWalk, num_decoded: int) -> bool:
    """Whether the packets agree with frames in the order of their times; False if they do not show it.

    Decoding the first and the last packets does not show it. Of H.264 and HEVC a proof has said it.

    Args:
        container: No packet of it was decoded yet; its position changes.
        walk: Its packets, of unique times.
        num_decoded: Number of the first packets, which are decoded anyway.
    """
    if container.codec.units is not None:
        return True
    order = _order_vops(container, num_decoded) if container.codec_name == "mpeg4" else None
    if container.codec.is_in_packet_order:
        order = np.arange(len(walk), dtype=np.int64)
    if order is None or len(order) != len(walk):
        return False
    times = walk.packets.pts[order[~walk.packets.is_discarded[order]]]
    return bool((times[1:] > times[:-1]).all())


def _order_vops(container: VideoContainer, num_decoded: int) -> IntArray | None:
    """List the packets of MPEG-4 part 2 in the order of their frames; None if they do not show it.

    A decoder outputs a B-VOP at once, and any other VOP when the next one that is no B-VOP comes. Streams that declare
    no B-VOPs (low_delay) and have some differ: decoding the first B-VOP shows it.
    """
    container.reopen()
    layers, is_b = set(_LAYER.findall(container.decoder().extradata or b"")), list[bool]()
    for batch in container.batches():
        for packet in batch:
            data = bytes(packet)
            if data.count(_VOP) != 1:
                return None
            at = data.index(_VOP)
            layers |= set(_LAYER.findall(data[:at]))
            is_b.append(int.from_bytes(data[at + len(_VOP) : at + len(_VOP) + 1]) >> 6 == _B_VOP)
    if len(layers) != 1 or (any(is_b) and is_b.index(True) >= num_decoded):
        return None
    numbers = np.arange(len(is_b))
    others = np.flatnonzero(~np.array(is_b))
    # Each of the others is output before the next one of them, and behind the B-VOPs in between.
    following = np.append(others[1:], len(is_b)) - 0.5
    rank = numbers.astype(np.float64)
    rank[others] = following
    order: IntArray = rank.argsort(kind="stable")
    return order
