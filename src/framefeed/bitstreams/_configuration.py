"""Read codec configurations: the parameter sets of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from framefeed._values import StreamColors
from framefeed.bitstreams._bits import OddUnits
from framefeed.bitstreams._codecs import UnitTypes
from framefeed.bitstreams._nal import read_nal_length_size, split_nal_units
from framefeed.bitstreams._sets import (
    H264Picture,
    H264Sequence,
    HevcPicture,
    HevcSequence,
    read_h264_picture,
    read_h264_sequence,
    read_hevc_picture,
    read_hevc_sequence,
)

_MOST_KEPT_BYTES = 4096


class Configuration(NamedTuple):
    """One video stream's codec configuration."""

    codec: str
    extradata: bytes
    length_size: int  # bytes of the length before each NAL unit; 0 for start codes
    units: frozenset[bytes]  # its NAL units, without zero bytes behind them
    sequence_unit: bytes  # the one sequence parameter set, as stored
    sequence: H264Sequence | HevcSequence
    # Picture parameter sets by their number; a later one replaces an earlier one. None if one of them is not understood
    # exactly.
    pictures: dict[int, H264Picture | HevcPicture] | None


def read_configuration(codec: str, extradata: bytes, colors: StreamColors) -> Configuration:
    """Read a codec configuration: a configuration record, or parameter sets behind start codes.

    ``codec``: "h264" or "hevc".
    """
    return (_read_cached if len(extradata) <= _MOST_KEPT_BYTES else _read)(codec, extradata, colors)


def _read(codec: str, extradata: bytes, colors: StreamColors) -> Configuration:
    units, types = split_configuration(codec, extradata), UnitTypes.of(codec)
    sequences = [unit for unit in units if types.find_type(unit) == types.sequence_set]
    pictures = [unit for unit in units if types.find_type(unit) == types.picture_set]
    if len({unit.rstrip(b"\0") for unit in sequences}) != 1 or not pictures:
        raise OddUnits("not one sequence parameter set, or no picture parameter set")
    if codec == "hevc" and any(len(unit) < 2 or unit[0] & 1 or unit[1] >> 3 for unit in units):
        raise OddUnits("parameter sets of several layers")
    sequence = read_h264_sequence(sequences[0], colors) if codec == "h264" else read_hevc_sequence(sequences[0])
    stripped = frozenset(unit.rstrip(b"\0") for unit in units)
    sets = _read_pictures(codec, pictures, sequence.number)
    length_size = read_nal_length_size(codec, extradata)
    return Configuration(codec, extradata, length_size, stripped, sequences[0], sequence, sets)


# The files of a data set come from few encoders at few settings, so that their configurations are the same bytes. Both
# the number and the length of the cached ones are bounded.
_read_cached = lru_cache(maxsize=256)(_read)


def _read_pictures(codec: str, units: Iterable[bytes], sequence: int) -> dict[int, H264Picture | HevcPicture] | None:
    try:
        pictures = [read_h264_picture(unit) if codec == "h264" else read_hevc_picture(unit) for unit in units]
    except OddUnits:
        return None
    if any(picture.sequence != sequence for picture in pictures):
        return None
    return {picture.number: picture for picture in pictures}


def split_configuration(codec: str, extradata: bytes) -> list[bytes]:
    """List the NAL units of a configuration record, or those behind start codes."""
    if extradata[:1] != b"\1":
        return [bytes(unit) for unit in split_nal_units(extradata, 0)]
    return _split_h264_record(extradata) if codec == "h264" else _split_hevc_record(extradata)


def _split_h264_record(extradata: bytes) -> list[bytes]:
    """List the parameter sets of an avcC box, ISO/IEC 14496-15 5.3.3.1."""
    units: list[bytes] = []
    at = 5
    types = UnitTypes.of("h264")
    for kind, mask in ((types.sequence_set, 31), (types.picture_set, 255)):
        count = extradata[at] & mask if at < len(extradata) else 0
        at += 1
        for _ in range(count):
            size = int.from_bytes(extradata[at : at + 2], "big")
            unit = extradata[at + 2 : at + 2 + size]
            if len(unit) < max(size, 1) or types.find_type(unit) != kind:
                raise OddUnits("parameter sets that break off, or of another kind")
            units.append(unit)
            at += 2 + size
    return units


def _split_hevc_record(extradata: bytes) -> list[bytes]:
    """List the parameter sets of an hvcC box, ISO/IEC 14496-15 8.3.3.1."""
    units: list[bytes] = []
    at = 23
    for _ in range(extradata[22] if len(extradata) > 22 else 0):
        count = int.from_bytes(extradata[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            size = int.from_bytes(extradata[at : at + 2], "big")
            unit = extradata[at + 2 : at + 2 + size]
            if size < 2 or len(unit) < size:
                raise OddUnits("parameter sets that break off")
            units.append(unit)
            at += 2 + size
    return units
