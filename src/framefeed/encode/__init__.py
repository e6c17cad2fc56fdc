"""Encode frames as bytes and files: still pictures and contact sheets."""

from __future__ import annotations

from framefeed.encode._sheets import MAX_FRAMES, SheetClip, draw_contact_sheet, make_thumbnail
from framefeed.encode._stills import (
    QUALITY,
    encode_still,
    find_still_format,
    list_codec_support,
    make_image,
    make_still_name,
    read_ffmpeg_versions,
    read_software,
    save_still,
)

__all__ = [
    "MAX_FRAMES",
    "QUALITY",
    "SheetClip",
    "draw_contact_sheet",
    "encode_still",
    "find_still_format",
    "list_codec_support",
    "make_image",
    "make_still_name",
    "make_thumbnail",
    "read_ffmpeg_versions",
    "read_software",
    "save_still",
]
