"""Check the parts of a mixture, and mix them: clip by clip, or by steps where they are plans of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from framefeed._checks import check_integer, expected, is_finite
from framefeed.catalog import TextColumn
from framefeed.errors import UsageError
from framefeed.plan._mixed_buckets import MixedBuckets, make_bucket_order
from framefeed.plan._mixed_clips import PLAN_COLUMN, MixedClips, check_count
from framefeed.plan._mixing import make_exact
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._shard import StepTail
from framefeed.plan._tables import find_delivered_form


def mix_plans(
    parts: Sequence[tuple[EpochPlan, float]],
    *,
    num_clips: int,
    seed: int | None = None,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: StepTail = "pad",
    unequal: bool = False,
) -> EpochPlan:
    """Mix plans by weight: after n positions each has had its share of n clips, within one.

    A part keeps its own order, rule, crops and random choices. Where it ends, its next epoch begins, and the mixture's
    next epoch goes on with its next clip. Plans of buckets keep their steps instead: each is of one bucket of one part,
    and their shares are those of the clips of an epoch.

    Example: ``mix_plans([(plan_a, 0.7), (plan_b, 0.3)], num_clips=1_000_000, seed=0)``

    Args:
        parts: Plans and their weights, of which only the ratios count. All plan for one rank, have the same columns
            and, unless ``unequal``, give pictures of one shape and as many frames. A part may be a mixture.
        num_clips: Clips of an epoch, of all ranks together.
        seed: Decides the order of the parts, as far as their shares leave it open.
        epoch: Number of the epoch, from 0.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: As in ``plan_clips``; of plans of buckets, as in ``plan_buckets``.
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
    weights = tuple(weight for _, weight in pairs)
    if plans[0].clips.buckets and not unequal:
        steps = make_bucket_order(plans, weights, count, seed, tail, epoch=epoch, rank=rank, world_size=world_size)
        return EpochPlan(steps, MixedBuckets(plans, weights, count, steps.seed))
    order = Order(count, seed, False, epoch, rank, world_size, tail)
    check_count(count, order.epoch, len(plans))
    return EpochPlan(order, MixedClips(plans, weights, count, order.seed, unequal))


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
        pairs.append((plan, make_exact(weight)))
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
        if unequal and plan.order.tail == "stream":
            raise UsageError(
                f"parts[{number}] has tail='stream', so that its epochs differ in length: give it tail='pad' or 'drop'"
            )
        if not unequal and bool(plan.clips.buckets) != bool(plans[0].clips.buckets):
            raise UsageError(
                f"parts[0] and parts[{number}]: one is a plan of buckets and the other is not: plan both by "
                "ff.plan_buckets, or give unequal=True for batches of lists"
            )
        forms_of = plan.clips.forms.values()
        if not (unequal or plan.clips.buckets) and any(form.unequal or form.num_frames is None for form in forms_of):
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
