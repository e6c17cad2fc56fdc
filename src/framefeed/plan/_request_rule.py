"""Plan the user's own clips: a list of requests, or a column that has the frames of each row, as a clip rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import AnyArray, BoolArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import MAX_INT64, expected
from framefeed.catalog import Catalog, ListColumn, RowLists, TextColumn, check_plannable, read_plan_column
from framefeed.errors import UsageError
from framefeed.index import ExactTimes, Timeline
from framefeed.plan._options import ClipOptions
from framefeed.request import (
    Before,
    Bounds,
    ClipContext,
    ClipFrames,
    DecodeRequest,
    FixedCrop,
    OutputSpec,
    Picking,
    PictureRule,
    Placement,
    Size,
    choose_frames,
    choose_times,
)


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests as arrays: request r has the frames ``offsets[r]`` to ``offsets[r + 1]`` of F."""

    rows: IntArray  # of the catalog, [R]
    offsets: IntArray  # [R + 1], the last is F
    by_time: BoolArray  # [R]
    indices: IntArray  # [F]; 0 in a request by seconds
    seconds: FloatArray  # [F]; 0 in a request by index
    segments: IntArray  # [F]
    outputs: tuple[OutputSpec, ...]  # the different forms
    output_of: IntArray  # index into outputs, [R]
    columns: Mapping[str, AnyArray | ListColumn | TextColumn]  # [R] or [R, ...] each; labels as int64 codes
    classes: tuple[Any, ...]  # texts of the codes of the column "label"
    picking: Picking
    at: str | None = None  # column of the catalog that the requests are made from; None for a list of requests
    bounds: FloatArray | None = None  # start and end in seconds, [R, 2], NaN for none; None if no request has any
    before: Before = "repeat_first"  # what is delivered for frames before the bounds

    @classmethod
    def of(
        cls,
        requests: Sequence[DecodeRequest],
        rows: IntArray,
        columns: Mapping[str, Sequence[Any]],
        picking: Picking,
        bounds: FloatArray | None = None,
        before: Before = "repeat_first",
    ) -> Requests:
        """Collect R requests whose sources are the given rows of a catalog, int64 [R]; ``bounds`` as the attribute."""
        outputs: dict[OutputSpec, int] = {}
        output_of = [outputs.setdefault(request.output, len(outputs)) for request in requests]
        coded = {name: read_column(name, values, len(requests)) for name, values in columns.items()}
        return cls(
            rows=rows,
            offsets=np.cumsum([0, *map(len, requests)], dtype=np.int64),
            by_time=np.array([request.indices is None for request in requests], dtype=np.bool_),
            indices=_join_columns([request.indices for request in requests], requests, np.int64),
            seconds=_join_columns([request.seconds for request in requests], requests, np.float64),
            segments=_join_columns([request.segment for request in requests], requests, np.int64),
            outputs=tuple(outputs),
            output_of=np.array(output_of, dtype=np.int64),
            columns={name: values for name, (values, _) in coded.items()},
            classes=coded["label"][1] if "label" in coded else (),
            picking=picking,
            bounds=bounds,
            before=before,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_picture_rules"}

    def __repr__(self) -> str:
        return f"Requests({len(self)} requests, {self._digest}, {self.picking})"

    @cached_property
    def _digest(self) -> str:
        digest = blake2b(repr(self.outputs).encode(), digest_size=16)
        frames = (self.offsets, self.by_time, self.indices, self.seconds, self.segments)
        for column in (self.rows, self.output_of, *frames):
            digest.update(column.tobytes())
        if self.bounds is not None:
            digest.update(self.bounds.T.tobytes() + self.before.encode())
        return digest.hexdigest()

    @cached_property
    def num_frames(self) -> int | None:
        """T if all requests have the same number of frames, else None."""
        lengths = np.unique(np.diff(self.offsets))
        return int(lengths[0]) if len(lengths) == 1 else None

    @property
    def needs_times(self) -> bool:
        """Whether a request is by time."""
        return bool(self.by_time.any())

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one request."""
        number = context.number
        frames = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        segments = self.segments[frames]
        if self.bounds is not None and not np.isnan(self.bounds[number]).all():
            start, end = self.bounds[number].tolist()
            bounds = Bounds(start, end, self.before)
            if self.by_time[number]:
                return bounds.choose_seconds(timeline, self.seconds[frames], segments, self.picking)
            return bounds.choose_numbers(timeline, self.indices[frames], segments, self.picking)
        if not self.by_time[number]:
            return choose_frames(timeline, self.indices[frames], segments, self.picking.policy)
        ticks = timeline.to_ticks(ExactTimes.of(self.seconds[frames].tolist()))
        return choose_times(timeline, ticks, segments, self.picking)

    # --- crop and size of requests that have their own ------------------------------------------------

    @cached_property
    def _picture_rules(self) -> tuple[PictureRule, ...]:
        return tuple(
            PictureRule(each.size, each.crop and FixedCrop(each.crop), each.still_quality, each.filter)
            for each in self.outputs
        )

    def output(self, height: int, width: int, context: ClipContext) -> OutputSpec:
        """Choose the crop and size of one request in a displayed picture of height x width."""
        return self._picture_rules[int(self.output_of[context.number])].output(height, width, context)

    def for_frames(self, num_frames: int) -> Requests:
        """Return these: sizes of requests do not depend on T."""
        return self

    def find_shape(self, height: int, width: int, number: int) -> tuple[int, int, int]:
        """Find the shape of the pictures of request ``number``, (C, H, W)."""
        return self._picture_rules[int(self.output_of[number])].shape(height, width)

    def place(self, output: OutputSpec, *, is_flipped: bool) -> Placement | None:
        """Find where pictures lie in those that are delivered: forms of requests have no border."""

    def common_picture(
        self, heights: IntArray, widths: IntArray, name: Callable[[int], str], *, unequal: bool = False
    ) -> Size | None:
        """Find the one (height, width) of all requests, None if they may differ; see ``PictureRule.common_picture``."""
        output_by_size: dict[Size, str] = {}
        for number, rule in enumerate(self._picture_rules):
            rows = self.rows[self.output_of == number]
            names = [name(row) for row in rows.tolist()]
            if unequal:
                rule.check_pictures(heights[rows], widths[rows], names.__getitem__)
            elif (size := rule.common_picture(heights[rows], widths[rows], names.__getitem__)) is not None:
                output_by_size.setdefault(size, f"{self.outputs[number]}")
        if len(output_by_size) > 1:
            raise UsageError(
                f"all pictures of a plan must have the same size, but the requests ask for {output_by_size}: give "
                "unequal=True, which makes each batch a list of clips"
            )
        return next(iter(output_by_size), None)


def read_column(name: str, values: Sequence[Any], count: int) -> tuple[AnyArray | TextColumn, tuple[Any, ...]]:
    """Read one value for each request: numbers and text as they are, texts of the column "label" as int64 codes.

    Also return the labels in the order of their codes, of other columns none.
    """
    what = f"one number, text or list per request ({count}); lists of numbers have one length and no None"
    if hasattr(values, "__len__") and len(values) != count:
        raise UsageError(f"columns[{name!r}]: expected one value per request ({count}), got {len(values)}")
    texts = values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind in "UO" else values
    if isinstance(texts, (list, tuple)) and any(map(_is_text, texts)):
        column = TextColumn.of(name, texts)
        if name != "label":
            return column, ()
        if column.has_lists or None in texts:
            raise expected(f"columns[{name!r}]", "one label per request, without None", values)
        codes = {text: code for code, text in enumerate(column.list_distinct())}
        return np.array([codes[text] for text in texts], dtype=np.int64), tuple(codes)
    try:
        numbers = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        raise expected(f"columns[{name!r}]", what, values) from None
    if not numbers.ndim or len(numbers) != count:
        raise UsageError(f"columns[{name!r}]: expected one value per request ({count}), got shape {numbers.shape}")
    if numbers.dtype.kind not in "iufb":
        raise UsageError(f"columns[{name!r}]: expected {what}, got {numbers.dtype} of shape {numbers.shape}")
    return numbers, ()


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and any(isinstance(each, str) for each in value))


def _join_columns(
    columns: Sequence[npt.NDArray[Any] | None], requests: Sequence[DecodeRequest], dtype: Any
) -> AnyArray:
    parts = [
        np.zeros(len(request), dtype=dtype) if column is None else column
        for column, request in zip(columns, requests, strict=True)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


# Matches words of a column's name: start_time, but not timestep.
_SECONDS = re.compile(r"(?<![a-z])(times?|timestamps?|seconds?)(?![a-z])")
_NUMBERS = re.compile(r"(?<![a-z])(frames?|index|indices|indexes|idx|ids?|numbers?)(?![a-z])")


def make_row_requests(catalog: Catalog, at: str, options: ClipOptions, some: IntArray | None = None) -> Requests:
    """Make a request of each plannable row that has numbers in column ``at``: frame numbers if integers, else seconds.

    ``some`` are the plannable rows that are planned; None for all.
    """
    check_plannable(catalog)
    if options.within is not None or options.clips_per_video != 1:
        raise UsageError("at= has one clip a row: leave out within= and clips_per_video=")
    all_lists = RowLists.of(catalog, at)
    plannable = catalog.plannable_rows if some is None else some
    rows = plannable[~all_lists.has_null[plannable] & (all_lists.lengths[plannable] > 0)]
    if not options.pictures.takes_any_size:
        rows = rows[~catalog.changes_size[rows]]
    if all_lists.values.dtype.kind == "f":
        rows = rows[~catalog.lacks_times[rows]]
    lists = all_lists.take(rows)
    _check_lists(catalog, at, rows, lists, options.unequal)
    by_time = lists.values.dtype.kind == "f"
    if not by_time and int(lists.values.max(initial=0)) > MAX_INT64:
        number = int(lists.offsets.searchsorted(int(lists.values.argmax()), side="right")) - 1
        raise UsageError(f"column {at!r} has a frame number of more than 63 bits in {_name_row(catalog, rows, number)}")
    zeros = np.zeros_like(lists.values, dtype=np.int64)
    return Requests(
        rows=rows,
        offsets=lists.offsets,
        by_time=np.full(len(rows), by_time),
        indices=zeros if by_time else lists.values.astype(np.int64),
        seconds=lists.values.astype(np.float64) if by_time else zeros.astype(np.float64),
        segments=zeros,
        outputs=(OutputSpec(),),
        output_of=np.zeros(len(rows), np.int64),
        columns={
            name: _select(read_plan_column(catalog, name, rows, as_codes=name in options.coded), rows)
            for name in options.columns
        },
        classes=tuple(catalog.classes),
        picking=Picking(),
        at=at,
    )


def find_mistakes(catalog: Catalog, requests: Requests) -> Iterator[str]:
    """Yield a warning for each likely mistake in the column that requests are made from."""
    at, rows = requests.at or "", requests.rows
    if not len(rows):
        return
    by_time = bool(requests.by_time.any())
    if not by_time and _SECONDS.search(at.lower()) and not _NUMBERS.search(at.lower()):
        yield f"at={at!r}: integers are frame numbers, not seconds: for seconds write floats, such as 3.0"
    values = requests.seconds if by_time else requests.indices
    # NaN, so that nothing is past it, if a file has no times.
    ends = catalog.column_values("duration_seconds")[rows] if by_time else catalog.num_frames[rows]
    starts, owners = requests.offsets[:-1], np.repeat(np.arange(len(rows)), np.diff(requests.offsets))
    past = values >= ends[owners]
    if by_time and past.any() and np.array_equal(values, np.floor(values)):
        number, value = int(owners[past.argmax()]), values[past.argmax()]
        row_name = _name_row(catalog, rows, number)
        yield (
            f"at={at!r}: this column holds floats, which are seconds, but all of them are whole numbers, and "
            f"{len(np.unique(owners[past]))} of {len(rows)} rows ask for a time past the end of the video: the first "
            f"is {row_name}, with {value:g} s of {ends[number]:.2f} s. If they "
            "are frame numbers, cast the column to integers (pandas: astype('int64')), so that the list has 30 and not "
            "30.0, and scan again"
        )
    elif (all_past := np.logical_and.reduceat(past, starts)).any():
        number = int(all_past.argmax())
        first, end = values[starts[number]], ends[number]
        example = f"frame {first}, but the video's frames go from 0 to {end - 1}"
        if by_time:
            example = f"{first:g} s, but the video is {end:.2f} s long"
        count, row_name = np.count_nonzero(all_past), _name_row(catalog, rows, number)
        yield (
            f"at={at!r}: in {count} of {len(rows)} rows, all frames lie past the end of the video: "
            f"the first is {row_name}, with {example}. The last frame of the video is delivered "
            "in their place, with valid False. Correct these rows or leave them out; ff.plan_requests with "
            "policy='error' makes such a clip an error"
        )


def _select(column: AnyArray | ListColumn | TextColumn, rows: IntArray) -> AnyArray | ListColumn | TextColumn:
    return column.select(rows) if isinstance(column, ListColumn | TextColumn) else column[rows]


def _check_lists(catalog: Catalog, at: str, rows: IntArray, lists: RowLists, unequal: bool) -> None:
    if not len(rows):
        return
    lengths = lists.lengths
    if (differs := lengths != lengths[0]).any() and not unequal:
        other = int(differs.argmax())
        raise UsageError(
            f"column {at!r} must have the same number of frames in every row, but {_name_row(catalog, rows, 0)} has "
            f"{lengths[0]} and {_name_row(catalog, rows, other)} has {lengths[other]}: give unequal=True, repeat "
            "frames, or plan the lengths apart with catalog[mask]"
        )
    if not (finite := np.isfinite(lists.values)).all():
        number = int(np.searchsorted(lists.offsets, int(finite.argmin()), side="right")) - 1
        raise UsageError(f"column {at!r} asks for a time that is not finite in {_name_row(catalog, rows, number)}")


def _name_row(catalog: Catalog, rows: IntArray, number: int) -> str:
    row = int(rows[number])
    return f"row {row} ({catalog.shown_name(row)})"
