"""CatalogData: the facts, frame tables and settings of a catalog, built from rows and the results of their survey."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._names import make_printable
from framefeed._values import DEFAULT_LIMITS
from framefeed.catalog._columns import (
    FACTS,
    INFO_COLUMNS,
    OPTIONAL_FACTS,
    SURVEYED,
    Facts,
    Label,
    encode_labels,
    find_classes,
    normalize_labels,
)
from framefeed.catalog._frame_rows import HeaderClaims
from framefeed.catalog._frame_tables import FrameTableBuilder, FrameTables
from framefeed.catalog._plan_columns import number_sources
from framefeed.catalog._survey import SurveyOptions, SurveyResult, survey
from framefeed.index import PROOF_RULES, Verify
from framefeed.media import ImageSequence, MediaSource, StorageOptions
from framefeed.parallel import ordered_map, thread_budget

_IN_FLIGHT_PER_WORKER = 4
_RESULTS_AT_ONCE = 64
"""Results that become columns at once: few, because an index may take megabytes."""


@dataclass(frozen=True)
class ListedRows:
    """The rows of a catalog before their sources are surveyed."""

    texts: pa.Array  # of the ``source`` column, [R]
    # Of each row's source among the distinct sources, in the order of their first rows, [R]; None if each has its own.
    numbers: IntArray | None = None
    labels: pa.ChunkedArray | None = None
    extra: pa.Table = field(default_factory=lambda: pa.table({}))  # the manifest's own columns
    root: str | None = None  # folder that relative texts are resolved against
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)  # media in memory, by text
    classes: tuple[Label, ...] | None = None  # in the order of their numbers; None for the labels of the rows, sorted
    signed: Mapping[str, str] = field(default_factory=dict, repr=False)  # URL with its signature, by its text without

    def plain_labels(self) -> pa.ChunkedArray:
        """Convert the labels to whole numbers or strings; null for a row without one."""
        if self.labels is None:
            return pa.chunked_array([pa.nulls(len(self.texts), pa.string())])
        return normalize_labels(self.labels)


@dataclass(frozen=True, slots=True)
class SurveyedSources:
    """Facts and frame tables of distinct sources, of one run or of all."""

    facts: Facts  # a row for each source; the columns of ``SURVEYED``, and maybe others
    frames: Sequence[pa.RecordBatch]  # a row for each source that has an index, in order, and then maybe others

    @classmethod
    def of(cls, parts: Iterable[tuple[pa.RecordBatch, Sequence[pa.RecordBatch]]]) -> SurveyedSources:
        facts, frames = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for facts_of_part, frames_of_part in parts:
            facts.append(facts_of_part)
            frames += frames_of_part
        return cls(Facts.of_table(pa.Table.from_batches(facts, SURVEYED)), frames)


@dataclass(frozen=True)
class CatalogData:
    """A whole catalog, shared by all views of it."""

    facts: Facts
    frames: FrameTables | None  # a row for each distinct source that has an index; None at depth "header"
    classes: tuple[Label, ...]
    verify: Verify = "proof"
    root: str | None = None  # folder that relative sources are resolved against
    root_is_default: bool = False  # whether it is only the folder of the catalog's file
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)  # media in memory, by ``source``
    limits: str = repr(DEFAULT_LIMITS)
    assume_fps: Fraction | None = None
    missing: str | None = None  # path of the frame tables, if the catalog has some and their file is missing
    rules: int = PROOF_RULES  # version of the rules by which packets were believed
    # In no file, as the signatures of URLs, by the text in the ``source`` column, which lacks them.
    storage_options: StorageOptions | None = field(default=None, repr=False)
    signed: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def depth(self) -> str:
        return "header" if self.frames is None else "frames"

    def why_no_frames(self, remedy: str) -> str:
        """Explain why there are no frame indexes, and how to get them."""
        if self.missing is None:
            return f"this catalog holds headers only: {remedy}"
        return (
            f"the frame tables of this catalog are missing, there is no file {self.missing}: put it back, or {remedy}"
        )


def collect_results(results: Iterable[SurveyResult]) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Convert results to facts, a row of ``SURVEYED`` each, and frame tables, a row for each that has an index."""
    facts, frames = list[dict[str, Any]](), list[pa.RecordBatch]()
    tables = FrameTableBuilder(frames.append)
    for result in results:
        facts.append(_collect_facts(result))
        if result.index is not None:
            info = result.info
            claims = None if info is None else HeaderClaims(
                info.num_frames_from_header, info.duration_seconds_from_header, info.average_fps_from_header
            )  # fmt: skip
            tables.append(result.index, claims)
    tables.finish()
    return pa.RecordBatch.from_pylist(facts, schema=SURVEYED), frames


def _collect_facts(result: SurveyResult) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "num_damaged_frames": result.num_damaged_frames,
        "source_offset": result.offset,
        "source_version": result.version,
    }
    if result.info is not None:
        facts |= {name: getattr(result.info, name) for name in (*INFO_COLUMNS, "bytes")}
        facts |= {
            "num_frames": result.info.num_frames_from_header,
            "duration_seconds": result.info.duration_seconds_from_header,
            "average_fps": result.info.average_fps_from_header,
        }
    identity = result.identity
    if identity is not None:
        facts |= {"bytes": identity.bytes, "mtime_ns": identity.mtime_ns, "fingerprint": identity.fingerprint or None}
    if result.error is not None:
        facts |= {"error_type": type(result.error).__name__, "error": make_printable(str(result.error))}
    index = result.index
    if index is not None:
        facts |= {
            "num_frames": len(index),
            "num_damaged_frames": index.num_damaged_frames,
            "num_key_frames": len(index.key_frame_indices),
            "times_from": index.times_from,
            # The header's claims are kept in the frame tables.
            "duration_seconds": None,
            "average_fps": index.average_fps,
            "changes_size": index.changes_size or None,
        }
    if index is not None and index.has_timestamps:
        facts |= {
            "duration_seconds": float((index.end_pts - int(index.pts[0])) * index.time_base),
            "is_variable_frame_rate": index.is_variable_frame_rate,
        }
    return facts


def survey_rows(
    rows: ListedRows, sources: Sequence[str | bytes | ImageSequence | MediaSource], options: SurveyOptions
) -> CatalogData:
    """Survey the sources of rows in threads, and build a catalog.

    There is a source for each distinct text, in the order of their first rows; the rows get their ``numbers`` here.
    """
    workers = min(thread_budget().threads if options.workers is None else options.workers, len(sources))
    surveyed = ordered_map(
        partial(survey, options=options),
        sources,
        workers=workers if workers > 1 else 0,
        max_in_flight=_IN_FLIGHT_PER_WORKER * max(1, workers),
    )
    with surveyed:
        return assemble_rows(rows, surveyed, options)


def assemble_rows(rows: ListedRows, results: Iterable[SurveyResult], options: SurveyOptions) -> CatalogData:
    """Build a catalog of rows and the result of each distinct text, in the order of their first rows."""
    left = iter(results)
    parts = iter(lambda: list(islice(left, _RESULTS_AT_ONCE)), [])
    surveyed = SurveyedSources.of(map(collect_results, parts))
    return build_catalog_data(replace(rows, numbers=number_sources(rows.texts)), surveyed, options)


def build_catalog_data(rows: ListedRows, surveyed: SurveyedSources, options: SurveyOptions) -> CatalogData:
    """Build a catalog of listed rows and their surveyed sources."""
    labels = rows.plain_labels()
    classes = find_classes(labels, rows.classes)
    columns = {name: surveyed.facts.column(name) for name in SURVEYED.names}
    if rows.numbers is not None:  # Rows of one source share its facts.
        columns = {name: column.take(pa.array(rows.numbers)) for name, column in columns.items()}
    columns |= {"source": pa.chunked_array([rows.texts]), "label": encode_labels(labels, classes)}
    extra = {name: rows.extra.column(name) for name in rows.extra.column_names}
    unused = [name for name in OPTIONAL_FACTS if name in columns and columns[name].null_count == len(columns[name])]
    return CatalogData(
        Facts.of_table(
            pa.table({name: columns[name] for name in FACTS if name in columns and name not in unused} | extra)
        ),
        FrameTables(surveyed.frames) if options.depth == "frames" else None,
        classes,
        options.verify,
        rows.root,
        buffers=rows.buffers,
        limits=repr(options.limits),
        assume_fps=options.assume_fps,
        storage_options=options.storage_options,
        signed=rows.signed,
    )
