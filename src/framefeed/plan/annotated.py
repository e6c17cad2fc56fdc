"""plan_clips(at=...): a column that names the frames of each row, as requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from framefeed.errors import UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.catalog_rows import why_no_frames
from framefeed.index.frame_index import IntArray
from framefeed.index.row_lists import RowLists
from framefeed.plan.asked import Requests
from framefeed.plan.choice import Picking
from framefeed.plan.options import PlanOptions
from framefeed.plan.request import OutputSpec

# As a word of a column's name: start_time, but not timestep.
_SECONDS = re.compile(r"(?<![a-z])(times?|timestamps?|seconds?)(?![a-z])")
_NUMBERS = re.compile(r"(?<![a-z])(frames?|index|indices|indexes|idx|ids?|numbers?)(?![a-z])")


def requests_of_rows(catalog: Catalog, at: str, options: PlanOptions) -> Requests:
    """Make a request of each usable row that has numbers in column ``at``: frame numbers if integers, else seconds.

    Raises:
        UsageError: The column is missing, holds something else, or not as many numbers in every row.
    """
    if not catalog.has_frame_indexes:
        raise UsageError(why_no_frames(catalog, "plan over catalog.with_frame_indexes()"))
    if options.within is not None or options.clips_per_video != 1:
        raise UsageError("at= has one clip a row: leave out within= and clips_per_video=")
    every = RowLists.of(catalog, at)
    usable = catalog.usable_rows
    rows = usable[~every.has_null[usable] & (every.lengths[usable] > 0)]
    chosen = every.take(rows)
    _check_lists(catalog, at, rows, chosen)
    by_time = chosen.values.dtype.kind == "f"
    nothing = np.zeros_like(chosen.values, dtype=np.int64)
    return Requests(
        rows=rows,
        offsets=chosen.offsets,
        by_time=np.full(len(rows), by_time),
        indices=nothing if by_time else chosen.values.astype(np.int64),
        seconds=chosen.values.astype(np.float64) if by_time else nothing.astype(np.float64),
        segments=nothing,
        outputs=(OutputSpec(),),
        output_of=np.zeros(len(rows), np.int64),
        columns={name: catalog.column_values(name)[rows] for name in options.columns},
        classes=tuple(catalog.classes),
        picking=Picking(),
        at=at,
    )


def remarks_on(catalog: Catalog, asked: Requests) -> Iterator[str]:
    """Say what looks like a mistake in the column that requests were made of."""
    at, rows = asked.at or "", asked.rows
    if not len(rows):
        return
    by_time = bool(asked.by_time.any())
    if not by_time and _SECONDS.search(at.lower()) and not _NUMBERS.search(at.lower()):
        yield f"at={at!r}: integers are frame numbers, not seconds: for seconds write floats, such as 3.0"
    wanted = (asked.seconds if by_time else asked.indices).reshape(len(rows), -1)
    # NaN, and so past nothing, where a file has no times.
    ends = catalog.column_values("duration_seconds")[rows] if by_time else catalog.num_frames[rows]
    past = wanted >= ends[:, np.newaxis]
    if by_time and past.any() and np.array_equal(wanted, np.floor(wanted)):
        number, place = divmod(int(past.argmax()), past.shape[1])
        yield (
            f"at={at!r}: this column holds floats, which are seconds, but all of them are whole numbers, and "
            f"{np.count_nonzero(past.any(1))} of {len(rows)} rows ask for a time past the end of the video: the first "
            f"is {_named(catalog, rows, number)}, with {wanted[number, place]:g} s of {ends[number]:.2f} s. If they "
            "are frame numbers, cast the column to integers (pandas: astype('int64')), so that the list has 30 and not "
            "30.0, and scan again"
        )
    elif (lost := past.all(1)).any():
        number = int(lost.argmax())
        first, end = wanted[number, 0], ends[number]
        asks = f"{first:g} s, but the video is {end:.2f} s long"
        example = asks if by_time else f"frame {first}, but the video's frames go from 0 to {end - 1}"
        yield (
            f"at={at!r}: in {np.count_nonzero(lost)} of {len(rows)} rows, all frames lie past the end of the video: "
            f"the first is {_named(catalog, rows, number)}, with {example}. The last frame of the video is delivered "
            "in their place, with valid False. Correct these rows or leave them out; ff.plan_requests with "
            "policy='error' makes such a clip an error"
        )


def _check_lists(catalog: Catalog, at: str, rows: IntArray, chosen: RowLists) -> None:
    if not len(rows):
        return
    lengths = chosen.lengths
    if (unlike := lengths != lengths[0]).any():
        other = int(unlike.argmax())
        raise UsageError(
            f"column {at!r} must have the same number of frames in every row, but {_named(catalog, rows, 0)} has "
            f"{lengths[0]} and {_named(catalog, rows, other)} has {lengths[other]}: repeat frames, or plan the "
            "lengths apart with catalog[mask]"
        )
    if not (finite := np.isfinite(chosen.values)).all():
        number = int(np.searchsorted(chosen.offsets, int(finite.argmin()), side="right")) - 1
        raise UsageError(f"column {at!r} asks for a time that is not finite in {_named(catalog, rows, number)}")


def _named(catalog: Catalog, rows: IntArray, number: int) -> str:
    row = int(rows[number])
    return f"row {row} ({catalog.shown_name(row)})"
