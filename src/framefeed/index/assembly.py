"""CatalogData: everything behind a catalog, put together from a list of sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.index.build import Verify
from framefeed.index.facts import FACTS, Facts, FactsBuilder, Label, distinct, encode_labels, normal_labels
from framefeed.index.frame_tables import FrameTableBuilder, FrameTables, HeaderClaims
from framefeed.index.survey import Finding, SurveyOptions, survey_all

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a catalog is to have.

    Attributes:
        texts: What the ``source`` column is to say, for each row.
        sources: What to open for each distinct text, in the order of their first rows; a `Finding` is taken as it is.
        labels: One for each row, or None.
        extra: The manifest's own columns, or None.
        root: Folder that relative texts are resolved against.
        buffers: Encoded media in memory, by text.
    """

    texts: Sequence[str]
    sources: Sequence[str | bytes | Finding]
    labels: pa.ChunkedArray | None = None
    extra: pa.Table | None = None
    root: str | None = None
    buffers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class CatalogData:
    """A whole catalog, shared by all views of it.

    Attributes:
        facts: The columns.
        frames: One row for each distinct source, or None at depth "header".
        classes: Distinct labels, sorted.
        verify: How frame indexes were, or are to be, verified.
        root: Folder that relative sources are resolved against, or None.
        root_is_default: Whether that is only the folder in which the catalog's file lies.
        buffers: Encoded media in memory, by the text in the ``source`` column.
    """

    facts: Facts
    frames: FrameTables | None
    classes: tuple[Label, ...]
    verify: Verify = "ends"
    root: str | None = None
    root_is_default: bool = False
    buffers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def depth(self) -> str:
        """Whether there are frame indexes."""
        return "header" if self.frames is None else "frames"

    @cached_property
    def frame_rows(self) -> IntArray:
        """Row of the frame tables of each row, int64 [R]."""
        return self.facts.source_numbers


def assemble(wanted: Wanted, options: SurveyOptions, classes: Sequence[Label] | None = None) -> CatalogData:
    """Find out about all sources, and put a catalog together.

    Args:
        wanted: The rows.
        options: How much to find out, and with how many threads.
        classes: Labels that the numbers of labels come from; by default the distinct ones.
    """
    builder, batches = FactsBuilder(), list[pa.RecordBatch]()
    tables = FrameTableBuilder(batches.append)
    for finding in survey_all(wanted.sources, options):
        builder.append(finding)
        if options.depth == "frames":
            tables.append(finding.index, _claims(finding))
    tables.finish()
    labels = wanted.labels
    if labels is None:
        labels = pa.chunked_array([pa.nulls(len(wanted.texts), pa.string())])
    labels = normal_labels(labels)
    known = tuple(distinct(labels) if classes is None else classes)
    frames = FrameTables(batches) if options.depth == "frames" else None
    facts = Facts.of_table(_table(wanted, builder, encode_labels(labels, known)))
    return CatalogData(facts, frames, known, options.verify, wanted.root, buffers=wanted.buffers)


def _table(wanted: Wanted, builder: FactsBuilder, labels: pa.ChunkedArray) -> pa.Table:
    sources = pa.chunked_array([pa.array(wanted.texts, pa.string())])
    numbers = Facts.of_table(pa.table({"source": sources})).source_numbers
    # Rows of one source share what was found out about it.
    facts = pa.table(builder.columns()).take(pa.array(numbers))
    columns = {name: facts.column(name) for name in facts.column_names} | {"source": sources, "label": labels}
    extra = {} if wanted.extra is None else {name: wanted.extra.column(name) for name in wanted.extra.column_names}
    return pa.table({name: columns[name] for name in FACTS} | extra)


def _claims(finding: Finding) -> HeaderClaims | None:
    info = finding.info
    if info is None:
        return None
    return HeaderClaims(info.num_frames_from_header, info.duration_seconds_from_header, info.average_fps_from_header)
