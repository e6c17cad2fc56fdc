"""Index a few sources in memory, without a scan."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from framefeed._names import escape
from framefeed._values import Limits, resolve_limits
from framefeed.catalog._assembly import ListedRows, assemble_rows
from framefeed.catalog._catalog import Catalog, CatalogEntry
from framefeed.catalog._survey import SurveyOptions, SurveyResult, survey
from framefeed.errors import UsageError
from framefeed.index import Verify
from framefeed.media import ImageSequence, MediaSource, SequenceSource

Source = str | bytes | os.PathLike[str] | ImageSequence | CatalogEntry


def make_memory_catalog(sources: Sequence[Source], limits: Limits | None = None, verify: Verify = "proof") -> Catalog:
    """Index a few sources in memory: one row for each, in their order, also for those given twice.

    Args:
        sources: Paths, encoded bytes, image sequences, and catalog entries, whose frame index is reused.
        limits: What a file may claim; None is ``Limits()``.
        verify: As in ``build_index``.

    Raises:
        MediaError: A source cannot be indexed; ``position`` is its place in the list.
        UsageError: One of them is no source.
    """
    options = SurveyOptions(verify=verify, limits=resolve_limits(limits))
    texts: list[str] = []
    results: dict[str, SurveyResult] = {}
    buffers: dict[str, bytes | ImageSequence] = {}
    for row, source in enumerate(sources):
        text, opened = _identify(source)
        texts.append(text)
        if not isinstance(opened, str):
            buffers[text] = opened
        if text in results:
            continue
        index = source.frame_index if isinstance(source, CatalogEntry) else None
        if isinstance(source, CatalogEntry) and index is not None and index.identity is not None:
            results[text] = SurveyResult(source.info, index, index.identity)
            continue
        results[text] = result = survey(opened, options)
        if result.error is not None:
            result.error.position = row
            raise result.error
    rows = ListedRows(pa.array(texts, pa.string()), buffers=buffers)
    return Catalog(assemble_rows(rows, results.values(), options))


def _identify(source: Source) -> tuple[str, str | bytes | ImageSequence]:
    """Convert a source to its text in the catalog, and the source to open."""
    opened = source.source if isinstance(source, CatalogEntry) else source
    media = MediaSource.of(opened)
    if media.kind == "bytes":
        return f"<{len(media.data)} bytes {media.fingerprint()}>", media.data
    if isinstance(media, SequenceSource):
        # Not only its folder: several sequences of one folder may have different rates.
        return f"<{escape(media.name)}, {media.sequence.digest}>", media.sequence
    if media.kind in ("path", "url"):
        return escape(media.path), media.path
    raise UsageError(f"{media.name}: an open file cannot be sent to a worker: give its path, or its bytes")
