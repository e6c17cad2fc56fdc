"""Many sources as one table: facts in Parquet, frame tables mapped beside it."""

from __future__ import annotations

from framefeed.catalog._catalog import Catalog, CatalogEntry
from framefeed.catalog._catalog_file import CatalogHeader, write_catalog
from framefeed.catalog._catalog_rows import explain_missing_frames, explain_relative_path, get_missing_frames_path
from framefeed.catalog._columns import FACTS, Label, check_classes, content_fingerprint, encode_labels
from framefeed.catalog._frame_tables import FrameTableBuilder, FrameTables
from framefeed.catalog._memory_catalog import make_memory_catalog
from framefeed.catalog._row_lists import BUILT_FROM_IN_WORDS, RowLists, count_built_from
from framefeed.catalog._survey import SurveyOptions

__all__ = [
    "BUILT_FROM_IN_WORDS",
    "FACTS",
    "Catalog",
    "CatalogEntry",
    "CatalogHeader",
    "FrameTableBuilder",
    "FrameTables",
    "Label",
    "RowLists",
    "SurveyOptions",
    "check_classes",
    "content_fingerprint",
    "count_built_from",
    "encode_labels",
    "explain_missing_frames",
    "explain_relative_path",
    "get_missing_frames_path",
    "make_memory_catalog",
    "write_catalog",
]
