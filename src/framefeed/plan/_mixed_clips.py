"""Mix plans by weight: one epoch of clips of several plans, each in its own order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import MAX_INT64, check_integer, expected, is_finite
from framefeed.catalog import TextColumn, Texts
from framefeed.errors import UsageError
from framefeed.plan._clips import ClipFacts, Clips, ClipsAt, Draws, PartForm, Shape, hash_text
from framefeed.plan._mixing import MixSequence
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._planned import PlannedClip
from framefeed.plan._shard import Tail
from framefeed.plan._tables import Excluded, find_delivered_form

PLAN_COLUMN = "plan"
"""Column of a mixture with the number of each clip's part."""
_MOST_EPOCHS = 4
"""Epochs of a part that are remembered."""


@dataclass(frozen=True, eq=False)
class MixedClips(Clips):
    """The clips of a mixture: number and epoch give the part, and which of its clips it is."""

    parts: tuple[EpochPlan, ...]  # of the whole epoch on one rank, at the epochs at which the mixture begins
    weights: tuple[Fraction, ...]  # of the parts, as they were given
    num_clips: int  # of an epoch
    seed: int  # decides the order of the parts, as far as their shares leave it open
    unequal: bool = False  # whether clips may differ in shape
    _orders: dict[tuple[int, int], Order] = field(default_factory=dict, repr=False)
    _sequences: dict[int, MixSequence] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return (MixedClips, (self.parts, self.weights, self.num_clips, self.seed, self.unequal))

    @cached_property
    def inner(self) -> list[Clips]:
        return [part.clips for part in self.parts]

    @property
    def count(self) -> int:
        return self.num_clips

    @cached_property
    def forms(self) -> Mapping[str, PartForm]:
        """Forms of the first part, which are those of all; T and pictures of unequal clips are those of none."""
        if not self.unequal:
            return self.inner[0].forms
        return {name: _join_forms([clips.forms[name] for clips in self.inner]) for name in self.inner[0].forms}

    @property
    def columns(self) -> Mapping[str, Any]:
        """Columns of the first part, which has those of all, and that of the mixture."""
        numbers = np.arange(len(self.parts), dtype=np.int64)
        others = {name: each for name, each in self.inner[0].columns.items() if name != PLAN_COLUMN}
        return {**others, PLAN_COLUMN: numbers}

    @cached_property
    def texts(self) -> Mapping[str, tuple[Any, ...]]:
        """Texts of the codes, which are those of all parts; of columns of text, the texts of all parts."""
        own = self.inner[0].texts
        makers = {name: partial(own.__getitem__, name) for name in own}
        for name, column in self.columns.items():
            if isinstance(column, TextColumn):
                makers[name] = partial(self._join_texts, name)
        return Texts(makers)

    def _join_texts(self, name: str) -> tuple[str, ...]:
        return tuple(sorted({text for clips in self.inner for text in clips.texts[name]}))

    @property
    def excluded(self) -> list[Excluded]:
        return [each for clips in self.inner for each in clips.excluded]

    @property
    def facts(self) -> ClipFacts:
        """What a checkpoint holds: the fingerprints of the parts, which have their options."""
        parts = ", ".join(
            f"{weight} of {part.fingerprint} from epoch {part.epoch}"
            for part, weight in zip(self.parts, self.weights, strict=True)
        )
        rule = f"Mixture({parts}, num_clips={self.num_clips})"
        return ClipFacts(hash_text(rule), rule, {}, hash_text(repr([clips.facts.sources for clips in self.inner])))

    @property
    def mixed(self) -> tuple[EpochPlan, ...]:
        return self.parts

    def describe(self, count: int, order: str) -> str:
        weights = ", ".join(f"{float(weight):g}" for weight in self.weights)
        return f"{count} clips, mixture of {len(self.parts)} plans by {weights}, {order}"

    def predict_costs(self, clips: IntArray) -> FloatArray:
        """Raise UsageError: a mixture is not dealt by cost."""
        raise UsageError("a mixture is not dealt by cost: its states have no balance")

    def at(self, clips: IntArray, draws: Draws) -> MixedClipsAt:
        parts, own, groups = self.find_parts(clips, draws.epoch)
        found = []
        for part, epoch, slots in groups:
            order = self._find_order(part, epoch)
            part_draws = Draws(order.seed, order.epoch, own[slots].tolist())
            found.append((slots, part, self.inner[part].at(order.find_clips(own[slots]), part_draws)))
        return MixedClipsAt(self, parts, found, draws)

    def find_parts(self, clips: IntArray, epoch: int) -> tuple[IntArray, IntArray, list[tuple[int, int, IntArray]]]:
        """Find part and position there of each clip, and the clips of each part and epoch of the part."""
        _check_count(self.num_clips, epoch, len(self.parts))
        sequence = self._find_sequence(epoch)
        parts, numbers = sequence.locate(clips)
        lengths = self._lengths
        epochs, own = np.divmod(numbers + (sequence.totals * epoch)[parts], lengths[parts])
        groups = []
        for part, later in sorted(set(zip(parts.tolist(), epochs.tolist(), strict=True))):
            groups.append((part, later + self.parts[part].epoch, np.flatnonzero((parts == part) & (epochs == later))))
        return parts, own, groups

    def at_one(self, clip: int, draws: Draws) -> MixedClipsAt:
        return self.at(np.array([clip], dtype=np.int64), draws)

    def _find_sequence(self, epoch: int) -> MixSequence:
        """Find the sequence of an epoch: the cache of sequences has room for few mixtures, and parts may be some."""
        sequence = self._sequences.get(epoch)
        if sequence is None:
            sequence = MixSequence.of(self.weights, self.num_clips, self.seed, epoch)
            if len(self._sequences) >= _MOST_EPOCHS:
                self._sequences.clear()
            self._sequences[epoch] = sequence
        return sequence

    @cached_property
    def _lengths(self) -> IntArray:
        return np.array([len(part) for part in self.parts], dtype=np.int64)

    def _find_order(self, part: int, epoch: int) -> Order:
        order = self._orders.get((part, epoch))
        if order is None:
            order = self.parts[part].order.with_epoch(epoch)
            if len(self._orders) >= _MOST_EPOCHS * len(self.parts):
                self._orders.clear()
            self._orders[part, epoch] = order
        return order


class MixedClipsAt:
    """Some clips of a mixture, found together: groups of clips of one part and epoch."""

    def __init__(
        self, clips: MixedClips, parts: IntArray, groups: list[tuple[IntArray, int, ClipsAt]], draws: Draws
    ) -> None:
        self._clips = clips
        self._parts = parts
        self._groups = groups
        self._draws = draws
        # Group of each clip, and its number there: arrays, because a build of a cache finds all clips of an epoch.
        self._places: IntArray = np.empty((2, len(parts)), np.int64)
        for group, (slots, _, _) in enumerate(groups):
            self._places[0, slots], self._places[1, slots] = group, np.arange(len(slots))

    def _locate(self, slot: int) -> tuple[ClipsAt, int]:
        group, number = self._places[:, slot].tolist()
        return self._groups[group][2], number

    @cached_property
    def rows(self) -> Sequence[Sequence[int]]:
        clips = self._clips
        takes = sum(len(form.takes) for form in clips.forms.values())
        rows = np.empty((takes, len(self._parts)), np.int64)
        for slots, part, at in self._groups:
            rows[:, slots] = clips.sources.renumber(clips.inner[part].sources, np.array(at.rows, dtype=np.int64))
        return rows.tolist()

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        start, stop, _ = slots.indices(len(self._parts))
        found: list[list[Shape]] = [[(0, 0, 0, 0)] * (stop - start) for _ in self._clips.forms]
        for own, _, at in self._groups:
            first, last = own.searchsorted((start, stop)).tolist()
            for shapes, of_part in zip(found, at.find_shapes(slice(first, last)), strict=True):
                for slot, shape in zip(own[first:last].tolist(), of_part, strict=True):
                    shapes[slot - start] = shape
        return found

    def make(self, slot: int) -> PlannedClip:
        at, number = self._locate(slot)
        made = at.make(number)
        made.position = self._draws.positions[slot]
        return made

    def name_source(self, slot: int) -> str:
        at, number = self._locate(slot)
        return at.name_source(number)

    def read_line(self, slot: int) -> dict[str, Any]:
        return {name: values[0] for name, values in self.read_columns(slice(slot, slot + 1)).items()}

    def read_columns(self, slots: slice) -> dict[str, Any]:
        return {name: values[slots].copy() for name, values in self._columns.items()}

    @cached_property
    def _columns(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for slots, _, at in self._groups:
            for name, read in at.read_columns(slice(None)).items():
                if isinstance(read, list):
                    texts = values.setdefault(name, [None] * len(self._parts))
                    for slot, text in zip(slots.tolist(), read, strict=True):
                        texts[slot] = text
                    continue
                if name not in values:
                    values[name] = np.empty((len(self._parts), *read.shape[1:]), read.dtype)
                values[name][slots] = read
        values.pop(PLAN_COLUMN, None)
        return {**values, PLAN_COLUMN: self._parts}

    def name_rows(self, slots: slice) -> IntArray:
        return self._rows[slots].copy()

    @cached_property
    def _rows(self) -> IntArray:
        rows = np.empty(len(self._parts), np.int64)
        for slots, _, at in self._groups:
            rows[slots] = at.name_rows(slice(None))
        return rows


def mix_plans(
    parts: Sequence[tuple[EpochPlan, float]],
    *,
    num_clips: int,
    seed: int | None = None,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: Tail = "pad",
    unequal: bool = False,
) -> EpochPlan:
    """Mix plans by weight: after n positions each has had its share of n clips, within one.

    A part keeps its own order, rule, crops and random choices. Where it ends, its next epoch begins, and the mixture's
    next epoch goes on with its next clip.

    Example: ``mix_plans([(plan_a, 0.7), (plan_b, 0.3)], num_clips=1_000_000, seed=0)``

    Args:
        parts: Plans and their weights, of which only the ratios count. All plan for one rank, have the same columns
            and, unless ``unequal``, give pictures of one shape and as many frames. A part may be a mixture.
        num_clips: Clips of an epoch, of all ranks together.
        seed: Decides the order of the parts, as far as their shares leave it open.
        epoch: Number of the epoch, from 0.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: As in ``plan_clips``.
        unequal: Let clips differ in their number of frames and in the size of their pictures; batches hold lists.

    Returns:
        A plan whose batches have the column "plan", the number of each clip's part, int64; ``parts`` are those given.

    Raises:
        UsageError: A weight is not above zero, a part has no clips or a rank of its own, or parts do not fit together.
    """
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: all random choices of a plan come from it")
    if not isinstance(unequal, bool):
        raise expected("unequal", "True or False", unequal)
    pairs = _read_pairs(parts)
    plans = tuple(plan for plan, _ in pairs)
    _check_alike(plans, unequal)
    count = check_integer("num_clips", num_clips, least=1)
    order = Order(count, seed, False, epoch, rank, world_size, tail)
    _check_count(count, order.epoch, len(plans))
    return EpochPlan(order, MixedClips(plans, tuple(weight for _, weight in pairs), count, order.seed, unequal))


def _join_forms(forms: Sequence[PartForm]) -> PartForm:
    """Join the forms of one part in plans whose clips may differ in shape."""
    lengths, pictures = {form.num_frames for form in forms}, {form.picture for form in forms}
    length = lengths.pop() if len(lengths) == 1 else None
    takes = forms[0].takes if len(forms[0].takes) > 1 else (length,)
    picture = pictures.pop() if len(pictures) == 1 else None
    return replace(forms[0], num_frames=length, lengths=None, takes=takes, picture=picture, unequal=True)


def _check_count(num_clips: int, epoch: int, parts: int) -> None:
    if num_clips * (epoch + 1) * parts > MAX_INT64:
        raise UsageError(
            f"num_clips: expected fewer clips up to the end of epoch {epoch} than 64 bits count, got {num_clips} an "
            "epoch"
        )


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
        if plan.order.world_size != 1 or plan.order.deliveries:
            raise UsageError(
                f"parts[{number}] is a plan of rank {plan.order.rank} of {plan.order.world_size}, or of the rest of an "
                "epoch: give whole plans, and rank= and world_size= to mix_plans"
            )
        if not len(plan):
            raise UsageError(f"parts[{number}] has no clips: leave it out (plan.excluded lists its rows)")
        # A decimal fraction means what is written: 0.7 is 7/10.
        is_whole = isinstance(weight, Integral)
        exact = weight if isinstance(weight, Fraction) else int(weight) if is_whole else str(float(weight))
        pairs.append((plan, Fraction(exact)))
    return pairs


def _check_alike(plans: Sequence[EpochPlan], unequal: bool) -> None:
    """Check that the clips of all parts fit into one batch; with ``unequal``, their shapes may differ."""

    def compare(what: str, values: list[Any], advice: str) -> None:
        for number, value in enumerate(values):
            if value != values[0]:
                raise UsageError(f"{what} of parts[0] and parts[{number}] differ, {values[0]} and {value}: {advice}")

    seen: dict[tuple[str, int], int] = {}
    for number, plan in enumerate(plans):
        if (first := seen.setdefault((plan.fingerprint, plan.epoch), number)) < number:
            raise UsageError(
                f"parts[{first}] and parts[{number}] are the same plan, which would give each of its clips twice: add "
                "their weights, or give one of them another seed"
            )
        if plan.order.tail == "stream":
            raise UsageError(
                f"parts[{number}] has tail='stream', so that its epochs differ in length: give it tail='pad' or 'drop'"
            )
        if plan.clips.buckets and not unequal:
            raise UsageError(
                f"parts[{number}] is a plan of buckets, whose steps a mixture does not keep: plan over one catalog "
                "with weights= or repeats= of ff.plan_buckets; or give unequal=True for batches of lists"
            )
        if not unequal and any(form.unequal or form.num_frames is None for form in plan.clips.forms.values()):
            raise UsageError(
                f"parts[{number}] has pictures of different sizes, or clips of different lengths: give it "
                "size=(height, width), and one number of frames, or give mix_plans unequal=True"
            )
    compare("the streams", [list(plan.streams) for plan in plans], "plan all parts with the same streams, in one order")
    for name in plans[0].clips.forms:
        of = f" of stream {name!r}" if name else ""
        forms = [plan.clips.forms[name] for plan in plans]
        if not unequal:
            advice = "use rules with one number of frames, or give unequal=True"
            compare(f"the numbers of frames{of}", [form.num_frames for form in forms], advice)
            advice = "give all plans the same size=(height, width), or give unequal=True"
            compare(f"the pictures{of}", [form.picture for form in forms], advice)
        compare(f"the numbers of sources{of}", [len(form.takes) for form in forms], "use as many times in all plans")
        borders = "give all plans size=ff.Letterbox(...), or none of them"
        compare(f"the borders{of}", [form.has_boxes for form in forms], borders)
    own = [{name: each for name, each in plan.clips.columns.items() if name != PLAN_COLUMN} for plan in plans]
    for number, (plan, columns) in enumerate(zip(plans, own, strict=True)):
        if PLAN_COLUMN in plan.columns and not isinstance(plan.clips, MixedClips):
            raise UsageError(f"parts[{number}] has a column {PLAN_COLUMN!r}, which is the mixture's own: rename it")
        if columns.keys() != own[0].keys():
            raise UsageError(
                f"the columns of parts[0] and parts[{number}] differ, {list(own[0])} and {list(columns)}: give all "
                "plans the same columns="
            )
        for name, column in columns.items():
            first_form, form = find_delivered_form(own[0][name]), find_delivered_form(column)
            if form != first_form:
                raise UsageError(
                    f"column {name!r} has {first_form[1]} {list(first_form[0])} in parts[0], and {form[1]} "
                    f"{list(form[0])} in parts[{number}]: write one type and one shape in all lists"
                )
    for name in own[0]:
        if not isinstance(own[0][name], TextColumn):
            texts = [plan.clips.texts.get(name) for plan in plans]
            advice = "give scan(classes=...) the labels of all, and other columns as texts"
            compare(f"the texts of the codes of column {name!r}", texts, advice)
