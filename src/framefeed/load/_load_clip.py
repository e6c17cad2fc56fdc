"""Decode one planned clip, such as one that another process wrote as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from framefeed._checks import expected
from framefeed._values import Limits
from framefeed.catalog import Catalog, make_memory_catalog
from framefeed.decode import Decoder, Pixels, adapt_decoder, allocate_pixels, as_decoder
from framefeed.errors import MediaError, StaleSource
from framefeed.index import FrameIndex
from framefeed.load._batch import ClipBatch
from framefeed.load._finish import finish_take
from framefeed.load._work import split_damaged
from framefeed.media import StorageOptions, check_storage_options, source_name
from framefeed.plan import ClipPart, PlannedClip, Take, iterate_takes


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
    decoder = adapt_decoder(as_decoder(backend, limits))
    takes = list(iterate_takes(clip))
    try:
        catalog = make_memory_catalog([take.source for take in takes], limits, storage_options=storage_options)
    except MediaError as error:
        error.position = clip.position  # it was the number of the source
        raise
    rows = iter(range(len(takes)))
    parts = {name: _load_part(part, partial(_decode_take, catalog, decoder, rows)) for name, part in clip.parts.items()}

    def join(name: str) -> Any:
        values = {stream: part[name] for stream, part in parts.items() if part[name] is not None}
        return values.get("", values or None)

    return ClipBatch(
        positions=np.array([clip.position]),
        rows=np.array([clip.row]),
        columns={},
        ok=np.ones(1, np.bool_),
        errors=[None],
        flipped=np.array([takes[0].flipped]),
        **{name: join(name) for name in next(iter(parts.values()))},
    )


def _load_part(part: ClipPart, decode: Callable[[Take], Pixels]) -> dict[str, Any]:
    """Make what a batch of one clip has of a part, by name."""
    names = dict.fromkeys(
        take.source if isinstance(take.source, str | bytes) else take.source.name for take in part.takes
    )
    first, *others = names
    return {
        "data": np.concatenate(list(map(decode, part.takes)))[np.newaxis],
        "sources": [f"{first!s} and {len(others)} more" if others else first],
        "boxes": None if part.box is None else np.array([part.box]),
        "end_seconds": np.array([part.end_seconds]),
        **{name: getattr(part, name)[np.newaxis].copy() for name in ("pts_seconds", "seconds", "valid")},
    }


def _decode_take(catalog: Catalog, decoder: Decoder, rows: Iterator[int], take: Take) -> Pixels:
    """Decode the frames of one source, whose row in the catalog is the next one, uint8 [T, C, H, W]."""
    row = next(rows)
    name, index = source_name(take.source), catalog.frame_index(row)
    _check_frames(take, index, name)
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


def _check_frames(take: Take, index: FrameIndex, name: str) -> None:
    """Raise StaleSource unless the source has the frames that were planned."""
    facts, now = take.facts, index.identity
    if facts.fingerprint is not None and now is not None and facts.fingerprint != now.fingerprint:
        message = (
            f"{name}: is another file than the one that this clip was planned for ({facts.bytes} bytes, now "
            f"{now.bytes}): give from_json(source=...) a path or URL of that file, or plan again"
        )
        raise StaleSource(message, source=name, stage="open")
    is_same = int(take.indices.max()) < len(index) and take.displayed == index.stream.displayed
    if not is_same or facts.time_base != index.time_base or (index.pts[take.indices] != facts.pts).any():
        message = (
            f"{name}: its frames have other numbers, times or sizes here than in the process that planned this clip: "
            "use the same versions of framefeed and PyAV in both, which from_json(strict=True) checks, or plan again"
        )
        raise StaleSource(message, source=name, stage="index")
