"""Decode a stream as far as its index needs: the beginning, both ends, or everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Literal

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import MediaInfo, PacketWalk, PictureFormat, StreamColors
from framefeed.bitstreams import MAX_PARAMETER_SETS
from framefeed.index._damage import find_damaged_frames, find_frames_with_gaps, find_unsteady_frames
from framefeed.index._frame_index import BuiltFrom, FrameIndex
from framefeed.index._joining import describe_stream, join_packets_and_frames, order_shown_packets
from framefeed.index._probe import describe_video
from framefeed.index._times import DecodingTimes, assume_rate, find_times, read_packet_times
from framefeed.index.proofs._nal import count_missing_pictures, is_in_order_of_times
from framefeed.index.proofs._proving import Proof, Refuted
from framefeed.media import (
    DecodedFact,
    MisplacedPacket,
    Packet,
    PictureHasher,
    VideoContainer,
    decode_facts,
    demux_from,
    has_damaged_parameters,
    make_empty_error,
    read_rational,
    read_stream_colors,
)

Verify = Literal["proof", "ends", "none", "full"]
Built = tuple[MediaInfo, FrameIndex]

_RELIABLE_CONTAINERS = ("mov", "matroska", "flv")
"""With these, and codecs that are reliable too, one packet is one frame. The others are decoded: MPEG-TS may hold one
field per packet, bare streams and AVI have no presentation times (M07, M11, M12)."""
HEAD_PACKETS = 48
"""Packets decoded at the start: more than any reorder depth (16), so that dropped frames are noticed."""
_TAIL_PACKETS = 48


class Stream:
    """One stream, which is decoded as far as its index needs.

    Args:
        container: Open; its position and decoder change.
        colors: Colour tags; None to read them from the container.
    """

    def __init__(
        self,
        container: VideoContainer,
        walk: PacketWalk,
        assume_fps: Fraction | None,
        colors: StreamColors | None = None,
    ) -> None:
        self._container = container
        self._walk = walk
        self._assume_fps = assume_fps
        self._sizes = set[tuple[int, int]]()
        # Read before decoding: a decoder follows every change of the stream, an index describes its beginning.
        self._colors = read_stream_colors(container) if colors is None else colors

    def build_from_first_frame(self) -> Built | None:
        """Trust the container's tables if the first frame agrees with them."""
        self._container.reopen()
        packets = islice(demux_from(self._container, self._walk.packets, 0), HEAD_PACKETS)
        first = next(decode_facts(self._container, packets), None)
        order = order_shown_packets(self._walk.packets)
        if first is None or first.packet != order[0] or not self._walk.packets.has_unique_times:
            return None
        return self.assemble(order, first.format, "packets")

    def build_from_partial_proof(self, proof: Proof) -> Built:
        """Decode the beginning, and take the rest from the proof."""
        facts = self._decode_from_start(proof.begin + HEAD_PACKETS)
        decoded = np.array([fact.packet for fact in facts], dtype=np.int64)
        before = decoded[: int((decoded >= proof.begin).argmax())] if len(decoded) else decoded
        after = decoded[len(before) :]
        order = np.concatenate((before, proof.order))
        times = self._walk.packets.pts[order]
        if not len(after) or not np.array_equal(after, proof.order[: len(after)]) or (times[1:] <= times[:-1]).any():
            raise Refuted("what decoding gives of the beginning does not fit")
        return self.assemble(order, facts[0].format, "packets+ends")

    def build_from_ends(self, verify: Verify) -> Built | None:
        """Believe the packets if the decoded ends agree with them; with "none", their beginning is decoded."""
        if not self._has_reliable_packets(verify):
            return None
        if verify != "none" and not is_in_order_of_times(self._container, self._walk, HEAD_PACKETS):
            return None
        head = self._decode_from_start(HEAD_PACKETS)
        if not head or not self._agrees_with_packets(head):
            return None
        if verify != "none" and len(self._walk) > HEAD_PACKETS and not self._has_complete_tail():
            return None
        built_from: BuiltFrom = "packets" if verify == "none" else "packets+ends"
        return self.assemble(order_shown_packets(self._walk.packets), head[0].format, built_from)

    def _decode_from_start(
        self,
        count: int,
        refused: list[int] | None = None,
        dts: list[int | None] | None = None,
        logged: list[int] | None = None,
        hasher: PictureHasher | None = None,
    ) -> list[DecodedFact]:
        self._container.reopen()  # Before its decoder is opened, whose findings about the stream are read later.
        packets = demux_from(self._container, self._walk.packets, 0)
        if dts is not None:
            packets = _record_times(packets, dts)
        return self._decode(packets, count, refused, logged, hasher)

    def _decode(
        self,
        packets: Iterator[tuple[int, Packet]],
        count: int,
        refused: list[int] | None = None,
        logged: list[int] | None = None,
        hasher: PictureHasher | None = None,
    ) -> list[DecodedFact]:
        """Decode the first ``count`` packets; drain the decoder if these are all packets of the stream."""
        self._container.decoder().flush_buffers()
        drain, some = len(self._walk) <= count, islice(packets, count)
        facts = list(decode_facts(self._container, some, drain=drain, refused=refused, logged=logged, hasher=hasher))
        self._sizes.update((fact.format.width, fact.format.height) for fact in facts)
        return facts

    def _has_reliable_packets(self, verify: Verify) -> bool:
        """Whether each packet is one frame by the rules of container and codec, and no parameter set is damaged."""
        container, parameter_sets = self._container, self._walk.parameter_sets
        if not self._walk.packets.has_unique_times:
            return False
        is_listed = container.format_name.startswith(_RELIABLE_CONTAINERS) and container.codec.is_reliable
        if not is_listed and verify != "none":
            return False
        if container.codec.units is None:
            return True
        return len(parameter_sets) < MAX_PARAMETER_SETS and not has_damaged_parameters(container, parameter_sets)

    def _agrees_with_packets(self, facts: list[DecodedFact]) -> bool:
        """Whether the decoded frames are those of the first shown packets, without a gap, with the same key frames."""
        decoded = np.array([fact.packet for fact in facts], dtype=np.int64)
        shown = order_shown_packets(self._walk.packets)
        if len(self._walk) <= HEAD_PACKETS and len(decoded) != len(shown):
            return False
        if not np.array_equal(shown[: len(decoded)], decoded) or any(fact.is_corrupt for fact in facts):
            return False
        # The decoder's key frames must be those of the container (M14).
        is_key = self._walk.packets.is_key
        return self._container.codec.units is not None or all(fact.is_key for fact in facts if is_key[fact.packet])

    def _has_complete_tail(self) -> bool:
        """Whether each shown packet of the tail gives a frame; decodes from the last key frame before it.

        Disposable pictures before the tail are not decoded.
        """
        table = self._walk.packets
        first_checked, is_disposable = max(0, len(table) - _TAIL_PACKETS), table.is_disposable
        keys = np.flatnonzero(table.is_key[: first_checked + 1])
        usable = keys[table.pts[keys] <= table.pts[first_checked:].min()]
        packets = (
            (number, packet)
            for number, packet in demux_from(self._container, table, int(usable[-1]) if len(usable) else 0)
            if number >= first_checked or not is_disposable[number]
        )
        try:
            decoded = {fact.packet for fact in self._decode(packets, len(table)) if not fact.is_corrupt}
        except MisplacedPacket:
            return False
        shown = np.flatnonzero(~table.is_discarded[first_checked:]) + first_checked
        return decoded.issuperset(shown.tolist())

    def build_from_decoding(self, *, compares_silent: bool) -> Built:
        """Decode everything; ``compares_silent`` compares what silent decoders give in order and from starts."""
        container, refused, logged, dts = self._container, list[int](), list[int](), list[int | None]()
        missing = count_missing_pictures(container, self._walk)
        is_silent = compares_silent and container.codec.is_silent
        if is_silent:
            # Their damage may be such that only the loop filter shows it.
            container.set_decoder_options()
        hasher = PictureHasher() if is_silent or missing is None else None
        facts = self._decode_from_start(len(self._walk), refused, dts, logged, hasher)
        if self._container.codec.units is None:
            # A key frame counts if container and decoder agree on it: either alone may be wrong (M14).
            is_decoded_key = np.zeros(len(self._walk), dtype=bool)
            is_decoded_key[[fact.packet for fact in facts if fact.is_key and fact.packet >= 0]] = True
            packets = self._walk.packets
            packets = packets.replace_flags(packets.is_key & is_decoded_key)
            self._walk = replace(self._walk, packets=packets)
        if not facts:
            raise make_empty_error(self._container, "index")
        order = np.array([fact.packet for fact in facts], dtype=np.int64)
        info, index = self.assemble(order, facts[0].format, "decode", DecodingTimes.of(facts, dts))
        is_damaged = index.frame_packet < 0
        if missing is None or missing.any():
            # What a decoder shows in place of a missing picture may depend on any other.
            index = replace(index, stream=replace(index.stream, skips_exactly=False))
        if missing is not None and self._walk.units is not None:
            is_damaged |= find_frames_with_gaps(index, missing, self._walk.units.is_reference)
        flagged = np.flatnonzero([fact.is_corrupt for fact in facts])
        is_damaged[find_damaged_frames(index, flagged, np.array(refused, dtype=np.int64))] = True
        if hasher is not None or logged or refused or is_damaged.any():
            if hasher is None:
                facts = self._decode_from_start(len(self._walk), hasher=PictureHasher())
            digests = [fact.digest for fact in facts]
            is_damaged |= find_unsteady_frames(self._container, index, digests, is_damaged)
        damaged = np.flatnonzero(is_damaged).astype(np.int64)
        return info, replace(index, damaged_frame_indices=damaged) if len(damaged) else index

    def assemble(
        self, order: IntArray, first: PictureFormat, built_from: BuiltFrom, decoding: DecodingTimes | None = None
    ) -> Built:
        container, walk = self._container, self._walk
        times = find_times(
            container, read_packet_times(walk, order, read_rational(container.stream.time_base)), walk, decoding
        )
        info, extradata = describe_video(container, first), container.stream.codec_context.extradata
        stream = describe_stream(info, first, self._colors, walk, order, container.stream.index, extradata)
        times = assume_rate(times, self._assume_fps)
        identity = container.source.identity_of(container.reader)
        index = join_packets_and_frames(walk, order, times, built_from, stream, identity)
        return info, replace(index, changes_size=len(self._sizes) > 1)


def _record_times(packets: Iterator[tuple[int, Packet]], dts: list[int | None]) -> Iterator[tuple[int, Packet]]:
    for number, packet in packets:
        dts.append(packet.dts)
        yield number, packet
