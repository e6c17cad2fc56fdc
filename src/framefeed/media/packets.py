"""The packet walk: every packet of a stream, in demuxing order, without decoding one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.media.container import Packet, VideoContainer
from framefeed.media.limits import limit_exceeded
from framefeed.media.nal import ParameterSets, PictureFacts, h264_facts, hevc_facts, nal_length_size, nal_units
from framefeed.media.source import ByteReader

MISSING_PTS = int(np.iinfo(np.int64).min)
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Inspect = Callable[[bytes], PictureFacts | None]


@dataclass(frozen=True, slots=True)
class PacketWalk:
    """What a demuxer says of one stream's packets, columns of length P in demuxing order.

    Attributes:
        offset: Byte position in the file, int64; -1 where unknown.
        size: Bytes, int64.
        pts: Presentation time in ticks, int64; ``MISSING_PTS`` where unknown.
        duration: In ticks, int64; 0 where unknown.
        is_key: Decoding can start here, as far as container and NAL headers tell, bool.
        is_discarded: Decoded but never shown, bool.
        is_disposable: No other picture refers to it, and it holds nothing else, bool.
        is_contiguous: Each packet's bytes are those of the file at its offset, and one configuration serves all.
        is_encrypted: Some packet is encrypted.
        parameter_sets: Distinct ones that packets carry, in the order met, at most ``MAX_PARAMETER_SETS``.
    """

    offset: IntArray
    size: IntArray
    pts: IntArray
    duration: IntArray
    is_key: BoolArray
    is_discarded: BoolArray
    is_disposable: BoolArray
    is_contiguous: bool
    is_encrypted: bool
    parameter_sets: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def has_unique_times(self) -> bool:
        """Whether every packet has a pts and no two share one."""
        times = np.sort(self.pts)
        return not len(self) or (times[0] != MISSING_PTS and bool((times[1:] != times[:-1]).all()))


@dataclass(slots=True)
class _Columns:
    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    pts: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    is_key: list[bool] = field(default_factory=list)
    is_discarded: list[bool] = field(default_factory=list)
    is_reference: list[bool] = field(default_factory=list)
    temporal_id: list[int] = field(default_factory=list)

    def add(self, packet: Packet, facts: PictureFacts | None) -> None:
        self.offset.append(-1 if packet.pos is None else packet.pos)
        self.size.append(packet.size)
        self.pts.append(MISSING_PTS if packet.pts is None else packet.pts)
        self.duration.append(packet.duration or 0)
        # What the container calls a key frame may be none, and a recovery point may need more frames to become
        # exact (M14): the picture itself must say that decoding can start at it.
        self.is_key.append(bool(packet.is_keyframe) and (facts is None or facts.is_random_access))
        self.is_discarded.append(bool(packet.is_discard))
        self.is_reference.append(facts is None or facts.is_reference or not facts.is_droppable)
        self.temporal_id.append(facts.temporal_id if facts is not None else 0)


def walk_packets(container: VideoContainer) -> PacketWalk:
    """Demux the whole stream once.

    Raises:
        UnreadableMedia: The container breaks off in a way that libav reports as an error.
        LimitExceeded: More packets than the limits allow.
    """
    columns, limits = _Columns(), container.limits
    inspect = _inspector(container)
    sets, length_size = ParameterSets(container.codec_name), _length_size(container)
    contiguous = container.format_name.startswith("mov") and inspect is not None
    changes = encrypted = False
    with container.source.opened() as reader:
        for packet in container.packets():
            if len(columns.size) >= limits.max_packets:
                claim = f"at least {limits.max_packets + 1} packets"
                raise limit_exceeded(limits, "max_packets", claim, container.source.name, "index")
            data = bytes(packet) if inspect else b""
            facts = inspect(data) if inspect else None
            columns.add(packet, facts)
            if facts is not None and facts.has_parameters:
                for unit in nal_units(data, length_size):
                    sets.add(unit)
            contiguous = contiguous and _stands_in(reader, packet.pos, data)
            changes = changes or packet.has_sidedata("new_extradata")
            encrypted = encrypted or packet.has_sidedata("encryption_info")
    return _finished(columns, contiguous and not changes, encrypted, sets.found)


def _finished(columns: _Columns, contiguous: bool, encrypted: bool, parameter_sets: tuple[bytes, ...]) -> PacketWalk:
    temporal_id = np.array(columns.temporal_id, dtype=np.int64)
    # A picture of the highest sub-layer that its own sub-layer does not refer to is referred to by none.
    disposable = ~np.array(columns.is_reference, dtype=bool) & (temporal_id == temporal_id.max(initial=0))
    integers: Any = partial(np.array, dtype=np.int64)
    return PacketWalk(
        offset=integers(columns.offset),
        size=integers(columns.size),
        pts=integers(columns.pts),
        duration=integers(columns.duration),
        is_key=np.array(columns.is_key, dtype=bool),
        is_discarded=np.array(columns.is_discarded, dtype=bool),
        is_disposable=disposable,
        is_contiguous=contiguous,
        is_encrypted=encrypted,
        parameter_sets=parameter_sets,
    )


def _inspector(container: VideoContainer) -> Inspect | None:
    codec = container.codec_name
    if codec not in ("h264", "hevc"):
        return None
    read = h264_facts if codec == "h264" else hevc_facts
    return partial(read, length_size=_length_size(container))


def _length_size(container: VideoContainer) -> int:
    return nal_length_size(container.codec_name, container.stream.codec_context.extradata)


def _stands_in(reader: ByteReader, offset: int | None, data: bytes) -> bool:
    if offset is None or offset < 0:
        return False
    buffer = bytearray(len(data))
    return reader.read_into(memoryview(buffer), offset) == len(data) and buffer == data
