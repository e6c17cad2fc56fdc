"""Index a few sources in memory, without a scan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from framefeed._names import escape, unescape
from framefeed._shown import is_signed, strip_url
from framefeed._values import Limits, resolve_limits
from framefeed.catalog._assembly import ListedRows, assemble_rows
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._columns import Facts
from framefeed.catalog._entries import CatalogEntry
from framefeed.catalog._plan_columns import PROXY_COLUMN
from framefeed.catalog._survey import SurveyOptions, SurveyResult, locate, survey
from framefeed.errors import UsageError
from framefeed.index import Verify
from framefeed.media import ImageSequence, MediaSource, Part, SequenceSource, StorageOptions

Source = str | bytes | os.PathLike[str] | ImageSequence | CatalogEntry


def make_memory_catalog(
    sources: Sequence[Source],
    limits: Limits | None = None,
    verify: Verify = "proof",
    storage_options: StorageOptions | None = None,
) -> Catalog:
    """Index a few sources in memory: one row for each, in their order, also for those given twice.

    The frame indexes of catalog entries are reused, and their storage options. ``position`` of an error is the source's
    place in the list.
    """
    of_entries = [each._catalog._data.storage_options or {} for each in sources if isinstance(each, CatalogEntry)]
    joined = {prefix: each for given in (*of_entries, storage_options or {}) for prefix, each in given.items()}
    options = SurveyOptions(verify=verify, limits=resolve_limits(limits), storage_options=joined or None)
    texts: list[str] = []
    results: dict[str, SurveyResult] = {}
    buffers: dict[str, bytes | ImageSequence] = {}
    signed: dict[str, str] = {}
    for row, source in enumerate(sources):
        media = MediaSource.of(source, joined)
        text = _name(media)
        texts.append(text)
        if media.kind == "bytes":
            buffers[text] = media.data
        elif isinstance(media, SequenceSource):
            buffers[text] = media.sequence
        elif media.is_remote and is_signed(media.path):
            signed[strip_url(media.path)] = media.path
        if text in results:
            continue
        index = source.frame_index if isinstance(source, CatalogEntry) else None
        if isinstance(source, CatalogEntry) and index is not None and index.identity is not None:
            results[text] = locate(SurveyResult(source.info, index, index.identity), media)
            continue
        results[text] = result = survey(media, options)
        if result.error is not None:
            result.error.position = row
            raise result.error
    rows = ListedRows(pa.array(texts, pa.string()), buffers=buffers, signed=signed)
    data = assemble_rows(rows, results.values(), options)
    indexes = {text: result.index for text, result in results.items()}
    proxies = [text if (index := indexes[text]) is not None and index.stream.is_proxy else None for text in texts]
    if any(proxies):
        table = data.facts.table().append_column(PROXY_COLUMN, pa.array(map(_read_path, proxies), pa.string()))
        data = replace(data, facts=Facts.of_table(table))
    return Catalog(data)


def _read_path(text: str | None) -> str | None:
    return None if text is None else unescape(text)


def _name(media: MediaSource) -> str:
    """Make the text of a source in the catalog."""
    if media.kind == "bytes":
        return f"<{len(media.data)} bytes {media.fingerprint()}>"
    if isinstance(media, SequenceSource):
        # Not only its folder: several sequences of one folder may have different rates.
        return f"<{escape(media.name)}, {media.sequence.digest}>"
    if isinstance(media, Part):
        return escape(strip_url(media.text))
    if media.kind in ("path", "url"):
        return escape(strip_url(media.path))
    raise UsageError(f"{media.name}: an open file cannot be sent to a worker: give its path, or its bytes")
