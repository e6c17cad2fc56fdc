"""Plan the user's own list of clips."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray
from framefeed._checks import check_choice, check_mapping, expected, refuse_names
from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.errors import MediaError, TimeUnavailable, UsageError
from framefeed.index import NO_TIMES, Pick
from framefeed.media import ImageSequence, StorageOptions, check_storage_options
from framefeed.plan._clips import CatalogClips, Clips
from framefeed.plan._options import ClipOptions
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._plan_clips import explain_enlarged_crop
from framefeed.plan._plan_streams import check_stream_name, split_form
from framefeed.plan._planned import ClipPart, PlannedClip
from framefeed.plan._request_rule import Requests
from framefeed.plan._rules import MOST_FRAMES
from framefeed.plan._shard import Tail
from framefeed.plan._stream_clips import join_clips
from framefeed.request import (
    BEFORES,
    AnySize,
    Before,
    Crop,
    DecodeRequest,
    Filter,
    Picking,
    Policy,
    StillQuality,
    is_pair,
    read_bounds,
)

Bound = tuple[float | None, float | None]
Within = Bound | Sequence[Bound | None]


@refuse_names("plan_requests", {"resize": "use size=(height, width), or size= with the short side"})
def plan_requests(  # noqa: PLR0913 - public: what its users ask for
    requests: Sequence[DecodeRequest | ClipPart] | Sequence[Mapping[str, DecodeRequest | ClipPart]],
    *,
    size: AnySize | Mapping[str, AnySize | None] | None = None,
    crop: Crop | Sequence[int] | Mapping[str, Crop | Sequence[int] | None] | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    policy: Policy = "repeat_last",
    pick: Pick = "played",
    tolerance_seconds: float | None = None,
    seed: int = 0,
    shuffle: bool = False,
    rank: int = 0,
    world_size: int = 1,
    tail: Tail = "pad",
    within: Within | None = None,
    before: Before = "repeat_first",
    horizontal_flip: float = 0.0,
    still_quality: StillQuality = "scaled",
    filter: Filter = "bilinear",
    unequal: bool = False,
    storage_options: StorageOptions | None = None,
) -> EpochPlan:
    """Plan your own list of clips, one position for each; each source is indexed once, in this call.

    Example: ``plan_requests([DecodeRequest(source="a.mp4", seconds=[0.0, 0.5])], columns={"label": ["dog"]})``

    Args:
        requests: Each has ``indices`` (negative ones count from the end) or ``seconds`` from the first frame. Or a dict
            of requests by stream each, with the same names: a clip then has one source of each stream, and batches
            have ``data``, ``pts_seconds``, ``valid`` and ``sources`` as dicts by stream; ``size`` and ``crop`` may be
            dicts too, and one draw of a crop or flip serves all streams.
        size: (height, width) of the pictures, an int for their short side, ResizeCrop, LongSide, Letterbox, Cover or
            PixelBudget; None for no resize, or for the ``output`` of the requests.
        crop: (top, left, height, width) in displayed pixels, CenterCrop, RandomCrop or RandomResizedCrop, before size.
        columns: Dict from a name to one value per request: numbers, text or None, lists of numbers of one shape, or
            lists of text. Text is delivered as text, and "label" as int64 codes.
        policy: Which frames replace those past the end: "repeat_last", "wrap" or "error".
        pick: Which frame is taken for a time: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between wanted and picked time; None for no limit.
        seed: Decides the order and the random crops.
        shuffle: True shuffles the requests, in another order in each epoch.
        rank: Number of this process, from 0 to ``world_size`` - 1.
        world_size: Number of processes that share an epoch.
        tail: "pad" repeats global positions 0, 1, ... until all ranks have the same length, "drop" leaves out the rest.
        within: Bounds in time, (start, end) for all requests or a list with one for each, in seconds from the video's
            first frame; None for no bound. Only frames with start <= t < end are delivered: those wanted behind follow
            ``policy``, those in front ``before``, with ``valid`` False. Requests may say them instead
            (``start_seconds``, ``end_seconds``). Numbers and times are still those of the whole video.
        before: "repeat_first" gives the first frame in the bounds for one before them, "error" raises FrameNotFound.
        horizontal_flip: Probability with which left and right of a clip are swapped.
        still_quality: As in ``plan_clips``; requests with an ``output`` have the quality that it says.
        filter: As in ``plan_clips``; requests with an ``output`` have the filter that it says.
        unequal: Let requests differ in their number of frames and in the size of their pictures: ``data`` of a batch is
            then a list of clips, and so are ``pts_seconds`` and ``valid`` where requests differ in it.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Raises:
        MediaError: A source cannot be indexed; ``position`` is the number of the first request for it.
        TimeUnavailable: A request is by time, or has bounds, and its source has no times; ``position`` as above.
        UsageError: An argument is wrong, a request is empty, or the pictures would have different sizes.
    """
    if shuffle not in (True, False):
        raise expected("shuffle", "True or False", shuffle)
    if columns is not None:
        check_mapping("columns", columns, '{"label": ["cat", "dog"]}')
    picking = Picking(pick, tolerance_seconds, policy)
    check_choice("before", before, BEFORES)
    check_storage_options(storage_options)
    order = Order(0, seed, shuffle, 0, rank, world_size, tail)
    options = ClipOptions(horizontal_flip=horizontal_flip, still_quality=still_quality, filter=filter, unequal=unequal)
    given, form = _split_requests(requests), {"size": size, "crop": crop}
    forms = {"": form} if "" in given else split_form(given, **form)
    own = {name: replace(options, **each) for name, each in forms.items()}
    streams = {name: [_read_request(number, each) for number, each in enumerate(of)] for name, of in given.items()}
    catalog, row_of = _index_sources(list(streams.values()), storage_options)
    parts: dict[str, CatalogClips] = {}
    for name, of in streams.items():
        rows = np.array([row_of[request.source] for request in of], dtype=np.int64)
        first_columns = {} if parts or columns is None else columns  # the first stream has the columns
        rule = Requests.of(of, rows, first_columns, picking, _read_bounds(of, within), before)
        _check_times(catalog, rule, of)
        parts[name] = CatalogClips.of(catalog, rule, own[name])
    clips: Clips = parts[""] if "" in parts else join_clips({name: (part,) for name, part in parts.items()})
    for each in clips.list_plain():
        if (remark := explain_enlarged_crop(each)) is not None:
            warnings.warn(remark, UserWarning, stacklevel=3)
    return EpochPlan(replace(order, count=clips.count), clips)


def _check_times(catalog: Catalog, rule: Requests, requests: Sequence[DecodeRequest]) -> None:
    """Check that sources have times where requests are by time, or have bounds."""
    has_bounds = False if rule.bounds is None else ~np.isnan(rule.bounds).all(1)
    is_failing = catalog.lacks_times[rule.rows] & (rule.by_time | has_bounds)
    if is_failing.any():
        number = int(is_failing.argmax())
        name = requests[number].name
        raise TimeUnavailable(f"{name}: request {number}: {NO_TIMES}", source=name, position=number, stage="plan")


def _index_sources(
    streams: Sequence[Sequence[DecodeRequest]], storage_options: StorageOptions | None
) -> tuple[Catalog, Mapping[Any, int]]:
    """Index each source of requests of all streams once; return the catalog and the row of each source."""
    # Each source once, as its catalog entry if a request has one.
    sources: dict[str | bytes | ImageSequence, Any] = {}
    for requests in streams:
        for request in requests:
            if request.entry is not None or request.source not in sources:
                sources[request.source] = request.source if request.entry is None else request.entry
    row_of = {source: row for row, source in enumerate(sources)}
    try:
        return make_memory_catalog(list(sources.values()), storage_options=storage_options), row_of
    except MediaError as error:
        # Bytes have no name: the number of the request tells them apart.
        numbers = (number for requests in streams for number, each in enumerate(requests)
                   if row_of[each.source] == error.position)  # fmt: skip
        error.position = error.late_position = next(numbers)
        raise


def _split_requests(requests: Any) -> dict[str, list[Any]]:
    """Split dicts of requests by stream into a list for each stream; if they are no dicts, one by the name ""."""
    if isinstance(requests, Mapping):
        raise UsageError("requests: expected a list, got one dict: give [request, ...], a dict by stream for each clip")
    if isinstance(requests, (str, bytes)) or not isinstance(requests, Sequence):
        raise expected("requests", "a list of DecodeRequest", requests)
    requests = [each.parts if isinstance(each, PlannedClip) and "" not in each.parts else each for each in requests]
    if not any(isinstance(each, Mapping) for each in requests):
        return {"": requests}
    what = 'dicts with the same streams, such as {"rgb": ff.DecodeRequest(...), "flow": ff.DecodeRequest(...)}'
    for number, each in enumerate(requests):
        if not isinstance(each, Mapping) or not each or each.keys() != requests[0].keys():
            raise expected(f"requests[{number}]", f"one of {what}" if number else what, each)
    for name in requests[0]:
        check_stream_name(name)
    return {name: [each[name] for each in requests] for name in requests[0]}


def _read_bounds(requests: Sequence[DecodeRequest], within: Within | None) -> FloatArray | None:
    """Read the bounds of each request, float64 [R, 2]; None if there are none."""
    own = [number for number, each in enumerate(requests) if not (each.start_seconds is each.end_seconds is None)]
    if within is None:
        if not own:
            return None
        pairs: list[Any] = [(request.start_seconds, request.end_seconds) for request in requests]
    elif own:
        raise UsageError(
            f"within: request {own[0]} ({requests[own[0]].name}) has start_seconds or end_seconds of its own: "
            "give the bounds in one of the two places"
        )
    elif is_pair(within):
        pairs = [within] * len(requests)
    elif isinstance(within, (str, bytes, Mapping)) or not isinstance(within, Sequence | np.ndarray):
        raise expected("within", "(start, end) in seconds, or a list with one for each request", within)
    elif len(within) != len(requests):
        raise UsageError(f"within: expected one (start, end) per request ({len(requests)}), got {len(within)}")
    else:
        pairs = within.tolist() if isinstance(within, np.ndarray) else list(within)
    bounds = np.full((len(requests), 2), np.nan)
    for number, pair in enumerate(pairs):
        if pair is None:
            continue
        if not is_pair(pair):
            raise expected(f"within[{number}]", "(start, end) in seconds, or None for no bound", pair)
        bounds[number] = read_bounds("within" if pair is within else f"within[{number}]", *pair)
    return bounds


def _read_request(number: int, given: Any) -> DecodeRequest:
    """Check a request, or make it of a clip of another plan, or of a stream of it: for its frames, in its form."""
    request = _convert_clip(number, given) if isinstance(given, ClipPart) else given
    if not isinstance(request, DecodeRequest):
        raise expected(f"requests[{number}]", "a DecodeRequest", request)
    if not len(request):
        raise UsageError(f"request {number} ({request.name}) asks for no frames: give at least one index or time")
    if len(request) > MOST_FRAMES:
        raise UsageError(
            f"request {number} ({request.name}) asks for {len(request):,} frames: a clip has at most {MOST_FRAMES:,}"
        )
    if request.output.dimension_order != "NCHW":
        raise UsageError(
            f"request {number} ({request.name}) asks for dimension_order NHWC, but plans deliver NCHW only"
        )
    if request.seconds is not None and not np.isfinite(request.seconds).all():
        raise UsageError(f"request {number} ({request.name}) has a time that is not a finite number")
    return request


def _convert_clip(number: int, given: ClipPart) -> DecodeRequest:
    if given.damaged is not None or given.on_damaged != "error":
        raise UsageError(
            f"request {number} ({given.name}): on_damaged is not for requests: it is an option of plan_clips"
        )
    if given.flipped or given.placement is not None:
        raise UsageError(
            f"request {number} ({given.name}): flipped and placement are of clips that a plan made: give "
            "horizontal_flip=1.0, or size=ff.Letterbox(...), here"
        )
    part = given.parts[""] if isinstance(given, PlannedClip) else given
    if len(part.takes) > 1:
        raise UsageError(f"request {number} ({given.name}) has frames of several sources: give a request for each")
    return DecodeRequest(given.source, given.indices, given.output, segment=given.segment)
