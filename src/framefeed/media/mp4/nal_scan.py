"""NAL unit headers of all packets at once: what `h264_facts` and `hevc_facts` find, gathered by NumPy.

Files are read in blocks, never mapped: one that gets shorter meanwhile must not end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.mp4.picture_order import HEAD_PACKETS, SliceHeads
from framefeed.media.mp4.samples import BoolArray, IntArray
from framefeed.media.nal import (
    H264_HARMLESS,
    H264_PARAMETERS,
    H264_SLICES,
    HEVC_FIRST_IRAP,
    HEVC_HARMLESS,
    HEVC_LAST_IRAP,
    HEVC_PARAMETERS,
    ParameterSets,
    h264_facts,
)
from framefeed.media.source import ByteReader, read_bytes
from framefeed.parallel.stopping import check_stop

ByteArray = npt.NDArray[np.uint8]
WordArray = npt.NDArray[np.uint64]

BLOCK_BYTES = 2**21
"""Read at once; NumPy's cost a block is that of a hundred kilobytes."""
MAX_PACKET_BYTES = 2**25
"""Larger packets are libav's."""
_MAX_GAP = 32 * 1024
"""Bytes of other tracks that are read along rather than skipped."""
_WORD = 8
_FIRST_BYTES = 4
_PADDING = _WORD + _FIRST_BYTES
_MAX_UNITS = 4096
"""NAL units of one packet."""
_SEI = 6
_RECOVERY_POINT = 6
_IDR = 5
_MORE_NUMBER = 255
"""A byte of a message's kind or size that goes on in the next one."""


@dataclass(frozen=True, slots=True)
class NalFacts:
    """What the NAL unit headers of packets say, columns of length P.

    Attributes:
        is_key: Decoding can start at the packet, bool.
        is_reference: Other pictures of its own temporal layer may refer to it, or leaving it out loses more, bool.
        temporal_id: HEVC's temporal sub-layer, int64; None of H.264.
        parameter_sets: Distinct ones that packets carry, in the order met.
        is_plain: Each packet is one picture in whole NAL units.
        heads: The first slices of the first packets; None where they are no plain ones.
    """

    is_key: BoolArray
    is_reference: BoolArray
    temporal_id: IntArray | None
    parameter_sets: tuple[bytes, ...]
    is_plain: bool
    heads: SliceHeads | None


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets in decode order: byte position and size, int64 [P], and what the container calls a key frame, bool."""

    offset: IntArray
    size: IntArray
    is_sync: BoolArray


@dataclass(frozen=True, slots=True)
class Units:
    """The NAL units of all packets, columns of length U; those of one packet in their order.

    Attributes:
        packet: Number of the packet, int64.
        offset: Byte position in the file, int64.
        length: Bytes, int64.
        first: The first four bytes, of which some may be the next unit's, uint64 below 2**32.
        heads: Of units of the first packets: number of the packet, the first four bytes, and the eight behind those.
        is_whole: Units fill each packet exactly.
    """

    packet: IntArray
    offset: IntArray
    length: IntArray
    first: WordArray
    heads: tuple[IntArray, WordArray, WordArray]
    is_whole: bool

    def bytes(self) -> ByteArray:
        """Give the first four bytes of each unit, uint8 [4, U]."""
        return self.first.astype(">u4").view(np.uint8).reshape(-1, _FIRST_BYTES).T


def scan_packets(reader: ByteReader, codec: str, length_size: int, packets: Packets) -> NalFacts:
    """Read the NAL unit headers of packets.

    Args:
        reader: The file.
        codec: "h264" or "hevc".
        length_size: Bytes of the length before each unit: 1, 2 or 4.
        packets: Where they are.

    Raises:
        OddMovie: The file gets shorter, or a packet holds what libav's parser reads in its own way.
    """
    units = find_units(reader, length_size, packets)
    if codec == "h264":
        facts = _h264(units, packets, lambda number: _recovers(reader, length_size, packets, number))
        is_set = _H264_PARAMETER[units.bytes()[0] & 31]
    else:
        facts = _hevc(units, packets)
        is_set = _HEVC_PARAMETER[(units.bytes()[0] >> 1) & 63]
    return replace(facts, parameter_sets=_read_sets(reader, codec, units, is_set)) if is_set.any() else facts


def find_units(reader: ByteReader, length_size: int, packets: Packets) -> Units:
    """Find the NAL units of packets, reading the file in blocks."""
    if length_size not in (1, 2, 4) or int(packets.size.max()) > MAX_PACKET_BYTES:
        raise OddMovie(f"NAL units with lengths of {length_size} bytes, or huge packets")
    begin, end = packets.offset, packets.offset + packets.size
    order: IntArray | None = None
    if bool((begin[1:] < begin[:-1]).any()):
        order = np.argsort(begin, kind="stable").astype(np.int64)
        begin, end = begin[order], end[order]
    walk = _Walk(length_size)
    buffer = np.empty(0, np.uint8)
    for first, stop in _blocks(begin, end):
        check_stop()
        start, count = int(begin[first]), int(end[first:stop].max()) - int(begin[first])
        if len(buffer) < count + _PADDING:
            buffer = np.empty(max(count, min(BLOCK_BYTES, int(end[-1]) - start)) + _PADDING, np.uint8)
        if reader.read_into(buffer.data[:count], start) != count:
            raise OddMovie("a file that got shorter")
        buffer[count : count + _PADDING] = 0
        walk.block(buffer, first, begin[first:stop], end[first:stop], start)
    units = walk.units()
    if order is None:
        return units
    none = units.heads[0][:0]
    return replace(units, packet=order[units.packet], heads=(none, none.astype(np.uint64), none.astype(np.uint64)))


def _blocks(begin: IntArray, end: IntArray) -> Iterator[tuple[int, int]]:
    """Split packets, sorted by place, into runs that are read at once."""
    gaps = (begin[1:] - end[:-1] > _MAX_GAP).nonzero()[0] + 1
    first = 0
    for stop in [*gaps.tolist(), len(begin)]:
        while first < stop:
            last = int(end[first:stop].searchsorted(begin[first] + BLOCK_BYTES, side="right")) + first
            last = max(last, first + 1)
            yield first, last
            first = last


class _Walk:
    """Steps through the k-th NAL unit of all packets of a block."""

    def __init__(self, length_size: int) -> None:
        self._length_size = length_size
        self._shift = np.uint64(64 - 8 * length_size)
        self._found: list[tuple[IntArray, IntArray, WordArray]] = []
        self._heads: list[tuple[IntArray, WordArray, WordArray]] = []
        self._is_whole = True

    def block(self, data: ByteArray, first: int, begin: IntArray, end: IntArray, start: int) -> None:
        """Look at packets ``first``, ``first + 1``, ..., of a file whose bytes from ``start`` on are ``data``."""
        at, end = begin - start, end - start
        # All eight bytes from any place on as one number: the length and the unit's first bytes in one look-up.
        words = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        packet = np.arange(first, first + len(at))
        for _ in range(_MAX_UNITS):
            active = at + self._length_size < end
            if not active.all():
                self._is_whole = self._is_whole and bool((at >= end)[~active].all())
                packet, at, end = packet[active], at[active], end[active]
            if not len(packet):
                return
            word = words[at].astype(np.uint64)
            if packet[0] < HEAD_PACKETS:
                self._keep_heads(words, packet, word, at + (self._length_size + _FIRST_BYTES))
            length = (word >> self._shift).astype(np.int64)
            unit = at + (start + self._length_size)
            at = at + (length + self._length_size)
            fits = (length > 0) & (at <= end)
            if fits.all():
                self._found.append((packet, unit, word))
            else:
                self._is_whole = False
                self._found.append((packet[fits], unit[fits], word[fits]))
        raise OddMovie("packets of too many NAL units")

    def _keep_heads(self, words: WordArray, packet: IntArray, word: WordArray, behind: IntArray) -> None:
        count = int(np.searchsorted(packet, HEAD_PACKETS))
        self._heads.append((packet[:count], self._first(word[:count]), words[behind[:count]].astype(np.uint64)))

    def _first(self, word: WordArray) -> WordArray:
        return (word << np.uint64(8 * self._length_size)) >> np.uint64(32)

    def units(self) -> Units:
        """Give what was found."""
        if not self._found:
            raise OddMovie("packets without NAL units")
        packet, offset, word = _joined(self._found)
        of, first, more = _joined(self._heads)
        length = (word >> self._shift).astype(np.int64)
        return Units(packet, offset, length, self._first(word), (of, first, more), self._is_whole)


def _joined(found: list[tuple[Any, Any, Any]]) -> Iterator[Any]:
    return (np.concatenate(column) for column in zip(*found, strict=True))


def _some(count: int, packet: IntArray) -> BoolArray:
    """Mark the packets that are named, bool [count]."""
    marked = np.zeros(count, bool)
    marked[packet] = True
    return marked


def _kinds(*groups: frozenset[int]) -> npt.NDArray[np.bool_]:
    """Make a table of NAL unit types from some of them, bool [64]."""
    return _some(64, np.array(sorted(frozenset().union(*groups))))


_H264_SLICE = _kinds(H264_SLICES)
_H264_PLAIN = _kinds(H264_SLICES, H264_HARMLESS)
_H264_PARAMETER = _kinds(H264_PARAMETERS)
_HEVC_SLICE = _kinds(frozenset(range(32)))
_HEVC_PLAIN = _kinds(frozenset(range(32)), HEVC_HARMLESS)
_HEVC_PARAMETER = _kinds(HEVC_PARAMETERS)
_HEVC_IRAP = _kinds(frozenset(range(HEVC_FIRST_IRAP, HEVC_LAST_IRAP + 1)))
_HEVC_REFERENCE = _kinds(frozenset(kind for kind in range(32) if kind >= 16 or kind % 2))


def _h264(units: Units, packets: Packets, recovers: Callable[[int], bool]) -> NalFacts:
    count, (header, second, third, _) = len(packets.size), units.bytes()
    kind = header & 31
    is_slice = _H264_SLICE[kind]
    of_slices, slices = units.packet[is_slice], kind[is_slice]
    has_slice = _some(count, of_slices)
    is_idr = _some(count, of_slices[slices == _IDR])
    first = np.zeros(count, np.uint8)
    first[of_slices[::-1]] = slices[::-1]  # the last to be assigned remains
    # libav's parser ends at the first slice, and knows no partitions.
    if bool((is_idr & (first != _IDR)).any()) or bool((slices == 2).any()):
        raise OddMovie("slices in no usual order")
    is_key = is_idr
    for number in _with_messages(units, kind, second, third).tolist():
        if not is_idr[number] and recovers(number):
            is_key = is_key.copy() if is_key is is_idr else is_key
            is_key[number] = True
    is_droppable = ~_some(count, units.packet[~_H264_PLAIN[kind]]) & ~is_idr
    return NalFacts(
        is_key=is_key,
        is_reference=~has_slice | _some(count, of_slices[(header[is_slice] & 0x60) != 0]) | ~is_droppable,
        temporal_id=None,
        parameter_sets=(),
        is_plain=units.is_whole and _is_one_picture(count, of_slices, second[is_slice]),
        heads=_heads(units, 1, min(count, HEAD_PACKETS)),
    )


def _with_messages(units: Units, kind: npt.NDArray[Any], second: ByteArray, third: ByteArray) -> IntArray:
    """Find the packets in which a recovery point may lie: any message unit that is not plainly one other message.

    Raises:
        OddMovie: Behind a slice, where libav's parser does not look.
    """
    which: IntArray = (kind == _SEI).nonzero()[0]
    if not len(which):
        return which
    message, size = second[which], third[which].astype(np.int64)
    # One short message, its end, and room for one byte against emulated start codes.
    is_short = (size != _MORE_NUMBER) & (units.length[which] - 3 - size <= 2)
    unknown = which[~is_short | (message == _RECOVERY_POINT) | (message == _MORE_NUMBER)]
    found: IntArray = np.unique(units.packet[unknown]).astype(np.int64)
    if len(found):
        slices = np.flatnonzero(_H264_SLICE[kind])
        first_slice = np.full(int(units.packet.max()) + 1, len(kind))
        first_slice[units.packet[slices][::-1]] = slices[::-1]
        if bool((unknown > first_slice[units.packet[unknown]]).any()):
            raise OddMovie("messages behind a slice")
    return found


def _read_sets(reader: ByteReader, codec: str, units: Units, is_set: npt.NDArray[np.bool_]) -> tuple[bytes, ...]:
    which = is_set.nonzero()[0]
    which = which[np.argsort(units.packet[which], kind="stable")]
    found = ParameterSets(codec)
    for offset, length in zip(units.offset[which].tolist(), units.length[which].tolist(), strict=True):
        check_stop()
        found.add(read_bytes(reader, offset, length))
    return found.found


def _recovers(reader: ByteReader, length_size: int, packets: Packets, number: int) -> bool:
    """Whether a packet holds a recovery point of no frames."""
    check_stop()
    data = read_bytes(reader, int(packets.offset[number]), int(packets.size[number]))
    facts = h264_facts(data, length_size)
    return facts is not None and facts.is_random_access


def _hevc(units: Units, packets: Packets) -> NalFacts:
    count, (header, second, third, _) = len(packets.size), units.bytes()
    if bool(((header & 1) | (second >> 3)).any()):
        raise OddMovie("pictures of several layers")
    kind = (header >> 1) & 63
    is_slice = _HEVC_SLICE[kind]
    of_slices, slices = units.packet[is_slice], kind[is_slice]
    has_slice = _some(count, of_slices)
    temporal_id = np.zeros(count, np.int64)
    layered = is_slice & (units.length > 1)
    temporal_id[units.packet[layered]] = (second[layered] & 7).astype(np.int64) - 1
    is_droppable = ~_some(count, units.packet[~_HEVC_PLAIN[kind]])
    return NalFacts(
        is_key=packets.is_sync & (_some(count, of_slices[_HEVC_IRAP[slices]]) | ~has_slice),
        is_reference=~has_slice | _some(count, of_slices[_HEVC_REFERENCE[slices]]) | ~is_droppable,
        temporal_id=temporal_id,
        parameter_sets=(),
        is_plain=units.is_whole and _is_one_picture(count, of_slices, third[is_slice]),
        heads=_heads(units, 2, min(count, HEAD_PACKETS)),
    )


def _is_one_picture(count: int, of_slices: IntArray, begin: ByteArray) -> bool:
    """Whether in each packet just one slice begins a picture: its first bit behind the header is set."""
    return bool((np.bincount(of_slices[begin >= 128], minlength=count) == 1).all())


def _heads(units: Units, header_bytes: int, count: int) -> SliceHeads | None:
    """Collect the first slice of each of the first packets; None where some packet has none."""
    packet, first, more = units.heads
    header = (first >> np.uint64(24)).astype(np.int64)
    kind = header & 31 if header_bytes == 1 else (header >> 1) & 63
    is_slice = (_H264_SLICE if header_bytes == 1 else _HEVC_SLICE)[kind]
    bits = (first << np.uint64(32 + 8 * header_bytes)) | (more >> np.uint64(32 - 8 * header_bytes))
    place = np.full(HEAD_PACKETS, -1)
    place[packet[is_slice][::-1]] = np.flatnonzero(is_slice)[::-1]  # the last to be assigned remains
    chosen = place[:count]
    return None if bool((chosen < 0).any()) else SliceHeads(kind[chosen], bits[chosen])
