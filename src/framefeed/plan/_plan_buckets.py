"""Plan batches of one shape out of sources of every shape: one bucket a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, get_args

import numpy as np

from framefeed._arrays import IntArray
from framefeed._checks import check_choice, check_integer, expected, is_finite, is_number, refuse_names
from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.index import Pick
from framefeed.plan._bucket_clips import BucketClips, BucketRule, PerVideo, divide_rows
from framefeed.plan._bucket_order import BucketOrder
from framefeed.plan._buckets import Bucket, Buckets, read_buckets
from framefeed.plan._mixing import make_exact
from framefeed.plan._options import ClipOptions
from framefeed.plan._plan import EpochPlan
from framefeed.plan._plan_clips import check_catalog, find_remarks_on
from framefeed.plan._rules import Seconds, Start
from framefeed.plan._shard import StepTail
from framefeed.request import Filter, OnDamaged, StillQuality

Count = int | Callable[[Bucket], int]
_MOST_CLIPS = 1 << 27
"""Clips of an epoch by ``repeats``: some 24 bytes each."""
_MOST_TIMES = 1 << 20
"""That a clip comes in an epoch."""


@refuse_names(
    "plan_buckets",
    {
        "size": "the buckets say it",
        "crop": "pictures fill their bucket, and the middle is kept",
        "rule": "give fps= and start=",
        "shuffle": "steps are always shuffled, by seed=",
        "drop_last": 'use tail="drop"',
        **dict.fromkeys(("gradient_accumulation_steps", "grad_accum"), "use accumulate="),
    },
)
def plan_buckets(  # noqa: PLR0913 - public: what its users ask for
    catalog: Catalog,
    buckets: Buckets | Sequence[Bucket],
    *,
    fps: Seconds,
    seed: int | None = None,
    global_batch: Count | None = None,
    batch_size: Count | None = None,
    batch_pixels: int | None = None,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: StepTail = "pad",
    accumulate: int = 1,
    min_steps: int = 1,
    weights: Mapping[Bucket, float] | None = None,
    repeats: str | None = None,
    per_video: PerVideo = "longest",
    start: Start = "random",
    max_crop: float = 0.25,
    enlarge: bool = False,
    max_repeated: float | None = None,
    within: tuple[str, str] | None = None,
    pick: Pick = "played",
    on_damaged: OnDamaged = "error",
    horizontal_flip: float = 0.0,
    still_quality: StillQuality = "scaled",
    filter: Filter = "bilinear",
    columns: Sequence[str] | Mapping[str, str | None] = (),
) -> EpochPlan:
    """Plan steps over the files of a catalog: at each, all ranks have clips of one bucket (T, H, W).

    A source gets the longest T that its exact seconds hold at ``fps``, and of that T the size of the largest area that
    it fills without being enlarged, of those the one that cuts off least. ``plan.describe()`` says how many clips and
    steps each bucket has, and what is left out and why; ``plan.excluded`` lists it. A `ClipLoader` over the plan takes
    no ``batch_size``: a batch is a step, and has ``bucket``.

    Example::

        buckets = ff.Buckets(frames=(17, 33, 49), pixels=(320 * 576, 480 * 832), multiple=16)
        plan = ff.plan_buckets(catalog, buckets, fps=16, global_batch=16, seed=0, columns=("text",))

    Args:
        catalog: A catalog with frame indexes.
        buckets: `Buckets`, or a list of (T, H, W). Of T = 1 are still pictures alone. Sizes of a list within a fifth of
            one another, by pixels, are of one area.
        fps: Frames per second of the clips. A slower file repeats frames.
        seed: An integer from 0 to 2**64 - 1, which must be given: all random choices come from it.
        global_batch: Clips of a step on all ranks together, or a function of (T, H, W) that says it; the number of
            ranks must divide it. Steps, and clips of each step, are then the same on any number of ranks.
        batch_size: Clips of a step on each rank, or such a function, in place of ``global_batch``. With another number
            of ranks, what is left of the epoch is dealt anew.
        batch_pixels: Most pixels of a step on each rank, T * H * W of all clips: the number of clips follows from it.
        epoch: Number of the epoch, from 0.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: Of clips that fill no whole step: "pad" repeats clips of the bucket, "drop" leaves them out of the epoch,
            "stream" begins the next epoch with them: then the counts of two clips of a bucket never differ by more than
            one.
        accumulate: Steps in a row that have one bucket.
        min_steps: Steps that a bucket must fill; the clips of others go to the nearest bucket: the longest shorter T of
            the same size, else as if the bucket were not there. With ``batch_size``, steps of one rank count.
        weights: How often the clips of a bucket come in an epoch, such as {(49, 480, 832): 2}; of others once.
        repeats: Name of a column with the number of times that each row comes in an epoch.
        per_video: "longest" makes one clip of a source, "all" one for each T that it holds.
        start: Where clips begin, as of `Dense`: "random", or seconds from the first frame.
        max_crop: Largest share of a picture that is cut off; sources whose pictures fit no bucket so are left out.
        enlarge: Whether pictures may be enlarged; otherwise they get a smaller area, or are left out.
        max_repeated: Largest share of the frames of a clip that repeat the one before, or None for any; sources whose
            clips repeat more are left out.
        within: As in ``plan_clips``: names of two columns with start and end in seconds.
        pick: Which frame is taken for a time, as of `Dense`.
        on_damaged: As in ``plan_clips``.
        horizontal_flip: As in ``plan_clips``.
        still_quality: As in ``plan_clips``.
        filter: As in ``plan_clips``.
        columns: As in ``plan_clips``.

    Raises:
        UsageError: An argument is wrong, the ranks do not divide ``global_batch``, or arguments contradict each other.
    """
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: all random choices of a plan come from it")
    check_catalog(catalog)
    shapes = read_buckets(buckets)
    rule = _check_rule(BucketRule(fps, start, pick, per_video, max_crop, enlarge, max_repeated))
    options = ClipOptions(
        within=within, columns=columns, on_damaged=on_damaged, horizontal_flip=horizontal_flip,
        still_quality=still_quality, filter=filter,
    )  # fmt: skip
    size_of = _read_sizes(global_batch, batch_size, batch_pixels)
    passes = _read_weights(weights, [shape for _, shape in shapes])
    # Of an epoch, in which a bucket may have less than one pass.
    steps = check_integer("min_steps", min_steps, 0, _MOST_CLIPS) * check_integer("accumulate", accumulate, least=1)
    division = divide_rows(
        catalog,
        shapes,
        rule,
        options,
        [ceil(steps * size_of(shape) / min(Fraction(1), passes[shape])) for _, shape in shapes],
        keeps_last=tail != "drop",
        min_steps=min_steps,
        repeats=None if repeats is None else _read_repeats(catalog, repeats),
    )
    clips = BucketClips(catalog, division, rule, options, () if repeats is None else (repeats,))
    order = BucketOrder(
        0, seed, True, epoch, rank, world_size, tail,
        counts=tuple(map(len, division.rows)),
        sizes=tuple(map(size_of, clips.buckets)),
        is_global=global_batch is not None,
        accumulate=accumulate,
        weights=tuple(passes[bucket] for bucket in clips.buckets),
    )  # fmt: skip
    plan = EpochPlan(order, clips)
    # What is known of damage and short videos, once for all buckets.
    remarks = [*_explain_left_out(clips), *_explain_idle_buckets(clips, order), *find_remarks_on(clips.inner[0], order)]
    for remark in (*remarks, *_find_odd_shapes([shape for _, shape in shapes])):
        warnings.warn(remark, UserWarning, stacklevel=3)
    return plan


def _explain_left_out(clips: BucketClips) -> list[str]:
    catalog, count = clips.catalog, clips.num_excluded
    if not count and clips.count:
        return []
    reasons = [f"{number}: {reason}" for reason, number in clips.count_left_out().items()]
    text = f"{count} of {len(catalog)} rows are left out of this plan: plan.excluded lists each with the reason"
    remain = "" if clips.count else ". No rows remain, so the plan has no clips"
    return [". ".join([text, *reasons]) + remain]


def _explain_idle_buckets(clips: BucketClips, order: BucketOrder) -> list[str]:
    """Warn of buckets whose clips would never come."""
    counts = zip(clips.buckets, order.counts, order.count_steps().tolist(), strict=True)
    idle = [(bucket, count) for bucket, count, steps in counts if not steps]
    if not idle or order.tail == "stream":
        return []
    return [
        f"{sum(count for _, count in idle)} clips of {len(idle)} buckets fill no step, and come in no epoch (first "
        f"{idle[0][0]}): give min_steps=1, a smaller batch, or tail='stream'"
    ]


def _check_rule(rule: BucketRule) -> BucketRule:
    dense = rule.dense(2)  # checks fps, start and pick
    assert dense.fps is not None
    check_choice("per_video", rule.per_video, get_args(PerVideo))
    if not is_number(rule.max_crop) or not 0 <= rule.max_crop < 1:
        raise expected("max_crop", "a share from 0.0 to below 1.0", rule.max_crop)
    if rule.max_repeated is not None and not (is_number(rule.max_repeated) and 0 <= rule.max_repeated <= 1):
        raise expected("max_repeated", "a share from 0.0 to 1.0, or None", rule.max_repeated)
    if not isinstance(rule.enlarge, bool):
        raise expected("enlarge", "True or False", rule.enlarge)
    # Equal rules have equal texts.
    most = None if rule.max_repeated is None else float(rule.max_repeated)
    return replace(rule, fps=dense.fps, start=dense.start, max_crop=float(rule.max_crop), max_repeated=most)


def _read_sizes(global_batch: Any, batch_size: Any, batch_pixels: Any) -> Callable[[Bucket], int]:
    """Read how many clips a step of each bucket has."""
    given = {"global_batch": global_batch, "batch_size": batch_size, "batch_pixels": batch_pixels}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        raise UsageError(
            f"expected one of global_batch=, batch_size= and batch_pixels=, got {' and '.join(given) or 'none'}"
        )
    ((name, value),) = given.items()
    if name == "batch_pixels":
        most = check_integer(name, value, least=1)

        def divide(bucket: Bucket) -> int:
            pixels = bucket[0] * bucket[1] * bucket[2]
            if pixels > most:
                raise UsageError(
                    f"batch_pixels: a clip of the bucket {bucket} has {pixels:,} pixels, more than {most:,}"
                )
            return most // pixels

        return divide
    if callable(value):
        return lambda bucket: check_integer(f"{name} of the bucket {bucket}", value(bucket), least=1)
    count = check_integer(name, value, least=1)
    return lambda bucket: count


def _read_repeats(catalog: Catalog, name: str) -> IntArray:
    if not isinstance(name, str):
        raise expected("repeats", "the name of a column of integers", name)
    values, rows = catalog.column_values(name), catalog.plannable_rows
    # Text is read as codes, which look like numbers: the value of one row decides.
    is_text = name == "label" or (len(rows) and isinstance(catalog[int(rows[0])].columns.get(name), str))
    if is_text or values.dtype.kind not in "iu" or (values < 0).any() or (values > _MOST_TIMES).any():
        raise UsageError(f"repeats: expected a column of integers from 0 to {_MOST_TIMES:,}, and {name!r} has others")
    if int(values.sum()) > _MOST_CLIPS:
        raise UsageError(
            f"repeats: expected at most {_MOST_CLIPS:,} clips, and {name!r} asks for {int(values.sum()):,}"
        )
    return values.astype(np.int64)


def _read_weights(weights: Any, every: Sequence[Bucket]) -> dict[Bucket, Fraction]:
    """Read the passes over the clips of each bucket."""
    given = dict.fromkeys(every, Fraction(1))
    if weights is not None and not isinstance(weights, Mapping):
        raise expected("weights", "a dict by bucket, such as {(49, 480, 832): 2}", weights)
    for bucket, weight in (weights or {}).items():
        if bucket not in every:
            more = f" and {len(every) - 8} more" if len(every) > 8 else ""
            raise UsageError(f"weights: there is no bucket {bucket}: the buckets are {list(every)[:8]}{more}")
        if not is_finite(weight) or not 0 < weight <= _MOST_TIMES:
            raise expected(f"weights[{bucket}]", "a number above 0", weight)
        given[bucket] = make_exact(weight)
    return given


def _find_odd_shapes(shapes: Sequence[Bucket]) -> Iterator[str]:
    odd = sorted({length for length, _, _ in shapes if length % 4 != 1})
    sides = sorted({side for _, *size in shapes for side in size if side % 8})
    need = "which the encoders of most models for videos need; ignore this if yours takes it"
    if odd:
        yield f"buckets: T = {', '.join(map(str, odd))} is neither 4 k + 1 nor 8 k + 1, {need}"
    if sides:
        yield f"buckets: sides of {', '.join(map(str, sides[:8]))} pixels are no multiples of 8, {need}"
