"""Read the headers of codecs: parameter sets, slices, NAL units; bytes to facts, without libav or files."""

from __future__ import annotations

from framefeed.bitstreams._bits import EXISTING, KEY_FRAME, OTHERWISE_PARSED, SHOWN, OddUnits
from framefeed.bitstreams._codecs import CODECS, STREAM_FORMATS, Codec, UnitTypes
from framefeed.bitstreams._configuration import Configuration, read_configuration, split_configuration
from framefeed.bitstreams._formats import FULL_RANGE, LIMITED_RANGE, make_known_colors
from framefeed.bitstreams._intra import (
    IntraReader,
    make_mjpeg_reader,
    read_dnxhd,
    read_ffv1,
    read_png,
    read_prores,
)
from framefeed.bitstreams._nal import (
    MAX_PARAMETER_SETS,
    cut_first_slice,
    has_turning_message,
    read_nal_length_size,
    split_nal_units,
)
from framefeed.bitstreams._order import find_levels, number_pictures, unwrap
from framefeed.bitstreams._packet_readers import PACKET_READERS, PacketReader
from framefeed.bitstreams._sets import (
    H264Picture,
    H264Sequence,
    HevcPicture,
    HevcSequence,
    read_h264_sequence,
    read_hevc_sequence,
)
from framefeed.bitstreams._slice_bits import read_headers
from framefeed.bitstreams._slices import H264_IDR, HEVC_IDR, H264Slices, read_h264_slices, read_hevc_slices
from framefeed.bitstreams._units import BEGINS_PICTURE, BLOCK_PADDING, UnitWalk, make_table

__all__ = [
    "BEGINS_PICTURE",
    "BLOCK_PADDING",
    "CODECS",
    "EXISTING",
    "FULL_RANGE",
    "H264_IDR",
    "HEVC_IDR",
    "KEY_FRAME",
    "LIMITED_RANGE",
    "MAX_PARAMETER_SETS",
    "OTHERWISE_PARSED",
    "PACKET_READERS",
    "SHOWN",
    "STREAM_FORMATS",
    "Codec",
    "Configuration",
    "H264Picture",
    "H264Sequence",
    "H264Slices",
    "HevcPicture",
    "HevcSequence",
    "IntraReader",
    "OddUnits",
    "PacketReader",
    "UnitTypes",
    "UnitWalk",
    "cut_first_slice",
    "find_levels",
    "has_turning_message",
    "make_known_colors",
    "make_mjpeg_reader",
    "make_table",
    "number_pictures",
    "read_configuration",
    "read_dnxhd",
    "read_ffv1",
    "read_h264_sequence",
    "read_h264_slices",
    "read_headers",
    "read_hevc_sequence",
    "read_hevc_slices",
    "read_nal_length_size",
    "read_png",
    "read_prores",
    "split_configuration",
    "split_nal_units",
    "unwrap",
]
