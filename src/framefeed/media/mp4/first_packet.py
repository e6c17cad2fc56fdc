"""The first packet of a movie: whether it begins as the header says, so that facts can be believed."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from framefeed.media.h26x.configuration import Configuration
from framefeed.media.mp4.boxes import OddMovie, need, unpack
from framefeed.media.mp4.movie import Movie, Track
from framefeed.media.mp4.samples import first_size
from framefeed.media.nal import has_turning_message
from framefeed.media.source import ByteReader, read_bytes

_LOOKED_AT = 4096
"""Bytes of the first packet within which its first slice must begin."""
_SPS = {"h264": 7, "hevc": 33}
_MESSAGES = {"h264": 6, "hevc": 39}
_STARTS = {"h264": range(5, 6), "hevc": range(16, 22)}
_SLICES = {"h264": range(1, 6), "hevc": range(32)}


def check_first_packet(reader: ByteReader, place: tuple[int, int], file_size: int, video: Configuration) -> None:
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
        if not is_whole or (kind == _SPS[video.codec] and unit != video.sequence_unit):
            raise OddMovie("other parameter sets in the first packet")
        if kind == _MESSAGES[video.codec] and has_turning_message(unit, video.codec):
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
