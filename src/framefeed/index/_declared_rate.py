"""Read the constant frame rate that a container or a bitstream declares; an estimate of libav is no declaration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction

import numpy as np

from framefeed._values import MISSING_PTS, ByteReader, PacketWalk, StreamColors, read_bytes
from framefeed.bitstreams import OddUnits, read_h264_sequence, read_hevc_sequence, split_configuration
from framefeed.media import VideoContainer

_RATE_CONTAINERS = ("avi", "ivf")
"""Containers whose header has a frame rate, which is also the unit of their times."""
_MICROSECONDS = 1_000_000
_MOST = 2**62
"""Largest numerator or denominator of a rate: both are stored as int64."""
_MOST_CHUNKS = 1024
"""Chunks of an AVI header: more than its 64 streams have."""
_MPEG_RATES = {
    code: Fraction(rate, 1001 if rate % 1000 == 0 and rate > 1000 else 1)
    for code, rate in enumerate((24_000, 24, 25, 30_000, 30, 50, 60_000, 60), 1)
}
"""ISO/IEC 13818-2, table 6-4; the codes behind these are reserved."""
_SEQUENCE, _EXTENSION = 0xB3, 0xB5
_SEQUENCE_EXTENSION, _PICTURE_EXTENSION = 1, 8


def has_clock(container: VideoContainer) -> bool:
    """Whether the container says how long a tick of its times lasts; libav makes up 25 a second where AVI does not."""
    return container.format_name != "avi" or _read_container_rate(container) is not None


def find_declared_rate(container: VideoContainer, walk: PacketWalk) -> Fraction | None:
    """Find the constant rate of frames that a stream declares; None where it declares none, or several.

    ``container``: stays where it is.
    """
    if container.format_name in _RATE_CONTAINERS:
        pts = walk.packets.pts
        known = np.sort(pts[pts != MISSING_PTS])
        # Packets mostly lie a tick apart, so that the rate of ticks is that of frames: IVF may have any clock.
        has_even_ticks = len(known) < 2 or float(np.median(known[1:] - known[:-1])) == 1
        if has_even_ticks and (container_rate := _read_container_rate(container)) is not None:
            return container_rate
    codec = container.codec_name
    rates = set[Fraction | None]()
    if (types := container.codec.units) is not None:
        configured = list[bytes]()
        with suppress(OddUnits):  # a damaged one declares nothing
            configured = split_configuration(codec, container.stream.codec_context.extradata or b"")
        for unit in [*configured, *walk.parameter_sets]:
            if types.find_type(unit) != types.sequence_set:
                continue
            try:
                sequence = read_h264_sequence(unit, StreamColors()) if codec == "h264" else read_hevc_sequence(unit)
                rates.add(sequence.frame_rate)
            except OddUnits:
                rates.add(None)
    elif codec in ("mpeg1video", "mpeg2video"):
        with VideoContainer(container.source, container.stream.index, container.limits) as again:
            rates = read_mpeg_rates(bytes(packet) for packet in again.packets())
    rate = rates.pop() if len(rates) == 1 else None
    return rate if rate is None or max(rate.as_integer_ratio()) <= _MOST else None


def _read_container_rate(container: VideoContainer) -> Fraction | None:
    with container.source.opened() as reader:
        if container.format_name == "avi":
            return read_avi_rate(reader, container.stream.index)
        header = read_bytes(reader, 0, 24)
        return _make_rate(int.from_bytes(header[16:20], "little"), int.from_bytes(header[20:24], "little"))


def _make_rate(above: int, below: int) -> Fraction | None:
    return Fraction(above, below) if above and below else None


def read_avi_rate(reader: ByteReader, stream_index: int) -> Fraction | None:
    """Read dwRate / dwScale of a stream's header in an AVI file, or the frame duration of its main header."""
    at, number, period = 12, -1, 0
    for _ in range(_MOST_CHUNKS):
        head = read_bytes(reader, at, 12)
        if len(head) < 12 or head[8:12] == b"movi":
            return None
        if head[:4] == b"LIST":
            at += 12
            continue
        kind, size, data = head[:4], int.from_bytes(head[4:8], "little"), read_bytes(reader, at + 8, 28)
        if kind == b"avih":
            period = int.from_bytes(data[:4], "little")
        number += kind == b"strh"
        if kind == b"strh" and number == stream_index:
            scale, rate = (int.from_bytes(data[start : start + 4], "little") for start in (20, 24))
            return _make_rate(rate, scale) or _make_rate(_MICROSECONDS, period)
        at += 8 + size + size % 2
    return None


def read_mpeg_rates(packets: Iterable[bytes]) -> set[Fraction | None]:
    """Read the rates of the sequence headers of MPEG-1 and MPEG-2 (ISO/IEC 13818-2 6.2.2); None where fields repeat."""
    rates = set[Fraction | None]()
    sequence: Fraction | None = None
    for packet in packets:
        for kind, data in _find_headers(packet):
            if kind == _SEQUENCE and len(data) > 3:
                sequence = _MPEG_RATES.get(data[3] & 15)
                rates.add(sequence)
            elif kind == _EXTENSION and len(data) > 5 and data[0] >> 4 == _SEQUENCE_EXTENSION:
                above, below = (data[5] >> 5 & 3) + 1, (data[5] & 31) + 1
                if sequence is not None and above != below:
                    rates = rates - {sequence} | {sequence * above / below}
            elif kind == _EXTENSION and len(data) > 3 and data[0] >> 4 == _PICTURE_EXTENSION and data[3] & 2:
                rates.add(None)
    return rates


def _find_headers(packet: bytes) -> Iterator[tuple[int, bytes]]:
    at = packet.find(b"\0\0\1")
    while at >= 0:
        if packet[at + 3 : at + 4] and packet[at + 3] in (_SEQUENCE, _EXTENSION):
            yield packet[at + 3], packet[at + 4 : at + 12]
        at = packet.find(b"\0\0\1", at + 3)
