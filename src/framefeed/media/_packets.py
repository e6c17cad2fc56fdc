"""Walk the packets of a stream in demuxing order, without decoding; number the packets behind a seek (M09)."""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import (
    DISCARD,
    KEY,
    MISSING_PTS,
    PacketTable,
    PacketWalk,
    is_size_allowed,
    make_limit_error,
    make_size_error,
    read_bytes,
)
from framefeed.bitstreams import BLOCK_PADDING, UnitWalk, read_nal_length_size
from framefeed.errors import EmptyVideo, MediaError
from framefeed.media._container import Packet, VideoContainer
from framefeed.media._libav_errors import in_one_line

_BLOCK_BYTES = 2**21
_MOST_SPREAD = 4
"""Packets that span up to so many times their own bytes in the file are compared with it by one read."""
_BORDER = 255
"""Byte between packets, so that the end of one and the beginning of the next form no start code."""


class _BlockReader:
    """Compares packets with the file's bytes in blocks, and reads their NAL units, if the codec has such."""

    def __init__(self, container: VideoContainer) -> None:
        codec = container.codec_name
        self._walk: UnitWalk | None = None
        if container.codec.units is not None:
            self._walk = UnitWalk(codec, read_nal_length_size(codec, container.stream.codec_context.extradata))
        self._reader = container.reader
        self._data, self._begin, self._offsets = bytearray(), list[int](), list[int]()
        self.is_contiguous = container.format_name.startswith("mov")

    def add(self, batch: list[Packet]) -> None:
        for packet in batch:
            if self._data and len(self._data) + packet.size > _BLOCK_BYTES:
                self._read_block()
            self._begin.append(len(self._data))
            self._offsets.append(-1 if (offset := packet.pos) is None else offset)
            self._data += memoryview(packet)
            self._data.append(_BORDER)

    def _read_block(self) -> None:
        begin = np.array(self._begin, dtype=np.int64)
        end = np.append(begin[1:], len(self._data)) - 1
        self._data += bytes(BLOCK_PADDING)
        if self._walk is not None:
            self._walk.block(np.frombuffer(self._data, np.uint8), begin, end)
        self.is_contiguous = self.is_contiguous and self._is_as_in_file(begin, end)
        self._data, self._begin, self._offsets = bytearray(), [], []

    def _is_as_in_file(self, begin: IntArray, end: IntArray) -> bool:
        """Whether the packets of the block equal the file's bytes at their offsets."""
        offset = np.array(self._offsets, dtype=np.int64)
        if int(offset.min()) < 0:
            return False
        size, data = end - begin, bytes(self._data)
        if int((offset + size).max() - offset.min()) <= _MOST_SPREAD * len(data):
            first = int(offset.min())
            stored = read_bytes(self._reader, first, int((offset + size).max()) - first)
            columns = (begin, end, offset - first, offset - first + size)
            return all(data[a:b] == stored[c:d] for a, b, c, d in zip(*(x.tolist() for x in columns), strict=True))
        extents = zip(begin.tolist(), offset.tolist(), size.tolist(), strict=True)
        return all(data[at : at + count] == read_bytes(self._reader, start, count) for at, start, count in extents)

    def complete(self, walk: PacketWalk) -> PacketWalk:
        if self._begin:
            self._read_block()
        is_contiguous = self.is_contiguous and not walk.is_reconfigured
        if self._walk is None:
            return replace(walk, is_contiguous=is_contiguous)
        units = self._walk.facts()
        # A key frame of the container may be none, and a recovery point may become exact only after more frames (M14):
        # the picture itself must say that decoding can start at it.
        is_key = walk.packets.is_key & (units.is_start | ~units.has_slice)
        return replace(
            walk,
            packets=walk.packets.replace_flags(is_key, units.is_disposable),
            is_contiguous=is_contiguous,
            parameter_sets=units.parameter_sets,
            units=units,
        )


def walk_packets(
    container: VideoContainer,
    read: Callable[[memoryview], object] | None = None,
    take_first: Callable[[Packet], object] | None = None,
) -> PacketWalk:
    """Demux the whole stream once.

    Args:
        container: At its first packet.
        read: Called with the bytes of each packet.
        take_first: Called with the first packet, once it was read; it may change it.
    """
    offset, size, pts, duration = (array("q") for _ in range(4))
    flags, limits = bytearray(), container.limits
    is_damaged = is_reconfigured = is_encrypted = False
    has_files_bytes = container.codec.is_direct and container.format_name.startswith("mov")
    blocks = _BlockReader(container) if has_files_bytes or container.codec.units is not None else None
    for batch in container.batches():
        offset.extend([-1 if (position := packet.pos) is None else position for packet in batch])
        size.extend([packet.size for packet in batch])
        pts.extend([MISSING_PTS if (time := packet.pts) is None else time for packet in batch])
        duration.extend([packet.duration or 0 for packet in batch])
        flags += bytes([KEY * packet.is_keyframe | DISCARD * packet.is_discard for packet in batch])
        is_damaged = is_damaged or any(packet.is_corrupt for packet in batch)
        for packet in batch:
            # Most have none, and asking for one by its name takes longer than demuxing the packet.
            if next(packet.iter_sidedata(), None) is not None:
                is_reconfigured = is_reconfigured or packet.has_sidedata("new_extradata")
                is_encrypted = is_encrypted or packet.has_sidedata("encryption_info")
        if len(size) > limits.max_packets:
            claim = f"at least {limits.max_packets + 1} packets"
            raise make_limit_error(limits, "max_packets", claim, container.source.name, "index")
        if blocks is not None:
            blocks.add(batch)
        if read is not None:
            for packet in batch:
                read(memoryview(packet))
        if take_first is not None:
            take_first(batch[0])
            take_first = None
    walk = PacketWalk(
        PacketTable(np.array(offset), np.array(size), np.array(pts), np.array(flags)),
        np.array(duration),
        is_encrypted=is_encrypted,
        is_damaged=is_damaged,
        is_reconfigured=is_reconfigured,
    )
    return walk if blocks is None else blocks.complete(walk)


class MisplacedPacket(Exception):
    """A packet behind a seek is not the one that the table has there: the seek cannot be used."""


def demux_from(container: VideoContainer, table: PacketTable, start: int) -> Iterator[tuple[int, Packet]]:
    """Demux from packet ``start`` on; seek if the packets show that the seek ended at or before it.

    Raises:
        MisplacedPacket: Later, where a packet is not the one that the table has under its number.
    """
    if start and table.pts[start] != MISSING_PTS:
        landed = container.try_seek(int(table.pts[start]))
        numbered = number_after_seek(container.packets(), table.offset, table.size) if landed else None
        if numbered is not None and numbered[0] <= start:
            first, packets = numbered
            for number, packet in enumerate(packets, first):
                if number >= start:
                    yield number, packet
            return
    container.reopen()
    for number, packet in enumerate(container.packets()):
        if number >= start:
            yield number, packet


def number_after_seek(
    packets: Iterator[Packet], offsets: IntArray, sizes: IntArray
) -> tuple[int, Iterable[Packet]] | None:
    """Find the number of the first packet behind a seek, by offsets and sizes.

    Returns:
        The number and an iterator over all packets from it on, or None if the number is ambiguous. The iterator
        compares sizes, and raises MisplacedPacket if one differs.
    """
    seen: deque[Packet] = deque()
    candidates: IntArray | None = None
    for packet in packets:
        seen.append(packet)
        matches = np.flatnonzero((offsets == (-1 if packet.pos is None else packet.pos)) & (sizes == packet.size))
        matches = matches - (len(seen) - 1)
        candidates = matches if candidates is None else np.intersect1d(candidates, matches)
        if len(candidates) == 0:
            return None
        if len(candidates) == 1 and packet.pos is not None:
            return int(candidates[0]), _check_sizes(chain(seen, packets), int(candidates[0]), sizes)
    return None


def _check_sizes(packets: Iterable[Packet], first: int, sizes: IntArray) -> Iterator[Packet]:
    """Yield packets, and compare the size of each with the table's: damaged files may skip packets."""
    for number, packet in enumerate(packets, first):
        if number >= len(sizes) or packet.size != sizes[number]:
            raise MisplacedPacket(f"packet {number} has {packet.size} bytes")
        yield packet


# av_image_check_size2 of libavutil/imgutils.c: more than `max_pixels`, or more than any picture can have.
_TOO_LARGE = re.compile(r"Picture size (\d+)x(\d+) (?:exceeds specified max pixel count|is invalid)")


def make_empty_error(container: VideoContainer, stage: str) -> MediaError:
    """Build the error for a stream without any frame, from libav's log of decoding it."""
    source, log = container.source, in_one_line(container.log)
    size = container.too_large
    if size is None:
        # The first picture that libav refused as too large; it also refuses a size of 0.
        matches = filter(None, (_TOO_LARGE.search(message) for _, _, message in container.log))
        refused = ((int(match[1]), int(match[2])) for match in matches)
        size = next((one for one in refused if not is_size_allowed(container.limits, *one)), None)
    if size is not None:
        return make_size_error(container.limits, size, source.name, stage)
    return EmptyVideo(
        f"{source.name}: its video stream gives no frame{log and f' ({log})'}: copy or record the file again",
        source=source.name,
        stage=stage,
    )
