"""NAL units of many packets at once, gathered by NumPy: what their headers say, and the first slice of each packet.

What `framefeed.media.nal` says of one packet holds here for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.media.nal import (
    H264_HARMLESS,
    H264_PARAMETERS,
    H264_SLICES,
    HEVC_FIRST_IRAP,
    HEVC_HARMLESS,
    HEVC_LAST_IRAP,
    HEVC_PARAMETERS,
    MAX_PARAMETER_SETS,
    SEI_LIMIT,
    TURNING,
    recovery_frames,
)

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]
WordArray = npt.NDArray[np.uint64]

HEAD_BYTES = 64
"""Of a slice behind its NAL unit header: long tables of weights fit."""
BLOCK_PADDING = HEAD_BYTES + 16
"""Zero bytes that must stand behind the packets of a block."""
_WORD = 8
_FIRST_BYTES = 4
_MAX_STEPS = 4096
"""NAL units of one packet; of one that has more, the rest are gone through one by one."""
_BEGINS_PICTURE = 128
_H264_SEI, _RECOVERY_POINT = 6, 6
_H264_IDR, _H264_PARTITION = 5, 2
_H264_VCL, _HEVC_VCL = range(1, 6), range(32)
_MORE_NUMBER = 255
"""A byte of a message's kind or size that goes on in the next one."""


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """What the NAL units of packets say, columns of length P in demuxing order.

    Attributes:
        slice_kind: NAL unit type of the first slice, int64; -1 where there is none.
        head: What stands behind that slice's NAL unit header, uint8 [P, HEAD_BYTES].
        head_bytes: How many of these bytes are the slice's, int64.
        is_start: Its slices, or an exact recovery point, say that decoding can start here, bool.
        is_reference: Other pictures of its own temporal layer may refer to it, or leaving it out loses more, bool.
        layer: nal_ref_idc of an H.264 slice; HEVC's temporal sub-layer, int64.
        has_sub_layers: ``layer`` is the latter.
        has_unknown_messages: It holds messages that are not plainly one which leaves pictures as they are, bool.
        has_end: It holds the end of a sequence or of the stream, bool.
        kinds: Which NAL unit types there are, bool [64].
        is_plain: Each packet is whole NAL units; those with slices hold one picture, whose slices are of one type.
        fault: Why libav's parser may read the packets in its own way; empty where it does not.
        parameter_sets: Distinct ones, in the order met.
    """

    slice_kind: IntArray
    head: ByteArray
    head_bytes: IntArray
    is_start: BoolArray
    is_reference: BoolArray
    layer: IntArray
    has_sub_layers: bool
    has_unknown_messages: BoolArray
    has_end: BoolArray
    kinds: BoolArray
    is_plain: bool
    fault: str
    parameter_sets: tuple[bytes, ...]

    @property
    def is_disposable(self) -> BoolArray:
        """Whether no other picture refers to a packet's, and it holds nothing else, bool [P]."""
        if not self.has_sub_layers:
            return ~self.is_reference
        # A picture of the highest sub-layer that its own sub-layer does not refer to is referred to by none.
        disposable: BoolArray = ~self.is_reference & (self.layer == self.layer.max(initial=0))
        return disposable

    @property
    def has_slice(self) -> BoolArray:
        """Whether a packet holds a picture, bool [P]."""
        found: BoolArray = self.slice_kind >= 0
        return found


@dataclass(frozen=True, slots=True)
class _Units:
    """The NAL units of a block, columns of length U; those of one packet in their order.

    Attributes:
        packet: Number of the packet within the block, int64.
        at: Where the unit begins in the block, int64.
        length: Bytes, int64.
        first: The first four bytes, of which some may be the next unit's, uint64 below 2**32.
    """

    packet: IntArray
    at: IntArray
    length: IntArray
    first: WordArray

    def kind(self, header_bytes: int) -> ByteArray:
        """Give the type of each unit."""
        first = self.byte(0)
        kind: ByteArray = first & np.uint8(31) if header_bytes == 1 else first >> np.uint8(1) & np.uint8(63)
        return kind

    def byte(self, number: int) -> ByteArray:
        """Give one of the first four bytes of each unit."""
        return (self.first >> np.uint64(24 - 8 * number)).astype(np.uint8)


def _kinds(*groups: frozenset[int]) -> BoolArray:
    """Make a table of NAL unit types from some of them, bool [64]."""
    table = np.zeros(64, bool)
    table[sorted(frozenset().union(*groups))] = True
    return table


@dataclass(frozen=True, slots=True)
class _Codec:
    """Which NAL unit types are what."""

    name: str
    header_bytes: int
    slices: BoolArray
    harmless: BoolArray
    parameters: BoolArray
    ends: BoolArray
    messages: BoolArray


_CODECS = {
    "h264": _Codec(
        name="h264",
        header_bytes=1,
        slices=_kinds(frozenset(_H264_VCL)),
        harmless=_kinds(H264_SLICES, H264_HARMLESS),
        parameters=_kinds(H264_PARAMETERS),
        ends=_kinds(frozenset({10, 11})),
        messages=_kinds(frozenset({6})),
    ),
    "hevc": _Codec(
        name="hevc",
        header_bytes=2,
        slices=_kinds(frozenset(_HEVC_VCL)),
        harmless=_kinds(frozenset(_HEVC_VCL), HEVC_HARMLESS),
        parameters=_kinds(HEVC_PARAMETERS),
        ends=_kinds(frozenset({36, 37})),
        messages=_kinds(frozenset({39, 40})),
    ),
}
_H264_SLICE = _kinds(H264_SLICES)
_HEVC_IRAP = _kinds(frozenset(range(HEVC_FIRST_IRAP, HEVC_LAST_IRAP + 1)))
_HEVC_REFERENCE = _kinds(frozenset(kind for kind in range(32) if kind >= 16 or kind % 2))
_HEAD_WORDS = np.arange(0, HEAD_BYTES, _WORD)
_NO_INTEGERS, _NO_FLAGS = np.zeros(0, np.int64), np.zeros(0, bool)
_NO_UNITS = [(_NO_INTEGERS, _NO_INTEGERS, np.zeros(0, np.uint64))]
_SHOWING = np.isin(np.arange(256), [*TURNING, _MORE_NUMBER])
_NO_COLUMNS = (
    _NO_INTEGERS,
    np.zeros((0, HEAD_BYTES), np.uint8),
    _NO_INTEGERS,
    _NO_FLAGS,
    _NO_FLAGS,
    _NO_INTEGERS,
    _NO_FLAGS,
    _NO_FLAGS,
)


class UnitWalk:
    """Goes through packets in blocks.

    Args:
        codec: "h264" or "hevc".
        length_size: Bytes of the length before each NAL unit; 0 for start codes.
    """

    def __init__(self, codec: str, length_size: int) -> None:
        self._codec = _CODECS[codec]
        self._length_size = length_size
        self._columns: list[tuple[npt.NDArray[Any], ...]] = []
        self._kinds = np.zeros(64, bool)
        self._is_plain = True
        self._fault = ""
        self._sets: dict[bytes, int] = {}
        self._count = 0

    def block(self, data: ByteArray, begin: IntArray, end: IntArray) -> None:
        """Look at the next packets.

        Args:
            data: Their bytes, and BLOCK_PADDING zeros.
            begin: Where each packet begins, ascending.
            end: Where it ends.
        """
        # All eight bytes from any place on as one number: the length and the unit's first bytes in one look-up.
        words = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        if self._length_size:
            units = self._by_length(words, data, begin, end)
        else:
            units = self._by_start_code(words, data, begin, end)
        kind = units.kind(self._codec.header_bytes)
        self._kinds[kind] = True
        self._read_sets(data, units, self._codec.parameters[kind])
        which = self._codec.slices[kind].nonzero()[0]
        head = self._heads(words, units, which, len(begin))
        if self._codec.name == "h264":
            facts = self._h264(data, units, kind, which, len(begin))
        else:
            facts = self._hevc(units, kind, which, len(begin))
        has_end = np.zeros(len(begin), bool)
        has_end[units.packet[self._codec.ends[kind]]] = True
        self._columns.append((*head, *facts, has_end, self._find_messages(units, kind, len(begin))))
        self._count += len(begin)

    def _by_length(self, words: WordArray, data: ByteArray, begin: IntArray, end: IntArray) -> _Units:
        """Step through the k-th unit of all packets."""
        size, shift = self._length_size, np.uint64(64 - 8 * self._length_size)
        at, packet = begin, np.arange(len(begin))
        found: list[tuple[IntArray, IntArray, WordArray]] = []
        for _ in range(_MAX_STEPS):
            active = at + size < end
            if not active.all():
                self._is_plain = self._is_plain and bool((at >= end)[~active].all())
                packet, at, end = packet[active], at[active], end[active]
            if not len(packet):
                break
            word = words[at].astype(np.uint64)
            unit = at + size
            at = unit + (word >> shift).astype(np.int64)
            fits = (at > unit) & (at <= end)
            if fits.all():
                found.append((packet, unit, word))
            else:
                self._is_plain = False
                found.append((packet[fits], unit[fits], word[fits]))
        else:
            found += self._rest(words, data, packet, at, end)
        packet, at, word = (np.concatenate(column) for column in zip(*(found or _NO_UNITS), strict=True))
        return _Units(packet, at, (word >> shift).astype(np.int64), (word << np.uint64(8 * size)) >> np.uint64(32))

    def _rest(
        self, words: WordArray, data: ByteArray, packet: IntArray, at: IntArray, end: IntArray
    ) -> list[tuple[IntArray, IntArray, WordArray]]:
        """Go through what is left of packets of very many units; they are no plain ones."""
        self._is_plain, size = False, self._length_size
        found: list[tuple[IntArray, IntArray, WordArray]] = []
        for number, start, stop in zip(packet.tolist(), at.tolist(), end.tolist(), strict=True):
            unit = np.fromiter(_unit_places(data[start:stop].tobytes(), size), np.int64) + (start + size)
            found.append((np.full(len(unit), number), unit, words[unit - size].astype(np.uint64)))
        return found

    def _by_start_code(self, words: WordArray, data: ByteArray, begin: IntArray, end: IntArray) -> _Units:
        """Find all start codes of the block, and the packets they lie in."""
        ones = (data[2 : int(end[-1])] == 1).nonzero()[0]
        code = ones[(data[ones] | data[ones + 1]) == 0]
        packet = begin.searchsorted(code, side="right") - 1
        # Those that only a border between packets makes are none.
        inside = (packet >= 0) & (code + 3 <= end[packet])
        code, packet = code[inside], packet[inside]
        stop = end[packet]
        same = (packet[1:] == packet[:-1]).nonzero()[0]
        stop[same] = code[same + 1]
        at = code + 3
        filled = stop > at
        first = np.full(len(begin), -1)
        first[packet[::-1]] = code[::-1]
        self._is_plain = self._is_plain and bool(((first == begin) | (first == begin + 1)).all())
        at, packet = at[filled], packet[filled]
        return _Units(packet, at, stop[filled] - at, words[at].astype(np.uint64) >> np.uint64(32))

    def _read_sets(self, data: ByteArray, units: _Units, is_set: BoolArray) -> None:
        which = is_set.nonzero()[0]
        if not len(which):
            return
        which = which[units.packet[which].argsort(kind="stable")]
        for number in which.tolist():
            at = int(units.at[number])
            unit = data[at : at + int(units.length[number])].tobytes()
            if len(self._sets) < MAX_PARAMETER_SETS:
                self._sets.setdefault(unit, self._count + int(units.packet[number]))

    def _heads(
        self, words: WordArray, units: _Units, which: IntArray, count: int
    ) -> tuple[IntArray, ByteArray, IntArray]:
        """Collect type, bytes and length of the first slice of each packet."""
        number = np.full(count, -1)
        number[units.packet[which][::-1]] = which[::-1]  # the last to be assigned remains
        has_slice = number >= 0
        header = self._codec.header_bytes
        at = np.minimum(units.at[number] + header, len(words) - HEAD_BYTES) if len(units.at) else number * 0
        first = units.byte(0)[number] if len(units.at) else np.zeros(count, np.uint8)
        kind = (first & 31 if header == 1 else first >> 1 & 63).astype(np.int64)
        length = units.length[number] - header if len(units.at) else number
        head: ByteArray = words[at[:, None] + _HEAD_WORDS].view(np.uint8)
        return np.where(has_slice, kind, -1), head, np.where(has_slice, length, 0)

    def _h264(
        self, data: ByteArray, units: _Units, kind: ByteArray, which: IntArray, count: int
    ) -> tuple[npt.NDArray[Any], ...]:
        header = units.byte(0)
        is_slice = _H264_SLICE[kind[which]]
        of_slices, slices = units.packet[which[is_slice]], kind[which[is_slice]]
        has_slice = _some(count, of_slices)
        is_start = _some(count, of_slices[slices == _H264_IDR])
        is_droppable = ~_some(count, units.packet[~_CODECS["h264"].harmless[kind]]) & ~is_start
        layer = np.zeros(count, np.int64)
        layer[of_slices[::-1]] = ((header[which[is_slice]] >> 5) & 3)[::-1]
        is_reference = ~has_slice | _some(count, of_slices[(header[which[is_slice]] & 0x60) != 0]) | ~is_droppable
        self._check_pictures(units, kind, which, units.byte(1))
        if bool((kind[which] == _H264_PARTITION).any()):
            self._fault = "slices in parts"
        for number in self._find_recovery_points(data, units, kind, has_slice & ~is_start):
            is_start[number] = True
        return is_start, is_reference, layer

    def _find_recovery_points(
        self, data: ByteArray, units: _Units, kind: ByteArray, is_asked: BoolArray
    ) -> Iterator[int]:
        """Yield those of some packets whose first recovery point is exact at once."""
        which = (kind == _H264_SEI).nonzero()[0]
        if not len(which):
            return
        message, size = units.byte(1)[which], units.byte(2)[which].astype(np.int64)
        # One short message, its end, and room for one byte against emulated start codes: plainly no recovery point.
        is_short = (size != _MORE_NUMBER) & (units.length[which] - 3 - size <= 2)
        unknown = which[~is_short | (message == _RECOVERY_POINT) | (message == _MORE_NUMBER)]
        if not len(unknown):
            return
        slices = _H264_SLICE[kind].nonzero()[0]
        first_slice = np.full(len(is_asked), len(kind))
        first_slice[units.packet[slices][::-1]] = slices[::-1]
        if bool((unknown > first_slice[units.packet[unknown]]).any()):
            self._fault = "messages behind a slice"
        found: set[int] = set()
        unknown = unknown[is_asked[units.packet[unknown]]]
        columns = (column[unknown].tolist() for column in (units.packet, units.at, units.length))
        for packet, at, length in zip(*columns, strict=True):
            frames = None if packet in found else recovery_frames(data[at + 1 : at + min(length, SEI_LIMIT)].tobytes())
            if frames is not None:
                found.add(packet)
                if frames == 0:
                    yield packet

    def _hevc(self, units: _Units, kind: ByteArray, which: IntArray, count: int) -> tuple[npt.NDArray[Any], ...]:
        header, second = units.byte(0), units.byte(1)
        if bool(((header & 1) | (second >> 3)).any()):
            self._fault = "pictures of several layers"
        of_slices, slices = units.packet[which], kind[which]
        has_slice = _some(count, of_slices)
        layer = np.zeros(count, np.int64)
        layered = which[units.length[which] > 1]
        layer[units.packet[layered]] = (second[layered] & 7).astype(np.int64) - 1
        is_droppable = ~_some(count, units.packet[~_CODECS["hevc"].harmless[kind]])
        is_start = _some(count, of_slices[_HEVC_IRAP[slices]])
        is_reference = ~has_slice | _some(count, of_slices[_HEVC_REFERENCE[slices]]) | ~is_droppable
        self._check_pictures(units, kind, which, units.byte(2))
        return is_start, is_reference, layer

    def _find_messages(self, units: _Units, kind: ByteArray, count: int) -> BoolArray:
        which = self._codec.messages[kind].nonzero()[0]
        if not len(which):
            return np.zeros(count, bool)
        header = self._codec.header_bytes
        message, size = units.byte(header)[which], units.byte(header + 1)[which].astype(np.int64)
        # One short message, its end, and room for one byte against emulated start codes.
        is_known = (size != _MORE_NUMBER) & (units.length[which] - header - 2 - size <= 2) & ~_SHOWING[message]
        return _some(count, units.packet[which[~is_known]])

    def _check_pictures(self, units: _Units, kind: ByteArray, which: IntArray, begin: ByteArray) -> None:
        """Note whether in each packet with slices just one begins a picture, the first, and all are of one type."""
        of_slices, slices = units.packet[which], kind[which]
        count = int(of_slices.max()) + 1 if len(of_slices) else 0
        first = np.zeros(count, np.uint8)
        first[of_slices[::-1]] = slices[::-1]
        begins = np.bincount(of_slices[begin[which] >= _BEGINS_PICTURE], minlength=count)
        has_slice = np.bincount(of_slices, minlength=count) > 0
        is_alike = bool((first[of_slices] == slices).all())
        self._is_plain = self._is_plain and is_alike and bool((begins == has_slice).all())
        if self._codec.name == "h264" and bool(((slices == _H264_IDR) & (first[of_slices] != _H264_IDR)).any()):
            self._fault = "slices in no usual order"

    def facts(self, order: IntArray | None = None) -> UnitFacts:
        """Give what was found.

        Args:
            order: Number of each packet in demuxing order, where they came in another one.
        """
        columns = [np.concatenate(column) for column in zip(*(self._columns or [_NO_COLUMNS]), strict=True)]
        back: Any = slice(None) if order is None else order.argsort()
        columns = [column[back] for column in columns]
        slice_kind, head, head_bytes, is_start, is_reference, layer, has_end, has_unknown = columns
        numbers = self._sets if order is None else {unit: int(order[at]) for unit, at in self._sets.items()}
        return UnitFacts(
            slice_kind=slice_kind,
            head=head,
            head_bytes=np.minimum(head_bytes, HEAD_BYTES),
            is_start=is_start,
            is_reference=is_reference,
            layer=layer,
            has_sub_layers=self._codec.name == "hevc",
            has_unknown_messages=has_unknown,
            has_end=has_end,
            kinds=self._kinds,
            is_plain=self._is_plain,
            fault=self._fault,
            parameter_sets=tuple(sorted(numbers, key=numbers.__getitem__)),
        )


def _some(count: int, packet: IntArray) -> BoolArray:
    """Mark the packets that are named, bool [count]."""
    marked = np.zeros(count, bool)
    marked[packet] = True
    return marked


def _unit_places(packet: bytes, size: int) -> Iterator[int]:
    """Yield where the lengths of units stand, one by one."""
    at = 0
    while at + size < len(packet):
        stop = at + size + int.from_bytes(packet[at : at + size], "big")
        if at + size < stop <= len(packet):
            yield at
        at = stop
