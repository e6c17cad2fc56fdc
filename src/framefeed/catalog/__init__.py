"""Many sources as one table: facts in Parquet, frame tables mapped beside it."""

from __future__ import annotations

from framefeed.catalog._catalog import Catalog, CatalogEntry
from framefeed.catalog._catalog_file import Header, write_catalog
from framefeed.catalog._catalog_rows import missing_frames, missing_hint, why_no_frames
from framefeed.catalog._columns import FACTS, Label, check_classes, content_fingerprint, encode_labels
from framefeed.catalog._frame_tables import FrameTableBuilder, FrameTables
from framefeed.catalog._names import absolute, escape, printable, unescape, visible, without_dots
from framefeed.catalog._row_lists import KNOWN_BY_IN_WORDS, RowLists, count_known_by
from framefeed.catalog._survey import SurveyOptions

__all__ = [
    "FACTS",
    "KNOWN_BY_IN_WORDS",
    "Catalog",
    "CatalogEntry",
    "FrameTableBuilder",
    "FrameTables",
    "Header",
    "Label",
    "RowLists",
    "SurveyOptions",
    "absolute",
    "check_classes",
    "content_fingerprint",
    "count_known_by",
    "encode_labels",
    "escape",
    "missing_frames",
    "missing_hint",
    "printable",
    "unescape",
    "visible",
    "why_no_frames",
    "without_dots",
    "write_catalog",
]
