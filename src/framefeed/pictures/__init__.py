"""Read the headers of still pictures, and decode them: JPEG by simplejpeg, all others by Pillow."""

from __future__ import annotations

from framefeed.pictures._damage import find_damage
from framefeed.pictures._exif import convert_exif_orientation
from framefeed.pictures._jpeg_pixels import JPEG_LIBRARY, decode_jpeg, reduce_size
from framefeed.pictures._pillow import (
    QUIET,
    UNCONVERTIBLE_MODES,
    decode_still,
    describe_picture,
    make_mode_error,
    probe_image,
)
from framefeed.pictures._plug_ins import PLUGGED_CODECS, describe_plug_ins
from framefeed.pictures._reads import LEAST_READ_BYTES, PICTURE_HEAD_BYTES, CountedReads, OddHeader, StillHeader
from framefeed.pictures._still import read_still_header
from framefeed.pictures._undecoded import IMAGE_BRANDS, JPEG_XL_MAGIC, OTHER_PICTURES, name_undecoded_format

__all__ = [
    "IMAGE_BRANDS",
    "JPEG_LIBRARY",
    "JPEG_XL_MAGIC",
    "LEAST_READ_BYTES",
    "OTHER_PICTURES",
    "PICTURE_HEAD_BYTES",
    "PLUGGED_CODECS",
    "QUIET",
    "UNCONVERTIBLE_MODES",
    "CountedReads",
    "OddHeader",
    "StillHeader",
    "convert_exif_orientation",
    "decode_jpeg",
    "decode_still",
    "describe_picture",
    "describe_plug_ins",
    "find_damage",
    "make_mode_error",
    "name_undecoded_format",
    "probe_image",
    "read_still_header",
    "reduce_size",
]
