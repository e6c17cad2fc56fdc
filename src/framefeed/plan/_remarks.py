"""Find what a plan's user should know before the first batch: likely mistakes and known damage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framefeed._arrays import IntArray
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.index import Timeline
from framefeed.plan._epoch import EpochPlan
from framefeed.plan._request_rule import Requests, find_mistakes
from framefeed.plan._rules import EveryFrame
from framefeed.plan._tables import describe_source
from framefeed.request import ClipContext


def find_remarks(plan: EpochPlan) -> Iterator[str]:
    """Yield a warning for each matter; no media are opened, and nothing is drawn."""
    catalog = plan.catalog
    if isinstance(plan.rule, Requests) and plan.rule.at is not None:
        yield from find_mistakes(catalog, plan.rule)
    remark = _describe_known_damage(plan) if plan.options.on_damaged == "error" else _describe_unknown_damage(plan)
    if remark is not None:
        yield remark
    if (remark := explain_enlarged_crop(plan)) is not None:
        yield remark


def explain_enlarged_crop(plan: EpochPlan) -> str | None:
    """Write a warning if the crop is smaller than the size; else None."""
    rows, catalog = _list_rows(plan), plan.catalog
    if not len(rows):
        return None
    return plan.options.pictures.explain_enlarging(int(catalog.heights[rows[0]]), int(catalog.widths[rows[0]]))


def _list_rows(plan: EpochPlan) -> IntArray:
    """List the rows that clips come from; of requests, the row of each."""
    return plan.rule.rows if isinstance(plan.rule, Requests) else plan.catalog.usable_rows


def _describe_unknown_damage(plan: EpochPlan) -> str | None:
    """Write a warning if ``on_damaged`` cannot work for rows that were not decoded to find damage; else None."""
    catalog = plan.catalog
    # Null, here NaN, means that not all of a file was decoded.
    count = np.count_nonzero(np.isnan(catalog.column_values("num_damaged_frames")[catalog.usable_rows]))
    if not count:
        return None
    return (
        f"on_damaged={plan.options.on_damaged!r}: damage is not known for {count} of {len(catalog.usable_rows)} rows, "
        "because they were not scanned with verify='full' (on the command line: framefeed scan --verify full); loading "
        "a damaged frame of these rows raises CorruptMedia"
    )


def _describe_known_damage(plan: EpochPlan) -> str | None:
    """Write a warning if frames that the rule may pick are known to be damaged; else None."""
    catalog, rows = plan.catalog, _list_rows(plan)
    num_files = num_frames = 0
    first = ""
    for row in np.unique(rows[catalog.column_values("num_damaged_frames")[rows] > 0]).tolist():
        count = _count_damaged_picks(plan, row)
        if count and not num_files:
            first = describe_source(catalog, row)
        num_files += count > 0
        num_frames += count
    if not num_files:
        return None
    found = f"{num_frames} damaged frames in {num_files} of {len(catalog)} rows"
    return (
        f"{found} may be in clips of this plan (first {first}). "
        "With on_damaged='error', the default, loading such a clip raises CorruptMedia; that ends the loop, unless the "
        "loader has on_error='skip' (zeros) or 'substitute' (another clip). With on_damaged='skip', plan_clips gives "
        "zeros for these frames alone, with valid False, and with 'deliver' the pictures that the decoder gives "
        "(on the command line: --on-damaged)"
    )


def _count_damaged_picks(plan: EpochPlan, row: int) -> int:
    """Count the damaged frames of a row that the rule may pick."""
    index, rule, windows = plan.catalog.frame_index(row), plan.rule, plan.tables.windows
    try:
        timeline = Timeline.whole(index) if windows is None else windows.timeline(index, row)
        if getattr(rule, "is_random", False) or isinstance(rule, EveryFrame):
            ordinals = timeline.first + np.arange(len(timeline))
        else:
            numbers = np.arange(plan.options.clips_per_video)
            if isinstance(rule, Requests):
                numbers = np.flatnonzero(rule.rows == row)
            contexts = [ClipContext(plan.seed, plan.epoch, 0, number) for number in numbers.tolist()]
            ordinals = np.unique(np.concatenate([rule.choose(timeline, context).ordinals for context in contexts]))
    except (FrameNotFound, TimeUnavailable):
        return 0  # Its clips raise this error.
    return int(np.count_nonzero(index.is_damaged(ordinals)))
