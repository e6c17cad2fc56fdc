"""Plan several streams in one clip: an aligned plan for each, of the same order and the same draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.errors import FramefeedError, FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import ExactTimes, FrameIndex, Timeline
from framefeed.plan._description import PlanDescription, describe_plan
from framefeed.plan._epoch import EpochPlan
from framefeed.plan._joined import JoinedCatalogs
from framefeed.plan._options import PlanOptions
from framefeed.plan._order import ClipLocation, StreamClips
from framefeed.plan._shard import Delivery
from framefeed.plan._short_rows import count_short_videos
from framefeed.plan._tables import Excluded, PlanTables, describe_source
from framefeed.request import (
    ClipContext,
    ClipFrames,
    DecodeRequest,
    Picking,
    PictureRule,
    SharedCrop,
    SharedDraw,
    choose_times,
)

_POSITIONS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Following:
    """The frames at the times of the clip's first stream, counted from the first output frame of each."""

    on: str
    picking: Picking
    num_frames: int | None
    needs_times = True

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of a clip whose first stream is planned."""
        draw = context.draw
        if draw is None or draw.seconds is None or draw.valid is None or draw.segments is None:
            raise UsageError(
                "the frames of this stream follow those of the first: plan[position] has the requests of all streams"
            )
        if np.isnan(draw.seconds).any():
            raise TimeUnavailable("the first stream of the clip has no times that this one could follow")
        ticks = timeline.to_ticks(ExactTimes.of(draw.seconds.tolist()))
        chosen = choose_times(timeline, ticks, draw.segments, self.picking)
        return replace(chosen, valid=chosen.valid & draw.valid)


@dataclass(frozen=True, eq=False)
class Streams:
    """What a plan of several streams has in place of a clip rule."""

    parts: Mapping[str, EpochPlan]  # the plan of each stream, of the whole epoch on one rank
    excluded: tuple[Excluded, ...] = ()  # rows without a partner in another catalog
    has_table_rows: bool = False  # rows of batches are the lines of the plan's columns, not rows of the first catalog
    make: Callable[[PlanOptions], EpochPlan] | None = None  # makes the plan again; None if the parts can be pickled
    joined: Mapping[str, tuple[str, ...]] | None = None  # parts whose frames batches have as one stream, by its name

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {part.rule!r} of {part.catalog.fingerprint} ({part._effective_options.text})"
            for name, part in self.parts.items()
        )
        return f"Streams({parts})"

    @property
    def first(self) -> EpochPlan:
        """The plan of the first stream."""
        return next(iter(self.parts.values()))

    @property
    def num_frames(self) -> int | None:
        """T, if that of all streams of batches is the same."""
        lengths = set(find_batch_lengths(self.parts, self.batch_streams).values())
        return lengths.pop() if len(lengths) == 1 else None

    @property
    def batch_streams(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the parts of each stream of batches."""
        return {name: (name,) for name in self.parts} if self.joined is None else self.joined

    @property
    def is_random(self) -> bool:
        """Whether a stream draws frames or crops."""
        return any(part.draws_frames for part in self.parts.values())

    def choose(self, timeline: Any, context: Any) -> NoReturn:
        """Refuse: the rules of the parts choose."""
        raise UsageError("a plan of several streams has no clip rule of its own: plan.streams has one for each")


@dataclass(frozen=True, eq=False)
class StreamsPlan(EpochPlan):
    """The plan of clips of several streams; made by ``plan_clips`` and ``plan_requests``.

    A request is a dict of the requests of all streams. ``catalog`` has the rows of the catalogs of all streams, each
    catalog once, those of the first stream first.
    """

    def __repr__(self) -> str:
        options = self.options
        rules = ", ".join(f"{name}: {part.rule!r}" for name, part in self._rule.parts.items())
        return (
            f"EpochPlan({len(self)} clips of {{{rules}}}, seed={options.seed}, epoch={options.epoch}, "
            f"shuffle={options.shuffle!r}, rank={options.rank} of {options.world_size})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rule = self._rule
        if rule.make is not None:
            return (_make_again, (rule.make, self.options, self.deliveries))
        parts, joined = dict(rule.parts), rule.joined
        return (join_streams, (parts, self.options, rule.excluded, rule.has_table_rows, self.deliveries, None, joined))

    @property
    def _rule(self) -> Streams:
        assert isinstance(self.rule, Streams)
        return self.rule

    @cached_property
    def streams(self) -> Mapping[str, EpochPlan]:
        """The plan of each stream by its name, of the whole epoch on one rank."""
        return {name: part.with_epoch(self.epoch) for name, part in self._rule.parts.items()}

    @property
    def batch_streams(self) -> Mapping[str, tuple[str, ...]]:
        """By each stream of batches, the streams of the plan whose frames it has, one after the other."""
        return self._rule.batch_streams

    @cached_property
    def _starts(self) -> list[int]:
        """First row of each stream's catalog among those of all."""
        joined: Any = self.catalog
        return [joined.find_start(part.catalog) for part in self._rule.parts.values()]

    def _make_request(self, location: ClipLocation, global_position: int, draw: SharedDraw | None = None) -> Any:
        draw = SharedDraw()
        requests: dict[str, DecodeRequest] = {}
        for name, part in self.streams.items():
            own = part.tables.layout.locate(location.number)
            try:
                requests[name] = request = part._make_request(own, global_position, draw)
                if draw.segments is None:
                    _note_leader(draw, request, part.catalog.frame_index(own.row))
            except (FrameNotFound, TimeUnavailable) as error:
                source = describe_source(part.catalog, own.row)
                raise type(error)(f"{source} (stream {name!r}): {error}", source=source) from error
            except FramefeedError as error:
                name_stream(error, name)
                raise
        return requests

    def rows_at(self, position: SupportsIndex) -> list[int]:
        """Number of the row of each stream of the clip at a position, among the rows of all catalogs."""
        number = self._locate(position)[1].number
        parts = zip(self._starts, self._rule.parts.values(), strict=True)
        return [start + part.tables.layout.locate(number).row for start, part in parts]

    def name_rows(self, positions: Sequence[int]) -> IntArray:
        """Number the row of each of some positions as batches do: of the first stream, int64 [N]."""
        if not self._rule.has_table_rows:
            return super().name_rows(positions)
        return np.array([self._locate(position)[1].line for position in positions], dtype=np.int64)

    @property
    def picture_shape(self) -> NoReturn:
        """Refuse: each stream has its own."""
        raise refuse_shape(self, "picture_shape")

    @property
    def clip_shape(self) -> NoReturn:
        """Refuse: each stream has its own."""
        raise refuse_shape(self, "clip_shape")

    def clip_shape_at(self, position: SupportsIndex) -> NoReturn:
        """Refuse: each stream has its own."""
        raise refuse_shape(self, f"clip_shape_at({position})")

    @property
    def excluded(self) -> list[Excluded]:
        """List of the rows that no stream plans, each with ``source`` and ``error``."""
        listed = dict.fromkeys(each for part in self._rule.parts.values() for each in part.excluded)
        return [*listed, *self._rule.excluded]

    @cached_property
    def _row_costs(self) -> Any:
        # Clips are dealt by the cost of their first stream.
        return self._rule.first._row_costs

    def describe(self) -> PlanDescription:
        """Estimate the cost of this rank's epoch from at most a few hundred of its clips."""
        return describe_streams(self)


def find_batch_lengths(
    parts: Mapping[str, EpochPlan], batch_streams: Mapping[str, Sequence[str]]
) -> dict[str, int | None]:
    """Find T of each stream of batches from the plans of its parts; None where clips differ in it."""
    lengths: dict[str, int | None] = {}
    for name, names in batch_streams.items():
        known = [length for part in names if (length := parts[part].frames_per_clip) is not None]
        lengths[name] = sum(known) if len(known) == len(names) else None
    return lengths


def name_stream(error: FramefeedError, name: str) -> None:
    """Name a stream in the message of an error that names none: behind the source that the message begins with."""
    message = error.plain_message
    if "(stream " in message:
        return
    head, colon, rest = message.partition(": ")
    is_named = bool(colon) and head == error.source
    error.args = (f"{head} (stream {name!r}): {rest}" if is_named else f"{message} (stream {name!r})",)


def refuse_shape(plan: EpochPlan, what: str) -> UsageError:
    """Make the error for a shape of a plan of several streams, each of which has its own."""
    return UsageError(f"this plan has several streams: take plan.streams[{next(iter(plan.streams))!r}].{what}")


def describe_streams(plan: EpochPlan) -> PlanDescription:
    """Estimate the cost of a plan of several streams: the sum of theirs."""
    each = [describe_plan(_OneStream(plan, number), plan.options.unit) for number in range(len(plan.streams))]
    frames = sum(one.sampled_frames for one in each)
    decoded = sum(one.decoded_frames_per_delivered_frame * one.sampled_frames for one in each)
    return replace(
        each[0],
        frames_per_clip=plan.frames_per_clip,
        decoded_frames_per_delivered_frame=decoded / max(1, frames),
        predicted_cpu_seconds=sum(one.predicted_cpu_seconds for one in each),
        sampled_frames=frames,
        damaged_frames=sum(one.damaged_frames for one in each),
        past_end_frames=sum(one.past_end_frames for one in each),
        short_videos=count_short_videos(plan),
    )


class _OneStream:
    """One stream of a plan, as far as its description reads it."""

    def __init__(self, plan: EpochPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self.catalog, self.excluded = plan.catalog, plan.excluded
        self.frames_per_clip = list(plan.streams.values())[number].frames_per_clip

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, position: int) -> DecodeRequest:
        requests: Any = self._plan[position]
        request: DecodeRequest = list(requests.values())[self._number]
        return request

    def row_at(self, position: int) -> int:
        """Row of the catalog that the stream of a position's clip comes from."""
        return self._plan.rows_at(position)[self._number]


def _make_again(
    make: Callable[[PlanOptions], EpochPlan], options: PlanOptions, deliveries: tuple[Delivery, ...]
) -> EpochPlan:
    return replace(make(options), deliveries=deliveries)


def _note_leader(draw: SharedDraw, request: DecodeRequest, index: FrameIndex) -> None:
    """Note what the other streams follow."""
    assert request.pts_seconds is not None and request.valid is not None
    draw.segments, draw.valid = request.segment, request.valid
    base = index.time_base
    draw.seconds = np.full(len(request), np.nan)
    if index.has_timestamps:
        ticks = index.pts[request.ordinals] - index.pts[0]
        draw.seconds = ticks * base.numerator / base.denominator


def join_streams(
    parts: Mapping[str, EpochPlan],
    options: PlanOptions,
    excluded: tuple[Excluded, ...] = (),
    has_table_rows: bool = False,
    deliveries: tuple[Delivery, ...] = (),
    make: Callable[[PlanOptions], EpochPlan] | None = None,
    joined: Mapping[str, tuple[str, ...]] | None = None,
) -> StreamsPlan:
    """Make the plan of several streams, whose attributes are those of `Streams`; pickles of plans name this function.

    The parts have as many clips each, and the same seed and shuffle as ``options``. Columns are those of the first.
    """
    shared = _share_crops(parts)
    catalogs = JoinedCatalogs(part.catalog for part in shared.values())
    first = next(iter(shared.values()))
    tables = PlanTables(
        layout=StreamClips(first.tables.layout),
        columns=first.tables.columns,
        classes=first.tables.classes,
        windows=None,
        pictures=options.pictures,
        picture=None,
    )
    rule = Streams(shared, excluded, has_table_rows, make, joined)
    return StreamsPlan(catalogs.as_catalog(), rule, options, tables, deliveries)


def _share_crops(parts: Mapping[str, EpochPlan]) -> dict[str, EpochPlan]:
    """Let the random crops of all streams share one draw: of one crop the same part of each picture."""
    rules = {name: part.tables.pictures for name, part in parts.items()}
    drawn = {name: rule for name, rule in rules.items() if _is_drawn(rule)}
    crops = {repr(rule.crop) for rule in drawn.values() if isinstance(rule, PictureRule)}
    is_one_part = len(crops) == 1 and len(drawn) == len(parts)
    if is_one_part:
        _check_same_part(parts)
    shared = dict(parts)
    for name, rule in drawn.items():
        if isinstance(rule, PictureRule) and rule.crop is not None and not isinstance(rule.crop, SharedCrop):
            pictures = replace(rule, crop=SharedCrop(rule.crop, is_one_part))
            part = parts[name]
            shared[name] = replace(part, tables=replace(part.tables, pictures=pictures))
    return shared


def _is_drawn(rule: Any) -> bool:
    return isinstance(rule, PictureRule) and bool(getattr(rule.crop, "is_random", False))


def _check_same_part(parts: Mapping[str, EpochPlan]) -> None:
    """Check that a random crop of so many pixels, which are not resized, is the same part of each picture."""
    (leader, first), *others = parts.items()
    pictures: Any = first.tables.pictures
    if pictures.size is not None or pictures.crop.resizes:
        return
    for start in range(0, len(first.tables.layout), _POSITIONS_AT_ONCE):
        positions = np.arange(start, min(start + _POSITIONS_AT_ONCE, len(first.tables.layout)), dtype=np.int64)
        own = first.tables.layout.find_rows(positions)
        for name, part in others:
            rows = part.tables.layout.find_rows(positions)
            heights = part.catalog.heights[rows] != first.catalog.heights[own]
            differs = heights | (part.catalog.widths[rows] != first.catalog.widths[own])
            if differs.any():
                row = int(rows[int(differs.argmax())])
                raise UsageError(
                    f"{pictures.crop!r} without size= is not the same part of the pictures of streams {leader!r} and "
                    f"{name!r}, which differ in size ({describe_source(part.catalog, row)}): give size=(height, "
                    'width), or unlike crops by stream, crop={"NAME": ff.RandomCrop(...), ...}'
                )
