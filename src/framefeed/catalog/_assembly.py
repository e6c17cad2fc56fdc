"""CatalogData: the facts, frame tables and settings of a catalog, built from listed rows and surveyed sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._values import DEFAULT_LIMITS
from framefeed.catalog._chunks import ChunkResult, SourceGroup, cut_into_chunks, survey_chunks
from framefeed.catalog._columns import (
    FACTS,
    Facts,
    Label,
    encode_labels,
    find_classes,
    find_first_rows,
    normalize_labels,
)
from framefeed.catalog._frame_tables import FrameTables
from framefeed.catalog._plan_columns import number_sources
from framefeed.catalog._still_rows import SURVEYED
from framefeed.catalog._survey import SurveyOptions, SurveyResult
from framefeed.index import PROOF_RULES, Verify
from framefeed.media import ImageSequence


@dataclass(frozen=True)
class ListedRows:
    """The rows of a catalog before their sources are surveyed.

    Attributes:
        texts: Values of the ``source`` column, [R].
        sources: The distinct sources to open, [S], in the order of their first rows.
        numbers: Number of each row's source among these, int64 [R]; None if every row has its own.
        labels: Label of each row, or None.
        extra: The manifest's own columns, or None.
        root: Folder that relative texts are resolved against.
        buffers: Media in memory, and `ImageSequence` objects, by text.
        classes: All labels in the order of their numbers; None for the labels of the rows, sorted.
    """

    texts: pa.Array
    sources: Sequence[SourceGroup] = ()
    numbers: IntArray | None = None
    labels: pa.ChunkedArray | None = None
    extra: pa.Table | None = None
    root: str | None = None
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)
    classes: tuple[Label, ...] | None = None

    @cached_property
    def source_texts(self) -> pa.Array:
        """The texts of the distinct sources, [S]."""
        return self.texts if self.numbers is None else self.texts.take(pa.array(find_first_rows(self.numbers)))

    def plain_labels(self) -> pa.ChunkedArray:
        """Convert the labels to whole numbers or strings; null for a row without one."""
        if self.labels is None:
            return pa.chunked_array([pa.nulls(len(self.texts), pa.string())])
        return normalize_labels(self.labels)


@dataclass(frozen=True, slots=True)
class SurveyedSources:
    """Facts and frame tables of distinct sources, of one run or of all.

    Attributes:
        facts: A row for each source; the columns of ``SURVEYED``, and maybe others.
        frames: Batches of frame tables: a row for each source that has an index, in order, and then maybe others.
    """

    facts: Facts
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, chunks: Iterable[ChunkResult]) -> SurveyedSources:
        """Join the results of chunks."""
        facts, frames = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for chunk in chunks:
            facts.append(chunk.facts)
            frames += chunk.frames
        return cls(Facts.of_table(pa.Table.from_batches(facts, SURVEYED)), frames)


@dataclass(frozen=True)
class CatalogData:
    """A whole catalog, shared by all views of it.

    Attributes:
        facts: The columns.
        frames: One row for each distinct source that has an index, or None at depth "header".
        classes: Distinct labels, sorted.
        verify: How frame indexes are verified.
        root: Folder that relative sources are resolved against, or None.
        root_is_default: Whether ``root`` is only the folder of the catalog's file.
        buffers: Media in memory, and `ImageSequence` objects, by the text in the ``source`` column.
        limits: Limits of the scan, as text.
        assume_fps: Assumed rate of streams without times, or None.
        missing: Path of the frame tables, if the catalog has some and their file is missing.
        rules: Version of the rules by which packets were believed.
    """

    facts: Facts
    frames: FrameTables | None
    classes: tuple[Label, ...]
    verify: Verify = "proof"
    root: str | None = None
    root_is_default: bool = False
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)
    limits: str = repr(DEFAULT_LIMITS)
    assume_fps: Fraction | None = None
    missing: str | None = None
    rules: int = PROOF_RULES

    @property
    def depth(self) -> str:
        """Whether there are frame indexes."""
        return "header" if self.frames is None else "frames"

    def why_no_frames(self, remedy: str) -> str:
        """Explain why there are no frame indexes, and how to get them."""
        if self.missing is None:
            return f"this catalog holds headers only: {remedy}"
        return (
            f"the frame tables of this catalog are missing, there is no file {self.missing}: put it back, or {remedy}"
        )


def survey_rows(
    rows: ListedRows, sources: Sequence[str | bytes | ImageSequence | SurveyResult], options: SurveyOptions
) -> CatalogData:
    """Survey the sources of rows, and build a catalog.

    Args:
        rows: Their ``sources`` and ``numbers`` are set here.
        sources: Source of each distinct text, in the order of their first rows; or its result, if it is known.
        options: Depth of the survey, and its number of threads.
    """
    groups = [SourceGroup("", list(sources), "sources")]
    rows = replace(rows, sources=groups, numbers=number_sources(rows.texts))
    chunks = list(cut_into_chunks(groups, options))
    return build_catalog_data(rows, SurveyedSources.of(survey_chunks(chunks, options)), options)


def build_catalog_data(rows: ListedRows, surveyed: SurveyedSources, options: SurveyOptions) -> CatalogData:
    """Build a catalog of listed rows and their surveyed sources."""
    labels = rows.plain_labels()
    classes = find_classes(labels, rows.classes)
    columns = {name: surveyed.facts.column(name) for name in SURVEYED.names}
    if rows.numbers is not None:  # Rows of one source share its facts.
        columns = {name: column.take(pa.array(rows.numbers)) for name, column in columns.items()}
    columns |= {"source": pa.chunked_array([rows.texts]), "label": encode_labels(labels, classes)}
    extra = {} if rows.extra is None else {name: rows.extra.column(name) for name in rows.extra.column_names}
    return CatalogData(
        Facts.of_table(pa.table({name: columns[name] for name in FACTS} | extra)),
        FrameTables(surveyed.frames) if options.depth == "frames" else None,
        classes,
        options.verify,
        rows.root,
        buffers=rows.buffers,
        limits=repr(options.limits),
        assume_fps=options.assume_fps,
    )
