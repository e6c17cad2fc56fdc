"""Turn requests into pixels."""

from __future__ import annotations

from framefeed.decode._convert import Converter, view_plane
from framefeed.decode._decoder import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Ordinals,
    Pixels,
    SourceClips,
    adapt_decoder,
    allocate_pixels,
    describe_recipe,
    make_slot,
)
from framefeed.decode._forward import ForwardReader
from framefeed.decode._frames import Frame, FrameBatch, VideoMetadata
from framefeed.decode._planes import (
    RGB_PLANAR,
    PlaneLayout,
    copy_planes,
    describe_layout,
    make_output_layout,
    rebuild_picture,
)
from framefeed.decode._queries import NoSuchFrame, RefusedValue, WrongKind, clip_slice, require_times, resample_frames
from framefeed.decode._reduction import SCALE_MARK, find_reduction
from framefeed.decode._registry import (
    AUTO_RULES,
    AutoDecoder,
    as_decoder,
    find_decoder,
    list_decoders,
    make_auto_decoder,
)
from framefeed.decode._slots import PendingFrames, make_writer, name_picture, suggest_next_step, write_frame
from framefeed.decode._video_decoder import VideoDecoder, check_frame_index

__all__ = [
    "AUTO_RULES",
    "RGB_PLANAR",
    "SCALE_MARK",
    "AutoDecoder",
    "BaseDecoder",
    "ClipSlot",
    "Converter",
    "DecodeCounts",
    "DecodeReport",
    "Decoder",
    "ForwardReader",
    "Frame",
    "FrameBatch",
    "NoSuchFrame",
    "Ordinals",
    "PendingFrames",
    "Pixels",
    "PlaneLayout",
    "RefusedValue",
    "SourceClips",
    "VideoDecoder",
    "VideoMetadata",
    "WrongKind",
    "adapt_decoder",
    "allocate_pixels",
    "as_decoder",
    "check_frame_index",
    "clip_slice",
    "copy_planes",
    "describe_layout",
    "describe_recipe",
    "find_decoder",
    "find_reduction",
    "list_decoders",
    "make_auto_decoder",
    "make_output_layout",
    "make_slot",
    "make_writer",
    "name_picture",
    "rebuild_picture",
    "require_times",
    "resample_frames",
    "suggest_next_step",
    "view_plane",
    "write_frame",
]
