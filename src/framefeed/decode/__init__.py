"""Turn requests into pixels."""

from __future__ import annotations

from framefeed.decode._auto import AutoDecoder
from framefeed.decode._convert import Converter, plane_view
from framefeed.decode._decoder import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Pixels,
    adapt_decoder,
    gives_frames,
    new_pixels,
    recipe_of,
)
from framefeed.decode._frames import Frame, FrameBatch, VideoMetadata
from framefeed.decode._planes import RGB_PLANAR, PlaneLayout, copy_planes, layout_of, output_layout, picture_of
from framefeed.decode._queries import NoSuchFrame, RefusedValue, WrongKind, frame_range, require_times
from framefeed.decode._registry import as_decoder, auto_decoder, decoder_named
from framefeed.decode._slots import Places, naming, picture_name, thread_converter, writer_of
from framefeed.decode._video_decoder import VideoDecoder, check_frame_index

__all__ = [
    "RGB_PLANAR",
    "AutoDecoder",
    "BaseDecoder",
    "ClipSlot",
    "Converter",
    "DecodeCounts",
    "DecodeReport",
    "Decoder",
    "Frame",
    "FrameBatch",
    "NoSuchFrame",
    "Pixels",
    "Places",
    "PlaneLayout",
    "RefusedValue",
    "VideoDecoder",
    "VideoMetadata",
    "WrongKind",
    "adapt_decoder",
    "as_decoder",
    "auto_decoder",
    "check_frame_index",
    "copy_planes",
    "decoder_named",
    "frame_range",
    "gives_frames",
    "layout_of",
    "naming",
    "new_pixels",
    "output_layout",
    "picture_name",
    "picture_of",
    "plane_view",
    "recipe_of",
    "require_times",
    "thread_converter",
    "writer_of",
]
