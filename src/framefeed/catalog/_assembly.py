"""CatalogData: everything behind a catalog, put together from a list of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.catalog._columns import FACTS, Facts, Label, classes_of, encode_labels, normal_labels, source_numbers
from framefeed.catalog._frame_tables import FrameTables
from framefeed.catalog._still_rows import SURVEYED
from framefeed.catalog._survey import Finding, SurveyOptions
from framefeed.catalog._sweep import Part, Surveyed, chunks_of, sweep
from framefeed.index import Verify
from framefeed.media import DEFAULT_LIMITS, ImageSequence


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a catalog is to have.

    Attributes:
        texts: What the ``source`` column is to say, for each row.
        sources: What to open for each distinct text, in the order of their first rows; a `Finding` is taken as it is.
        labels: One for each row, or None.
        extra: The manifest's own columns, or None.
        root: Folder that relative texts are resolved against.
        buffers: Media in memory, and image sequences that were given as such, by text.
    """

    texts: Sequence[str]
    sources: Sequence[str | bytes | ImageSequence | Finding]
    labels: pa.ChunkedArray | None = None
    extra: pa.Table | None = None
    root: str | None = None
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a catalog before anything is known of their sources.

    Attributes:
        texts: What the ``source`` column is to say, [R].
        numbers: Number of each row's source among the distinct ones, int64 [R]; None where every row has its own.
        labels: One for each row, or None.
        extra: The manifest's own columns, or None.
        root: Folder that relative texts are resolved against.
        buffers: Media in memory, and image sequences that were given as such, by text.
        classes: All labels in the order of their numbers; None for those that the rows have, sorted.
    """

    texts: pa.Array
    numbers: IntArray | None = None
    labels: pa.ChunkedArray | None = None
    extra: pa.Table | None = None
    root: str | None = None
    buffers: Mapping[str, bytes | ImageSequence] = field(default_factory=dict)
    classes: tuple[Label, ...] | None = None

    def plain_labels(self) -> pa.ChunkedArray:
        """The labels as whole numbers or strings, null where there is none."""
        if self.labels is None:
            return pa.chunked_array([pa.nulls(len(self.texts), pa.string())])
        return normal_labels(self.labels)


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of distinct sources.

    Attributes:
        facts: A row for each, of ``SURVEYED``.
        frames: Batches of frame tables: a row for each source that has an index, in order.
    """

    facts: pa.Table
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, surveyed: Iterable[Surveyed]) -> Found:
        """Collect what a sweep gives."""
        facts, frames = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for each in surveyed:
            facts.append(each.facts)
            frames += each.frames
        return cls(pa.Table.from_batches(facts, SURVEYED), frames)


@dataclass(frozen=True)
class CatalogData:
    """A whole catalog, shared by all views of it.

    Attributes:
        facts: The columns.
        frames: One row for each distinct source that has an index, or None at depth "header".
        classes: Distinct labels, sorted.
        verify: How frame indexes were, or are to be, verified.
        root: Folder that relative sources are resolved against, or None.
        root_is_default: Whether that is only the folder in which the catalog's file lies.
        buffers: Media in memory, and image sequences that were given as such, by the text in the ``source`` column.
        limits: What files might claim when they were scanned, as text.
        assume_fps: Rate that is assumed of streams without times, or None.
        missing: Path of the frame tables, where the catalog has some and the file is not there.
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

    @property
    def depth(self) -> str:
        """Whether there are frame indexes."""
        return "header" if self.frames is None else "frames"

    def why_no_frames(self, remedy: str) -> str:
        """Say why there are no frame indexes, and what to do about it."""
        if self.missing is None:
            return f"this catalog holds headers only: {remedy}"
        return (
            f"the frame tables of this catalog are missing, there is no file {self.missing}: put it back, or {remedy}"
        )

    @cached_property
    def frame_rows(self) -> IntArray:
        """Row of the frame tables of each row, int64 [R]; -1 where there is no index: stills, and what failed."""
        return self.facts.frame_rows


def assemble(wanted: Wanted, options: SurveyOptions, classes: tuple[Label, ...] | None = None) -> CatalogData:
    """Find out about all sources, and put a catalog together.

    Args:
        wanted: The rows.
        options: How much to find out, and with how many threads.
        classes: Labels that the numbers of labels come from; by default the distinct ones.
    """
    chunks = list(chunks_of([Part("", wanted.sources, "sources")], options))
    texts = pa.array(wanted.texts, pa.string())
    numbers = source_numbers(texts)
    rows = Rows(texts, numbers, wanted.labels, wanted.extra, wanted.root, wanted.buffers, classes)
    return catalog_data(rows, Found.of(sweep(chunks, options)), options)


def catalog_data(rows: Rows, found: Found, options: SurveyOptions) -> CatalogData:
    """Put a catalog together of rows and what is known of their sources."""
    labels = rows.plain_labels()
    known = classes_of(labels, rows.classes)
    frames = FrameTables(found.frames) if options.depth == "frames" else None
    facts = Facts.of_table(_table(rows, found.facts, encode_labels(labels, known)))
    return CatalogData(
        facts,
        frames,
        known,
        options.verify,
        rows.root,
        buffers=rows.buffers,
        limits=repr(options.limits),
        assume_fps=options.assume_fps,
    )


def _table(rows: Rows, found: pa.Table, labels: pa.ChunkedArray) -> pa.Table:
    # Rows of one source share what was found out about it.
    facts = found if rows.numbers is None else found.take(pa.array(rows.numbers))
    columns = {name: facts.column(name) for name in facts.column_names}
    columns |= {"source": pa.chunked_array([rows.texts]), "label": labels}
    extra = {} if rows.extra is None else {name: rows.extra.column(name) for name in rows.extra.column_names}
    return pa.table({name: columns[name] for name in FACTS} | extra)
