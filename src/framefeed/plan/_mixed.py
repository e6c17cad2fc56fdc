"""Mix plans by weight: one epoch of clips of several plans, each in its own order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import Any, SupportsIndex

import numpy as np

from framefeed._arrays import AnyArray, IntArray
from framefeed._checks import MAX_INT64, check_integer, expected, is_finite
from framefeed.catalog import list_texts
from framefeed.errors import UsageError
from framefeed.plan._description import PlanDescription, describe_plan
from framefeed.plan._epoch import EpochPlan, locate_ahead
from framefeed.plan._joined import JoinedCatalogs
from framefeed.plan._mixing import MixSequence
from framefeed.plan._options import PlanOptions
from framefeed.plan._order import ClipLocation
from framefeed.plan._request_rule import Requests
from framefeed.plan._shard import Delivery, Tail
from framefeed.plan._short_rows import count_short_videos
from framefeed.plan._streams import describe_streams, refuse_shape
from framefeed.plan._tables import Excluded, PlanTables, find_delivered_form
from framefeed.request import SharedDraw

PLAN_COLUMN = "plan"
"""Column of a mixture with the number of each clip's part."""
_MOST_EPOCHS = 4
"""Epochs of a part that are remembered."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """What a mixture has in place of a clip rule.

    ``parts`` are plans of the whole epoch on one rank, at the epochs at which the mixture begins.
    """

    parts: tuple[EpochPlan, ...]
    weights: tuple[Fraction, ...]
    num_clips: int

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{weight} of {part.fingerprint} from epoch {part.epoch}"
            for part, weight in zip(self.parts, self.weights, strict=True)
        )
        return f"Mixture({parts}, num_clips={self.num_clips})"

    @property
    def num_frames(self) -> int | None:
        """T, the number of frames of every clip."""
        return self.parts[0].frames_per_clip

    @property
    def is_random(self) -> bool:
        """Whether a part draws frames or crops."""
        return any(part.draws_frames for part in self.parts)

    def choose(self, timeline: Any, context: Any) -> Any:
        """Refuse: the rules of the parts choose."""
        raise UsageError("a mixture has no clip rule of its own: its parts choose the frames")


@dataclass(frozen=True, eq=False)
class MixedPlan(EpochPlan):
    """The plan of a mixture; made by ``mix_plans``.

    ``catalog`` has the rows of all parts' catalogs, each catalog once; ``rows`` of a batch are those of the part's own.
    """

    def __repr__(self) -> str:
        options, mixture = self.options, self.mixture
        weights = ", ".join(f"{float(weight):g}" for weight in mixture.weights)
        return (
            f"EpochPlan({len(self)} clips, mixture of {len(mixture.parts)} plans by {weights}, seed={options.seed}, "
            f"epoch={options.epoch}, rank={options.rank} of {options.world_size})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (restore_mixture, (self.mixture, self.options, self.deliveries))

    @property
    def mixture(self) -> Mixture:
        """The parts and their weights."""
        assert isinstance(self.rule, Mixture)
        return self.rule

    @property
    def parts(self) -> tuple[EpochPlan, ...]:
        """The plans that were mixed, in the order of ``batch["plan"]``."""
        return self.mixture.parts

    @property
    def excluded(self) -> list[Excluded]:
        """List of the rows that no part plans, each with ``source`` and ``error``."""
        return [each for part in self.parts for each in part.excluded]

    def with_epoch(self, epoch: int) -> EpochPlan:
        """Return the same mixture at another epoch, which it has in full; its parts go on where the one before ends."""
        options = replace(self.options, epoch=epoch)
        return self if options.epoch == self.epoch else restore_mixture(self.mixture, options)

    def with_state(self, state: Any) -> EpochPlan:
        """Return the plan at the epoch of a checkpoint; see `EpochPlan.with_state`."""
        read = super().with_state(state)
        return restore_mixture(self.mixture, read.options, read.deliveries)

    def describe(self) -> PlanDescription:
        """Estimate the cost of this rank's epoch from at most a few hundred of its clips."""
        return describe_streams(self) if self.streams else describe_plan(self, 1, None, count_short_videos(self))

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Shape of every delivered picture, (C, H, W); of several streams each has its own."""
        if self.streams:
            raise refuse_shape(self, "picture_shape")
        return super().picture_shape

    def clip_shape_at(self, position: SupportsIndex) -> tuple[int, int, int, int]:
        """Shape of the clip at one position, (T, C, H, W); of several streams each has its own."""
        if self.streams:
            raise refuse_shape(self, f"clip_shape_at({position})")
        return super().clip_shape_at(position)

    @property
    def streams(self) -> Mapping[str, EpochPlan]:
        """The plan of each stream of the first part by its name, of parts with several; else none."""
        return self.parts[0].streams

    @property
    def batch_streams(self) -> Mapping[str, tuple[str, ...]]:
        """By each stream of batches, the streams of the first part whose frames it has, one after the other."""
        return self.parts[0].batch_streams

    def _find_clip(self, location: ClipLocation) -> tuple[EpochPlan, int]:
        layout = self.tables.layout
        assert isinstance(layout, _MixedClips)
        return layout.find_clip(location)

    def _make_request(self, location: ClipLocation, global_position: int, draw: SharedDraw | None = None) -> Any:
        part, position = self._find_clip(location)
        return part._make_request(part._locate(position)[1], position, draw)

    def rows_at(self, position: SupportsIndex) -> list[int]:
        """Number of the row of each stream of the clip at a position, among the rows of all catalogs."""
        location = self._locate(position)[1]
        part, own = self._find_clip(location)
        rows = part.rows_at(own)
        # The location has the row of the first stream among those of all parts.
        return [location.row - rows[0] + row for row in rows]

    def name_rows(self, positions: Sequence[int]) -> IntArray:
        """Number the row of each of some positions as batches do: in the catalog of its part, int64 [N]."""
        if not self.streams:
            return super().name_rows(positions)
        clips = [self._find_clip(self._locate(position)[1]) for position in positions]
        return np.array([part.name_rows([own])[0] for part, own in clips], dtype=np.int64)


class _MixedClips:
    """The layout of one epoch of a mixture: its parts have delivered their clips of the epochs before."""

    def __init__(self, mixture: Mixture, joined: JoinedCatalogs, seed: int, epoch: int) -> None:
        self._mixture = mixture
        self._sequence = MixSequence.of(mixture.weights, mixture.num_clips, seed, epoch)
        self._done = self._sequence.totals * epoch
        self._lengths = np.array([len(part) for part in mixture.parts], dtype=np.int64)
        starts = [joined.find_start(part.catalog) for part in mixture.parts]
        self._starts = np.array(starts, dtype=np.int64)
        self._plans: dict[tuple[int, int], EpochPlan] = {}

    def __len__(self) -> int:
        return self._mixture.num_clips

    def find_clip(self, location: ClipLocation) -> tuple[EpochPlan, int]:
        """Find the plan of a located clip, at its epoch, and the position there."""
        number, part = divmod(location.number, len(self._lengths))
        epochs, position = divmod(number, int(self._lengths[part]))
        return self._find_plan(part, epochs), position

    def read_column(self, name: str, positions: IntArray) -> AnyArray:
        """Read the values of a column at some positions, [N, ...]."""
        parts, numbers = self._sequence.locate(positions)
        if name == PLAN_COLUMN:
            return parts
        values: AnyArray | None = None
        for slots, plan, own in self._group(parts, numbers):
            read = plan.columns_of(own.tolist())[name]
            if values is None:
                values = np.empty((len(positions), *read.shape[1:]), read.dtype)
            values[slots] = read
        assert values is not None
        return values

    def _group(self, parts: IntArray, numbers: IntArray) -> Iterator[tuple[IntArray, EpochPlan, IntArray]]:
        """Yield the slots of each part and epoch among some clips, its plan, and their positions in it."""
        epochs, own = np.divmod(numbers + self._done[parts], self._lengths[parts])
        for part, epoch in sorted(set(zip(parts.tolist(), epochs.tolist(), strict=True))):
            slots = np.flatnonzero((parts == part) & (epochs == epoch))
            yield slots, self._find_plan(part, epoch), own[slots]

    def locate(self, position: int) -> ClipLocation:
        """Find the clip at a position."""
        return next(self.locate_many(np.array([position], dtype=np.int64)))

    def find_rows(self, positions: IntArray) -> IntArray:
        """Find the rows of the joined catalogs of the clips at some positions."""
        return np.array([location.row for location in self.locate_many(positions)], dtype=np.int64)

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        """Find the clips at some positions, int64 [N]."""
        parts, numbers = self._sequence.locate(positions)
        rows = np.empty(len(positions), np.int64)
        for slots, plan, own in self._group(parts, numbers):
            locate_ahead(plan, own)
            rows[slots] = [plan.row_at(each) for each in own.tolist()]
        rows += self._starts[parts]
        own_numbers = (numbers + self._done[parts]) * len(self._lengths) + parts
        return map(ClipLocation, rows.tolist(), own_numbers.tolist(), positions.tolist())

    def _find_plan(self, part: int, epochs: int) -> EpochPlan:
        """Find a part some epochs after its first."""
        plan = self._plans.get((part, epochs))
        if plan is None:
            first = self._mixture.parts[part]
            plan = first.with_epoch(first.epoch + epochs)
            if len(self._plans) >= _MOST_EPOCHS * len(self._lengths):
                self._plans.clear()
            self._plans[part, epochs] = plan
        return plan


class _MixedColumn:
    """A column of a mixture, whose lines are its positions, of those of the parts."""

    def __init__(self, layout: _MixedClips, name: str, columns: Sequence[Any]) -> None:
        self._layout, self._name, self._columns = layout, name, columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers in a batch."""
        return find_delivered_form(self._columns[0])[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""
        return (len(self._layout), *self._columns[0].shape[1:])

    @property
    def size(self) -> int:
        """Count of the numbers of all parts."""
        return sum(column.size for column in self._columns)

    def __len__(self) -> int:
        return len(self._layout)

    def __getitem__(self, lines: int | IntArray) -> Any:
        """Read the value of a position, or those of some positions."""
        values = self._layout.read_column(self._name, np.atleast_1d(lines))
        return values if isinstance(lines, np.ndarray) else values[0]

    def max(self) -> Any:
        """Largest number of all parts."""
        return max(column.max() for column in self._columns if column.size)

    def min(self) -> Any:
        """Least number of all parts."""
        return min(column.min() for column in self._columns if column.size)


def mix_plans(
    parts: Sequence[tuple[EpochPlan, float]],
    *,
    num_clips: int,
    seed: int | None = None,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: Tail = "pad",
) -> EpochPlan:
    """Mix plans by weight: after n positions each has had its share of n clips, within one.

    A part keeps its own order, rule, crops and random choices. Where it ends, its next epoch begins, and the mixture's
    next epoch goes on with its next clip.

    Example: ``mix_plans([(plan_a, 0.7), (plan_b, 0.3)], num_clips=1_000_000, seed=0)``

    Args:
        parts: Plans and their weights, of which only the ratios count. All plan for one rank, give pictures of one
            shape and as many frames, and have the same columns. A part may be a mixture.
        num_clips: Clips of an epoch, of all ranks together.
        seed: Decides the order of the parts, as far as their shares leave it open.
        epoch: Number of the epoch, from 0.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: As in ``plan_clips``.

    Returns:
        A plan whose batches have the column "plan", the number of each clip's part, int64; ``parts`` are those given.

    Raises:
        UsageError: A weight is not above zero, a part has no clips or a rank of its own, or parts do not fit together.
    """
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: all random choices of a plan come from it")
    pairs = _read_pairs(parts)
    plans = tuple(plan for plan, _ in pairs)
    _check_alike(plans)
    options = PlanOptions(
        seed,
        False,
        epoch,
        rank,
        world_size,
        tail,
        size=plans[0].options.size if plans[0].options.has_boxes else None,
        horizontal_flip=max(plan.options.horizontal_flip for plan in plans),
    )
    count = check_integer("num_clips", num_clips, least=1)
    return restore_mixture(Mixture(plans, tuple(weight for _, weight in pairs), count), options)


def restore_mixture(mixture: Mixture, options: PlanOptions, deliveries: tuple[Delivery, ...] = ()) -> EpochPlan:
    """Make the plan of a mixture; pickles of plans name this function."""
    if mixture.num_clips * (options.epoch + 1) * len(mixture.parts) > MAX_INT64:
        raise UsageError(
            f"num_clips: expected fewer clips up to the end of epoch {options.epoch} than 64 bits count, got "
            f"{mixture.num_clips} an epoch"
        )
    joined = JoinedCatalogs(part.catalog for part in mixture.parts)
    first = mixture.parts[0]
    layout = _MixedClips(mixture, joined, options.seed, options.epoch)
    columns: dict[str, Any] = {
        name: _MixedColumn(layout, name, [part.tables.columns[name] for part in mixture.parts])
        for name in first.columns
        if name != PLAN_COLUMN
    }
    columns[PLAN_COLUMN] = _MixedColumn(layout, PLAN_COLUMN, [np.arange(len(mixture.parts), dtype=np.int64)])
    tables = PlanTables(
        layout=layout,
        columns=columns,
        classes=first.tables.classes,
        windows=None,
        pictures=options.pictures,
        picture=first.tables.picture,
    )
    return MixedPlan(joined.as_catalog(), mixture, options, tables, deliveries)


def _read_pairs(parts: Any) -> list[tuple[EpochPlan, Fraction]]:
    what = "a list of pairs of a plan and its weight, such as [(plan_a, 0.7), (plan_b, 0.3)]"
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes) or not parts:
        raise expected("parts", what, parts)
    pairs = []
    for number, pair in enumerate(parts):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], EpochPlan)):
            raise expected(f"parts[{number}]", "a pair of a plan and its weight", pair)
        plan, weight = pair
        if not (is_finite(weight) and weight > 0):
            raise expected(f"the weight of parts[{number}]", "a finite number above zero", weight)
        if plan.world_size != 1 or plan.deliveries:
            raise UsageError(
                f"parts[{number}] is a plan of rank {plan.rank} of {plan.world_size}, or of the rest of an epoch: give "
                "whole plans, and rank= and world_size= to mix_plans"
            )
        if not len(plan):
            raise UsageError(f"parts[{number}] has no clips: leave it out (plan.excluded lists its rows)")
        # A decimal fraction means what is written: 0.7 is 7/10.
        is_whole = isinstance(weight, Integral)
        exact = weight if isinstance(weight, Fraction) else int(weight) if is_whole else str(float(weight))
        pairs.append((plan, Fraction(exact)))
    return pairs


def _check_alike(plans: Sequence[EpochPlan]) -> None:
    """Check that the clips of all parts fit into one batch."""

    def compare(what: str, read: Callable[[EpochPlan], Any], advice: str, of: str = "") -> None:
        values = [read(plan) for plan in plans]
        for number, value in enumerate(values):
            if value != values[0]:
                raise UsageError(
                    f"{what}{of} of parts[0] and parts[{number}] differ, {values[0]} and {value}: {advice}"
                )

    seen: dict[tuple[str, int], int] = {}
    for number, plan in enumerate(plans):
        if (first := seen.setdefault((plan.fingerprint, plan.epoch), number)) < number:
            raise UsageError(
                f"parts[{first}] and parts[{number}] are the same plan, which would give each of its clips twice: add "
                "their weights, or give one of them another seed"
            )
        if any(form.options.unequal or form.frames_per_clip is None for form in _list_forms(plan).values()):
            raise UsageError(
                f"parts[{number}] has pictures of different sizes, or clips of different lengths: give it "
                "size=(height, width), and one number of frames"
            )
    compare("the streams", lambda plan: list(plan.streams), "plan all parts with the same streams, in one order")
    for name in _list_forms(plans[0]):
        of = f" of stream {name!r}" if name else ""
        _compare_forms(partial(compare, of=of), name)
    own = [{name: each for name, each in plan.tables.columns.items() if name != PLAN_COLUMN} for plan in plans]
    for number, (plan, columns) in enumerate(zip(plans, own, strict=True)):
        if PLAN_COLUMN in plan.columns and not isinstance(plan, MixedPlan):
            raise UsageError(f"parts[{number}] has a column {PLAN_COLUMN!r}, which is the mixture's own: rename it")
        if columns.keys() != own[0].keys():
            raise UsageError(
                f"the columns of parts[0] and parts[{number}] differ, {list(own[0])} and {list(columns)}: give all "
                "plans the same columns="
            )
        for name, column in columns.items():
            forms = [find_delivered_form(each) for each in (own[0][name], column)]
            if forms[0] != forms[1]:
                raise UsageError(
                    f"column {name!r} has {forms[0][1]} {list(forms[0][0])} in parts[0], and {forms[1][1]} "
                    f"{list(forms[1][0])} in parts[{number}]: write one type and one shape in all lists"
                )
    compare("the texts of columns", _list_texts, "give scan(classes=...) the labels of all, and other texts as numbers")


def _list_forms(plan: EpochPlan) -> Mapping[str, EpochPlan]:
    """List the plans that tell lengths and pictures: those of the streams, or of the only one."""
    return plan.streams or {"": plan}


def _compare_forms(compare: Callable[[str, Callable[[EpochPlan], Any], str], None], name: str) -> None:
    """Compare lengths and pictures of one stream in all parts."""

    def read(take: Callable[[EpochPlan], Any]) -> Callable[[EpochPlan], Any]:
        return lambda plan: take(_list_forms(plan)[name])

    compare("the numbers of frames", read(lambda plan: plan.frames_per_clip), "use rules with one number of frames")
    compare("the pictures", read(lambda plan: plan.tables.picture), "give all plans the same size=(height, width)")
    compare(
        "the borders",
        read(lambda plan: plan.options.has_boxes),
        "give all plans size=ff.Letterbox(...), or none of them",
    )


def _list_texts(plan: EpochPlan) -> dict[str, Any]:
    """List the texts of the codes of each column of text."""
    if isinstance(plan, MixedPlan):
        return _list_texts(plan.parts[0])
    if plan.streams:
        # Columns are those of the first stream.
        return _list_texts(next(iter(plan.streams.values())))
    if plan.tables.texts is not None:
        return dict(plan.tables.texts)
    rule, names = plan.rule, plan.columns
    if isinstance(rule, Requests) and rule.at is None:
        return dict(rule.texts)
    texts = {name: list_texts(plan.catalog, name) for name in names if name != "label"}
    labels = {"label": tuple(plan.classes)} if "label" in names else {}
    return labels | {name: each for name, each in texts.items() if each}
