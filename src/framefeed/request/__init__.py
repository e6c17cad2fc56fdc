"""Say what one clip asks for: frames, output form, crops, and its random numbers."""

from __future__ import annotations

from framefeed.request._bounds import BEFORES, Before, Bounds, is_pair, read_bounds
from framefeed.request._choose import ClipFrames, Picking, Policy, choose_frames, choose_times
from framefeed.request._crops import (
    CenterCrop,
    Crop,
    FixedCrop,
    PictureRule,
    RandomCrop,
    RandomResizedCrop,
    as_crop,
)
from framefeed.request._random import (
    BUCKETS,
    MIXING,
    ORDER,
    SUBSTITUTES,
    WORD,
    ClipContext,
    SharedDraw,
    check_seed,
    draw_numbers,
    generator_at,
    hash_words,
    is_flipped,
)
from framefeed.request._request import (
    MOST_SIDE,
    Box,
    DecodeRequest,
    Filter,
    OnDamaged,
    OutputSpec,
    Placement,
    StillQuality,
)
from framefeed.request._shared_crop import SharedCrop
from framefeed.request._sizes import AnySize, Cover, Letterbox, LongSide, PixelBudget, ResizeCrop, Size

__all__ = [
    "BEFORES",
    "BUCKETS",
    "MIXING",
    "MOST_SIDE",
    "ORDER",
    "SUBSTITUTES",
    "WORD",
    "AnySize",
    "Before",
    "Bounds",
    "Box",
    "CenterCrop",
    "ClipContext",
    "ClipFrames",
    "Cover",
    "Crop",
    "DecodeRequest",
    "Filter",
    "FixedCrop",
    "Letterbox",
    "LongSide",
    "OnDamaged",
    "OutputSpec",
    "Picking",
    "PictureRule",
    "PixelBudget",
    "Placement",
    "Policy",
    "RandomCrop",
    "RandomResizedCrop",
    "ResizeCrop",
    "SharedCrop",
    "SharedDraw",
    "Size",
    "StillQuality",
    "as_crop",
    "check_seed",
    "choose_frames",
    "choose_times",
    "draw_numbers",
    "generator_at",
    "hash_words",
    "is_flipped",
    "is_pair",
    "read_bounds",
]
