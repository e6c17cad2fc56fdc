"""NAL unit headers of all packets at once: what `h264_facts` and `hevc_facts` find, gathered by NumPy.

Files are read in blocks, never mapped: one that gets shorter meanwhile must not end the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.mp4.samples import BoolArray, IntArray
from framefeed.media.nal import (
    H264_HARMLESS,
    H264_PARAMETERS,
    H264_SLICES,
    HEVC_FIRST_IRAP,
    HEVC_HARMLESS,
    HEVC_LAST_IRAP,
    HEVC_PARAMETERS,
    h264_facts,
)
from framefeed.media.source import ByteReader, read_bytes

ByteArray = npt.NDArray[np.uint8]
AnyArray = npt.NDArray[Any]

BLOCK_BYTES = 2**20
"""Read at once: fits the cache of a core, so that reading costs one pass over memory."""
_MAX_GAP = 32 * 1024
"""Bytes of other tracks that are read along rather than skipped."""
_PADDING = 8
_MAX_UNITS = 4096
"""NAL units of one packet."""
_SEI = 6
_RECOVERY_POINT = 6


@dataclass(frozen=True, slots=True)
class NalFacts:
    """What the NAL unit headers of packets say, columns of length P.

    Attributes:
        is_key: Decoding can start at the packet, bool.
        is_reference: Other pictures of its own temporal layer may refer to it, or leaving it out loses more, bool.
        temporal_id: HEVC's temporal sub-layer, int64.
        has_parameters: Some packet carries parameter sets.
        is_plain: Each packet is one picture in whole NAL units.
    """

    is_key: BoolArray
    is_reference: BoolArray
    temporal_id: IntArray
    has_parameters: bool
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets in decode order: byte position and size, int64 [P], and what the container calls a key frame, bool."""

    offset: IntArray
    size: IntArray
    is_sync: BoolArray


@dataclass(slots=True)
class _Seen:
    """Sums over the NAL units of each packet."""

    kinds: npt.NDArray[np.uint64]
    first_slice: npt.NDArray[np.uint8]
    is_reference: BoolArray
    temporal_id: npt.NDArray[np.int16]
    pictures: npt.NDArray[np.uint8]
    has_message: BoolArray
    is_whole: bool = True
    late_message: bool = False

    @classmethod
    def of(cls, count: int) -> _Seen:
        flags, small = np.zeros((2, count), bool), np.zeros((2, count), np.uint8)
        layers = np.zeros(count, np.int16)
        return cls(np.zeros(count, np.uint64), small[0] + 255, flags[0], layers, small[1], flags[1])


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
    if length_size not in (1, 2, 4):
        raise OddMovie(f"NAL units with lengths of {length_size} bytes")
    offset, size = packets.offset, packets.size
    end = offset + size
    scan = _Scan(codec, length_size, _Seen.of(len(size)))
    order = np.arange(len(size))
    if bool((np.diff(offset) < 0).any()):
        order = np.argsort(offset, kind="stable")
    for first, stop in _blocks(offset[order], end[order]):
        numbers = order[first:stop]
        begin = int(offset[numbers[0]])
        data = _read(reader, begin, int(end[numbers].max()))
        scan.block(data, numbers, offset[numbers] - begin, end[numbers] - begin)
    if codec == "h264":
        return _h264(scan.seen, _recovery_points(reader, scan, packets))
    return _hevc(scan.seen, packets.is_sync)


def _blocks(begins: IntArray, ends: IntArray) -> Iterator[tuple[int, int]]:
    """Split packets, sorted by place, into runs that are read at once."""
    gaps = np.flatnonzero(begins[1:] - ends[:-1] > _MAX_GAP) + 1
    breaks = [*gaps.tolist(), len(begins)]
    first = 0
    for stop in breaks:
        while first < stop:
            last = int(np.searchsorted(ends[first:stop], begins[first] + BLOCK_BYTES, side="right")) + first
            last = max(last, first + 1)
            yield first, last
            first = last


def _read(reader: ByteReader, begin: int, end: int) -> ByteArray:
    buffer = np.empty(end - begin + _PADDING, np.uint8)
    if reader.read_into(buffer.data[: end - begin], begin) != end - begin:
        raise OddMovie("a file that got shorter")
    buffer[end - begin :] = 0
    return buffer


class _Scan:
    """Steps through the k-th NAL unit of all packets of a block."""

    def __init__(self, codec: str, length_size: int, seen: _Seen) -> None:
        self.seen = seen
        self.length_size = length_size
        self._unit = self._h264_units if codec == "h264" else self._hevc_units

    def block(self, data: ByteArray, numbers: IntArray, at: IntArray, end: IntArray) -> None:
        """Look at packets ``numbers``, which lie in ``data`` from ``at`` to ``end``."""
        for _ in range(_MAX_UNITS):
            active = at + self.length_size < end
            if not active.all():
                self.seen.is_whole = self.seen.is_whole and bool((at >= end)[~active].all())
                numbers, at, end = numbers[active], at[active], end[active]
            if not len(numbers):
                return
            length = self._lengths(data, at)
            at = at + self.length_size
            fits = (length > 0) & (at + length <= end)
            if fits.all():
                self._unit(data, numbers, at, length)
            else:
                self.seen.is_whole = False
                self._unit(data, numbers[fits], at[fits], length[fits])
            at = at + length
        raise OddMovie("packets of too many NAL units")

    def _lengths(self, data: ByteArray, at: IntArray) -> IntArray:
        length = data[at].astype(np.int64)
        for place in range(1, self.length_size):
            length = (length << 8) | data[at + place]
        return length

    def _h264_units(self, data: ByteArray, numbers: IntArray, at: IntArray, length: IntArray) -> None:
        seen, header = self.seen, data[at]
        kind = header & 31
        seen.kinds[numbers] |= np.uint64(1) << kind.astype(np.uint64)
        is_slice = (kind == 1) | (kind == 5) | (kind == 2)
        self._messages(data, numbers, at, length, kind)
        if not is_slice.all():
            numbers, at, kind, header = numbers[is_slice], at[is_slice], kind[is_slice], header[is_slice]
        seen.is_reference[numbers] |= (header & 0x60) != 0
        self._slices(numbers, kind, data[at + 1])

    def _messages(self, data: ByteArray, numbers: IntArray, at: IntArray, length: IntArray, kind: AnyArray) -> None:
        """Note packets in which a recovery point may lie: any message unit that is not plainly one other message."""
        which = np.flatnonzero(kind == _SEI)
        if not len(which):
            return
        seen, numbers, at, length = self.seen, numbers[which], at[which], length[which]
        message, payload = data[at + 1], data[at + 2].astype(np.int64)
        # One short message, its end, and room for one byte against emulated start codes.
        is_other = (message != _RECOVERY_POINT) & (message != 255) & (payload != 255) & (length - 3 - payload <= 2)
        unknown = numbers[~is_other]
        seen.has_message[unknown] = True
        seen.late_message = seen.late_message or bool((seen.first_slice[unknown] != 255).any())

    def _hevc_units(self, data: ByteArray, numbers: IntArray, at: IntArray, length: IntArray) -> None:
        seen = self.seen
        kind = (data[at] >> 1) & 63
        seen.kinds[numbers] |= np.uint64(1) << kind.astype(np.uint64)
        is_slice = kind < 32
        layers = is_slice & (length > 1)
        second = data[at + 1]
        seen.temporal_id[numbers[layers]] = (second[layers] & 7).astype(np.int16) - 1
        if bool(((second >> 3 | (data[at] & 1) << 5) != 0).any()):
            raise OddMovie("pictures of several layers")
        if not is_slice.all():
            numbers, at, kind = numbers[is_slice], at[is_slice], kind[is_slice]
        self._slices(numbers, kind, data[at + 2])

    def _slices(self, numbers: IntArray, kind: AnyArray, begin: ByteArray) -> None:
        """Note the first slice's kind, and count the pictures: a slice that begins one has its first bit set."""
        seen = self.seen
        is_first = seen.first_slice[numbers] == 255
        seen.first_slice[numbers[is_first]] = kind[is_first]
        seen.pictures[numbers] += begin >> 7


def _bits(kinds: frozenset[int]) -> np.uint64:
    return np.uint64(sum(1 << kind for kind in kinds))


_ONE = np.uint64(1)
_IDR = 5


def _recovery_points(reader: ByteReader, scan: _Scan, packets: Packets) -> BoolArray:
    """Find the packets, other than IDR pictures, that hold a recovery point of no frames."""
    offset, size = packets.offset, packets.size
    found = np.zeros(len(size), bool)
    for number in np.flatnonzero(scan.seen.has_message & (scan.seen.first_slice != _IDR)).tolist():
        facts = h264_facts(read_bytes(reader, int(offset[number]), int(size[number])), scan.length_size)
        found[number] = facts is not None and facts.is_random_access
    return found


def _h264(seen: _Seen, recovers: BoolArray) -> NalFacts:
    kinds = seen.kinds
    has_slice = (kinds & _bits(H264_SLICES)) != 0
    is_idr = (kinds & (_ONE << np.uint64(_IDR))) != 0
    # libav's parser ends at the first slice, and knows no partitions.
    if bool((is_idr & (seen.first_slice != _IDR)).any()) or bool((kinds & np.uint64(4)).any()) or seen.late_message:
        raise OddMovie("slices or messages in no usual order")
    is_droppable = ((kinds & ~_bits(H264_SLICES | H264_HARMLESS)) == 0) & ~is_idr
    return NalFacts(
        is_key=is_idr | recovers,
        is_reference=~has_slice | seen.is_reference | ~is_droppable,
        temporal_id=np.zeros(len(kinds), np.int64),
        has_parameters=bool(((kinds & _bits(H264_PARAMETERS)) != 0)[has_slice].any()),
        is_plain=seen.is_whole and bool((seen.pictures == 1).all()),
    )


def _hevc(seen: _Seen, is_sync: BoolArray) -> NalFacts:
    kinds = seen.kinds
    slices = kinds & np.uint64(2**32 - 1)
    has_slice = slices != 0
    is_irap = (slices & _bits(frozenset(range(HEVC_FIRST_IRAP, HEVC_LAST_IRAP + 1)))) != 0
    references = frozenset(kind for kind in range(32) if kind >= 16 or kind % 2)
    is_reference = (slices & _bits(references)) != 0
    is_droppable = ((kinds ^ slices) & ~_bits(HEVC_HARMLESS)) == 0
    return NalFacts(
        is_key=is_sync & (is_irap | ~has_slice),
        is_reference=~has_slice | is_reference | ~is_droppable,
        temporal_id=np.where(has_slice, seen.temporal_id, 0).astype(np.int64),
        has_parameters=bool(((kinds & _bits(HEVC_PARAMETERS)) != 0)[has_slice].any()),
        is_plain=seen.is_whole and bool((seen.pictures == 1).all()),
    )
