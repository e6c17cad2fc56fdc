"""Wrong arguments of every public name: a FramefeedError says which argument, what was expected, and what was found."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.compat import decord
from framefeed.decode import as_decoder
from framefeed.encode import save_still
from framefeed.errors import FramefeedError, UsageError
from framefeed.report import write_report
from framefeed.testing import make_folder
from framefeed.torch import EpisodeAwareSampler


class Nothing:
    """An object that is no argument of anything."""


NO_PATH: tuple[Any, ...] = (123, 3.5, True, [1, 2], {}, Nothing(), Nothing, "a\0b", b"a\0b")
NO_NUMBER: tuple[Any, ...] = ("8", b"8", [1, 2], {}, Nothing(), Nothing)
NO_INTEGER: tuple[Any, ...] = (*NO_NUMBER, 3.5, float("nan"))
NO_LIST: tuple[Any, ...] = (123, 3.5, Nothing(), Nothing)
NO_OBJECT: tuple[Any, ...] = (3, "text", [1, 2], {}, Nothing(), Nothing)
NO_CHOICE: tuple[Any, ...] = (3, "text", [1, 2], {}, Nothing(), Nothing)
NO_CROP: tuple[Any, ...] = (3, "text", (1, 2), {}, ff.CenterCrop, Nothing(), (0, 0, 0.5, 1))
NO_SIZE: tuple[Any, ...] = ("224", (1, 2, 3), 0, -1, 2.5, {}, Nothing(), ("a", "b"))
NO_PROBABILITY: tuple[Any, ...] = (*NO_NUMBER, None, True, 1.5, -0.1, float("nan"))


ROW_METHODS = (
    "source", "name", "shown_name", "info", "frame_index", "columns", "error", "row_fingerprint", "row_stat",
)  # fmt: skip


@dataclass(frozen=True)
class Media:
    """Right arguments of all calls."""

    path: str
    catalog: ff.Catalog
    plan: ff.EpochPlan
    cache: ff.FrameCache
    folder: str
    request: ff.DecodeRequest
    index: ff.FrameIndex


@dataclass(frozen=True)
class Wrong:
    """A call that is right but for one argument."""

    name: str
    call: Callable[..., Any]
    argument: str
    values: tuple[Any, ...]
    named: str | None = None
    """What the message calls the argument, where that is another word."""
    others: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Media:
    folder = tmp_path_factory.mktemp("wrong_calls")
    make_folder(folder / "videos", videos_per_class=1, seconds=0.5)
    path = str(folder / "videos/red/video_000.mp4")
    catalog = ff.scan(folder / "videos", label_from="parent", out=folder / "cat.parquet")
    plan = ff.plan_clips(catalog, ff.Uniform(2), seed=0, size=(32, 32), columns=("label",))
    request = ff.DecodeRequest(path, indices=[0])
    return Media(path, catalog, plan, ff.FrameCache(folder / "c"), str(folder), request, ff.build_index(path))


def calls_of_facts(media: Media) -> Iterator[Wrong]:
    def scan(**given: Any) -> Any:
        return ff.scan(**{"roots": media.folder + "/videos", "progress": False, "workers": 0, **given})

    yield Wrong("scan", scan, "roots", (*NO_LIST, b"x", {}, None, [1], [None]))
    for argument in ("out", "root"):
        yield Wrong("scan", scan, argument, NO_PATH)
    for argument in ("depth", "verify", "label_from", "image_folders"):
        yield Wrong("scan", scan, argument, NO_CHOICE)
    yield Wrong("scan", scan, "workers", NO_INTEGER)
    yield Wrong("scan", scan, "columns", (3, "text", [1], Nothing(), Nothing))
    yield Wrong("scan", scan, "path_template", (3, [1], Nothing()))
    yield Wrong("scan", scan, "limits", NO_OBJECT)
    yield Wrong("scan", scan, "assume_fps", (*NO_NUMBER, 0, -1))
    yield Wrong("scan", scan, "deadline_seconds", (*NO_NUMBER, 0, -1))
    for function in (ff.probe, ff.build_index, ff.VideoDecoder):
        yield Wrong(function.__name__, function, "source", (123, None, 3.5, [1], {}, Nothing(), Nothing, "", "a\0b"))
    sourced = {"source": media.path}
    yield Wrong("probe", ff.probe, "limits", NO_OBJECT, others=sourced)
    yield Wrong("build_index", ff.build_index, "verify", NO_CHOICE, others=sourced)
    yield Wrong("build_index", ff.build_index, "stream_index", NO_INTEGER, others=sourced)
    yield Wrong("build_index", ff.build_index, "assume_fps", (*NO_NUMBER, 0, -1), others=sourced)
    yield Wrong("build_index", ff.build_index, "limits", NO_OBJECT, others=sourced)
    yield Wrong("Limits", ff.Limits, "max_side", (*NO_INTEGER, 0, None))
    yield Wrong("ImageSequence", ff.ImageSequence, "folder_or_paths", (3, None, [], [3], Nothing()), others={"fps": 3})
    yield Wrong("ImageSequence", ff.ImageSequence, "fps", (*NO_NUMBER, 0), others={"folder_or_paths": "x"})


def calls_of_index(media: Media) -> Iterator[Wrong]:
    yield Wrong("index_at", media.index.index_at, "seconds", ("3", None, {}, [1, "a"], Nothing(), float("nan")))
    yield Wrong("index_at", media.index.index_at, "pick", NO_CHOICE, others={"seconds": 0})
    yield Wrong("index_at", media.index.index_at, "tolerance_seconds", NO_NUMBER, others={"seconds": 0})
    yield Wrong("is_damaged", media.index.is_damaged, "ordinals", (3, "x", None, [0.5], Nothing()))
    yield Wrong("to_seconds", media.index.to_seconds, "ticks", ("x", None, Nothing()))


def calls_of_catalogs(media: Media) -> Iterator[Wrong]:
    catalog = media.catalog
    yield Wrong("open", ff.Catalog.open, "path", (*NO_PATH, None))
    yield Wrong("open", ff.Catalog.open, "root", NO_PATH, others={"path": media.folder + "/cat.parquet"})
    yield Wrong("to_parquet", catalog.to_parquet, "path", (*NO_PATH, None))
    yield Wrong("write_report", partial(write_report, catalog), "path", (*NO_PATH, None))
    yield Wrong("save_still", save_still, "path", (*NO_PATH, None), others={"picture": np.zeros((2, 2, 3), np.uint8)})
    yield Wrong("catalog[]", catalog.__getitem__, "row", ("v", 3.5, None, {}, 99, -99))
    for name in ROW_METHODS:
        yield Wrong(name, getattr(catalog, name), "row", (*NO_INTEGER, None, 99, -99))
    yield Wrong("column_values", catalog.column_values, "name", ("missing", 3, None), "column")
    yield Wrong("take", catalog.take, "rows", (3, "x", None, [99], [True, False]), "row")
    yield Wrong("filter", catalog.filter, "expression", (3, "x", None, Nothing()))
    yield Wrong("without", catalog.without, "errors", (3, "x", None, Nothing()))
    yield Wrong("split", catalog.split, "fractions", (0.8, "x", None, [0.5], [2, -1]), others={"seed": 0})
    yield Wrong("split", catalog.split, "seed", (*NO_INTEGER, None), others={"fractions": [0.5, 0.5]})
    yield Wrong("split", catalog.split, "by", ("missing", 3, None), "column", {"fractions": [1.0], "seed": 0})
    yield Wrong("verify", catalog.verify, "sample", ("x", -1, 2.0, True, Nothing()))
    yield Wrong("verify", catalog.verify, "workers", (*NO_INTEGER, -1), others={"sample": 0})
    yield Wrong("verify", catalog.verify, "seed", (*NO_INTEGER, None), others={"sample": 0})


def calls_of_rules(media: Media) -> Iterator[Wrong]:
    del media
    for rule in (ff.Uniform, ff.RandomSegments, ff.Dense):
        yield Wrong(rule.__name__, rule, "num_frames", (*NO_INTEGER, 0, -1, None))
        yield Wrong(rule.__name__, rule, "policy", NO_CHOICE, others={"num_frames": 2})
    for argument in ("stride", "fps", "start", "tolerance_seconds"):
        yield Wrong("Dense", ff.Dense, argument, NO_NUMBER, others={"num_frames": 2})
    yield Wrong("Dense", ff.Dense, "pick", NO_CHOICE, others={"num_frames": 2})
    yield Wrong("Rates", ff.Rates, "rates", (3, None, "x", [], [3], Nothing()))
    yield Wrong("Rates", ff.Rates, "start", NO_NUMBER, others={"rates": [(1, 2)]})
    yield Wrong("AtIndices", ff.AtIndices, "indices", (3, None, "777", [], ["1"], [0.5], Nothing()))
    yield Wrong("AtSeconds", ff.AtSeconds, "seconds", (3, None, "7", [], ["1"], [float("nan")], Nothing()))
    yield Wrong("EveryFrame", ff.EveryFrame, "policy", NO_CHOICE)
    for crop in (ff.CenterCrop, ff.RandomCrop):
        yield Wrong(crop.__name__, crop, "height", (*NO_INTEGER, 0, None))
        yield Wrong(crop.__name__, crop, "width", (*NO_INTEGER, 0), others={"height": 3})
    yield Wrong("RandomResizedCrop", ff.RandomResizedCrop, "height", ("8", 0, {}, Nothing()), r"height|size")
    for argument in ("scale", "ratio"):
        yield Wrong("RandomResizedCrop", ff.RandomResizedCrop, argument, (3, None, "x", (1,), (2, 1), Nothing()))
    yield Wrong("LongSide", ff.LongSide, "length", (*NO_INTEGER, 0, -1, None, True))
    yield Wrong("ResizeCrop", ff.ResizeCrop, "resize", (*NO_SIZE, None, True), others={"crop": 1})
    yield Wrong("ResizeCrop", ff.ResizeCrop, "crop", (*NO_SIZE, None, True, 9), others={"resize": 8})
    yield Wrong("Letterbox", ff.Letterbox, "height", (*NO_SIZE, None, True, (8, 0)))
    yield Wrong("Letterbox", ff.Letterbox, "width", (*NO_INTEGER, 0, True), others={"height": 8})
    yield Wrong("Letterbox", ff.Letterbox, "fill", (*NO_INTEGER, None, True, 256, -1, (1, 2)), others={"height": 8})
    yield Wrong("OutputSpec", ff.OutputSpec, "size", ("224", 3, (1, 2, 3), {}, Nothing()))
    yield Wrong("OutputSpec", ff.OutputSpec, "crop", ("224", 3, (1, 2, 3), {}, Nothing()))
    yield Wrong("OutputSpec", ff.OutputSpec, "dimension_order", NO_CHOICE)


def calls_of_plans(media: Media) -> Iterator[Wrong]:
    def plan_clips(**given: Any) -> Any:
        return ff.plan_clips(**{"catalog": media.catalog, "rule": ff.Uniform(2), "seed": 0, **given})

    def plan_requests(**given: Any) -> Any:
        return ff.plan_requests(**{"requests": [media.request], **given})

    yield Wrong("plan_clips", plan_clips, "catalog", (*NO_OBJECT, None, media.path))
    yield Wrong("plan_clips", plan_clips, "rule", (*NO_OBJECT, None, ff.Uniform))
    yield Wrong("plan_clips", plan_clips, "seed", (*NO_INTEGER, None, -1, 2**64))
    yield Wrong("plan_clips", plan_clips, "within", (3, "x", ("a",), Nothing(), (1, 2)))
    yield Wrong("plan_clips", plan_clips, "columns", (3, None, "label", [1], Nothing()))
    yield Wrong("plan_clips", plan_clips, "columns", (["missing"],), "column")
    for argument in ("clips_per_video", "epoch"):
        yield Wrong("plan_clips", plan_clips, argument, (*NO_INTEGER, None, -1))
    for call in (plan_clips, plan_requests):
        yield Wrong(call.__name__, call, "size", NO_SIZE)
        yield Wrong(call.__name__, call, "crop", NO_CROP)
        yield Wrong(call.__name__, call, "horizontal_flip", NO_PROBABILITY)
        for argument in ("rank", "world_size"):
            yield Wrong(call.__name__, call, argument, (*NO_INTEGER, None, -1))
        for argument in ("shuffle", "tail"):
            yield Wrong(call.__name__, call, argument, ("text", [1, 2], {}, Nothing(), Nothing))
    yield Wrong("plan_clips", plan_clips, "on_damaged", NO_CHOICE)
    yield Wrong("plan_requests", plan_requests, "requests", (3, None, "x", [3], {}, Nothing()))
    yield Wrong("plan_requests", plan_requests, "columns", (3, "x", [1], Nothing(), {"a": 3}, {"a": [[1], [1, 2]]}))
    for argument in ("policy", "pick"):
        yield Wrong("plan_requests", plan_requests, argument, NO_CHOICE)
    yield Wrong("plan_requests", plan_requests, "tolerance_seconds", NO_NUMBER)
    sourced = {"source": media.path}
    yield Wrong("DecodeRequest", ff.DecodeRequest, "source", (3, None, [1], Nothing()), others={"indices": [0]})
    yield Wrong("DecodeRequest", ff.DecodeRequest, "indices", (3, "7", ["777"], [0.5], [[1]]), others=sourced)
    yield Wrong("DecodeRequest", ff.DecodeRequest, "seconds", (3, "7", ["777"], [[1]], Nothing()), others=sourced)
    numbered = {**sourced, "indices": [0]}
    yield Wrong("DecodeRequest", ff.DecodeRequest, "output", (3, "7", [8, 8], Nothing()), others=numbered)
    yield Wrong("DecodeRequest", ff.DecodeRequest, "segment", (3, "7", ["777"], [[1]]), others=numbered)
    for bound in ("start_seconds", "end_seconds"):
        yield Wrong("DecodeRequest", ff.DecodeRequest, bound, NO_NUMBER, others=numbered)
    for name in ("columns_at", "global_position", "__getitem__"):
        yield Wrong(name, getattr(media.plan, name), "position", (*NO_INTEGER, None, 99, -99))
    yield Wrong("with_epoch", media.plan.with_epoch, "epoch", (*NO_INTEGER, None, -1))
    yield Wrong("without", media.plan.without, "clips", (*NO_INTEGER, None, -1, [1, 2], [None], Nothing()))
    yield Wrong("without", media.plan.without, "world_size", (*NO_INTEGER, 0, -1), others={"clips": 0})
    yield Wrong("without", media.plan.without, "balance", (3, "bytes", True), others={"clips": 0})
    choose = media.plan.order.choose_substitute
    yield Wrong("choose_substitute", choose, "position", (*NO_INTEGER, None, 99, -99), others={"number": 0})
    yield Wrong("choose_substitute", choose, "number", (*NO_INTEGER, None, -1), others={"position": 0})
    yield Wrong("with_state", media.plan.with_state, "state", (3, None, "x", {}, Nothing()))


def calls_of_decoding(media: Media) -> Iterator[Wrong]:
    sourced = {"source": media.path}
    yield Wrong("VideoDecoder", ff.VideoDecoder, "frame_index", NO_OBJECT, others=sourced)
    yield Wrong("VideoDecoder", ff.VideoDecoder, "size", (*NO_SIZE, ff.Letterbox(8)), others=sourced)
    yield Wrong("VideoDecoder", ff.VideoDecoder, "crop", NO_CROP, others=sourced)
    yield Wrong("VideoDecoder", ff.VideoDecoder, "backend", (*NO_OBJECT, type(as_decoder("pyav"))), others=sourced)
    yield Wrong("VideoDecoder", ff.VideoDecoder, "dimension_order", NO_CHOICE, others=sourced)
    yield Wrong("VideoDecoder", ff.VideoDecoder, "limits", NO_OBJECT, others=sourced)
    video = ff.VideoDecoder(media.path)
    yield Wrong("get_frame_at", video.get_frame_at, "index", ("3", 0.5, None, [1], Nothing()))
    yield Wrong("get_frames_at", video.get_frames_at, "indices", ("3", 0.5, None, ["1"], [[1], [1, 2]], Nothing()))
    yield Wrong("get_frames_in_range", video.get_frames_in_range, "start", ("3", 0.5), others={"stop": 3})
    yield Wrong("in_range", video.get_frames_in_range, "stop", ("3", 0.5, Nothing()), others={"start": 0})
    yield Wrong("in_range", video.get_frames_in_range, "step", ("3", 0.5, 0), others={"start": 0, "stop": 3})
    yield Wrong("get_frame_played_at", video.get_frame_played_at, "seconds", ("3", None, [1, 2], Nothing()))
    yield Wrong("get_frames_played_at", video.get_frames_played_at, "seconds", ("3", 3, None, ["1"], Nothing()))
    stop = {"stop_seconds": 0.3}
    yield Wrong("in_range", video.get_frames_played_in_range, "start_seconds", ("3", None, [1, 2]), others=stop)
    yield Wrong("get_all_frames", video.get_all_frames, "fps", ("3", 0, -1, [1, 2], Nothing()))


def calls_of_frames(media: Media) -> Iterator[Wrong]:
    pixels, times, numbers = np.zeros((2, 3, 4, 6), np.uint8), np.zeros(2), np.arange(2)
    frame = {"data": pixels[0], "pts_seconds": 0.0, "duration_seconds": 0.1, "indices": 0}
    batch = {"data": pixels, "pts_seconds": times, "duration_seconds": times, "indices": numbers}
    slot = {"indices": numbers, "output": ff.OutputSpec(), "out": pixels}

    def left_out(given: dict[str, Any], argument: str) -> dict[str, Any]:
        return {name: value for name, value in given.items() if name != argument}

    no_array = (3, "x", None, [1, 2], {}, Nothing(), Nothing, np.ndarray)
    yield Wrong("Frame", ff.Frame, "data", (*no_array, times), others=left_out(frame, "data"))
    for argument in ("pts_seconds", "duration_seconds"):
        values = ("3", None, [1, 2], {}, Nothing(), times)
        yield Wrong("Frame", ff.Frame, argument, values, others=left_out(frame, argument))
    yield Wrong("Frame", ff.Frame, "indices", ("3", None, 0.5, [1, 2], Nothing()), others=left_out(frame, "indices"))
    yield Wrong("FrameBatch", ff.FrameBatch, "data", (*no_array, times), others=left_out(batch, "data"))
    for argument in ("pts_seconds", "duration_seconds", "indices"):
        values = (*no_array, np.zeros(3), np.zeros((2, 1)))
        yield Wrong("FrameBatch", ff.FrameBatch, argument, values, others=left_out(batch, argument))
    keys = ("x", 0.5, {}, Nothing(), 2, -3, [0, 2], [[0], [0, 1]], (0, 1), [True], slice("a", None))
    yield Wrong("batch[]", lambda key: ff.FrameBatch(**batch)[key], "key", keys, "index")
    yield Wrong("len(batch[0])", lambda at: len(ff.FrameBatch(**batch)[at]), "at", (0,), "len")
    yield Wrong(
        "ClipSlot", ff.ClipSlot, "indices", (*no_array, "01", times, times[None]), others=left_out(slot, "indices")
    )
    yield Wrong("ClipSlot", ff.ClipSlot, "output", (*NO_OBJECT, None, ff.OutputSpec), others=left_out(slot, "output"))
    outs = (*no_array, times, pixels[:1], pixels.astype(np.float32))
    yield Wrong("ClipSlot", ff.ClipSlot, "out", outs, others=left_out(slot, "out"))


def calls_of_parallel(media: Media) -> Iterator[Wrong]:
    del media
    for function in (ff.parallel.ordered_map, ff.parallel.ordered_outcomes):
        both: dict[str, Any] = {"function": abs, "items": [1, -2], "max_in_flight": 2}
        for argument, values in (
            ("function", (3, None, "abs", [abs], {}, Nothing())),
            ("items", (3, None, 0.5, Nothing(), list)),
            ("max_in_flight", (*NO_INTEGER, None, 0, -1, True)),
        ):
            others = {"workers": 0, **{name: value for name, value in both.items() if name != argument}}
            yield Wrong(function.__name__, function, argument, values, others=others)
        yield Wrong(function.__name__, function, "workers", (*NO_INTEGER, -1, True), others=both)
        yield Wrong(function.__name__, function, "kind", (*NO_CHOICE, None), others=both)
        yield Wrong(function.__name__, function, "max_bytes", (*NO_INTEGER, -1), others={**both, "size_of": abs})
        yield Wrong(function.__name__, function, "max_bytes", (3,), "size_of", both)
        yield Wrong(function.__name__, function, "size_of", (3, "x", [1], {}, Nothing()), others=both)
        yield Wrong(function.__name__, function, "deadline_seconds", (*NO_NUMBER, 0, -1), others=both)
        yield Wrong(function.__name__, function, "pool", (*NO_OBJECT, ff.parallel.ThreadPool), others=both)


def calls_of_loading(media: Media) -> Iterator[Wrong]:
    def loader(**given: Any) -> Any:
        return ff.ClipLoader(**{"plan": media.plan, "batch_size": 1, "workers": 0, **given})

    yield Wrong("ClipLoader", loader, "plan", (*NO_OBJECT, None, ff.EpochPlan))
    yield Wrong("ClipLoader", loader, "batch_size", (*NO_INTEGER, None, 0, True))
    yield Wrong("ClipLoader", loader, "workers", (*NO_INTEGER, None, -1))
    yield Wrong("ClipLoader", loader, "prefetch", (*NO_INTEGER, None, 0))
    for argument in ("kind", "on_error"):
        yield Wrong("ClipLoader", loader, argument, NO_CHOICE)
    for argument in ("cache", "backend", "transform"):
        values = (3, [1, 2], {}, Nothing()) if argument == "transform" else NO_OBJECT
        yield Wrong("ClipLoader", loader, argument, values)
    yield Wrong("ClipLoader", loader, "deadline_seconds", (*NO_NUMBER, 0, -1))
    yield Wrong("ClipLoader", loader, "dtype", (*NO_CHOICE, "float64", np.uint8))
    for argument, other in (("mean", "std"), ("std", "mean")):
        values = ("x", [], {}, Nothing(), Nothing, True, float("nan"), [1, 2], [[1, 1, 1]], 128, None)
        yield Wrong("ClipLoader", loader, argument, values, others={other: 1})
    yield Wrong("load_state_dict", loader().load_state_dict, "state", (3, None, "x", {}, Nothing()))


def calls_of_caching(media: Media) -> Iterator[Wrong]:
    yield Wrong("FrameCache", ff.FrameCache, "path", (*NO_PATH, None, ""))
    for argument in ("codec", "form"):
        yield Wrong("FrameCache", ff.FrameCache, argument, NO_CHOICE, others={"path": "c"})
    for argument in ("max_bytes", "memory_bytes"):
        yield Wrong("FrameCache", ff.FrameCache, argument, ("x", 3.5, -1, [1], {}, Nothing()), others={"path": "c"})
    for argument in ("count", "raw_bytes"):
        numbers = {"count": 1, "raw_bytes": 1}
        del numbers[argument]
        yield Wrong("expect", media.cache.expect, argument, (*NO_INTEGER, None, -1), others=numbers)
    decoder = {"inner": as_decoder("auto")}
    yield Wrong("decoder", media.cache.decoder, "inner", (*NO_OBJECT, None, ff.VideoDecoder))
    yield Wrong("decoder", media.cache.decoder, "form", NO_CHOICE, others=decoder)
    opened: dict[str, Any] = {"plan": media.plan, "cache": media.cache, **decoder}
    for argument, wrong in (("plan", NO_OBJECT), ("cache", NO_OBJECT), ("inner", NO_OBJECT), ("epochs", NO_INTEGER)):
        others = {name: value for name, value in opened.items() if name != argument}
        yield Wrong("make_decoder", ff.cache.make_decoder, argument, (*wrong, None), others=others)
    yield Wrong("choose_form", ff.cache.choose_form, "plan", (*NO_OBJECT, None), others={"cache": media.cache})
    yield Wrong("verify", media.cache.verify, "progress", (3, "x", [1], {}, True, Nothing()))
    built: dict[str, Any] = {"plan": media.plan, "cache": media.cache}
    yield Wrong("build", ff.cache.build, "progress", ("text", 3, [1], {}, Nothing()), others=built)
    yield Wrong("build", ff.cache.build, "limits", NO_OBJECT, others=built)
    yield Wrong("build", ff.cache.build, "plan", (*NO_OBJECT, None), others={"cache": media.cache})
    yield Wrong("build", ff.cache.build, "cache", (*NO_OBJECT, None), others={"plan": media.plan})
    yield Wrong("build", ff.cache.build, "workers", (*NO_INTEGER, None, -1), others=built)
    yield Wrong("build", ff.cache.build, "epochs", (*NO_INTEGER, None, 0), others=built)
    yield Wrong("build", ff.cache.build, "clips", (*NO_INTEGER, 0), others=built)
    yield Wrong("build", ff.cache.build, "backend", NO_OBJECT, others=built)


GROUPS = (
    calls_of_facts,
    calls_of_index,
    calls_of_catalogs,
    calls_of_rules,
    calls_of_plans,
    calls_of_decoding,
    calls_of_frames,
    calls_of_parallel,
    calls_of_loading,
    calls_of_caching,
)


def complaint(wrong: Wrong, value: object) -> str | None:
    """Make the call; say what is wrong with its error, or None."""
    here = f"{wrong.name}({wrong.argument}={value!r:.60})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = wrong.call(**{**wrong.others, wrong.argument: value})
    except FramefeedError as error:
        if not re.search(wrong.named or wrong.argument, str(error)):
            return f"{here}: the message does not name the argument: {error}"
        return None
    except Exception as error:
        return f"{here}: {type(error).__name__}: {error}"
    return f"{here}: no error, but {type(result).__name__}"


@pytest.mark.parametrize("group", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_wrong_arguments_are_named(group: Callable[[Media], Iterator[Wrong]], media: Media) -> None:
    found = [complaint(wrong, value) for wrong in group(media) for value in wrong.values]
    assert "\n".join(each for each in found if each) == ""


HUGE: tuple[Any, ...] = (
    2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**70, 10**400, 10**5000, -(2**63), -(2**70), -(10**400), np.uint64(2**64 - 1),
    1e300, -1e300, 5e-324, float("inf"), float("nan"), Fraction(10**400), Fraction(1, 10**400),
)  # fmt: skip


def calls_with_numbers(media: Media) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield calls that each take one number in some place, and read what comes of it."""
    path, catalog, plan = media.path, media.catalog, media.plan
    small = {"seed": 0, "size": (8, 8)}

    def read(plan: ff.EpochPlan) -> Any:
        return len(plan), plan[0], plan.state_dict()

    def of_rule(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda number: read(ff.plan_clips(catalog, make(number), **small))

    def of_option(**given: Any) -> Callable[[Any], Any]:
        names = {name: fill for name, fill in given.items() if callable(fill)}
        return lambda number: read(
            ff.plan_clips(
                catalog, ff.Uniform(2), **{**small, **given, **{name: fill(number) for name, fill in names.items()}}
            )
        )

    def of_request(**given: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda number: read(
            ff.plan_requests([ff.DecodeRequest(path, **{name: fill(number) for name, fill in given.items()})])
        )

    def of_mixture(weight: Any = 1, **options: Any) -> Any:
        parts = [(ff.plan_clips(catalog, ff.Uniform(1), seed=seed, size=(8, 8)), each)
                 for seed, each in enumerate((weight, 1))]  # fmt: skip
        return read(ff.mix_plans(parts, **{"num_clips": 5, "seed": 0, **options}))

    def same(number: Any) -> Any:
        return number

    for rule in (ff.Uniform, ff.RandomSegments, ff.Dense, lambda n: ff.Dense(n, fps=2), lambda n: ff.Rates([(1, n)])):
        yield "num_frames", of_rule(rule)
    for name in ("stride", "fps", "start", "tolerance_seconds"):
        yield f"Dense({name}=)", of_rule(lambda number, name=name: ff.Dense(2, **{name: number}))
    for pick in ("played", "nearest", "next"):
        yield f"Rates, {pick}", of_rule(lambda number, pick=pick: ff.Rates([(number, 2), (1, 1)], 0, pick=pick))
        yield f"AtSeconds, {pick}", of_rule(lambda number, pick=pick: ff.AtSeconds([number, 0], pick=pick))
    yield "AtIndices", of_rule(lambda number: ff.AtIndices([number]))
    for name in ("seed", "epoch", "world_size", "clips_per_video", "horizontal_flip", "size"):
        yield name, of_option(**{name: same})
    yield "rank", of_option(rank=same, world_size=1 << 20)
    for name, size in (("size", lambda n: (n, 8)), ("LongSide", ff.LongSide), ("Letterbox", ff.Letterbox)):
        yield name, of_option(size=size)
    yield "ResizeCrop", of_option(size=lambda number: ff.ResizeCrop(number, number))
    for crop in (ff.CenterCrop, ff.RandomCrop, ff.RandomResizedCrop, lambda n: (n, 0, 1, 1), lambda n: (0, 0, n, n)):
        yield "crop", of_option(crop=crop)
    yield "ratio", of_option(crop=lambda number: ff.RandomResizedCrop(8, 8, ratio=(number, number)))
    yield "scale", of_option(crop=lambda number: ff.RandomResizedCrop(8, 8, scale=(number, 1)))
    yield "indices", of_request(indices=lambda number: [number])
    yield "seconds", of_request(seconds=lambda number: [number, 0.5])
    yield "start_seconds", of_request(indices=lambda _: [0], start_seconds=same)
    yield "OutputSpec", of_request(indices=lambda _: [0], output=lambda number: ff.OutputSpec(size=(number, 8)))
    yield "weight", of_mixture
    for name in ("num_clips", "seed", "epoch", "world_size"):
        yield name, lambda number, name=name: of_mixture(**{name: number})
    for name in ("batch_size", "prefetch", "deadline_seconds", "read_ahead", "workers"):
        yield name, lambda number, name=name: ff.ClipLoader(plan, **{"batch_size": 1, name: number})
    yield "mean", lambda number: ff.ClipLoader(plan, batch_size=1, mean=number, std=1)
    yield "max_bytes", lambda number: ff.FrameCache("c", max_bytes=number)
    for name in ("with_epoch", "without", "columns_at", "__getitem__"):
        yield name, getattr(plan, name)
    yield "rest", lambda number: read(plan.without([number, 0], 2))
    yield "rows", lambda number: (catalog.take([number]), catalog[[number]])
    yield "row", catalog.__getitem__
    yield "fractions", lambda number: catalog.split([number, 0.5], seed=0)
    yield "filter", lambda number: len(catalog.filter(num_frames=number))
    yield "assume_fps", lambda number: ff.build_index(path, assume_fps=number)
    yield "index_at", lambda number: media.index.index_at(number, "previous", number)
    yield "timestamps", lambda number: ff.ImageSequence(["a", "b"], timestamps=[0, number])
    video = ff.VideoDecoder(path)
    for method in (video.__getitem__, video.get_frame_played_at, lambda fps: video.get_all_frames(fps=fps)):
        yield "VideoDecoder", method


def test_numbers_beyond_64_bits_are_typed_errors(media: Media) -> None:
    found = []
    for name, call in calls_with_numbers(media):
        for number in HUGE:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(number)
            except FramefeedError:
                pass
            except Exception as error:
                found.append(f"{name}, {HUGE.index(number)}. number: {error!r}")
    assert "\n".join(found) == ""


def test_wrong_arguments_of_a_dataset_are_named(media: Media) -> None:
    pytest.importorskip("torch")
    dataset = ff.torch.ClipDataset(media.plan)
    plan = {"plan": media.plan}
    calls = [
        Wrong("ClipDataset", ff.torch.ClipDataset, "plan", (*NO_OBJECT, None)),
        Wrong("ClipDataset", ff.torch.ClipDataset, "target", (3, "missing", Nothing()), others=plan),
        Wrong("ClipDataset", ff.torch.ClipDataset, "transform", (3, "x", [1]), others=plan),
        Wrong("ClipDataset", ff.torch.ClipDataset, "cache", NO_OBJECT, others=plan),
        Wrong("set_epoch", dataset.set_epoch, "epoch", (*NO_INTEGER, None, -1)),
        Wrong("dataset[]", dataset.__getitem__, "position", (*NO_INTEGER, None, 99)),
    ]
    found = [complaint(wrong, value) for wrong in calls for value in wrong.values]
    assert "\n".join(each for each in found if each) == ""


def test_wrong_arguments_of_the_video_decoder_for_torch_are_named(media: Media) -> None:
    pytest.importorskip("torch")
    decoder = partial(ff.torch.VideoDecoder, media.path)
    video = decoder()
    stop = {"stop_seconds": 0.3}
    calls = [
        Wrong("VideoDecoder", ff.torch.VideoDecoder, "source", (3, None, 3.5, [1], {}, Nothing(), Nothing, "", "a\0b")),
        Wrong("VideoDecoder", decoder, "stream_index", NO_INTEGER),
        Wrong("VideoDecoder", decoder, "dimension_order", (*NO_CHOICE, None)),
        Wrong("VideoDecoder", decoder, "num_ffmpeg_threads", (*NO_INTEGER, None)),
        Wrong("VideoDecoder", decoder, "device", ("text", [1, 2], {}, Nothing(), Nothing, "cuda:x")),
        Wrong("VideoDecoder", decoder, "seek_mode", (*NO_CHOICE, None)),
        Wrong("VideoDecoder", decoder, "transforms", (3, "x", [3], [None], Nothing(), Nothing), "transform"),
        Wrong("VideoDecoder", decoder, "output_dtype", (*NO_CHOICE, float)),
        Wrong(
            "VideoDecoder",
            decoder,
            "custom_frame_mappings",
            (3, "x", [3], {}, Nothing(), Nothing, "[]", '{"frames": [3]}'),
            "custom.frame.mappings",
        ),
        Wrong("VideoDecoder", decoder, "size", NO_SIZE),
        Wrong("VideoDecoder", decoder, "crop", NO_CROP),
        Wrong("VideoDecoder", decoder, "backend", NO_OBJECT),
        Wrong("VideoDecoder", decoder, "frame_index", NO_OBJECT),
        Wrong("VideoDecoder", decoder, "limits", NO_OBJECT),
        Wrong(
            "video[]",
            video.__getitem__,
            "key",
            ("3", None, 0.5, [1], {}, Nothing(), slice("a", None)),
            "key|slice|index|start",
        ),
        Wrong("get_frame_at", video.get_frame_at, "index", ("3", 0.5, None, [1], Nothing())),
        Wrong("get_frames_at", video.get_frames_at, "indices", ("3", 0.5, None, ["1"], [[1], [1, 2]], Nothing())),
        Wrong("in_range", video.get_frames_in_range, "start", ("3", 0.5), others={"stop": 3}),
        Wrong("in_range", video.get_frames_in_range, "step", ("3", 0.5, 0, -1), others={"start": 0, "stop": 3}),
        Wrong("get_frame_played_at", video.get_frame_played_at, "seconds", ("3", None, [1, 2], Nothing())),
        Wrong("get_frames_played_at", video.get_frames_played_at, "seconds", ("3", None, ["1"], Nothing())),
        Wrong("in_range", video.get_frames_played_in_range, "start_seconds", ("3", None, [1, 2]), others=stop),
        Wrong("get_all_frames", video.get_all_frames, "fps", ("3", 0, -1, [1, 2], Nothing())),
        Wrong("batch[]", video.get_all_frames().__getitem__, "key", ("x", 0.5, {}, Nothing(), 99, [0, 99]), "index"),
    ]
    found = [complaint(wrong, value) for wrong in calls for value in wrong.values]
    assert "\n".join(each for each in found if each) == ""


@pytest.mark.parametrize(
    "take",
    [ff.VideoDecoder, ff.probe, ff.build_index, partial(ff.DecodeRequest, indices=[0])],
    ids=["VideoDecoder", "probe", "build_index", "DecodeRequest"],
)
def test_a_catalog_in_place_of_one_source_is_told_from_an_entry(take: Callable[[Any], Any], media: Media) -> None:
    with pytest.raises(UsageError, match=r"^source: expected .*, got a Catalog: take one entry, such as catalog\[0\]"):
        take(media.catalog)
    take(media.catalog[0])


def test_a_call_that_is_accepted_or_fails_in_another_way_is_caught() -> None:
    def accepts(**_: object) -> None:
        return None

    def breaks(**_: object) -> None:
        raise TypeError("'int' object is not iterable")

    def is_vague(**_: object) -> None:
        raise UsageError("wrong")

    assert all(complaint(Wrong("call", call, "size", ()), 3) for call in (accepts, breaks, is_vague))


BOOLS: dict[str, Callable[[Any, Media], object]] = {
    "DecodeRequest.indices": lambda given, media: ff.DecodeRequest(media.path, indices=given),
    "DecodeRequest.seconds": lambda given, media: ff.DecodeRequest(media.path, seconds=given),
    "AtIndices": lambda given, media: ff.AtIndices(given),
    "AtSeconds": lambda given, media: ff.AtSeconds(given),
    "RandomResizedCrop.scale": lambda given, media: ff.RandomResizedCrop(scale=given),
    "RandomResizedCrop.ratio": lambda given, media: ff.RandomResizedCrop(ratio=given),
    "ImageSequence.timestamps": lambda given, media: ff.ImageSequence(["a.png", "b.png"], timestamps=given),
    "FrameIndex.index_at": lambda given, media: media.index.index_at(given, pick="previous"),
    "decord.get_batch": lambda given, media: decord.VideoReader(media.path).get_batch(given),
    "EpisodeAwareSampler": lambda given, media: EpisodeAwareSampler([0, 2], [2, 4], episode_indices_to_use=given),
}


@pytest.mark.parametrize("name", BOOLS)
def test_bools_are_no_numbers(media: Media, name: str) -> None:
    BOOLS[name]([0.5, 1] if "Crop" in name else [0, 1], media)
    for given in ([False, True], (0, True), [np.True_, 1], np.array([False, True])):
        with pytest.raises(UsageError):
            BOOLS[name](given, media)


def test_a_bool_is_no_time_and_no_tolerance(media: Media) -> None:
    for arguments in ({"seconds": False}, {"seconds": 0.0, "tolerance_seconds": True}):
        with pytest.raises(UsageError):
            media.index.index_at(**arguments)
