"""Decode one planned clip, such as one that another process wrote as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from framefeed._checks import expected
from framefeed._values import Limits
from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.decode import Decoder, Pixels, adapt_decoder, allocate_pixels, as_decoder
from framefeed.errors import MediaError, StaleSource
from framefeed.load._batch import ClipBatch
from framefeed.load._finish import finish_take
from framefeed.load._work import split_damaged
from framefeed.media import ImageSequence, StorageOptions, check_storage_options, source_name
from framefeed.plan import ClipPart, PlannedClip, Take, iterate_takes

_TIMES = ("pts_seconds", "valid", "seconds", "end_seconds")
_ADVICE = (
    "give from_json(source=...) the same file, use the same versions (strict=True checks them), or plan again; a clip "
    "of a proxy is loaded by its plan"
)


def load_clip(
    clip: PlannedClip,
    *,
    backend: str | Decoder = "auto",
    limits: Limits | None = None,
    storage_options: StorageOptions | None = None,
) -> ClipBatch:
    """Decode one planned clip, such as one from `PlannedClip.from_json`, in the calling thread.

    Its sources are indexed first, and must be the files that the clip was planned for, with the same frames. For many
    clips of one process, a `ClipLoader` over their plan is faster.

    Args:
        clip: From ``plan[i]`` or ``PlannedClip.from_json``.
        backend: Name of a decoder, or a Decoder.
        limits: Limits on what a file may claim; None means ``Limits()``.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Returns:
        A batch of this clip alone, as a loader gives it, without columns.

    Raises:
        StaleSource: A source is another file than the one that was planned, or its frames are found otherwise here.
        MediaError: A source cannot be read, or a frame is damaged.
        UsageError: An argument is wrong.
    """
    if not isinstance(clip, PlannedClip):
        raise expected("clip", "a PlannedClip, such as plan[0] or ff.PlannedClip.from_json(text)", clip)
    check_storage_options(storage_options)
    decoder, takes = adapt_decoder(as_decoder(backend, limits)), list(iterate_takes(clip))
    try:
        catalog = make_memory_catalog([take.source for take in takes], limits, storage_options=storage_options)
    except MediaError as error:
        error.position = clip.position  # it was the number of the source
        raise
    decoded = iter([_decode(catalog, row, decoder, take) for row, take in enumerate(takes)])
    parts = clip.parts.values()

    def join(values: Iterable[Any]) -> Any:
        by_name = dict(zip(clip.parts, values, strict=True))
        return by_name.get("", by_name)

    boxes = {name: np.array([part.box]) for name, part in clip.parts.items() if part.box is not None}
    return ClipBatch(
        data=join([np.concatenate([next(decoded) for _ in part.takes])[np.newaxis] for part in parts]),
        positions=np.array([clip.position]),
        rows=np.array([clip.row]),
        columns={},
        sources=join(map(_list_sources, parts)),
        ok=np.ones(1, np.bool_),
        errors=[None],
        boxes=boxes.get("", boxes or None),
        flipped=np.array([takes[0].flipped]),
        **{name: join([np.array([getattr(part, name)]) for part in parts]) for name in _TIMES},
    )


def _list_sources(part: ClipPart) -> list[Any]:
    sources = (take.source for take in part.takes)
    first, *others = dict.fromkeys(each.name if isinstance(each, ImageSequence) else each for each in sources)
    return [f"{first!s} and {len(others)} more" if others else first]


def _decode(catalog: Catalog, row: int, decoder: Decoder, take: Take) -> Pixels:
    """Decode the frames of one source, uint8 [T, C, H, W], if it is the file that was planned."""
    name, index, facts = source_name(take.source), catalog.frame_index(row), take.facts
    now, change = index.identity, ""
    if now is not None and facts.fingerprint not in (None, now.fingerprint):
        change = f"is another file than the one that was planned ({facts.bytes} bytes, now {now.bytes})"
    elif (
        int(take.indices.max()) >= len(index)
        or (take.displayed, facts.time_base) != (index.stream.displayed, index.time_base)
        or (facts.pts != index.pts[take.indices]).any()
    ):
        change = "its frames have other numbers, times or sizes here than where they were planned"
    if change:
        raise StaleSource(f"{name}: {change}: {_ADVICE}", source=name, stage="index")
    decoded = allocate_pixels((len(take), *take.output.shape(*take.displayed)), f"{name}: {len(take)} frames")
    for mask, slot in split_damaged(take, decoded):
        decoder.decode(catalog.media_source(row), index, [slot]).raise_first()
        if mask is not None:
            decoded[mask] = slot.out
    out = allocate_pixels((len(take), *take.picture_shape), f"{name}: {len(take)} frames")
    finish_take(take, decoded, out)
    if take.skipped is not None:
        out[take.skipped] = 0
    return out
