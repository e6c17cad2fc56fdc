"""What an epoch will find in a cache."""

from __future__ import annotations

from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.outlook import scattered
from framefeed.decode.decoder import Decoder
from framefeed.errors import FrameNotFound, MediaError, TimeUnavailable
from framefeed.media.source import MediaSource
from framefeed.plan.epoch import EpochPlan

LOOKED_UP_CLIPS = 512
"""Clips of an epoch that are looked up at most, in about a second: the share is then known to 5 % or better."""


def share_found(plan: EpochPlan, cache: FrameCache, inner: Decoder) -> float:
    """Look up which share of the frames of an epoch a cache has, from 0 to 1; nothing is decoded.

    Args:
        plan: At the epoch. In a long one, clips from all over it are looked up.
        cache: That has some of its frames.
        inner: The decoder that makes the frames which the cache does not have.

    Raises:
        ResourceExhausted: Something ran out.
    """
    count = min(len(plan), LOOKED_UP_CLIPS)
    decoder = cache.decoder(inner, cache.form_for(plan))
    wanted = found = 0
    for number in scattered(count):
        position = number * len(plan) // count
        try:
            request, index = plan[position], plan.catalog.frame_index(plan.row_at(position))
            source = MediaSource.of(plan.catalog.source(plan.row_at(position)))
            lacks = decoder.lacks(source, index, request.storable, request.output)
        except (FrameNotFound, TimeUnavailable, MediaError, OSError):
            continue  # The clip fails in the epoch too, and delivers no frames.
        wanted += len(lacks)
        found += len(lacks) - int(lacks.sum())
    return found / max(1, wanted)
