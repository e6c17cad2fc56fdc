"""Sample descriptions of video tracks: ISO/IEC 14496-12 8.5.2 and 12.1.3, ISO/IEC 14496-15."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from framefeed.media.details import StreamColors
from framefeed.media.mp4.boxes import Box, OddMovie, boxes, unpack
from framefeed.media.mp4.codec_facts import FULL_RANGE, LIMITED_RANGE, Video, known_colors
from framefeed.media.mp4.h264_sps import h264_format
from framefeed.media.mp4.hevc_sps import hevc_format
from framefeed.media.mp4.movie import Movie, Track

_CODECS = {
    b"avc1": "h264",
    b"avc3": "h264",
    b"hvc1": "hevc",
    b"hev1": "hevc",
    b"mp4v": "mpeg4",
    b"s263": "h263",
    b"apcn": "prores",
    b"jpeg": "mjpeg",
}
"""Codecs whose packets libav takes from the sample table as they are."""


class _Configuration(NamedTuple):
    box: bytes
    length_place: int
    least_bytes: int


_NAL = {"h264": _Configuration(b"avcC", 4, 8), "hevc": _Configuration(b"hvcC", 21, 23)}
"""Where codecs of NAL units keep their parameter sets, ISO/IEC 14496-15 5.3.3.1 and 8.3.3.1."""
_ENTRY_BYTES = 78
"""Of a visual sample entry before its boxes."""
_SIZE = Struct(">HH")
_COLORS = Struct(">4xHHH")
_RANGE = Struct(">10xB")
_PLAIN = frozenset({b"pasp", b"btrt", b"fiel", b"chrm", b"gama", b"uuid", b"free", b"dvcC", b"dvvC", b"amve", b"clli",
                    b"mdcv"})  # fmt: skip
_MOST_KEPT_BYTES = 4096
_H264_SPS, _H264_PPS = 7, 8
_HEVC_SPS, _HEVC_PPS = 33, 34


def codec_of(track: Track) -> str:
    """Name the codec of a video track.

    Raises:
        OddMovie: Unknown, encrypted, or of packets that libav does not take as they are.
    """
    kind = track.entry.kind
    if kind not in _CODECS:
        raise OddMovie(f"a {kind!r} track")
    return _CODECS[kind]


def length_size_of(movie: Movie, track: Track) -> int:
    """Give the bytes of the length before each NAL unit; 0 for codecs without them.

    Raises:
        OddMovie: As ``read_video``.
    """
    codec = codec_of(track)
    if codec not in _NAL:
        return 0
    extradata, _ = _configuration(movie, track, codec)
    return (extradata[_NAL[codec].length_place] & 3) + 1


def read_video(movie: Movie, track: Track) -> Video:
    """Read the sample description of an H.264 or HEVC track.

    Raises:
        OddMovie: Of another codec, or anything in it is not understood exactly.
    """
    codec = codec_of(track)
    if codec not in _NAL:
        raise OddMovie(f"facts of {codec} are libav's")
    extradata, colors = _configuration(movie, track, codec)
    video = (_known if len(extradata) <= _MOST_KEPT_BYTES else _read)(codec, extradata, colors)
    if unpack(movie.data, track.entry, _SIZE, 24) != (video.format.width, video.format.height):
        raise OddMovie("container and codec that differ in the size of pictures")
    return video


def _read(codec: str, extradata: bytes, colors: StreamColors) -> Video:
    """Read a codec configuration."""
    length_size = (extradata[_NAL[codec].length_place] & 3) + 1
    if codec == "h264":
        unit = _h264_parameter_set(extradata)
        return Video(codec, extradata, length_size, unit, h264_format(unit, colors))
    unit, picture_unit = _hevc_parameter_sets(extradata)
    return Video(codec, extradata, length_size, unit, hevc_format(unit, picture_unit))


# The files of a data set come from few encoders at few settings: their configurations are the same bytes, and what
# these mean depends on nothing else. Both the number and the length of what is kept are bounded.
_known = lru_cache(maxsize=256)(_read)


def _configuration(movie: Movie, track: Track, codec: str) -> tuple[bytes, StreamColors]:
    box, colors = _parts(movie.data, track.entry, _NAL[codec].box)
    extradata = movie.data[box.start : box.end]
    if len(extradata) < _NAL[codec].least_bytes or extradata[0] != 1:
        raise OddMovie("a codec configuration of an unknown version")
    return extradata, colors


def _parts(data: bytes, entry: Box, wanted: bytes) -> tuple[Box, StreamColors]:
    configuration: Box | None = None
    colors: StreamColors | None = None
    for box in boxes(data, entry.start + _ENTRY_BYTES, entry.end):
        if box.kind == wanted and configuration is None:
            configuration = box
        elif box.kind == b"colr" and colors is None:
            colors = _container_colors(data, box)
        elif box.kind not in _PLAIN:
            raise OddMovie(f"an unexpected {box.kind!r} box of a sample description")
    if configuration is None:
        raise OddMovie("no codec configuration")
    return configuration, colors or StreamColors()


def _container_colors(data: bytes, box: Box) -> StreamColors:
    kind = data[box.start : box.start + 4]
    if kind not in (b"nclx", b"nclc"):
        raise OddMovie(f"colours of kind {kind!r}")
    primaries, transfer, space = unpack(data, box, _COLORS)
    if kind == b"nclc":
        return known_colors(primaries, transfer, space, 0)
    (full,) = unpack(data, box, _RANGE)
    return known_colors(primaries, transfer, space, FULL_RANGE if full >> 7 else LIMITED_RANGE)


def _h264_parameter_set(extradata: bytes) -> bytes:
    """Find the one sequence parameter set of an avcC box, and make sure that picture parameter sets follow."""
    size = int.from_bytes(extradata[6:8], "big")
    unit = extradata[8 : 8 + size]
    if extradata[5] & 31 != 1 or len(unit) < size or not unit or unit[0] & 31 != _H264_SPS:
        raise OddMovie("not one sequence parameter set")
    at = 9 + size
    count = extradata[at - 1] if at <= len(extradata) else 0
    for _ in range(count):
        size = int.from_bytes(extradata[at : at + 2], "big")
        if size < 1 or at + 2 + size > len(extradata) or extradata[at + 2] & 31 != _H264_PPS:
            raise OddMovie("picture parameter sets that break off")
        at += 2 + size
    if not count:
        raise OddMovie("no picture parameter set")
    return unit


def _hevc_parameter_sets(extradata: bytes) -> tuple[bytes, bytes]:
    """Find the sequence parameter set, and the picture parameter set where there is but one.

    Both are in the arrays of an hvcC box, ISO/IEC 14496-15 8.3.3.1.
    """
    units: list[tuple[int, bytes]] = []
    at = 23
    for _ in range(extradata[22] if len(extradata) > 22 else 0):
        count = int.from_bytes(extradata[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            size = int.from_bytes(extradata[at : at + 2], "big")
            unit = extradata[at + 2 : at + 2 + size]
            if size < 2 or len(unit) < size:
                raise OddMovie("parameter sets that break off")
            units.append((unit[0] >> 1 & 63, unit))
            at += 2 + size
    found = [unit for kind, unit in units if kind == _HEVC_SPS]
    pictures = [unit for kind, unit in units if kind == _HEVC_PPS]
    if len(found) != 1 or not pictures or any(unit[0] & 1 or unit[1] >> 3 for _, unit in units):
        raise OddMovie("not one sequence parameter set of one layer")
    return found[0], pictures[0] if len(pictures) == 1 else b""
