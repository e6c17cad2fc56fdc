"""Read the NAL unit headers, and the first slice of each packet, of many packets at once by NumPy.

The facts are those that `framefeed.bitstreams._nal` reads of one packet.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, ByteArray, IntArray, WordArray
from framefeed._values import UnitFacts
from framefeed.bitstreams._codecs import UnitTypes
from framefeed.bitstreams._nal import (
    HEVC_FIRST_IRAP,
    HEVC_LAST_IRAP,
    MAX_PARAMETER_SETS,
    SEI_LIMIT,
    TURNING,
    find_recovery_frames,
)

HEAD_BYTES = 64
"""Bytes of a slice behind its NAL unit header: long tables of weights fit."""
BLOCK_PADDING = HEAD_BYTES + 16
"""Zero bytes that a block must have behind its packets."""
_WORD, _FIRST_BYTES = 8, 4
_HEAD = np.dtype(f"V{HEAD_BYTES}")
_MAX_STEPS = 4096
"""NAL units of one packet that NumPy steps through; further ones are read one by one."""
BEGINS_PICTURE = 128
"""First bit of a slice header: its first macroblock, or segment, is the picture's."""
_RECOVERY_POINT = 6
_H264_IDR, _H264_PARTITION = 5, 2
_MORE_NUMBER = 255
"""Byte of a message's kind or size that continues in the next byte."""


class _Units(NamedTuple):
    """The NAL units of a block, columns of length U; those of one packet in their order."""

    packet: IntArray  # number of the packet within the block, int64
    at: IntArray  # offset of the unit in the block, int64
    length: IntArray  # bytes, int64
    first: ByteArray  # the first four bytes, of which some may be the next unit's, uint8 [U, 4]


class _Slices(NamedTuple):
    """The slices of a block."""

    unit: IntArray  # numbers of their NAL units, int64 [S]
    packet: IntArray  # numbers of their packets, int64 [S]
    kind: IntArray  # types of their NAL units, int64 [S]
    first: IntArray  # number of the first slice's NAL unit of each packet, int64 [P]; -1 if there is none
    without: IntArray  # numbers of packets without slices


class _Messages(NamedTuple):
    """Units of messages of a block, columns of length M."""

    unit: IntArray  # numbers of the NAL units, int64
    kind: IntArray  # first byte of the first message's type, int64
    is_short: BoolArray  # it is plainly one message, bool


def make_table(some: Iterable[int]) -> BoolArray:
    """Make a table of NAL unit types from some of them, bool [64]."""
    table = np.zeros(64, bool)
    table[sorted(some)] = True
    return table


_BYTES = np.arange(256)


class _Tables(NamedTuple):
    """The unit types of a codec for look-ups by NumPy."""

    types: UnitTypes  # the same as values
    kinds: IntArray  # type by a unit's first byte, int64 [256]
    slices: BoolArray  # whether a type is a slice, bool [64]
    messages: BoolArray  # whether a type holds messages, bool [64]

    @classmethod
    def of(cls, codec: str) -> _Tables:
        types = UnitTypes.of(codec)
        kinds = _BYTES >> types.shift & types.mask
        return cls(types, kinds, make_table(types.slices), make_table(types.messages))


_make_tables = cache(_Tables.of)
_H264_REFERENCE = _BYTES >> 5 & 3
"""nal_ref_idc by a NAL unit's first byte."""
_H264_IDRS = make_table((_H264_IDR,))
_HEVC_IRAP = make_table(range(HEVC_FIRST_IRAP, HEVC_LAST_IRAP + 1))
_HEVC_REFERENCE = make_table(kind for kind in range(32) if kind >= 16 or kind % 2)
_NO_INTEGERS, _NO_FLAGS = np.zeros(0, np.int64), np.zeros(0, bool)
_NO_UNITS = [(_NO_INTEGERS, _NO_INTEGERS, np.zeros(0, np.uint64))]
_NO_MESSAGES = _Messages(_NO_INTEGERS, _NO_INTEGERS, _NO_FLAGS)
_SHOWING = np.isin(np.arange(256), [*TURNING, _MORE_NUMBER])
_RECOVERING = np.isin(np.arange(256), [_RECOVERY_POINT, _MORE_NUMBER])


class UnitWalk:
    """Reads packets in blocks.

    Args:
        codec: "h264" or "hevc".
        length_size: Bytes of the length before each NAL unit; 0 for start codes.
    """

    def __init__(self, codec: str, length_size: int) -> None:
        self._is_h264 = codec == "h264"
        self._tables = _make_tables(codec)
        self._length_size = length_size
        self._columns: list[tuple[npt.NDArray[Any], ...]] = []
        self._kinds: set[int] = set()
        self._is_plain = True
        self._fault = ""
        self._sets: dict[bytes, int] = {}
        self._count = 0

    def block(self, data: ByteArray, begin: IntArray, end: IntArray) -> None:
        """Read the next packets.

        ``data``: their bytes, and BLOCK_PADDING zeros.
        ``begin``: offset of each packet, ascending.
        """
        # Eight bytes from any offset on as one number: the length and the unit's first bytes in one look-up.
        words = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        if self._length_size:
            units = self._split_by_length(words, data, begin, end)
        else:
            units = self._split_by_start_code(words, data, begin, end)
        if len(units.at):
            self._columns.append(self._describe_block(data, units, len(begin)))
        else:
            self._columns.append(_describe_empty(len(begin)))
        self._count += len(begin)

    def _describe_block(self, data: ByteArray, units: _Units, count: int) -> tuple[npt.NDArray[Any], ...]:
        tables, types = self._tables, self._tables.types
        kind = tables.kinds[units.first[:, 0]]
        present = set(np.bincount(kind).nonzero()[0].tolist())
        self._kinds |= present
        if sets := present & types.parameters:
            self._read_sets(data, units, make_table(sets)[kind].nonzero()[0])
        unit = tables.slices[kind].nonzero()[0]
        packet = units.packet[unit]
        first = np.full(count, -1)
        first[packet[::-1]] = unit[::-1]  # the last to be assigned remains
        slices = _Slices(unit, packet, kind[unit], first, (first < 0).nonzero()[0])
        messages = _find_messages(units, tables.messages[kind].nonzero()[0], types.header_bytes)
        slice_kind, head, head_bytes = _collect_heads(data, units, slices, kind, types.header_bytes)
        if self._is_h264:
            is_start, is_reference, layer = self._describe_h264(data, units, slices, messages)
        else:
            is_start, is_reference, layer = self._describe_hevc(units, slices)
        self._check_pictures(slices, slice_kind, units.first[:, types.header_bytes])
        is_reference[slices.without] = True
        if harmful := present - types.harmless:
            is_reference[units.packet[make_table(harmful)[kind]]] = True
        has_end, has_unknown_messages = np.zeros(count, bool), np.zeros(count, bool)
        if ends := present.intersection(types.ends):
            has_end[units.packet[make_table(ends)[kind]]] = True
        if len(messages.unit):
            unknown = ~messages.is_short | _SHOWING[messages.kind]
            has_unknown_messages[units.packet[messages.unit[unknown]]] = True
        return slice_kind, head, head_bytes, is_start, is_reference, layer, has_end, has_unknown_messages

    def _split_by_length(self, words: WordArray, data: ByteArray, begin: IntArray, end: IntArray) -> _Units:
        """Step through the k-th unit of all packets."""
        size, shift = self._length_size, np.uint64(64 - 8 * self._length_size)
        at, packet = begin, np.arange(len(begin))
        parts: list[tuple[IntArray, IntArray, WordArray]] = []
        for _ in range(_MAX_STEPS):
            active = at + size < end
            left = np.count_nonzero(active)
            if left < len(at):
                # Packets end with their last unit: there are no bytes behind it.
                self._is_plain = self._is_plain and np.count_nonzero(at < end) == left
                packet, at, end = packet[active], at[active], end[active]
            if not left:
                break
            word = words[at].astype(np.uint64)
            unit = at + size
            at = unit + (word >> shift).view(np.int64)
            fits = (at > unit) & (at <= end)
            if np.count_nonzero(fits) == left:
                parts.append((packet, unit, word))
            else:
                self._is_plain = False
                parts.append((packet[fits], unit[fits], word[fits]))
        else:
            parts += self._split_rest(words, data, packet, at, end)
        packet, at, word = (np.concatenate(column) for column in zip(*(parts or _NO_UNITS), strict=True))
        return _Units(packet, at, (word >> shift).view(np.int64), _view_bytes(word)[:, size : size + _FIRST_BYTES])

    def _split_rest(
        self, words: WordArray, data: ByteArray, packet: IntArray, at: IntArray, end: IntArray
    ) -> list[tuple[IntArray, IntArray, WordArray]]:
        """Read the rest of packets of very many units one by one; such packets are not plain."""
        self._is_plain, size = False, self._length_size
        parts: list[tuple[IntArray, IntArray, WordArray]] = []
        for number, start, stop in zip(packet.tolist(), at.tolist(), end.tolist(), strict=True):
            rest, offset, offsets = data[start:stop].tobytes(), 0, list[int]()
            while offset + size < len(rest):
                after = offset + size + int.from_bytes(rest[offset : offset + size], "big")
                if offset + size < after <= len(rest):
                    offsets.append(offset)
                offset = after
            unit = np.array(offsets, np.int64) + (start + size)
            parts.append((np.full(len(unit), number), unit, words[unit - size].astype(np.uint64)))
        return parts

    def _split_by_start_code(self, words: WordArray, data: ByteArray, begin: IntArray, end: IntArray) -> _Units:
        """Find all start codes of the block, and the packets they lie in."""
        ones = (data[2 : int(end[-1])] == 1).nonzero()[0]
        code = ones[(data[ones] | data[ones + 1]) == 0]
        packet = begin.searchsorted(code, side="right") - 1
        # Start codes across the border of two packets do not count.
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
        return _Units(packet, at, stop[filled] - at, _view_bytes(words[at])[:, :_FIRST_BYTES])

    def _read_sets(self, data: ByteArray, units: _Units, which: IntArray) -> None:
        which = which[units.packet[which].argsort(kind="stable")]
        for number in which.tolist():
            at = int(units.at[number])
            unit = data[at : at + int(units.length[number])].tobytes()
            if len(self._sets) < MAX_PARAMETER_SETS:
                self._sets.setdefault(unit, self._count + int(units.packet[number]))

    def _describe_h264(
        self, data: ByteArray, units: _Units, slices: _Slices, messages: _Messages
    ) -> tuple[BoolArray, BoolArray, IntArray]:
        """Find where decoding can start, to which pictures others refer, and their nal_ref_idc."""
        count, reference = len(slices.first), _H264_REFERENCE[units.first[:, 0]]
        layer = reference[slices.first]
        layer[slices.without] = 0
        is_start = _mark_packets(count, slices.packet[_H264_IDRS[slices.kind]])
        is_reference = _mark_packets(count, slices.packet[reference[slices.unit] > 0]) | is_start
        if _H264_PARTITION in self._kinds:
            self._fault = "slices in parts"
        if len(messages.unit):
            is_start[self._find_recovery_points(data, units, slices, messages, is_start)] = True
        return is_start, is_reference, layer

    def _find_recovery_points(
        self, data: ByteArray, units: _Units, slices: _Slices, messages: _Messages, is_start: BoolArray
    ) -> list[int]:
        """List the packets with a slice whose first recovery point is exact at once."""
        # One short message of another kind is no recovery point.
        unknown = messages.unit[~messages.is_short | _RECOVERING[messages.kind]]
        packets = units.packet[unknown]
        first = slices.first[packets]
        if np.count_nonzero((unknown > first) & (first >= 0)):
            self._fault = "messages behind a slice"
        unknown = unknown[~is_start[packets] & (first >= 0)]
        if not len(unknown):
            return []
        exact: list[int] = []
        done: set[int] = set()
        columns = (column[unknown].tolist() for column in (units.packet, units.at, units.length))
        for packet, at, length in zip(*columns, strict=True):
            frames = (
                None if packet in done else find_recovery_frames(data[at + 1 : at + min(length, SEI_LIMIT)].tobytes())
            )
            if frames is not None:
                done.add(packet)
                if frames == 0:
                    exact.append(packet)
        return exact

    def _describe_hevc(self, units: _Units, slices: _Slices) -> tuple[BoolArray, BoolArray, IntArray]:
        """Find where decoding can start, to which pictures others refer, and their sub-layers."""
        count, second = len(slices.first), units.first[:, 1]
        if np.count_nonzero((units.first[:, 0] & 1) | (second >> 3)):
            self._fault = "pictures of several layers"
        layer = np.zeros(count, np.int64)
        layered = slices.unit[units.length[slices.unit] > 1]
        layer[units.packet[layered]] = (second[layered] & 7).astype(np.int64) - 1
        is_start = _mark_packets(count, slices.packet[_HEVC_IRAP[slices.kind]])
        is_reference = _mark_packets(count, slices.packet[_HEVC_REFERENCE[slices.kind]])
        return is_start, is_reference, layer

    def _check_pictures(self, slices: _Slices, first_kind: IntArray, begin: ByteArray) -> None:
        """Note whether in each packet with slices just one begins a picture, and all are of one type."""
        begins = slices.packet[begin[slices.unit] >= BEGINS_PICTURE]
        pictures = len(slices.first) - len(slices.without)
        self._is_plain = self._is_plain and len(begins) == pictures
        if len(slices.unit) == pictures:
            return
        first = first_kind[slices.packet]
        self._is_plain = self._is_plain and np.count_nonzero(np.bincount(begins)) == pictures
        self._is_plain = self._is_plain and np.count_nonzero(first != slices.kind) == 0
        if self._is_h264 and bool(((slices.kind == _H264_IDR) & (first != _H264_IDR)).any()):
            self._fault = "slices in no usual order"

    def facts(self, order: IntArray | None = None) -> UnitFacts:
        """Join the facts of all blocks.

        Args:
            order: Number of each packet in demuxing order, if they were read in another one.
        """
        columns: Iterable[npt.NDArray[Any]] = self._columns[0] if self._columns else _describe_empty(0)
        if len(self._columns) > 1:
            columns = map(np.concatenate, zip(*self._columns, strict=True))
        if order is not None:
            back = order.argsort()
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
            has_sub_layers=not self._is_h264,
            has_unknown_messages=has_unknown,
            has_end=has_end,
            kinds=frozenset(self._kinds),
            is_plain=self._is_plain,
            fault=self._fault,
            parameter_sets=tuple(sorted(numbers, key=numbers.__getitem__)),
        )


def _view_bytes(word: WordArray) -> ByteArray:
    """View the bytes of big-endian numbers, uint8 [U, 8]."""
    return word.astype(">u8").view(np.uint8).reshape(-1, _WORD)


def _find_messages(units: _Units, which: IntArray, header: int) -> _Messages:
    if not len(which):
        return _NO_MESSAGES
    first = units.first[which].astype(np.int64)
    size = first[:, header + 1]
    # One short message, its end, and room for one byte against emulated start codes.
    is_short = (size != _MORE_NUMBER) & (units.length[which] - size <= header + 2 + 2)
    return _Messages(which, first[:, header], is_short)


def _collect_heads(
    data: ByteArray, units: _Units, slices: _Slices, kind: IntArray, header_bytes: int
) -> tuple[IntArray, ByteArray, IntArray]:
    """Collect type, bytes and length of the first slice of each packet."""
    heads = np.ndarray((len(data) - HEAD_BYTES + 1,), _HEAD, data, strides=(1,))
    head = heads[units.at[slices.first] + header_bytes].view(np.uint8).reshape(-1, HEAD_BYTES)
    first_kind, length = kind[slices.first], units.length[slices.first] - header_bytes
    first_kind[slices.without], length[slices.without] = -1, 0
    return first_kind, head, length


def _describe_empty(count: int) -> tuple[npt.NDArray[Any], ...]:
    """Describe packets that hold no NAL unit."""
    none, no_flag = np.zeros(count, np.int64), np.zeros(count, bool)
    return none - 1, np.zeros((count, HEAD_BYTES), np.uint8), none, no_flag, ~no_flag, none, no_flag, no_flag


def _mark_packets(count: int, packet: IntArray) -> BoolArray:
    """Mark the packets that are named, bool [count]."""
    marked = np.zeros(count, bool)
    marked[packet] = True
    return marked
