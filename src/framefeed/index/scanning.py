"""scan: folders, files and manifests -> Catalog; catalog_of: a few sources -> Catalog in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from framefeed.errors import UsageError
from framefeed.index.assembly import Wanted, assemble
from framefeed.index.build import Verify
from framefeed.index.catalog import Catalog, CatalogEntry
from framefeed.index.catalog_files import check_target
from framefeed.index.listing import Listing, Roots, list_roots
from framefeed.index.names import absolute, escape, stored
from framefeed.index.survey import Depth, Finding, SurveyOptions, survey
from framefeed.media.source import MediaSource, SourceStat

StrPath = str | os.PathLike[str]
Source = str | bytes | os.PathLike[str] | CatalogEntry


def scan(
    roots: Roots,
    *,
    out: StrPath | None = None,
    depth: Depth = "frames",
    verify: Verify = "ends",
    workers: int | None = None,
    label_from: Literal["parent"] | None = None,
    root: StrPath | None = None,
    resume: bool = True,
    progress: bool | None = None,
) -> Catalog:
    """Find out about many media: one row a file, also for those that fail.

    Args:
        roots: Folders (by file endings), named files, manifests (text, CSV, Parquet), or a list of these.
        out: Where to save the catalog, such as ``"cat.parquet"``; by default it stays in memory.
        depth: "frames" finds every frame, "header" believes the header.
        verify: How frames are verified: "ends", "none" or "full", as in `build_index`.
        workers: Threads; None takes the thread budget. The catalog is the same for any number.
        label_from: "parent" labels each file by its folder, where no manifest labels it.
        root: Store paths below this folder relative to it, so that a catalog can move with its data.
        resume: Go on where an interrupted scan stopped. This version keeps no journal: it begins anew either way.
        progress: Show a bar; None shows it if standard error is a terminal.

    Returns:
        The catalog, opened from ``out`` where that is given.

    Raises:
        UsageError: The arguments do not fit, or a manifest cannot be understood.
        MissingMedia: A manifest is missing.
    """
    options = SurveyOptions(depth, verify, workers, progress)
    if label_from not in (None, "parent"):
        raise UsageError(f"label_from must be 'parent' or None, not {label_from!r}")
    base = None if root is None else absolute(os.fsdecode(root))
    target = None if out is None else _checked_target(out, roots)
    catalog = Catalog(assemble(_wanted(list_roots(roots), label_from, base), options))
    if target is None:
        return catalog
    catalog.to_parquet(target)
    return Catalog.open(target, base)


def catalog_of(sources: Sequence[Source]) -> Catalog:
    """Index a few sources in memory: one row for each, in their order, also for those given twice.

    Args:
        sources: Paths, encoded bytes, and catalog entries, whose frame index is taken as it is.

    Raises:
        MediaError: A source cannot be indexed.
        UsageError: One of them is no source.
    """
    texts: list[str] = []
    findings: dict[str, Finding] = {}
    buffers: dict[str, bytes] = {}
    for source in sources:
        text, opened = _identified(source)
        texts.append(text)
        if isinstance(opened, bytes):
            buffers[text] = opened
        if text not in findings:
            findings[text] = _found(source, opened)
    return Catalog(assemble(Wanted(texts, list(findings.values()), buffers=buffers), SurveyOptions(workers=0)))


def _checked_target(out: StrPath, roots: Roots) -> str:
    """Refuse early what would fail after hours of scanning."""
    if os.fsdecode(out).endswith(os.sep):
        raise UsageError(f"out={os.fsdecode(out)} names a folder: name a file in it, such as cat.parquet")
    target = absolute(os.fsdecode(out))
    names = [roots] if isinstance(roots, (str, os.PathLike)) else roots
    if any(absolute(os.fsdecode(name)) == target for name in names):
        raise UsageError(f"out={target} would replace the manifest that is scanned: choose another name")
    check_target(target)
    return target


def _wanted(listing: Listing, label_from: str | None, root: str | None) -> Wanted:
    texts = [stored(path, root) for path in listing.paths]
    found = dict(zip(texts, listing.paths, strict=True))
    sources: list[str | bytes | Finding] = [
        Finding(error=listing.unlistable[path]) if path in listing.unlistable else path for path in found.values()
    ]
    columns = listing.taken_columns()
    labels = columns.column("label") if "label" in columns.column_names else None
    extra = columns.drop_columns(["label"]) if labels is not None else columns
    if label_from == "parent":
        labels = _parents(listing.paths, labels)
    return Wanted(texts, sources, labels, extra if extra.column_names else None, root)


def _parents(paths: Sequence[str], labels: pa.ChunkedArray | None) -> pa.ChunkedArray:
    parents = pa.array([escape(os.path.basename(os.path.dirname(path))) for path in paths], pa.string())
    if labels is None:
        return pa.chunked_array([parents])
    if not labels.null_count:
        return labels
    return pa.chunked_array([pc.coalesce(labels.cast(pa.string()).combine_chunks(), parents)])


def _identified(source: Source) -> tuple[str, str | bytes]:
    """The text that stands for a source, and what to open."""
    opened = source.source if isinstance(source, CatalogEntry) else source
    media = MediaSource.of(opened)
    if media.kind == "bytes":
        return f"<{len(media.data)} bytes {media.fingerprint()}>", media.data
    if media.kind == "path":
        return escape(media.path), media.path
    raise UsageError(f"{media.name}: an open file cannot travel to a worker: pass its path, or its bytes")


def _found(source: Source, opened: str | bytes) -> Finding:
    known = _known(source) if isinstance(source, CatalogEntry) else None
    finding = known or survey(opened, SurveyOptions())
    if finding.error is not None:
        raise finding.error
    return finding


def _known(entry: CatalogEntry) -> Finding | None:
    index = entry.frame_index
    if index is None or index.identity is None:
        return None
    identity = index.identity
    return Finding(entry.info, index, SourceStat(identity.bytes, identity.mtime_ns), identity.fingerprint)
