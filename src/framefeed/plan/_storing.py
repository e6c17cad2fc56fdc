"""What a cache would store of a plan: the form, how many frames, and how many of them the next epoch finds.

By arithmetic, or from a sample of clips in the order of the catalog; no file is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from framefeed._arrays import IntArray
from framefeed._units import format_share
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.plan._description import SAMPLED_CLIPS
from framefeed.plan._epoch import EpochPlan
from framefeed.plan._flat import FlatPlan, flatten_streams
from framefeed.plan._mixed import MixedPlan
from framefeed.plan._request_rule import Requests
from framefeed.request import CenterCrop, DecodeRequest, FixedCrop, OutputSpec

StoredForm = Literal["output", "planes"]

_POSITIONS_AT_ONCE = 1 << 20
_SAMPLED_PICTURES = 512
_MUCH_REUSE = 0.9
"""From this share of the next epoch's frames on, a cache saves nearly all of its decoding."""
_WINDOW = 512
"""Most neighbouring positions of one source that are sampled together."""
_GOLDEN_RATIO = (5**0.5 - 1) / 2


def choose_stored_form(plan: EpochPlan, form: Literal["auto", "output", "planes"]) -> StoredForm:
    """Choose the form in which frames of a plan are stored: that of the cache unless it is "auto".

    Planes suit random crops and whole pictures; outputs suit all others.
    """
    if form != "auto":
        return form
    if parts := _list_parts(plan):
        forms = {choose_stored_form(part, form) for part in parts}
        return "planes" if "planes" in forms else "output"
    is_whole = plan.options.size is None and plan.options.crop is None
    return "planes" if is_whole or not _has_one_box(plan) else "output"


def _list_parts(plan: EpochPlan) -> list[EpochPlan]:
    """List the parts of a mixture, or the plans of streams; none of other plans."""
    inner = plan.inner if isinstance(plan, FlatPlan) and plan.inner is not None else plan
    return list(inner.parts if isinstance(inner, MixedPlan) else inner.streams.values())


def count_planned(plan: EpochPlan, form: StoredForm, epochs: int = 1) -> tuple[int, int]:
    """Count the frames that the clips of all ranks need in some epochs, at most, and their uncompressed bytes."""
    if parts := _list_parts(plan):
        counts = [count_planned(part, form, epochs) for part in parts]
        return sum(frames for frames, _ in counts), sum(nbytes for _, nbytes in counts)
    catalog, pictures = plan.catalog, plan.options.pictures
    is_stored_once = form == "planes" or (_has_one_box(plan) and plan.tables.pictures == pictures)
    frames = _count_clip_frames(plan)
    if getattr(plan.rule, "is_random", False) or not is_stored_once:
        frames *= epochs
    else:
        frames //= plan.options.clips_per_video  # which all have the same frames
    if is_stored_once:
        frames = np.where(catalog.num_frames > 0, np.minimum(frames, catalog.num_frames), frames)
    known = (frames > 0) & (np.minimum(catalog.heights, catalog.widths) > 0)
    # Planes of 4:2:0, as nearly all videos are.
    nbytes = catalog.heights * catalog.widths * 3 // 2 if form == "planes" else _mean_stored_bytes(plan)
    return int(frames.sum()), int((frames * nbytes)[known].sum())


def mean_clip_bytes(plan: EpochPlan) -> int:
    """Compute the bytes of a delivered clip; of unequal pictures, the mean of a sample of the rows."""
    return sum((each.frames_per_clip or 1) * mean_picture_bytes(each) for each in plan.streams.values() or [plan])


def mean_picture_bytes(plan: EpochPlan) -> int:
    """Compute the bytes of a delivered picture of one stream, like ``mean_clip_bytes``."""
    if not len(plan):
        return 0
    if not plan.options.unequal:
        return math.prod(plan.picture_shape)
    return _sample_bytes(plan, plan.options.pictures.shape)


def _mean_stored_bytes(plan: EpochPlan) -> int:
    """Compute the bytes of a picture in a cache, which stores no border."""
    if not plan.options.has_boxes or not len(plan):
        return mean_picture_bytes(plan)
    return _sample_bytes(plan, plan.options.pictures.decoded_shape)


def _sample_bytes(plan: EpochPlan, shape: Callable[[int, int], tuple[int, ...]]) -> int:
    """Compute the mean bytes of a picture over a sample of the rows, whose shape is a function of theirs."""
    rows = plan.catalog.plannable_rows[:: -(-len(plan.catalog.plannable_rows) // _SAMPLED_PICTURES)]
    sizes = zip(plan.catalog.heights[rows].tolist(), plan.catalog.widths[rows].tolist(), strict=True)
    return sum(math.prod(shape(*size)) for size in sizes) // len(rows)


def _has_one_box(plan: EpochPlan) -> bool:
    crop = plan.options.pictures.crop
    return crop is None or isinstance(crop, (CenterCrop, FixedCrop))


def _count_clip_frames(plan: EpochPlan) -> IntArray:
    """Count the frames of all clips of each catalog row, int64 [R]."""
    layout, num_rows = plan.tables.layout, len(plan.catalog)
    counts = np.zeros(num_rows, np.int64)
    lengths = np.diff(plan.rule.offsets) if isinstance(plan.rule, Requests) else None
    for first in range(0, len(layout), _POSITIONS_AT_ONCE):
        positions = np.arange(first, min(first + _POSITIONS_AT_ONCE, len(layout)))
        own = plan.frames_per_clip or 1 if lengths is None else lengths[positions]
        np.add.at(counts, layout.find_rows(positions), own)
    return counts


def explain_little_reuse(plan: EpochPlan, form: StoredForm) -> str | None:
    """Explain that an empty cache saves little, because a plan draws other frames in the next epoch; else None."""
    if not plan.draws_frames:
        return None
    share = estimate_reuse(plan, form == "output")
    if share >= _MUCH_REUSE:
        return None
    crops = " A random crop needs form='planes'." if form == "output" and plan.options.crop is not None else ""
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
    if not plan.draws_frames:
        return 1.0
    *stored, later = (order_by_catalog(plan, number) for number in range(epochs + 1))
    num_frames = num_found = 0
    for window in sample_windows(later, min(len(later), SAMPLED_CLIPS), SAMPLED_CLIPS):
        known = set(_list_frames(list_requests(stored, window), by_output))
        requested = _list_frames(list_requests([later], window), by_output)
        num_frames += len(requested)
        num_found += sum(frame in known for frame in requested)
    return num_found / num_frames if num_frames else 1.0


def _list_frames(clips: Sequence[Any], by_output: bool) -> list[tuple[str, int, OutputSpec | None]]:
    """List the frames of clips, with the names of their streams."""
    return [
        (name, ordinal, request.output if by_output else None)
        for clip in clips
        for name, request in (clip if isinstance(clip, dict) else {"": clip}).items()
        for ordinal in request.storable.tolist()
    ]


def order_by_catalog(plan: EpochPlan, later: int = 0) -> EpochPlan:
    """Return the plan some epochs later: all ranks' clips in the order of the catalog, those of a source together."""
    if isinstance(plan, FlatPlan) and plan.inner is not None:
        return flatten_streams(order_by_catalog(plan.inner, later))
    plan = plan.with_epoch(plan.epoch + later)
    options = replace(plan.options, shuffle=False, rank=0, world_size=1)
    return replace(plan, options=options, deliveries=())


def scatter(count: int) -> list[int]:
    """Order the numbers below ``count`` so that any few consecutive ones lie far apart."""
    return sorted(range(count), key=lambda number: number * _GOLDEN_RATIO % 1)


def sample_windows(plan: EpochPlan, count: int, most_clips: int) -> Iterator[range]:
    """Yield neighbouring positions of one source each, spread over a plan in the order of the catalog."""
    num_clips = 0
    for number in scatter(count):
        middle = (2 * number + 1) * len(plan) // (2 * count)
        row = plan.row_at(middle)
        first = stop = middle
        while first > max(0, middle - _WINDOW // 2) and plan.row_at(first - 1) == row:
            first -= 1
        while stop < min(len(plan), first + _WINDOW) and plan.row_at(stop) == row:
            stop += 1
        yield range(first, stop)
        num_clips += stop - first
        if num_clips >= most_clips:
            return


def list_requests(plans: Sequence[EpochPlan], positions: range) -> list[DecodeRequest]:
    """List the requests of some positions of each plan, without those that cannot be planned."""
    requests = []
    for plan in plans:
        for position in positions:
            try:
                requests.append(plan[position])
            except (FrameNotFound, TimeUnavailable):
                continue
    return requests
