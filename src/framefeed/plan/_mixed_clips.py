"""Mix plans by weight: one epoch of clips of several plans, each in its own order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import MAX_INT64
from framefeed.catalog import TextColumn, Texts
from framefeed.errors import UsageError
from framefeed.plan._clips import ClipFacts, Clips, ClipsAt, Draws, PartForm, Shape, hash_text
from framefeed.plan._mixing import MixSequence
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._planned import PlannedClip
from framefeed.plan._tables import Excluded

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
        return (type(self), (self.parts, self.weights, self.num_clips, self.seed, self.unequal))

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
        check_count(self.num_clips, epoch, len(self.parts))
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


def _join_forms(forms: Sequence[PartForm]) -> PartForm:
    """Join the forms of one part in plans whose clips may differ in shape."""
    lengths, pictures = {form.num_frames for form in forms}, {form.picture for form in forms}
    length = lengths.pop() if len(lengths) == 1 else None
    takes = forms[0].takes if len(forms[0].takes) > 1 else (length,)
    picture = pictures.pop() if len(pictures) == 1 else None
    return replace(forms[0], num_frames=length, lengths=None, takes=takes, picture=picture, unequal=True)


def check_count(num_clips: int, epoch: int, parts: int) -> None:
    """Check that the positions of an epoch, times its parts, are 64-bit integers."""
    if num_clips * (epoch + 1) * parts > MAX_INT64:
        raise UsageError(
            f"num_clips: expected fewer clips up to the end of epoch {epoch} than 64 bits count, got {num_clips} an "
            "epoch"
        )
