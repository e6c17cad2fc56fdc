"""Open a cache for a plan: the form of its frames, how many there are, and whether a cache pays."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Any

import numpy as np

from framefeed._checks import check_integer, expected
from framefeed._units import format_share
from framefeed.cache._caching import CachingDecoder
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache.prefill._demand import estimate_reuse
from framefeed.decode import Decoder
from framefeed.plan import EpochPlan, Requests
from framefeed.request import CenterCrop, FixedCrop, PictureRule

_POSITIONS_AT_ONCE = 1 << 20
_MAX_SIZES = 512
"""Rows whose output size is computed if outputs differ in size; they stand for their neighbours."""


def make_decoder(plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> CachingDecoder:
    """Wrap a decoder so that it reads the clips of a plan from a cache and fills it, in the form that suits the plan.

    If the cache has a ``max_bytes``, it is told how many frames the plan needs.

    Args:
        plan: The plan at its first epoch.
        cache: The cache.
        inner: Decodes the frames that the cache lacks.
        epochs: Number of epochs that will be stored.

    Raises:
        UsageError: An argument is wrong.
        CacheError: The folder of the cache is a file, or others may write to it.
    """
    check_filling(plan, cache, epochs)
    form = choose_form(plan, cache)
    decoder = cache.decoder(inner, form)
    if cache.options.max_bytes is not None:
        cache.expect(*count_planned(plan, form, epochs))
    return decoder


def choose_form(plan: EpochPlan, cache: FrameCache) -> Form:
    """Choose the form in which frames of a plan are stored: that of the cache, else the one that suits the plan.

    Planes suit random crops and whole pictures; outputs suit all others.
    """
    check_filling(plan, cache)
    form = cache.options.form
    if form != "auto":
        return form
    pictures = plan.options.pictures
    return "planes" if pictures == PictureRule() or not _has_one_box(plan) else "output"


def count_planned(plan: EpochPlan, form: Form, epochs: int = 1) -> tuple[int, int]:
    """Count the frames that the clips of all ranks need, at most, and their uncompressed bytes; by arithmetic.

    Args:
        plan: The plan.
        form: Form in which they are stored.
        epochs: Number of epochs.

    Returns:
        (frames, bytes).
    """
    catalog, pictures, layout = plan.catalog, plan.options.pictures, plan.tables.layout
    is_stored_once = form == "planes" or (_has_one_box(plan) and plan.tables.pictures == pictures)
    frames = np.zeros(len(catalog), np.int64)  # of all clips of each row
    lengths = np.diff(plan.rule.offsets) if isinstance(plan.rule, Requests) else None
    for first in range(0, len(layout), _POSITIONS_AT_ONCE):
        positions = np.arange(first, min(first + _POSITIONS_AT_ONCE, len(layout)))
        own = plan.frames_per_clip or 1 if lengths is None else lengths[positions]
        np.add.at(frames, layout.find_rows(positions), own)
    if getattr(plan.rule, "is_random", False) or not is_stored_once:
        frames *= epochs
    else:
        frames //= plan.options.clips_per_video  # which all have the same frames
    if is_stored_once:
        frames = np.where(catalog.num_frames > 0, np.minimum(frames, catalog.num_frames), frames)
    rows = np.flatnonzero((frames > 0) & (np.minimum(catalog.heights, catalog.widths) > 0))
    heights, widths = catalog.heights[rows], catalog.widths[rows]
    if form == "planes":
        nbytes = heights * widths * 3 // 2  # 4:2:0, as nearly all videos are
    elif plan.options.unequal and len(rows):
        step = -(-len(rows) // _MAX_SIZES)
        some = zip(heights[::step].tolist(), widths[::step].tolist(), strict=True)
        nbytes = np.repeat([math.prod(pictures.shape(*size)) for size in some], step)[: len(rows)]
    else:
        nbytes = np.full(len(rows), math.prod(plan.picture_shape) if len(rows) else 0)
    return int(frames.sum()), int((frames[rows] * nbytes).sum())


def _has_one_box(plan: EpochPlan) -> bool:
    crop = plan.options.pictures.crop
    return crop is None or isinstance(crop, (CenterCrop, FixedCrop))


_MUCH_REUSE = 0.9
"""From this share of the next epoch's frames on, a cache saves nearly all of its decoding."""


def explain_little_reuse(cache: FrameCache, plan: EpochPlan) -> str | None:
    """Explain that an empty cache saves little, because a plan draws other frames in the next epoch; else None."""
    if not plan.is_random:
        return None
    with suppress(OSError), os.scandir(cache.path) as entries:
        if next(entries, None) is not None:
            return None
    by_output = choose_form(plan, cache) == "output"
    share = estimate_reuse(plan, by_output)
    if share >= _MUCH_REUSE:
        return None
    crops = " A random crop needs form='planes'." if by_output and plan.options.crop is not None else ""
    return (
        f"cache: about {format_share(share)} of the next epoch's frames are among those that this epoch stores, "
        "because the plan draws others in each epoch. A cache pays with rules that take the same frames again: "
        "Uniform, EveryFrame, AtIndices, AtSeconds, Dense and Rates with start=0; or if it has all frames before the "
        f"first epoch: ff.cache.build(ff.plan_clips(catalog, ff.EveryFrame(), ...), cache).{crops}"
    )


def check_filling(plan: object, cache: object, epochs: Any = 1) -> None:
    """Check the plan, cache and number of epochs of a function that fills a cache.

    Raises:
        UsageError: One of them is wrong.
    """
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    if not isinstance(cache, FrameCache):
        raise expected("cache", "an ff.FrameCache", cache)
    check_integer("epochs", epochs, least=1)
