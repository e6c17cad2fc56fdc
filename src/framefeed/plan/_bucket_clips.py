"""Divide the sources of a catalog among buckets, and plan their clips: each bucket has a shape (T, H, W)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from itertools import groupby
from typing import Any, Literal

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._units import format_share
from framefeed.catalog import Catalog, check_plannable, read_plan_column
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import Pick, Timeline
from framefeed.plan._bucket_order import BucketOrder
from framefeed.plan._buckets import (
    CUT_OFF,
    ENLARGED,
    REPEATS,
    TOO_SHORT,
    Bucket,
    choose_sizes,
    fill_size,
)
from framefeed.plan._clips import CatalogClips, CatalogClipsAt, ClipFacts, Clips, Draws, PartForm, Shape, hash_text
from framefeed.plan._layouts import Located, VideoClips
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import Order
from framefeed.plan._planned import PlannedClip
from framefeed.plan._rules import Dense, Seconds, Start, choose_by
from framefeed.plan._tables import CHANGING_SIZE_REASON, Excluded, Windows, find_failing, list_excluded, list_rows
from framefeed.request import ClipContext, Cover

PerVideo = Literal["longest", "all"]

_VERSION = 1
"""Rises if a position of the same plan gets another clip."""
_NO_SIZE = "UsageError: the size of its pictures is not known"
_CHANGES = "FormatChanged: the picture size changes mid-stream, and nothing says where to cut each"
_TOO_FEW = "UsageError: its bucket has fewer clips than {} (min_steps={}), and no other bucket with clips fits"


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
    cuts: tuple[float, ...]  # share of the pictures that each bucket cuts off, the mean of its clips
    left_out: tuple[tuple[IntArray, str], ...]  # rows, and the reason of all of them

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """(T, H, W) of each bucket."""
        return tuple(shape for _, shape in self.shapes)

    @cached_property
    def text(self) -> str:
        """Hash of the rows of each bucket."""
        digest = blake2b(repr(self.shapes).encode(), digest_size=16)
        for rows in self.rows:
            digest.update(len(rows).to_bytes(8, "little") + rows.tobytes())
        return digest.hexdigest()


class _Divider:
    """Divides the rows of a catalog among buckets; ``rows`` are those that may have one, and have numbers [N]."""

    def __init__(
        self, catalog: Catalog, shapes: Sequence[tuple[int, Bucket]], rule: BucketRule, options: ClipOptions
    ) -> None:
        check_plannable(catalog)
        self.shapes, self.left_out = shapes, list[tuple[IntArray, str]]()
        self._fitting: dict[int, tuple[BoolArray, BoolArray]] = {}
        self._catalog, self._rule = catalog, rule
        self._windows = None if options.within is None else Windows.of(catalog, options.within, rule.dense(2))
        durations, every = catalog.column_values("duration_seconds").astype(np.float64), catalog.plannable_rows
        is_still = (catalog.num_frames[every] == 1) & np.isnan(durations[every])
        kept = []
        for rows, length in ((every[is_still], 1), (every[~is_still], 2)):
            own = replace(options, size=Cover(1, 1))
            for is_failing, reason in find_failing(catalog, rule.dense(length), own, rows, self._windows):
                self.left_out.append((rows[is_failing], _CHANGES if reason == CHANGING_SIZE_REASON else reason))
                rows = rows[~is_failing]
            kept.append(rows)
        rows = np.sort(np.concatenate(kept))
        is_known = np.minimum(catalog.heights[rows], catalog.widths[rows]) > 0
        self.left_out.append((rows[~is_known], _NO_SIZE))
        self.rows = rows = rows[is_known]
        self._is_still = np.isin(rows, kept[0])
        self._seconds = durations[rows]
        bounded = () if self._windows is None else np.flatnonzero(self._windows.has_bounds[rows]).tolist()
        for number in bounded:
            try:
                timeline = self._open(number)
                self._seconds[number] = float((timeline.end_pts - timeline.origin) * timeline.index.time_base)
            except (FrameNotFound, TimeUnavailable):
                self._seconds[number] = 0.0
        packed, self._pictures = np.unique(catalog.heights[rows] << 32 | catalog.widths[rows], return_inverse=True)
        self._heights, self._widths = packed >> 32, packed & 0xFFFFFFFF

    def _open(self, number: int) -> Timeline:
        row = int(self.rows[number])
        index = self._catalog.frame_index(row)
        return Timeline.whole(index) if self._windows is None else self._windows.timeline(index, row)

    def _find_fitting(self, length: int) -> tuple[BoolArray, BoolArray]:
        """Find the rows that have a clip of T frames, bool [N], and those that have one without too many repeats."""
        if length not in self._fitting:
            self._fitting[length] = self._compare_seconds(length)
        return self._fitting[length]

    def _compare_seconds(self, length: int) -> tuple[BoolArray, BoolArray]:
        rule = self._rule
        if length == 1:
            return self._is_still, self._is_still
        start = 0.0 if rule.start == "random" else float(rule.start)
        # No frame is past the end; a nanosecond, because a time that is so near to the end means it.
        fits = ~self._is_still & (self._seconds > float((length - 1) / Fraction(rule.fps)) + start + 1e-9)
        if rule.max_repeated is None:
            return fits, fits
        rates = np.nan_to_num(self._catalog.column_values("average_fps").astype(np.float64)[self.rows])
        repeats = 1 - (np.floor((length - 1) * np.minimum(1, rates / float(rule.fps)) + 1e-9) + 1) / length
        # Of files of variable rate, those of the clip from the begin.
        varies = self._catalog.column_values("is_variable_frame_rate")[self.rows] == 1
        dense = replace(rule.dense(length), start=start)
        for number in np.flatnonzero(fits & varies).tolist():
            ordinals = choose_by(dense, self._open(number), ClipContext(0, 0, 0)).ordinals
            repeats[number] = 1 - len(np.unique(ordinals)) / length
        return fits, fits & (repeats <= rule.max_repeated + 1e-9)

    def choose(self, buckets: Sequence[int], numbers: IntArray) -> IntArray:
        """Choose one of some buckets for some rows: the longest T, there the best size; else a reason, int64 [n]."""
        chosen, pictures = np.full(len(numbers), TOO_SHORT), self._pictures[numbers]
        some: Any = slice(None)
        if len(numbers) < len(self._heights):
            some, pictures = np.unique(pictures, return_inverse=True)
        heights, widths = self._heights[some], self._widths[some]
        for length in sorted({self.shapes[bucket][1][0] for bucket in buckets}, reverse=True):
            own = [bucket for bucket in buckets if self.shapes[bucket][1][0] == length]
            fits, is_smooth = (mask[numbers] for mask in self._find_fitting(length))
            rule = self._rule
            sizes = choose_sizes(self.shapes, own, heights, widths, rule.max_crop, enlarge=rule.enlarge)
            here = np.where(is_smooth, sizes[pictures], np.where(fits, REPEATS, TOO_SHORT))
            chosen = np.where(chosen < 0, np.maximum(chosen, here), chosen)
        return chosen

    def divide(self) -> list[IntArray]:
        """Give each row a bucket, or with ``per_video="all"`` one of each T: a list of numbers of rows by bucket."""
        numbers, every = np.arange(len(self.rows)), range(len(self.shapes))
        groups: list[list[int]] = [list(every)]
        if self._rule.per_video == "all":
            groups = [list(own) for _, own in groupby(every, lambda bucket: self.shapes[bucket][1][0])]
        found, best = [np.empty(0, np.int64) for _ in every], np.full(len(numbers), TOO_SHORT)
        for group in groups:
            chosen = self.choose(group, numbers)
            best = np.maximum(best, chosen)
            for bucket in np.unique(chosen[chosen >= 0]).tolist():
                found[bucket] = np.flatnonzero(chosen == bucket)
        rule, lengths = self._rule, [length for _, (length, _, _) in self.shapes if length > 1]
        needed = f"shorter than {min(lengths)} frames" if lengths else "a video, and all buckets have T = 1"
        rate = f"at {float(rule.fps):g} a second"
        if rule.start not in ("random", 0):
            rate = f"{rate} from second {float(rule.start):g}"
        for is_left, reason in (
            ((best == TOO_SHORT) & self._is_still, "a still picture, and no bucket has T = 1"),
            ((best == TOO_SHORT) & ~self._is_still, f"{needed} {rate}" if lengths else needed),
            (best == REPEATS, f"more than {rule.max_repeated} of its frames would repeat {rate}"),
            (best == CUT_OFF, f"every bucket cuts off more than max_crop={rule.max_crop} of its pictures"),
            (best == ENLARGED, "smaller than the buckets that cut off no more than max_crop, and enlarge=False"),
        ):
            self.left_out.append((self.rows[is_left], f"UsageError: {reason}"))
        return found

    def merge(self, found: list[IntArray], least: Sequence[int], reason: str, *, keeps_last: bool) -> None:
        """Move the clips of buckets that have fewer than ``least`` to the nearest bucket that has some.

        It is that of the same size with the longest T below, else the one that is chosen among the others.
        """
        while small := [bucket for bucket, numbers in enumerate(found) if 0 < len(numbers) < least[bucket]]:
            bucket = min(small, key=lambda each: (len(found[each]), each))
            others = [each for each, numbers in enumerate(found) if len(numbers) and each != bucket]
            if not others and keeps_last:
                return
            numbers, found[bucket] = found[bucket], np.empty(0, np.int64)
            chosen = self._choose_nearest(bucket, others, numbers)
            for each in np.unique(chosen[chosen >= 0]).tolist():
                moved = numbers[chosen == each]
                if self._rule.per_video == "all":  # a video may have a clip of that T
                    length = self.shapes[each][1][0]
                    alike = [found[other] for other in others if self.shapes[other][1][0] == length]
                    moved = moved[~np.isin(moved, np.concatenate(alike))]
                found[each] = np.sort(np.concatenate([found[each], moved]))
            self.left_out.append((self.rows[np.unique(numbers[chosen < 0])], reason))

    def _choose_nearest(self, bucket: int, others: Sequence[int], numbers: IntArray) -> IntArray:
        """Choose one of the other buckets for some rows of one, as `merge` says; else a reason, int64 [n]."""
        length, *size = self.shapes[bucket][1]
        chosen = np.full(len(numbers), TOO_SHORT)
        for each in reversed(others):
            shorter, *other_size = self.shapes[each][1]
            if other_size == size and shorter < length:
                chosen[(chosen < 0) & self._find_fitting(shorter)[1][numbers]] = each
        is_left = chosen < 0
        chosen[is_left] = self.choose(others, numbers[is_left])
        return chosen

    def mean_cut(self, bucket: int, numbers: IntArray) -> float:
        """Compute the share of the pictures of some rows that a bucket cuts off."""
        return float(fill_size(self.shapes[bucket][1], self._heights, self._widths)[0][self._pictures[numbers]].mean())


def divide_rows(
    catalog: Catalog,
    shapes: Sequence[tuple[int, Bucket]],
    rule: BucketRule,
    options: ClipOptions,
    least: Sequence[int],
    *,
    keeps_last: bool,
    min_steps: int,
    repeats: IntArray | None,
) -> Division:
    """Divide the rows of a catalog among buckets that have ``least`` clips; ``repeats`` is how often each row comes."""
    divider = _Divider(catalog, shapes, rule, options)
    found = divider.divide()
    if repeats is not None:
        divider.left_out.append((divider.rows[repeats[divider.rows] == 0], "UsageError: the column of repeats= is 0"))
        found = [np.repeat(numbers, repeats[divider.rows[numbers]]) for numbers in found]
    needed = "a step" if min_steps == 1 else f"{min_steps} steps"
    divider.merge(found, least, _TOO_FEW.format(needed, min_steps), keeps_last=keeps_last)
    kept = [bucket for bucket, numbers in enumerate(found) if len(numbers)]
    return Division(
        tuple(shapes[bucket] for bucket in kept),
        tuple(divider.rows[found[bucket]] for bucket in kept),
        tuple(divider.mean_cut(bucket, found[bucket]) for bucket in kept),
        tuple((rows, reason) for rows, reason in divider.left_out if len(rows)),
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
    delivered: int  # clips of it that earlier runs of the epoch delivered

    @property
    def repeated(self) -> int:
        """Clips of its steps that come again."""
        return max(0, self.delivered + self.steps * self.step_clips - self.clips)

    @property
    def left(self) -> int:
        """Clips that are in none of its steps."""
        return max(0, self.clips - self.delivered - self.steps * self.step_clips)


@dataclass(frozen=True, slots=True)
class BucketTable:
    """What a plan has of each bucket; ``str()`` gives it as text."""

    buckets: tuple[BucketCount, ...]
    left_out: Mapping[str, int]  # rows by the reason

    @classmethod
    def of(cls, order: BucketOrder, parts: Sequence[BucketClips]) -> BucketTable:
        """Count the steps that an order has of the buckets of some clips, and the rows that these leave out."""
        steps, sizes, delivered = order.count_steps().tolist(), order.global_sizes, order.count_delivered().tolist()
        coming = max(1, sum(count * size for count, size in zip(steps, sizes, strict=True)))
        divisions = [part.division for part in parts]
        buckets = [line for each in divisions for line in zip(each.buckets, each.rows, each.cuts, strict=True)]
        lines = [
            BucketCount(bucket, len(rows), count, size, count * size / coming, cut, earlier)
            for (bucket, rows, cut), count, size, earlier in zip(buckets, steps, sizes, delivered, strict=True)
        ]
        left_out = Counter[str]()
        for part in parts:
            left_out.update(part.count_left_out())
        return cls(tuple(lines), left_out)

    def __str__(self) -> str:
        heads = ("bucket", "clips", "steps", "clips a step", "share", "repeated", "left", "cut off")
        rows = [
            ("x".join(map(str, each.bucket)), each.clips, each.steps, each.step_clips,
             format_share(each.share, decimals=1), each.repeated, each.left, format_share(each.cut, decimals=1))
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
            f"steps: {steps}; clips that repeat: {repeated} ({format_share(repeated, max(1, clips))}); "
            f"clips in no step: {left} ({format_share(left, max(1, clips))})"
        )
        return "\n".join([*lines, *(f"left out, rows: {count}, {reason}" for reason, count in self.left_out.items())])


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
        return () if self.options.unequal else self.division.buckets

    def without_buckets(self) -> BucketClips:
        return replace(self, options=replace(self.options, unequal=True))

    @cached_property
    def inner(self) -> list[CatalogClips]:
        """The clips of each bucket; without buckets, one without clips."""
        catalog, options = self.catalog, self.options
        every = np.concatenate(self.division.rows) if self.division.rows else np.empty(0, np.int64)
        columns = {
            name: read_plan_column(catalog, name, every, as_codes=name in options.coded) for name in options.columns
        }
        windows = None if options.within is None else Windows.of(catalog, options.within, self.rule.dense(2))
        pairs = list(zip(self.division.buckets, self.division.rows, strict=True)) or [((1, 1, 1), every)]
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
        return {"": PartForm(None, None, (None,), None, self.options.unequal, has_boxes=False)}

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
        counts = Counter(f"{kind} in the scan" for _, kind, _ in self.catalog.failures)
        for rows, reason in self.division.left_out:
            counts[reason.partition(": ")[2]] += len(rows)
        if others := self.num_excluded - counts.total():
            counts["no frames, or no frame index"] += others
        return counts

    def count_buckets(self, order: Order) -> BucketTable:
        """Count clips and steps of each bucket."""
        assert isinstance(order, BucketOrder)
        return BucketTable.of(order, [self])

    @cached_property
    def facts(self) -> ClipFacts:
        sources = self.catalog.hash_sources((*(self.options.within or ()), *self.columns_that_choose))
        options = self.options
        parts = (_VERSION, sources, self.rule, options.within, options.on_damaged, options.horizontal_flip,
                 options.still_quality, options.filter, self.division.text)  # fmt: skip
        count, text = len(self.division.rows), self.division.text[:8]
        rule = f"{count} buckets at {float(self.rule.fps):g} frames per second (hash {text})"
        return ClipFacts(hash_text(repr(parts)), rule, options.texts, sources)

    def predict_costs(self, clips: IntArray) -> FloatArray:
        raise UsageError("the clips of buckets are not dealt by cost")

    def describe(self, count: int, order: str) -> str:
        return f"{count} clips, {self.facts.rule}, {order}"

    def _find_buckets(self, clips: IntArray) -> IntArray:
        return self._offsets.searchsorted(clips, side="right") - 1

    def at(self, clips: IntArray, draws: Draws) -> BucketClipsAt:
        rows = self._rows[clips].tolist()
        return BucketClipsAt(self, Located(rows, [0] * len(rows), rows), self._find_buckets(clips).tolist(), draws)

    def at_one(self, clip: int, draws: Draws) -> BucketClipsAt:
        return self.at(np.array([clip], dtype=np.int64), draws)


class BucketClipsAt(CatalogClipsAt):
    """Some clips of buckets, found together; ``buckets`` are theirs."""

    def __init__(self, clips: BucketClips, located: Located, buckets: Sequence[int], draws: Draws) -> None:
        super().__init__(clips.inner[0], located, draws)
        self._every, self._buckets = clips, buckets
        self._at: dict[int, CatalogClipsAt] = {}

    def find_shapes(self, slots: slice) -> list[list[Shape]]:
        shapes = self._every.division.buckets
        return [[(shapes[each][0], 3, *shapes[each][1:]) for each in self._buckets[slots]]]

    def make(self, slot: int) -> PlannedClip:
        bucket = self._buckets[slot]
        if bucket not in self._at:
            self._at[bucket] = CatalogClipsAt(self._every.inner[bucket], self.located, self._draws)
        return self._at[bucket].make(slot)
