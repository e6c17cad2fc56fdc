"""Encode frames as bytes and files: still pictures and contact sheets."""

from __future__ import annotations

from framefeed.encode._sheets import MAX_FRAMES, SheetClip, contact_sheet, thumbnail
from framefeed.encode._stills import (
    QUALITY,
    as_image,
    codec_support,
    encode_still,
    ffmpeg_versions,
    save_still,
    software_of,
    still_format,
    still_name,
)

__all__ = [
    "MAX_FRAMES",
    "QUALITY",
    "SheetClip",
    "as_image",
    "codec_support",
    "contact_sheet",
    "encode_still",
    "ffmpeg_versions",
    "save_still",
    "software_of",
    "still_format",
    "still_name",
    "thumbnail",
]
