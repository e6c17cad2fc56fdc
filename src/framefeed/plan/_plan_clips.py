"""Plan the clips of a catalog by a clip rule, and warn of likely mistakes and known damage."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from framefeed._arrays import IntArray
from framefeed._checks import expected, refuse_names
from framefeed.catalog import Catalog, explain_missing_frames, list_unindexed_rows
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import Pick, Timeline
from framefeed.plan._clips import CatalogClips, Clips, make_catalog_clips
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import Balance, Order, Shuffle
from framefeed.plan._plan import EpochPlan
from framefeed.plan._plan_streams import check_streams, plan_streams, split_form
from framefeed.plan._request_rule import Requests, find_mistakes
from framefeed.plan._rules import ClipRule, EveryFrame, choose_by
from framefeed.plan._shard import Tail
from framefeed.plan._short_rows import explain_short_rows
from framefeed.plan._stream_clips import Following, StreamClips
from framefeed.plan._tables import CHANGING_SIZE_REASON, NO_TIMES_REASON, describe_source, explain_small_proxies
from framefeed.request import AnySize, ClipContext, Crop, Filter, OnDamaged, StillQuality


@refuse_names(
    "plan_clips",
    {
        "resize": "use size=(height, width), or size= with the short side",
        "num_clips": "use clips_per_video=",
        "batch_size": "give it to ff.ClipLoader, or to a DataLoader over ff.torch.ClipDataset",
        "num_frames": "give it to the clip rule, such as ff.Uniform(8)",
        **dict.fromkeys(("flip", "hflip", "random_flip", "random_horizontal_flip"), "use horizontal_flip=0.5"),
        **dict.fromkeys(
            ("transform", "mean", "std", "dtype"),
            "give it to ff.ClipLoader or ff.torch.ClipDataset",
        ),
    },
)
def plan_clips(  # noqa: PLR0913 - public: what its users ask for
    catalog: Catalog | None = None,
    rule: ClipRule | None = None,
    *,
    clips_per_video: int = 1,
    seed: int | None = None,
    shuffle: Shuffle = True,
    epoch: int = 0,
    rank: int = 0,
    world_size: int = 1,
    tail: Tail = "pad",
    size: AnySize | Mapping[str, AnySize | None] | None = None,
    crop: Crop | Sequence[int] | Mapping[str, Crop | Sequence[int] | None] | None = None,
    within: tuple[str, str] | None = None,
    at: str | None = None,
    unequal: bool = False,
    on_damaged: OnDamaged = "error",
    balance: Balance | None = None,
    horizontal_flip: float = 0.0,
    still_quality: StillQuality = "scaled",
    filter: Filter = "bilinear",
    columns: Sequence[str] | Mapping[str, str | None] = (),
    streams: Mapping[str, Catalog] | None = None,
    on: str | None = None,
    pick: Pick | None = None,
    tolerance_seconds: float | None = None,
) -> EpochPlan:
    """Plan the clips of every epoch over the files of a catalog.

    Example: ``plan_clips(catalog, Rates([(1, 4), (2, 8)]), seed=0, size=(224, 224), columns=["label"])``

    Args:
        catalog: A catalog with frame indexes; or one of headers (``depth="header"``), of which the pictures are
            planned. Its videos, rows that failed, and rows whose clips would all fail, such as those without times
            where the rule is by time, are left out with one warning; ``plan.excluded`` lists them.
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
        size: (height, width) of the pictures, an int for their short side, ResizeCrop, LongSide, Letterbox, Cover or
            PixelBudget; None for no resize.
        crop: (top, left, height, width) in displayed pixels, CenterCrop, RandomCrop or RandomResizedCrop; it comes
            before the resize. A warning says if the resize enlarges it.
        within: Names of two columns with start and end in seconds from the first frame; clips are chosen as if the
            video had only the frames with start <= t < end. Null or NaN means no bound.
        at: Name of the column with each row's frame numbers (integers) or seconds from the first frame (floats), one
            or a list a row, in place of a rule. A row with a null in it is left out. Seconds are taken with
            pick="played" and no tolerance, and the policy is "repeat_last"; for others make the requests yourself:
            ``plan_requests`` takes pick, tolerance_seconds and policy. A warning says if floats look like frame
            numbers, or if all frames of a row lie past the end.
        unequal: Let clips differ in the size of their pictures and, with ``at``, WholeVideo or a rule of your own, in
            their number of frames; ``ClipBatch.data`` is then a list of clips.
        on_damaged: For frames that a scan with ``verify="full"`` found damaged: "error" plans them, and loading raises
            CorruptMedia; "skip" delivers zeros, with ``valid`` False; "deliver" delivers the picture that the decoder
            gives. One warning counts the damaged frames that "error" may plan, or the rows that were not scanned so,
            for which "skip" and "deliver" do not work.
        balance: "cost" deals clips to ranks so that at each step all ranks have about the same to decode, as far as the
            catalog can predict it. The same samples come in another order.
        horizontal_flip: Probability with which left and right of a clip are swapped, the same for all of its frames.
            It is drawn from a stream of its own: frames and crops stay those of the plan without it.
        still_quality: "scaled" decodes JPEG pictures at 1/2, 1/4 or 1/8 of their size where that is at least twice the
            size of the result; "exact" decodes them at full size, as `VideoDecoder` does by default. Videos and other
            pictures have no such choice.
        filter: Of the resize: "bilinear", or "bicubic" for the pixels of torch's antialiased bicubic of full-size RGB,
            which takes longer. Both are antialiased.
        columns: Names of columns that are delivered with the clips; of several streams, columns of the first catalog.
            Text is delivered as text, and "label" as int64 codes. A dict such as ``{"verb": "codes", "score": None}``
            gives the codes of other columns of text too, whose texts are in ``plan.texts``.
        streams: Catalogs by name, in place of ``catalog``: a clip has one source of each. ``rule``, ``within`` and
            ``at`` are for the first; the others have the frames at its times, counted from the first frame of each.
            Batches have ``data``, ``pts_seconds``, ``valid`` and ``sources`` as dicts by stream. One draw of a crop or
            flip serves all streams; ``size`` and ``crop`` may be dicts by stream.
        on: Column of text or integers that joins the catalogs of ``streams``; "stem" joins them by the names of their
            files, without folder and suffix, if they have no such column. Rows without a partner are left out, and
            ``plan.excluded`` lists them.
        pick: With ``streams``, which frame the others have for a time of the first; None for "nearest".
        tolerance_seconds: With ``streams``, largest distance between that time and frame; None for that of the rule,
            if it has one, else no limit.

    Raises:
        UsageError: The catalog has only videos and no frame indexes, the pictures would have different sizes, or
            options contradict each other.
    """
    if seed is None:
        raise UsageError("seed: give a number, such as seed=0: all random choices of a plan come from it")
    if (streams is None) == (catalog is None):
        got = "neither" if catalog is None else "both"
        raise UsageError(f"expected a catalog, or streams= with several catalogs, got {got}")
    if isinstance(catalog, Mapping):
        raise UsageError(f"catalog: expected a Catalog, got a dict of {list(catalog)}: give it as streams=, with on=")
    if streams is None and any(each is not None for each in (on, pick, tolerance_seconds)):
        raise UsageError("on, pick and tolerance_seconds are for streams=: a clip rule has its own pick and tolerance")
    form = {"size": size, "crop": crop}
    order = Order(0, seed, shuffle, epoch, rank, world_size, tail, balance)
    options = ClipOptions(
        clips_per_video, within=within, columns=columns, on_damaged=on_damaged, unequal=unequal,
        horizontal_flip=horizontal_flip, still_quality=still_quality, filter=filter,
    )  # fmt: skip
    clips: Clips
    if streams is None:
        options = replace(options, **form)  # type: ignore[arg-type]
        chosen = _check_rule(catalog, rule, at, options, order)
        clips = make_catalog_clips(catalog, chosen, options)  # type: ignore[arg-type]
        _warn_of_exclusions(clips)
    else:
        check_streams(streams, on)
        forms = split_form(streams, **form)
        chosen = _check_rule(next(iter(streams.values())), rule, at, options, order)
        clips = plan_streams(dict(streams), str(on), chosen, forms, (pick, tolerance_seconds), options)
        _warn_of_unjoined(clips)
    unit = options.clips_per_video if order.shuffle == "videos" else 1
    plan = EpochPlan(replace(order, count=clips.count, unit=unit), clips)
    for remark in find_remarks(plan):
        warnings.warn(remark, UserWarning, stacklevel=3)
    return plan


_FAILING = {
    CHANGING_SIZE_REASON: (
        "have pictures that change their size: give size=(height, width) without a crop, which resizes all to one size"
    ),
    NO_TIMES_REASON: (
        "have no times of their frames, which this plan needs: if you know the frame rate, scan with assume_fps= (on "
        "the command line: --assume-fps), or choose frames by number, as ff.Uniform and ff.Dense(stride=) do"
    ),
}
"""Reasons for which rows are left out, in the words of the warning."""


def _warn_of_exclusions(clips: CatalogClips) -> None:
    catalog = clips.catalog
    if not len(catalog):
        warnings.warn("the catalog has no rows, so the plan has no clips: check its filter", UserWarning, stacklevel=4)
    if excluded := len(catalog) - len(catalog.plannable_rows) + len(clips.left_out):
        count = f"{excluded} of {len(catalog)} rows"
        message = f"{count} are left out of this plan: plan.excluded lists each with the reason"
        if len(unindexed := list_unindexed_rows(catalog)):
            first = describe_source(catalog, int(unindexed[0]))
            needing = f"{len(unindexed)} of them need frame indexes (first {first})"
            message = f"{message}. {needing}: {explain_missing_frames(catalog)}"
        is_explained = False
        for failing, advice in _FAILING.items():
            sources = [source for source, reason in clips.left_out if reason == failing]
            is_explained |= len(sources) == excluded
            if sources:
                message = f"{message}. {len(sources)} of them {advice} (first {sources[0]})"
        if not clips.count:
            message = f"{message}. No rows remain, so the plan has no clips"
            if not is_explained:
                source, reason = clips.excluded[0]
                reason = reason.replace(f"{source}: ", "", 1)  # which most messages of errors begin with
                message = f"{message}. The first row is {source} ({reason})"
        warnings.warn(message, UserWarning, stacklevel=4)


def _warn_of_unjoined(clips: StreamClips) -> None:
    excluded = clips.excluded
    if excluded:
        source, reason = excluded[0]
        rows = sum(len(each.catalog) for each in clips.list_plain())
        message = (
            f"{len(excluded)} of {rows} rows of the streams' catalogs are left out of this plan: plan.excluded lists"
        )
        message = f"{message} each with the reason. The first is {source} ({reason})"
        remain = "" if clips.count else ". No rows remain, so the plan has no clips"
        warnings.warn(f"{message}{remain}", UserWarning, stacklevel=4)
    elif not clips.count:
        warnings.warn("the plan has no clips: check the catalogs' filters", UserWarning, stacklevel=4)


def check_catalog(catalog: object) -> None:
    """Check that it is a Catalog."""
    if isinstance(catalog, type) or not hasattr(catalog, "usable_rows"):
        raise expected("catalog", "a Catalog (from ff.scan or ff.Catalog.open)", catalog)


def _check_rule(
    catalog: object, rule: ClipRule | None, at: str | None, options: ClipOptions, order: Order
) -> ClipRule | str:
    check_catalog(catalog)
    if at is not None:
        if rule is not None:
            raise UsageError(f"expected a rule or at={at!r}, got both: each says which frames make a clip")
        if not isinstance(at, str):
            raise expected("at", "the name of a column", at)
        return at
    if rule is None:
        raise UsageError("expected a clip rule such as ff.Uniform(8), or at= with the name of a column, got neither")
    if isinstance(rule, type) or not hasattr(rule, "choose") or not hasattr(rule, "num_frames"):
        raise expected("rule", "a clip rule such as ff.Uniform(8), with `choose` and `num_frames`", rule)
    if type(rule).__repr__ is object.__repr__:
        raise UsageError(
            f"rule: {type(rule).__name__} needs a repr that tells it from other rules, because checkpoints compare it: "
            "make it a frozen dataclass"
        )
    if isinstance(rule, EveryFrame) and (options.clips_per_video != 1 or order.shuffle == "videos"):
        raise UsageError("EveryFrame has one clip per frame: leave out clips_per_video, and use shuffle=True or False")
    return rule


def find_remarks(plan: EpochPlan) -> Iterator[str]:
    """Yield a warning for each matter; no media are opened, and nothing is drawn."""
    for clips in plan.clips.list_plain():
        yield from find_remarks_on(clips, plan.order)


def find_remarks_on(clips: CatalogClips, order: Order) -> Iterator[str]:
    """Yield the warnings of the clips of one catalog."""
    if isinstance(clips.rule, Requests) and clips.rule.at is not None:
        yield from find_mistakes(clips.catalog, clips.rule)
    is_error = clips.options.on_damaged == "error"
    remark = _describe_known_damage(clips, order) if is_error else _describe_unknown_damage(clips)
    small = explain_small_proxies(clips.catalog, clips.options.pictures, _list_rows(clips))
    for each in (remark, explain_enlarged_crop(clips), explain_short_rows(clips), small):
        if each is not None:
            yield each


def explain_enlarged_crop(clips: CatalogClips) -> str | None:
    """Write a warning if the crop is smaller than the size; else None."""
    rows, catalog = _list_rows(clips), clips.catalog
    if not len(rows):
        return None
    return clips.options.pictures.explain_enlarging(int(catalog.heights[rows[0]]), int(catalog.widths[rows[0]]))


def _list_rows(clips: CatalogClips) -> IntArray:
    """List the rows that clips come from; of requests, the row of each."""
    return clips.rule.rows if isinstance(clips.rule, Requests) else clips.catalog.plannable_rows


def _describe_unknown_damage(clips: CatalogClips) -> str | None:
    """Write a warning if ``on_damaged`` cannot work for rows that were not decoded to find damage; else None."""
    catalog = clips.catalog
    # Null, here NaN, means that not all of a file was decoded.
    rows = catalog.plannable_rows
    count = np.count_nonzero(np.isnan(catalog.column_values("num_damaged_frames")[rows]))
    if not count:
        return None
    return (
        f"on_damaged={clips.options.on_damaged!r}: damage is not known for {count} of {len(rows)} rows, "
        "because they were not scanned with verify='full' (on the command line: framefeed scan --verify full); loading "
        "a damaged frame of these rows raises CorruptMedia"
    )


def _describe_known_damage(clips: CatalogClips, order: Order) -> str | None:
    """Write a warning if frames that the rule may pick are known to be damaged; else None."""
    catalog, rows = clips.catalog, _list_rows(clips)
    num_files = num_frames = 0
    first = ""
    for row in np.unique(rows[catalog.column_values("num_damaged_frames")[rows] > 0]).tolist():
        count = _count_damaged_picks(clips, order, row)
        if count and not num_files:
            first = describe_source(catalog, row)
        num_files += count > 0
        num_frames += count
    if not num_files:
        return None
    return (
        f"{num_frames} damaged frames in {num_files} of {len(catalog)} rows may be in clips of this plan (first "
        f"{first}). With on_damaged='error', the default, loading such a clip raises CorruptMedia; that ends the loop, "
        "unless the loader has on_error='substitute' (another clip) or on_error='skip' (zeros). on_damaged='skip' "
        "gives zeros for these frames alone, with valid False, and with 'deliver' the pictures that the decoder gives "
        "(on the command line: --on-damaged). After a scan with verify='full', catalog.filter(num_damaged_frames=0) "
        "leaves these rows out; without, it leaves out all whose frames were not all decoded"
    )


def _count_damaged_picks(clips: CatalogClips, order: Order, row: int) -> int:
    """Count the damaged frames of a row that the rule may pick."""
    index, rule, windows = clips.catalog.frame_index(row), clips.rule, clips.windows
    try:
        timeline = Timeline.whole(index) if windows is None else windows.timeline(index, row)
        if getattr(rule, "is_random", False) or isinstance(rule, EveryFrame | Following):
            ordinals = timeline.first + np.arange(len(timeline))
        else:
            numbers = np.arange(clips.options.clips_per_video)
            if isinstance(rule, Requests):
                numbers = np.flatnonzero(rule.rows == row)
            contexts = [ClipContext(order.seed, order.epoch, 0, number) for number in numbers.tolist()]
            ordinals = np.unique(np.concatenate([choose_by(rule, timeline, each).ordinals for each in contexts]))
    except (FrameNotFound, TimeUnavailable):
        return 0  # Its clips raise this error.
    return int(np.count_nonzero(index.is_damaged(ordinals)))
