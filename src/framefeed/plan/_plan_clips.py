"""Plan the clips of a catalog by a clip rule."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from framefeed._checks import expected, refuse_names
from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.plan._epoch import EpochPlan, restore_plan
from framefeed.plan._options import Balance, PlanOptions, Shuffle
from framefeed.plan._remarks import find_remarks
from framefeed.plan._rules import ClipRule
from framefeed.plan._shard import Tail
from framefeed.request import Crop, OnDamaged, Size


@refuse_names(
    "plan_clips",
    {
        "resize": "use size=(height, width), or size= with the short side",
        "num_clips": "use clips_per_video=",
        "batch_size": "give it to ff.ClipLoader, or to a DataLoader over ff.torch.ClipDataset",
        "num_frames": "give it to the clip rule, such as ff.Uniform(8)",
    },
)
def plan_clips(  # noqa: PLR0913 - public: what its users ask for
    catalog: Catalog,
    rule: ClipRule | None = None,
    *,
    clips_per_video: int = 1,
    seed: int | None = None,
    shuffle: Shuffle = True,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: Tail = "pad",
    size: Size | int | None = None,
    crop: Crop | Sequence[int] | None = None,
    within: tuple[str, str] | None = None,
    at: str | None = None,
    unequal: bool = False,
    on_damaged: OnDamaged = "error",
    balance: Balance | None = None,
    columns: Sequence[str] = (),
) -> EpochPlan:
    """Plan the clips of every epoch over the files of a catalog.

    Example: ``plan_clips(catalog, Rates([(1, 8), (2, 8)]), seed=0, size=(224, 224), columns=["label"])``

    Args:
        catalog: A catalog with frame indexes. Rows that failed are left out with one warning; ``plan.excluded`` lists
            them.
        rule: The clip rule, which says which frames make a clip; None if ``at`` is given.
        clips_per_video: Number of clips of each video in an epoch.
        seed: An integer from 0 to 2**64 - 1; random choices depend only on seed, epoch and global position. It must be
            given.
        shuffle: True shuffles clips, False keeps the catalog's order, "videos" shuffles videos and keeps the clips of
            a video together on one rank, so that they share its decoding.
        epoch: Number of the epoch, from 0; ``plan.with_epoch`` gives other epochs.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: "pad" repeats global positions 0, 1, ... until all ranks have the same length, "drop" leaves out the rest.
        size: (height, width) of the pictures, an int for their short side, or None for no resize.
        crop: (top, left, height, width) in displayed pixels, CenterCrop, RandomCrop or RandomResizedCrop; it comes
            before the resize. A warning says if the resize enlarges it.
        within: Names of two columns with start and end in seconds from the first frame; clips are chosen as if the
            video had only the frames with start <= t < end. Null or NaN means no bound.
        at: Name of the column with each row's frame numbers (integers) or seconds from the first frame (floats), one
            or a list a row, in place of a rule. A row with a null in it is left out. Seconds are taken with
            pick="played" and no tolerance, and the policy is "repeat_last"; for others make the requests yourself:
            ``plan_requests`` takes pick, tolerance_seconds and policy. A warning says if floats look like frame
            numbers, or if all frames of a row lie past the end.
        unequal: Let the pictures of different clips differ in size; ``ClipBatch.data`` is then a list of clips.
        on_damaged: For frames that a scan with ``verify="full"`` found damaged: "error" plans them, and loading raises
            CorruptMedia; "skip" delivers zeros, with ``valid`` False; "deliver" delivers the picture that the decoder
            gives. One warning counts the damaged frames that "error" may plan, or the rows that were not scanned so,
            for which "skip" and "deliver" do not work.
        balance: "cost" deals clips to ranks so that at each step all ranks have about the same to decode, as far as the
            catalog can predict it. The same samples come in another order.
        columns: Names of columns that are delivered with the clips.

    Raises:
        UsageError: The catalog has no frame indexes, the pictures would have different sizes, or options contradict
            each other.
    """
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: all random choices of a plan come from it")
    options = PlanOptions(
        seed, shuffle, epoch, rank, world_size, tail, clips_per_video, size, crop, within, columns, on_damaged,
        unequal, balance,
    )  # fmt: skip
    plan = restore_plan(catalog, _check_rule(catalog, rule, at), options)
    if not len(catalog):
        warnings.warn("the catalog has no rows, so the plan has no clips: check its filter", UserWarning, stacklevel=3)
    if excluded := plan.tables.num_excluded(catalog):
        count = f"{excluded} of {len(catalog)} rows"
        message = f"{count} are left out of this plan: plan.excluded lists each with the reason"
        if not len(plan.tables.layout):
            source, reason = plan.excluded[0]
            reason = reason.replace(f"{source}: ", "", 1)  # which most messages of errors begin with
            message = f"{message}. No rows remain, so the plan has no clips. The first row is {source} ({reason})"
        warnings.warn(message, UserWarning, stacklevel=3)
    for remark in find_remarks(plan):
        warnings.warn(remark, UserWarning, stacklevel=3)
    return plan


def _check_rule(catalog: object, rule: ClipRule | None, at: str | None) -> ClipRule | str:
    if isinstance(catalog, type) or not hasattr(catalog, "usable_rows"):
        raise expected("catalog", "a Catalog (from ff.scan or ff.Catalog.open)", catalog)
    if at is not None:
        if rule is not None:
            raise UsageError(f"expected a rule or at={at!r}, got both: each says which frames make a clip")
        if not isinstance(at, str):
            raise expected("at", "the name of a column", at)
        return at
    if rule is None:
        raise UsageError("expected a clip rule such as ff.Uniform(8), or at= with the name of a column, got neither")
    if isinstance(rule, type) or not hasattr(rule, "choose"):
        raise expected("rule", "a clip rule such as ff.Uniform(8)", rule)
    return rule
