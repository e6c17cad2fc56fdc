"""Divide the sources of a catalog among buckets, and plan their clips: each bucket has a shape (T, H, W)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed.catalog import Catalog, check_plannable, read_plan_column
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.index import Pick, Timeline
from framefeed.plan._bucket_order import BucketOrder
from framefeed.plan._buckets import Bucket, choose_sizes, count_repeats, fits_in
from framefeed.plan._clips import CatalogClips, CatalogClipsAt, ClipFacts, Clips, Draws, PartForm, Shape, hash_text
from framefeed.plan._layouts import Located, VideoClips
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import Order
from framefeed.plan._planned import PlannedClip
from framefeed.plan._rules import Dense, Seconds, Start, choose_by
from framefeed.plan._tables import Excluded, Windows, find_failing, list_excluded, list_rows
from framefeed.request import ClipContext, Cover

PerVideo = Literal["longest", "all"]

_VERSION = 1
"""Rises if a position of the same plan gets another clip."""
_NO_STILLS = "UsageError: a still picture, and no bucket has T = 1"
_NO_SIZE = "UsageError: the size of its pictures is not known"


@dataclass(frozen=True)
class BucketRule:
    """How a source gets a bucket, and where its clip begins, as in ``plan_buckets``."""

    fps: Seconds
    start: Start = "random"
    pick: Pick = "played"
    per_video: PerVideo = "longest"
    max_crop: float = 0.25
    enlarge: bool = False
    max_repeated: float | None = None

    def dense(self, length: int) -> Dense:
        """The clip rule of a bucket; a still picture needs no times."""
        if length == 1:
            return Dense(1, start=0)
        return Dense(length, fps=self.fps, start=self.start, pick=self.pick)


@dataclass(frozen=True, eq=False)
class Division:
    """The rows of a catalog in each bucket; of those that have none, the reason."""

    shapes: tuple[tuple[int, Bucket], ...]  # area, as a number, and (T, H, W)
    rows: tuple[IntArray, ...]  # of each bucket; a row that is repeated comes several times
    left_out: tuple[tuple[IntArray, str], ...]  # rows, and the reason of all of them
    cuts: tuple[float, ...]  # share of the pictures that each bucket cuts off, the mean of its clips

    @cached_property
    def text(self) -> str:
        """Hash of the rows of each bucket."""
        digest = blake2b(repr(self.shapes).encode(), digest_size=16)
        for rows in self.rows:
            digest.update(len(rows).to_bytes(8, "little") + rows.tobytes())
        return digest.hexdigest()


class _Divider:
    """Divides the rows of a catalog among buckets."""

    def __init__(
        self, catalog: Catalog, shapes: Sequence[tuple[int, Bucket]], rule: BucketRule, options: ClipOptions
    ) -> None:
        check_plannable(catalog)
        self.catalog, self.shapes, self.rule = catalog, tuple(shapes), rule
        self.left_out: list[tuple[IntArray, str]] = []
        dense = rule.dense(2)
        self.windows = None if options.within is None else Windows.of(catalog, options.within, dense)
        rows = catalog.plannable_rows
        durations = catalog.column_values("duration_seconds").astype(np.float64)
        is_still = (catalog.num_frames[rows] == 1) & np.isnan(durations[rows])
        stills = self._leave_out_failing(rows[is_still], rule.dense(1), options)
        videos = self._leave_out_failing(rows[~is_still], dense, options)
        rows = np.sort(np.concatenate([stills, videos]))
        is_known = np.minimum(catalog.heights[rows], catalog.widths[rows]) > 0
        self._leave_out(rows[~is_known], _NO_SIZE)
        self.rows = rows = rows[is_known]
        self.is_still = np.isin(rows, stills)
        self.seconds = durations[rows] if self.windows is None else self._measure_windows(durations[rows])
        self.sizes = choose_sizes(
            self.shapes, catalog.heights[rows], catalog.widths[rows], rule.max_crop, enlarge=rule.enlarge
        )

    def _leave_out(self, rows: IntArray, reason: str) -> None:
        if len(rows):
            self.left_out.append((rows, reason))

    def _leave_out_failing(self, rows: IntArray, rule: Dense, options: ClipOptions) -> IntArray:
        options = replace(options, size=Cover(1, 1))
        for is_failing, reason in find_failing(self.catalog, rule, options, rows, self.windows):
            self._leave_out(rows[is_failing], reason)
            rows = rows[~is_failing]
        return rows

    def _measure_windows(self, seconds: FloatArray) -> FloatArray:
        """Measure the frames in the window of each row, float64 [R]: 0 where there are none."""
        assert self.windows is not None
        measured = seconds.copy()
        for number in np.flatnonzero(self.windows.has_bounds[self.rows]).tolist():
            row = int(self.rows[number])
            try:
                timeline = self.windows.timeline(self.catalog.frame_index(row), row)
                measured[number] = float((timeline.end_pts - timeline.origin) * timeline.index.time_base)
            except (FrameNotFound, TimeUnavailable):
                measured[number] = 0.0
        return measured

    def _find_fitting(self, length: int) -> tuple[BoolArray, BoolArray]:
        """Find the rows that have a clip of T frames, and those that have one without too many repeated frames."""
        if length == 1:
            return self.is_still, self.is_still
        start = 0.0 if self.rule.start == "random" else float(self.rule.start)
        fits = ~self.is_still & fits_in(length, Fraction(self.rule.fps), start, self.seconds)
        if self.rule.max_repeated is None:
            return fits, fits
        rates = np.nan_to_num(self.catalog.column_values("average_fps").astype(np.float64)[self.rows])
        repeats = count_repeats(length, float(self.rule.fps), rates)
        # Of files of variable rate, those of the clip from the begin.
        varies = self.catalog.column_values("is_variable_frame_rate")[self.rows] == 1
        dense = replace(self.rule.dense(length), start=start)
        for number in np.flatnonzero(fits & varies).tolist():
            ordinals = choose_by(dense, self._open(int(self.rows[number])), ClipContext(0, 0, 0)).ordinals
            repeats[number] = 1 - len(np.unique(ordinals)) / length
        return fits, fits & (repeats <= self.rule.max_repeated + 1e-9)

    def _open(self, row: int) -> Timeline:
        index = self.catalog.frame_index(row)
        return Timeline.whole(index) if self.windows is None else self.windows.timeline(index, row)

    def divide(self) -> list[IntArray]:
        """Give each row its buckets: the longest T that it has, in the largest area, or one for each T."""
        found: list[list[IntArray]] = [[] for _ in self.shapes]
        free, is_long, is_smooth = np.ones(len(self.rows), np.bool_), np.zeros(len(self.rows), np.bool_), None
        sizes, has_bucket = self.sizes, np.zeros(len(self.rows), np.bool_)
        is_smooth = np.zeros(len(self.rows), np.bool_)
        worst = np.zeros(len(self.rows), np.int64)
        for number in reversed(range(len(sizes.lengths))):
            fits, allowed = self._find_fitting(sizes.lengths[number])
            buckets = sizes.buckets[number][sizes.pictures]
            is_long |= fits
            is_smooth |= allowed
            worst = np.where(allowed, np.minimum(worst, buckets), worst)
            taken = free & allowed & (buckets >= 0)
            for bucket in np.unique(buckets[taken]).tolist():
                found[bucket].append(self.rows[taken & (buckets == bucket)])
            has_bucket |= taken
            if self.rule.per_video == "longest":
                free &= ~taken
        self._explain(~has_bucket, is_long, is_smooth, worst)
        return [np.sort(np.concatenate(each)) if each else np.empty(0, np.int64) for each in found]

    def _explain(self, is_left: BoolArray, is_long: BoolArray, is_smooth: BoolArray, worst: IntArray) -> None:
        lengths = [length for length in self.sizes.lengths if length > 1]
        shortest = f"no bucket has T = {self.sizes.lengths[0]}" if not lengths else (
            f"shorter than {lengths[0]} frames at {float(self.rule.fps):g} a second"
        )  # fmt: skip
        repeated = f"more than {self.rule.max_repeated} of its frames would repeat at {float(self.rule.fps):g} a second"
        enlarged = "smaller than the buckets that cut off no more than max_crop, and enlarge=False"
        cut = f"every bucket cuts off more than max_crop={self.rule.max_crop} of its pictures"
        for mask, reason in (
            (is_left & self.is_still & ~is_long, _NO_STILLS),
            (is_left & ~self.is_still & ~is_long, f"UsageError: {shortest}"),
            (is_left & is_long & ~is_smooth, f"UsageError: {repeated}"),
            (is_left & is_smooth & (worst == -2), f"UsageError: {enlarged}"),
            (is_left & is_smooth & (worst != -2), f"UsageError: {cut}"),
        ):
            self._leave_out(self.rows[mask], reason)

    def merge(self, found: list[IntArray], least: Sequence[int], *, keeps_last: bool) -> None:
        """Move the clips of buckets that have fewer than ``least`` to the nearest bucket that has some.

        It is that of the same size with the longest T below, else the one that the rule gives among the others.
        """
        while small := [bucket for bucket, rows in enumerate(found) if 0 < len(rows) < least[bucket]]:
            bucket = min(small, key=lambda each: (len(found[each]), each))
            others = [each for each, rows in enumerate(found) if len(rows) and each != bucket]
            if not others and keeps_last:
                return
            rows, found[bucket] = found[bucket], np.empty(0, np.int64)
            length, *size = self.shapes[bucket][1]
            nearest = [each for each in others if self.shapes[each][1][1:] == tuple(size) and
                       1 < self.shapes[each][1][0] < length]  # fmt: skip
            if nearest:
                self._move(found, nearest[-1], rows)
                continue
            at = self.rows.searchsorted(rows)
            heights, widths = self.catalog.heights[rows], self.catalog.widths[rows]
            some = [self.shapes[each] for each in others]
            sizes = choose_sizes(some, heights, widths, self.rule.max_crop, enlarge=self.rule.enlarge) if some else None
            free = np.ones(len(rows), np.bool_)
            for number in reversed(range(0 if sizes is None else len(sizes.lengths))):
                assert sizes is not None
                chosen = sizes.buckets[number][sizes.pictures]
                taken = free & self._find_fitting(sizes.lengths[number])[1][at] & (chosen >= 0)
                for each in np.unique(chosen[taken]).tolist():
                    self._move(found, others[each], rows[taken & (chosen == each)])
                free &= ~taken
            text = " x ".join(map(str, self.shapes[bucket][1]))
            self._leave_out(rows[free], f"UsageError: its bucket {text} has fewer clips than a step, and no other fits")

    def _move(self, found: list[IntArray], bucket: int, rows: IntArray) -> None:
        if self.rule.per_video == "all":  # a video may have a clip there
            rows = np.setdiff1d(rows, found[bucket])
        found[bucket] = np.sort(np.concatenate([found[bucket], rows]))

    def mean_cut(self, bucket: int, rows: IntArray) -> float:
        """Compute the share of the pictures of some rows that a bucket cuts off."""
        _, height, width = self.shapes[bucket][1]
        rows_of, columns_of = self.catalog.heights[rows].astype(float), self.catalog.widths[rows].astype(float)
        scales = np.maximum(height / rows_of, width / columns_of)
        return float((1 - height * width / (scales * scales * rows_of * columns_of)).mean())


def divide_rows(
    catalog: Catalog,
    shapes: Sequence[tuple[int, Bucket]],
    rule: BucketRule,
    options: ClipOptions,
    least: Sequence[int],
    *,
    keeps_last: bool,
    repeats: IntArray | None,
) -> Division:
    """Divide the rows of a catalog among buckets that have ``least`` clips; ``repeats`` is how often each row comes."""
    divider = _Divider(catalog, shapes, rule, options)
    found = divider.divide()
    if repeats is not None:
        none = repeats[divider.rows] == 0
        divider.left_out.append((divider.rows[none], "UsageError: the column of repeats= is 0"))
        found = [np.repeat(rows, repeats[rows]) for rows in found]
    divider.merge(found, least, keeps_last=keeps_last)
    kept = [bucket for bucket, rows in enumerate(found) if len(rows)]
    return Division(
        tuple(divider.shapes[bucket] for bucket in kept),
        tuple(found[bucket] for bucket in kept),
        tuple((rows, reason) for rows, reason in divider.left_out if len(rows)),
        tuple(divider.mean_cut(bucket, found[bucket]) for bucket in kept),
    )


@dataclass(frozen=True, slots=True)
class BucketCount:
    """What a plan has of one bucket."""

    bucket: Bucket  # (T, H, W)
    clips: int  # that belong to it
    steps: int  # in the epoch, or in what is left of it
    step_clips: int  # of a step, on all ranks together
    share: float  # of the clips of all steps
    cut: float  # share of the pictures that is cut off, on average

    @property
    def repeated(self) -> int:
        """Clips of its steps that come again."""
        return max(0, self.steps * self.step_clips - self.clips)

    @property
    def left(self) -> int:
        """Clips that are in none of its steps."""
        return max(0, self.clips - self.steps * self.step_clips)


@dataclass(frozen=True, slots=True)
class BucketTable:
    """What a plan has of each bucket; ``str()`` gives it as text."""

    buckets: tuple[BucketCount, ...]
    left_out: Mapping[str, int]  # rows by the reason

    def __str__(self) -> str:
        heads = ("bucket", "clips", "steps", "clips a step", "share", "repeated", "left", "cut off")
        rows = [
            ("x".join(map(str, each.bucket)), each.clips, each.steps, each.step_clips, f"{each.share:.1%}",
             each.repeated, each.left, f"{each.cut:.1%}")
            for each in self.buckets
        ]  # fmt: skip
        widths = [max(len(str(row[number])) for row in (heads, *rows)) for number in range(len(heads))]
        lines = [
            "  ".join(f"{value!s:>{width}}" for value, width in zip(row, widths, strict=True)) for row in (heads, *rows)
        ]
        clips, steps, repeated, left = (
            sum(getattr(each, name) for each in self.buckets) for name in ("clips", "steps", "repeated", "left")
        )
        lines.append(
            f"steps: {steps}; clips that repeat: {repeated} ({repeated / max(1, clips):.1%}); clips in no step: {left} "
            f"({left / max(1, clips):.1%})"
        )
        return "\n".join([*lines, *(f"left out, {count} rows: {reason}" for reason, count in self.left_out.items())])


@dataclass(frozen=True, eq=False)
class BucketClips(Clips):
    """The clips of buckets, numbered bucket by bucket."""

    catalog: Catalog
    division: Division
    rule: BucketRule
    options: ClipOptions
    columns_that_choose: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return (BucketClips, (self.catalog, self.division, self.rule, self.options, self.columns_that_choose))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(shape for _, shape in self.division.shapes)

    @cached_property
    def inner(self) -> list[CatalogClips]:
        """The clips of each bucket; without buckets, one without clips."""
        catalog, options = self.catalog, self.options
        every = np.concatenate(self.division.rows) if self.division.rows else np.empty(0, np.int64)
        columns = {
            name: read_plan_column(catalog, name, every, as_codes=name in options.coded) for name in options.columns
        }
        windows = None if options.within is None else Windows.of(catalog, options.within, self.rule.dense(2))
        pairs = list(zip(self.buckets, self.division.rows, strict=True)) or [((1, 1, 1), every)]
        made = []
        for (length, height, width), rows in pairs:
            own = replace(options, size=Cover(height, width))
            made.append(
                CatalogClips(
                    catalog,
                    self.rule.dense(length),
                    own,
                    VideoClips(rows, 1),
                    columns,
                    tuple(catalog.classes),
                    windows,
                    own.pictures,
                    (height, width),
                )
            )
        return made

    @property
    def count(self) -> int:
        return int(self._offsets[-1])

    @cached_property
    def _offsets(self) -> IntArray:
        return np.cumsum([0, *map(len, self.division.rows)], dtype=np.int64)

    @cached_property
    def _rows(self) -> IntArray:
        """Row of each clip, [N]."""
        rows: IntArray = np.concatenate([np.empty(0, np.int64), *self.division.rows])
        return rows

    @property
    def forms(self) -> Mapping[str, PartForm]:
        return {"": PartForm(None, None, (None,), None, unequal=False, has_boxes=False)}

    @property
    def columns(self) -> Mapping[str, Any]:
        return self.inner[0].columns

    @property
    def excluded(self) -> list[Excluded]:
        left = self.division.left_out
        return list_excluded(self.catalog, [each for rows, why in left for each in list_rows(self.catalog, rows, why)])

    @property
    def num_excluded(self) -> int:
        """Number of rows that are not planned."""
        unusable = len(self.catalog) - len(self.catalog.plannable_rows)
        return unusable + sum(len(rows) for rows, _ in self.division.left_out)

    def count_left_out(self) -> dict[str, int]:
        """Count the rows that have no bucket, by the reason."""
        counts: dict[str, int] = {}
        for rows, reason in self.division.left_out:
            text = reason.partition(": ")[2]
            counts[text] = counts.get(text, 0) + len(rows)
        return counts

    def count_buckets(self, order: Order) -> BucketTable:
        """Count clips and steps of each bucket."""
        assert isinstance(order, BucketOrder)
        steps, division = order.count_steps().tolist(), self.division
        sizes = order.step_sizes
        delivered = sum(count * size for count, size in zip(steps, sizes, strict=True))
        lines = [
            BucketCount(bucket, len(rows), count, size, count * size / max(1, delivered), cut)
            for bucket, rows, count, size, cut in zip(
                self.buckets, division.rows, steps, sizes, division.cuts, strict=True
            )
        ]
        return BucketTable(tuple(lines), self.count_left_out())

    @cached_property
    def facts(self) -> ClipFacts:
        sources = self.catalog.hash_sources((*(self.options.within or ()), *self.columns_that_choose))
        options = self.options
        parts = (_VERSION, sources, self.rule, options.within, options.on_damaged, options.horizontal_flip,
                 options.still_quality, options.filter, self.division.text)  # fmt: skip
        rule = (
            f"{len(self.buckets)} buckets at {float(self.rule.fps):g} frames per second (hash {self.division.text[:8]})"
        )
        return ClipFacts(hash_text(repr(parts)), rule, options.texts, sources)

    def predict_costs(self, clips: IntArray) -> FloatArray:
        costs = np.empty(len(clips))
        buckets = self._find_buckets(clips)
        for bucket in np.unique(buckets).tolist():
            own = buckets == bucket
            costs[own] = self.inner[bucket].predict_costs(clips[own] - self._offsets[bucket])
        return costs

    def describe(self, count: int, order: str) -> str:
        return f"{count} clips, {self.facts.rule}, {order}"

    def _find_buckets(self, clips: IntArray) -> IntArray:
        return self._offsets.searchsorted(clips, side="right") - 1

    def at(self, clips: IntArray, draws: Draws) -> BucketClipsAt:
        rows = self._rows[clips].tolist()
        return BucketClipsAt(self, Located(rows, [0] * len(rows), rows), self._find_buckets(clips).tolist(), draws)

    def at_one(self, clip: int, draws: Draws) -> BucketClipsAt:
        return self.at(np.array([clip], dtype=np.int64), draws)


class BucketClipsAt:
    """Some clips of buckets, found together."""

    def __init__(self, clips: BucketClips, located: Located, buckets: Sequence[int], draws: Draws) -> None:
        self._clips, self._located, self._buckets, self._draws = clips, located, buckets, draws
        self._at: dict[int, CatalogClipsAt] = {}

    def _open(self, bucket: int) -> CatalogClipsAt:
        found = self._at.get(bucket)
        if found is None:
            found = self._at[bucket] = CatalogClipsAt(self._clips.inner[bucket], self._located, self._draws)
        return found

    @property
    def rows(self) -> tuple[Sequence[int]]:
        return (self._located.rows,)

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        buckets = self._clips.buckets
        return [[(buckets[each][0], 3, *buckets[each][1:]) for each in self._buckets[slots]]]

    def make(self, slot: int) -> PlannedClip:
        return self._open(self._buckets[slot]).make(slot)

    def name_source(self, slot: int) -> str:
        return self._open(0).name_source(slot)

    def read_line(self, slot: int) -> dict[str, Any]:
        return self._open(0).read_line(slot)

    def read_columns(self, slots: slice) -> dict[str, Any]:
        return self._open(0).read_columns(slots)

    def name_rows(self, slots: slice) -> IntArray:
        return self._open(0).name_rows(slots)
