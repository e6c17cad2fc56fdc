"""What a cache would store of a plan: the form, how many frames, and how many of them the next epoch finds.

By arithmetic, or from a sample of clips in the order of the catalog; no file is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from framefeed._arrays import IntArray
from framefeed._outcome import Ok, catch_error
from framefeed._units import format_share
from framefeed.plan._clips import CatalogClips, Draws
from framefeed.plan._description import SAMPLED_CLIPS
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._planned import iterate_takes
from framefeed.request import CenterCrop, FixedCrop, OutputSpec

StoredForm = Literal["output", "planes"]

_CLIPS_AT_ONCE = 1 << 20
_SAMPLED_PICTURES = 512
_SAMPLED_LENGTHS = 16
"""Clips that are planned, of those whose T is not known before."""
_MUCH_REUSE = 0.9
"""From this share of the next epoch's frames on, a cache saves nearly all of its decoding."""
_WINDOW = 512
"""Most neighbouring positions of one source that are sampled together."""
_LEAST_REACH = 8
"""Positions that are looked at first: of a mixture, neighbours have other sources, and are slow to find."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def choose_stored_form(plan: EpochPlan, form: Literal["auto", "output", "planes"]) -> StoredForm:
    """Choose the form in which frames of a plan are stored: that of the cache unless it is "auto".

    Planes suit random crops and whole pictures; outputs suit all others.
    """
    if form != "auto":
        return form
    every = plan.clips.list_plain()
    is_whole = any(clips.options.size is None and clips.options.crop is None for clips in every)
    return "output" if not is_whole and all(map(_has_one_box, every)) else "planes"


def count_planned(plan: EpochPlan, form: StoredForm, epochs: int = 1) -> tuple[int, int]:
    """Count the frames that the clips of all ranks need in some epochs, at most, and their uncompressed bytes."""
    counts = [_count_plain(clips, form, epochs) for clips in plan.clips.list_plain()]
    return sum(frames for frames, _ in counts), sum(nbytes for _, nbytes in counts)


def _count_plain(clips: CatalogClips, form: StoredForm, epochs: int) -> tuple[int, int]:
    catalog, pictures = clips.catalog, clips.options.pictures
    is_stored_once = form == "planes" or (_has_one_box(clips) and clips.pictures == pictures)
    frames = _count_clip_frames(clips)
    if getattr(clips.rule, "is_random", False) or not is_stored_once:
        frames *= epochs
    else:
        frames //= clips.options.clips_per_video  # which all have the same frames
    if is_stored_once:
        frames = np.where(catalog.num_frames > 0, np.minimum(frames, catalog.num_frames), frames)
    known = (frames > 0) & (np.minimum(catalog.heights, catalog.widths) > 0)
    # Planes of 4:2:0, as nearly all videos are.
    nbytes = catalog.heights * catalog.widths * 3 // 2 if form == "planes" else _mean_stored_bytes(clips)
    return int(frames.sum()), int((frames * nbytes)[known].sum())


def mean_clip_bytes(plan: EpochPlan) -> int:
    """Compute the bytes of a delivered clip; of clips that differ in shape, the mean of a sample."""
    forms = plan.clips.forms.values()
    if not len(plan):
        return 0
    if not any(form.unequal or form.num_frames is None for form in forms):
        return sum(math.prod((form.num_frames or 0, *form.picture_shape)) for form in forms)
    whole = plan.whole
    sample = np.unique(np.linspace(0, len(whole) - 1, _SAMPLED_PICTURES).astype(np.int64))
    shapes = np.array(whole.clips_at(sample).find_shapes(), dtype=np.int64)
    if (shapes[..., 0] < 0).any():
        some = whole.clips_at(sample[:: -(-len(sample) // _SAMPLED_LENGTHS)])
        # A rule may be a user's: what it raises is the error of its clip, not of the loader.
        outcomes = [catch_error(some.plan, slot) for slot in range(len(some))]
        clips = [outcome.value for outcome in outcomes if isinstance(outcome, Ok)]
        for number, name in enumerate(plan.clips.forms):
            if clips and (shapes[number, :, 0] < 0).any():
                planned = np.array([clip.parts[name].shape for clip in clips], dtype=np.int64)
                shapes[number] = planned[np.arange(len(sample)) % len(planned)]
        shapes[..., 0] = np.maximum(1, shapes[..., 0])
    return int(shapes.prod(axis=2).mean(axis=1).sum())


def _mean_stored_bytes(clips: CatalogClips) -> int:
    """Compute the bytes of a picture in a cache, which stores no border; the mean of a sample where they differ."""
    if not clips.count:
        return 0
    if not (clips.options.has_boxes or clips.options.unequal):
        return math.prod(clips.form.picture_shape)
    if clips.options.pictures.needs_frames:
        sample = np.unique(np.linspace(0, clips.count - 1, _SAMPLED_LENGTHS).astype(np.int64))
        found = clips.at(sample, Draws(0, 0, sample.tolist()))
        outcomes = [catch_error(found.make, slot) for slot in range(len(sample))]
        shapes = [outcome.value.shape for outcome in outcomes if isinstance(outcome, Ok)]
        return sum(math.prod(shape[1:]) for shape in shapes) // max(1, len(shapes))
    catalog, find_shape = clips.catalog, clips.options.pictures.decoded_shape
    rows = catalog.plannable_rows[:: -(-len(catalog.plannable_rows) // _SAMPLED_PICTURES)]
    sizes = zip(catalog.heights[rows].tolist(), catalog.widths[rows].tolist(), strict=True)
    return sum(math.prod(find_shape(*size)) for size in sizes) // len(rows)


def _has_one_box(clips: CatalogClips) -> bool:
    crop = clips.options.pictures.crop
    return crop is None or isinstance(crop, (CenterCrop, FixedCrop))


def _count_clip_frames(clips: CatalogClips) -> IntArray:
    """Count the frames of all clips of each catalog row, int64 [R]; at most, where a rule does not say them."""
    layout, lengths = clips.layout, clips.form.lengths
    counts = np.zeros(len(clips.catalog), np.int64)
    for first in range(0, len(layout), _CLIPS_AT_ONCE):
        numbers = np.arange(first, min(first + _CLIPS_AT_ONCE, len(layout)))
        rows, own = layout.find_rows(numbers), clips.rule.num_frames if lengths is None else lengths[numbers]
        np.add.at(counts, rows, clips.catalog.num_frames[rows] if own is None else own)
    return counts


def explain_little_reuse(plan: EpochPlan, form: StoredForm) -> str | None:
    """Explain that an empty cache saves little, because a plan draws other frames in the next epoch; else None."""
    if not plan.clips.draws_frames:
        return None
    share = estimate_reuse(plan, form == "output")
    if share >= _MUCH_REUSE:
        return None
    has_crop = any(clips.options.crop is not None for clips in plan.clips.list_plain())
    crops = " A random crop needs form='planes'." if form == "output" and has_crop else ""
    return (
        f"cache: about {format_share(share)} of the next epoch's frames are among those that this epoch stores, "
        "because the plan draws others in each epoch. A cache pays with rules that take the same frames again: "
        "Uniform, EveryFrame, AtIndices, AtSeconds, Dense and Rates with start=0; or if it has all frames before the "
        f"first epoch: ff.cache.build(ff.plan_clips(catalog, ff.EveryFrame(), ...), cache).{crops}"
    )


def estimate_reuse(plan: EpochPlan, by_output: bool, epochs: int = 1) -> float:
    """Estimate the share of the frames of the next epoch that those of some epochs before are, from 0 to 1.

    ``plan`` is at the first of these epochs; ``by_output`` says whether outputs are stored, not whole pictures.
    """
    if not plan.clips.draws_frames:
        return 1.0
    *stored, later = (order_by_catalog(plan, number) for number in range(epochs + 1))
    num_frames = num_found = 0
    for window in sample_windows(later, min(len(later), SAMPLED_CLIPS), SAMPLED_CLIPS):
        known = {frame for each in stored for frame in _list_frames(each, window, by_output)}
        requested = _list_frames(later, window, by_output)
        num_frames += len(requested)
        num_found += sum(frame in known for frame in requested)
    return num_found / num_frames if num_frames else 1.0


def _list_frames(plan: EpochPlan, positions: range, by_output: bool) -> list[tuple[int, int, OutputSpec | None]]:
    """List the frames of the clips of some positions, with the numbers of their takes."""
    found = plan.clips_at(plan.global_position(np.array(positions, dtype=np.int64)))
    return [
        (number, ordinal, take.output if by_output else None)
        for _, clip in found.plan_each()
        for number, take in enumerate(iterate_takes(clip))
        for ordinal in take.storable.tolist()
    ]


def order_by_catalog(plan: EpochPlan, later: int = 0) -> EpochPlan:
    """Return the plan some epochs later: all ranks' clips in the order of the catalog, those of a source together."""
    return EpochPlan(Order(plan.clips.count, plan.order.seed, False, plan.epoch + later), plan.clips)


def sample_windows(plan: EpochPlan, count: int, most_clips: int) -> Iterator[range]:
    """Yield neighbouring positions of one source each, spread over a plan in the order of the catalog."""
    num_clips = 0
    # In an order of which any few consecutive numbers lie far apart.
    for number in sorted(range(count), key=lambda number: number * _GOLDEN_RATIO % 1):
        window = _find_window(plan, (2 * number + 1) * len(plan) // (2 * count))
        yield window
        num_clips += len(window)
        if num_clips >= most_clips:
            return


def _find_window(plan: EpochPlan, middle: int) -> range:
    """Find the neighbours of a position that have its source, at most half of a window before it."""
    reach = _LEAST_REACH
    while True:
        first, end = max(0, middle - reach // 2), min(len(plan), middle + reach)
        rows = plan.clips_at(np.arange(first, end, dtype=np.int64)).rows[0]
        at = middle - first
        start = stop = at
        while start > 0 and rows[start - 1] == rows[at]:
            start -= 1
        while stop < len(rows) and stop - start < _WINDOW and rows[stop] == rows[at]:
            stop += 1
        # Its ends are seen, unless they are those of what was found.
        if reach >= _WINDOW or ((start or not first) and (stop < len(rows) or end == len(plan))):
            return range(first + start, first + stop)
        reach *= 4
