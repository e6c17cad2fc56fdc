"""Describe the batches of a loader before the first is loaded, for frameworks that ask for shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.errors import FramefeedError, UsageError
from framefeed.load._batch import BufferPools, ByStream, ClipBatch, Form, get_form, list_streams, map_streams
from framefeed.load._options import MAX_SUBSTITUTES, LoaderOptions
from framefeed.load._pending import with_position
from framefeed.load._state import BatchCursor
from framefeed.load._work import ClipWorker, load_batch
from framefeed.media import source_name
from framefeed.parallel import Ok, catch_error
from framefeed.plan import EpochPlan, PartForm, find_delivered_form

SHAPED_KEYS = ("data", "pts_seconds", "valid", "positions", "ok")
"""Arrays of a batch that are no columns."""
_SOME_KEYS = ("boxes", "flipped")
"""The same, of some plans; else None."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of an array; None in the shape is a length that may differ between batches."""

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """The batches of a loader's next iteration."""

    # `ArraySpec` of each array by name, as `list_arrays` gives them: of several streams, dicts by stream.
    arrays: Mapping[str, Any]
    lengths: tuple[int, ...]  # numbers of clips that batches have: of all but the last, and of the last
    num_batches: int
    is_restored: bool  # whether the iteration begins at a restored position, so that later ones are longer


def list_arrays(batch: ClipBatch) -> dict[str, Any]:
    """List the arrays of a batch by name: those of `SHAPED_KEYS`, boxes and flips if there are any, and the columns.

    Of several streams, data, pts_seconds, valid and boxes are dicts by stream.
    """
    arrays = {name: getattr(batch, name) for name in (*SHAPED_KEYS, *_SOME_KEYS)}
    return {**{name: array for name, array in arrays.items() if array is not None}, **batch.columns}


def describe_batches(
    cursor: BatchCursor, options: LoaderOptions, *, is_restored: bool, unequal: bool = False
) -> BatchSpec:
    """Describe the batches of an iteration; with a transform, its first clip is decoded and transformed for that.

    Clips that differ in shape are an error unless ``unequal``; what they differ in is then None in the shapes.
    """
    if options.dtype == "bfloat16":
        raise UsageError("dtype='bfloat16' is for batches of PyTorch: give the loader dtype='float32' or 'float16'")
    plan, batches = cursor.plan, cursor.list_batches(options)
    parts = plan.clips.forms
    if any(form.unequal for form in parts.values()) and not unequal:
        raise UsageError(
            "the clips of a plan with unequal=True have no common shape: give the plan size=(height, width) and a rule "
            "with one number of frames, without unequal=True, or take the lists of clips from ff.ClipLoader"
        )
    length = options.batch_size if options.drop_last else None
    buckets = plan.clips.buckets
    forms = {name: _find_form(form, options, buckets) for name, form in parts.items()}
    if options.transform is not None and len(plan):
        results = _find_result_form(plan, options)
        forms = {
            name: ((None,) * len(shape) if buckets else shape, options.array_dtype or dtype)
            for name, (shape, dtype) in results.items()
        }

    def describe(of_parts: Mapping[str, tuple[tuple[int | None, ...], npt.DTypeLike]]) -> ByStream[ArraySpec]:
        specs = {name: ArraySpec((length, *shape), np.dtype(dtype)) for name, (shape, dtype) in of_parts.items()}
        return specs.get("", specs)

    arrays: dict[str, Any] = {
        "data": describe(forms),
        "pts_seconds": describe({name: ((form.num_frames,), np.float64) for name, form in parts.items()}),
        "valid": describe({name: ((form.num_frames,), np.bool_) for name, form in parts.items()}),
        "positions": ArraySpec((length,), np.dtype(np.int64)),
        "ok": ArraySpec((length,), np.dtype(np.bool_)),
    }
    if boxes := {name: ((4,), np.int64) for name, form in parts.items() if form.has_boxes}:
        arrays["boxes"] = describe(boxes)
    if plan.clips.has_flips:
        arrays["flipped"] = ArraySpec((length,), np.dtype(np.bool_))
    clashing = [name for name in plan.columns if name in (*arrays, "sources")]
    if clashing:
        raise UsageError(f"columns {clashing} have the same names as other arrays of a batch: rename them")
    for name, values in plan.clips.columns.items():
        shape, dtype = find_delivered_form(values)
        arrays[name] = ArraySpec((length, *shape), dtype)
    ends = tuple(len(batches[number]) for number in sorted({0, len(batches) - 1})) if len(batches) else ()
    return BatchSpec(arrays, ends, len(batches), is_restored)


def _find_form(
    form: PartForm, options: LoaderOptions, buckets: Sequence[tuple[int, int, int]]
) -> tuple[tuple[int | None, ...], np.dtype[Any]]:
    """Find shape and dtype of the clips of one part, without a transform."""
    if buckets:
        length, *picture = (sides[0] if len(set(sides)) == 1 else None for sides in zip(*buckets, strict=True))
        return (length, 3, *picture), options.array_dtype or np.dtype(np.uint8)
    picture_shape = (3, *(form.picture or (None, None))) if form.unequal else form.picture_shape
    return (form.num_frames, *picture_shape), options.array_dtype or np.dtype(np.uint8)


def _find_result_form(plan: EpochPlan, options: LoaderOptions) -> dict[str, Form]:
    """Find the form of the transform's results by the first clip that can be loaded, of some; by stream, or ""."""
    decoder, whole = options.decoder_for(plan), plan.whole
    worker = ClipWorker(whole, decoder, options.transform, options.fetch_seconds, options.normaliser)
    failed: FramefeedError | None = None
    for position in range(min(len(plan), 1 + MAX_SUBSTITUTES)):
        number = int(plan.global_position(position))
        batch = load_batch(whole, [number], decoder, BufferPools(0))
        failed = batch.errors[0]
        if failed is None:
            clip = map_streams(itemgetter(0), batch.data)
            outcome = catch_error(worker.apply_transform, (clip, number))
            if isinstance(outcome, Ok):
                forms = map_streams(get_form, outcome.value)
                return forms if isinstance(forms, dict) else {"": forms}
            assert isinstance(outcome.error, Exception)
            name = source_name(list_streams(batch.sources)[0][0])
            failed = with_position(outcome.error, position=number, source=name, stage="transform")
        if options.on_error == "raise":
            break
    assert failed is not None
    raise failed
