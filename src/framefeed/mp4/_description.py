"""Read the sample descriptions of video tracks: ISO/IEC 14496-12 8.5.2 and 12.1.3, ISO/IEC 14496-15."""

from __future__ import annotations

from struct import Struct

from framefeed._values import PictureFormat, StreamColors
from framefeed.bitstreams import (
    CODECS,
    FULL_RANGE,
    LIMITED_RANGE,
    Codec,
    Configuration,
    UnitTypes,
    make_known_colors,
    read_configuration,
    read_nal_length_size,
)
from framefeed.mp4._boxes import Box, OddMovie, list_boxes, unpack
from framefeed.mp4._movie import Movie, Track

_CODECS = {tag: codec for codec in CODECS.values() for tag in codec.mp4_tags}
_ENTRY_BYTES = 78
"""Bytes of a visual sample entry before its boxes."""
_SIZE = Struct(">HH")
_COLORS = Struct(">4xHHH")
_RANGE = Struct(">10xB")
_PLAIN = frozenset({b"pasp", b"btrt", b"fiel", b"chrm", b"gama", b"uuid", b"free", b"dvcC", b"dvvC", b"amve", b"clli",
                    b"mdcv", b"SmDm", b"CoLL"})  # fmt: skip
_AV1_BYTES, _AV1_VERSION = 4, 0x81
"""AV1 in ISO base media 1.3.0, 2.3: least bytes of av1C, and its first one, which has a marker and the version."""
_VP9_BYTES = 12
"""VP codecs in ISO base media 1.0: least bytes of vpcC, which begins with a version and flags."""


def find_codec(track: Track) -> Codec:
    """Find the codec of a video track."""
    kind = track.entry.kind
    if kind not in _CODECS:
        raise OddMovie(f"a {kind!r} track")
    return _CODECS[kind]


def read_length_size(movie: Movie, track: Track) -> int:
    """Read the bytes of the length before each NAL unit; 0 for codecs without NAL units."""
    codec = find_codec(track)
    if codec.units is None:
        return 0
    extradata, _ = _find_nal_configuration(movie, track, codec.units)
    return read_nal_length_size(codec.name, extradata)


def read_video(movie: Movie, track: Track) -> Configuration:
    """Read the sample description of an H.264 or HEVC track."""
    codec = find_codec(track)
    if codec.units is None:
        raise OddMovie(f"facts of {codec.name} are libav's")
    extradata, colors = _find_nal_configuration(movie, track, codec.units)
    video = read_configuration(codec.name, extradata, colors)
    check_stated_size(movie, track, video.sequence.format)
    return video


def check_stated_size(movie: Movie, track: Track, picture: PictureFormat) -> None:
    """Raise OddMovie unless a sample description states the size of the pictures."""
    if unpack(movie.data, track.entry, _SIZE, 24) != (picture.width, picture.height):
        raise OddMovie("container and codec that differ in the size of pictures")


def read_packet_video(movie: Movie, track: Track) -> tuple[bytes | None, StreamColors]:
    """Read the decoder's configuration and the colours in the sample description of an AV1 or VP9 track."""
    codec = find_codec(track)
    if not codec.mp4_box:
        raise OddMovie(f"facts of {codec.name} are libav's")
    configuration, colors = _find_configuration(movie, track, codec.mp4_box)
    if codec.name == "av1":
        if len(configuration) < _AV1_BYTES or configuration[0] != _AV1_VERSION:
            raise OddMovie("a codec configuration of an unknown version")
        return configuration, colors or StreamColors()
    if len(configuration) < _VP9_BYTES or configuration[0] != 1:
        raise OddMovie("a codec configuration of an unknown version")
    full, primaries, transfer, space = configuration[6] & 1, *configuration[7:10]
    own = make_known_colors(primaries, transfer, space, FULL_RANGE if full else LIMITED_RANGE)
    if colors not in (None, own):
        raise OddMovie("two descriptions of colours")
    return None, own


def _find_nal_configuration(movie: Movie, track: Track, units: UnitTypes) -> tuple[bytes, StreamColors]:
    """Find the configuration of a codec with NAL units, and the container's colours."""
    extradata, colors = _find_configuration(movie, track, units.box)
    if len(extradata) < units.box_bytes or extradata[0] != 1:
        raise OddMovie("a codec configuration of an unknown version")
    return extradata, colors or StreamColors()


def _find_configuration(movie: Movie, track: Track, kind: bytes) -> tuple[bytes, StreamColors | None]:
    """Find the box of the codec configuration, and the container's colours, if it has some."""
    data, entry = movie.data, track.entry
    configuration: Box | None = None
    colors: StreamColors | None = None
    for box in list_boxes(data, entry.start + _ENTRY_BYTES, entry.end):
        if box.kind == kind and configuration is None:
            configuration = box
        elif box.kind == b"colr" and colors is None:
            colors = _read_container_colors(data, box)
        elif box.kind not in _PLAIN:
            raise OddMovie(f"an unexpected {box.kind!r} box of a sample description")
    if configuration is None:
        raise OddMovie("no codec configuration")
    return data[configuration.start : configuration.end], colors


def _read_container_colors(data: bytes, box: Box) -> StreamColors:
    kind = data[box.start : box.start + 4]
    if kind not in (b"nclx", b"nclc"):
        raise OddMovie(f"colours of kind {kind!r}")
    primaries, transfer, space = unpack(data, box, _COLORS)
    if kind == b"nclc":
        return make_known_colors(primaries, transfer, space, 0)
    # Some muxers omit the last byte: libav then takes the byte behind the box.
    (full,) = unpack(data, box._replace(end=max(box.end, len(data))), _RANGE)
    return make_known_colors(primaries, transfer, space, FULL_RANGE if full >> 7 else LIMITED_RANGE)
