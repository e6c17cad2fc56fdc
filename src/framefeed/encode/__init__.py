"""Encode frames as bytes and files: still pictures, contact sheets and videos."""

from __future__ import annotations

from framefeed.encode._codecs import SEGMENT_CONTAINER, VideoOptions, check_video_output
from framefeed.encode._encoder import restoring_scheduling
from framefeed.encode._joining import join_segments
from framefeed.encode._proxies import ProxyShrinker, ProxyWriter, read_planes, view_samples
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
from framefeed.encode._tags import VideoTags, resolve_video
from framefeed.encode._video import VideoWriter

__all__ = [
    "MAX_FRAMES",
    "QUALITY",
    "SEGMENT_CONTAINER",
    "ProxyShrinker",
    "ProxyWriter",
    "SheetClip",
    "VideoOptions",
    "VideoTags",
    "VideoWriter",
    "check_video_output",
    "draw_contact_sheet",
    "encode_still",
    "find_still_format",
    "join_segments",
    "list_codec_support",
    "make_image",
    "make_still_name",
    "make_thumbnail",
    "read_ffmpeg_versions",
    "read_planes",
    "read_software",
    "resolve_video",
    "restoring_scheduling",
    "save_still",
    "view_samples",
]
