"""The first packet of a movie: whether it begins as the header says, so that facts can be believed."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from framefeed.media.mp4.boxes import OddMovie, need, unpack
from framefeed.media.mp4.codec_facts import Video
from framefeed.media.mp4.movie import Movie, Track
from framefeed.media.mp4.samples import first_size
from framefeed.media.source import ByteReader, read_bytes

_LOOKED_AT = 4096
"""Bytes of the first packet within which its first slice must begin."""
_SPS = {"h264": 7, "hevc": 33}
_MESSAGES = {"h264": 6, "hevc": 39}
_STARTS = {"h264": range(5, 6), "hevc": range(16, 22)}
_SLICES = {"h264": range(1, 6), "hevc": range(32)}
_TURNING = frozenset({47, 147})
"""Messages that change orientation or colours of what follows: ITU-T H.274 8.12 and 8.18."""


def check_first_packet(reader: ByteReader, place: tuple[int, int], file_size: int, video: Video) -> None:
    """Look at the NAL units of the first packet up to its first slice.

    Args:
        reader: The file.
        place: Byte position and size of the packet.
        file_size: Bytes of the file.
        video: What the header says.

    Raises:
        OddMovie: It does not lie in the file, does not begin with a picture at which decoding can start, or holds
            parameter sets or messages that say other than the header.
    """
    offset, size = place
    if size < 1 or offset + size > file_size:
        raise OddMovie("a first packet beyond the end of the file")
    for unit, is_whole in _units(read_bytes(reader, offset, min(size, _LOOKED_AT)), size, video.length_size):
        kind = unit[0] & 31 if video.codec == "h264" else unit[0] >> 1 & 63
        if kind in _SLICES[video.codec]:
            if kind not in _STARTS[video.codec]:
                raise OddMovie("a first packet that is no key frame")
            return
        if not is_whole or (kind == _SPS[video.codec] and unit != video.parameter_sets):
            raise OddMovie("other parameter sets in the first packet")
        if kind == _MESSAGES[video.codec] and not _TURNING.isdisjoint(_message_kinds(unit, video.codec)):
            raise OddMovie("messages that change how pictures are shown")
    raise OddMovie("a first packet without a picture")


def first_place(movie: Movie, track: Track) -> tuple[int, int]:
    """Give byte position and size of the first sample."""
    tables, data = track.tables, movie.data
    size = first_size(data, tables)
    if b"co64" in tables:
        return unpack(data, tables[b"co64"], Struct(">Q"), 8)[0], size
    return unpack(data, need(tables, b"stco"), Struct(">I"), 8)[0], size


def _units(data: bytes, size: int, length_size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the NAL units that begin in the first bytes of a packet, and whether they are there to the end."""
    at = 0
    while at + length_size + 2 < len(data):
        length = int.from_bytes(data[at : at + length_size], "big")
        at += length_size
        if length < 1 or at + length > size:
            raise OddMovie("a first packet of no whole NAL units")
        yield data[at : at + length], at + length <= len(data)
        at += length


def _message_kinds(unit: bytes, codec: str) -> Iterator[int]:
    """Yield the payload types of a unit of messages, ITU-T H.264 7.3.2.3.1."""
    data = unit.replace(b"\0\0\3", b"\0\0")
    at = 1 if codec == "h264" else 2
    while at + 2 < len(data):
        numbers = [0, 0]
        for which in range(2):
            while at < len(data) and data[at] == 255:
                numbers[which] += 255
                at += 1
            numbers[which] += data[at] if at < len(data) else 0
            at += 1
        yield numbers[0]
        at += numbers[1]
