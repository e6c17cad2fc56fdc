"""Describe plans, clips and batches as JSON, by public names and attributes alone: no class of theirs is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from tests.fakes import SlopedDecoder

EPOCHS = 3
Documents = Iterator[tuple[str, Any]]
"""Names and documents."""
Group = Callable[[Path], Documents]
"""Makes documents; the folder is for its files, and all groups have the same."""


def describe_plan(plan: Any, positions: Any = None) -> Any:
    """Describe the clips of a plan; those of some positions, or all."""
    every = range(len(plan)) if positions is None else positions
    shares = [len(plan), plan.epoch, plan.order.rank, plan.order.world_size]
    facts = [shares, plan.frames_per_clip, list(plan.streams), list(plan.columns), list(plan.classes)]
    left_out = [each.source for each in plan.excluded]
    return {"facts": facts, "left out": left_out, "clips": [describe_clip(plan, position) for position in every]}


def describe_clip(plan: Any, position: int) -> Any:
    """Describe one clip: its global position, its columns, and its frames of each stream; or its error."""
    columns = {name: describe_array(value) for name, value in plan.columns_at(position).items()}
    where = [plan.global_position(position), columns]
    try:
        clip = plan[position]
    except (ff.FrameNotFound, ff.TimeUnavailable) as error:
        return [*where, describe_error(error)]
    names = list(plan.streams)
    return [*where, {name: describe_part(clip[name]) for name in names} if names else describe_part(clip)]


def describe_part(part: Any) -> Any:
    """Describe the frames of one stream of a clip."""
    arrays = (part.indices, part.pts_seconds, part.pick_error_seconds, part.valid, part.segment, part.damaged)
    output, placement = part.output, part.placement
    return [
        len(part),
        name_source(part.source),
        *(None if array is None else describe_array(array) for array in arrays),
        [output.size, output.crop, output.dimension_order, output.still_quality],
        [part.on_damaged, part.flipped],
        None if placement is None else [placement.size, placement.box, placement.fill],
    ]


def describe_array(value: Any) -> Any:
    """Describe a number or an array: its dtype and its values."""
    array = np.asarray(value)
    return [array.dtype.str, array.tolist()]


def describe_error(error: Any) -> Any:
    """Describe an error."""
    return [type(error).__name__, str(error), error.source, error.position, error.stage]


def name_source(source: Any) -> Any:
    """Name a source; of bytes only that they are."""
    if isinstance(source, bytes):
        return "bytes"
    return source if isinstance(source, str) else [source.folder, source.paths, str(source.fps), source.timestamps]


def describe_text(plan: Any) -> Any:
    """Describe what a plan says of itself in words."""
    return {
        "repr": repr(plan),
        "describe": str(plan.describe()),
        "excluded": [[each.source, each.error] for each in plan.excluded],
    }


def hash_data(data: Any) -> Any:
    """Hash pixels of a batch; of unequal clips, of each."""
    if isinstance(data, list):
        return [hash_data(clip) for clip in data]
    digest = hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()[:16]
    return [list(data.shape), str(data.dtype), digest]


def describe_batch(batch: ff.ClipBatch, read: Callable[[Any], Any] = hash_data) -> Any:
    """Describe a batch, whose pixels a function reads."""

    def describe(function: Callable[[Any], Any], value: Any) -> Any:
        return {name: function(each) for name, each in value.items()} if isinstance(value, dict) else function(value)

    return {
        "data": describe(read, batch.data),
        "pts_seconds": describe(describe_array, batch.pts_seconds),
        "valid": describe(describe_array, batch.valid),
        "sources": describe(lambda sources: [name_source(each) for each in sources], batch.sources),
        "boxes": None if batch.boxes is None else describe(describe_array, batch.boxes),
        "flipped": None if batch.flipped is None else describe_array(batch.flipped),
        "columns": {name: describe_array(values) for name, values in batch.columns.items()},
        "errors": [None if error is None else describe_error(error) for error in batch.errors],
        **{name: describe_array(getattr(batch, name)) for name in ("positions", "rows", "ok")},
    }


def describe_spec(spec: Any) -> Any:
    """Describe what a loader says of its batches before the first."""

    def describe(each: Any) -> Any:
        if isinstance(each, dict):
            return {name: describe(one) for name, one in each.items()}
        return [list(each.shape), str(each.dtype)]

    return [describe(dict(spec.arrays)), list(spec.lengths), spec.num_batches, spec.is_restored]


def make_loader(plan: Any, **options: Any) -> ff.ClipLoader:
    """Make a loader of a decoder that needs no file; clips that fail are zeros."""
    given = {"batch_size": 4, "workers": 0, "backend": SlopedDecoder(), "on_error": "skip", **options}
    return ff.ClipLoader(plan, **given)


def load(plan: Any, read: Callable[[Any], Any] = hash_data, **options: Any) -> Any:
    """Describe the batches of a plan, what the loader says of them before, and the clips that failed."""
    with make_loader(plan, **options) as loader:
        spec = describe_spec(loader.describe_batches(unequal=True))
        return [spec, [describe_batch(batch, read) for batch in loader], describe_ledger(loader)]


def describe_ledger(loader: ff.ClipLoader) -> Any:
    """Describe the clips that failed."""
    return [
        [each.source, each.position, each.epoch, list(each.frames), each.reason, each.action, each.substitute]
        for each in loader.ledger
    ]


def describe_all(
    name: str, plan: Any, *, epochs: int = EPOCHS, batches: bool = True, text: bool = True, **options: Any
) -> Documents:
    """Describe a plan: its clips in some epochs, its batches, and its words."""
    later = [plan.with_epoch(plan.epoch + number) for number in range(1, epochs)]
    yield name, [describe_plan(each) for each in (plan, *later)]
    if batches:
        yield f"{name}, batches", load(plan, **options)
    if text:
        yield f"{name}, text", describe_text(plan)
