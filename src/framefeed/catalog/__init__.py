"""Many sources as one table: facts in Parquet, frame tables mapped beside it."""

from __future__ import annotations

from framefeed.catalog._arrow import find_odd_text, gather_rows
from framefeed.catalog._assembly import ListedRows, SurveyedSources, build_catalog_data, collect_results
from framefeed.catalog._cached_files import cache_file, make_stem, map_arrays
from framefeed.catalog._catalog import Catalog, add_signatures, store_catalog
from framefeed.catalog._catalog_file import (
    FORMAT,
    CatalogHeader,
    check_target,
    format_rate,
    get_frames_path,
    open_catalog,
    write_catalog,
)
from framefeed.catalog._catalog_rows import (
    check_plannable,
    explain_missing_frames,
    explain_relative_path,
    get_missing_frames_path,
    list_unindexed_rows,
    read_row,
)
from framefeed.catalog._catalog_urls import StoredCatalog, check_bucket, fetch_catalog, find_stored
from framefeed.catalog._columns import (
    FACTS,
    OPTIONAL_FACTS,
    SURVEYED,
    Facts,
    Label,
    check_classes,
    content_fingerprint,
    decode_dictionary,
    encode_labels,
    find_classes,
    find_first_rows,
    has_jpegs,
    hash_column,
)
from framefeed.catalog._entries import CatalogEntry
from framefeed.catalog._frame_rows import NUMBERS
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, SCHEMA, FrameTableBuilder, FrameTables
from framefeed.catalog._joining import JoinedRows, join_rows
from framefeed.catalog._list_columns import ListColumn, convert_lists, find_dtype, list_texts, read_plan_column
from framefeed.catalog._memory_catalog import make_memory_catalog
from framefeed.catalog._packed_values import (
    PackedFile,
    find_kept_value,
    holding_row_groups,
    is_binary,
    is_media_struct,
    take_storage,
)
from framefeed.catalog._plan_columns import PLAN_COLUMNS, number_sources, number_true
from framefeed.catalog._proxies import (
    PROXY_SCHEMA,
    TABLE_NAME,
    TIME_FACTS,
    ProxyTable,
    check_no_proxies,
    pack_index,
    read_proxy_table,
    unpack_index,
    write_proxy_table,
)
from framefeed.catalog._row_lists import BUILT_FROM_IN_WORDS, RowLists, count_built_from
from framefeed.catalog._sending import sending_as_data
from framefeed.catalog._survey import SIGNED, Depth, SurveyOptions, SurveyResult, mark_signed, survey
from framefeed.catalog._text_columns import TextColumn, Texts

__all__ = [
    "BUILT_FROM_IN_WORDS",
    "FACTS",
    "FORMAT",
    "NUMBERS",
    "OPTIONAL_FACTS",
    "PLAN_COLUMNS",
    "PROXY_SCHEMA",
    "ROWS_PER_BATCH",
    "SCHEMA",
    "SIGNED",
    "SURVEYED",
    "TABLE_NAME",
    "TIME_FACTS",
    "Catalog",
    "CatalogEntry",
    "CatalogHeader",
    "Depth",
    "Facts",
    "FrameTableBuilder",
    "FrameTables",
    "JoinedRows",
    "Label",
    "ListColumn",
    "ListedRows",
    "PackedFile",
    "ProxyTable",
    "RowLists",
    "StoredCatalog",
    "SurveyOptions",
    "SurveyResult",
    "SurveyedSources",
    "TextColumn",
    "Texts",
    "add_signatures",
    "build_catalog_data",
    "cache_file",
    "check_bucket",
    "check_classes",
    "check_no_proxies",
    "check_plannable",
    "check_target",
    "collect_results",
    "content_fingerprint",
    "convert_lists",
    "count_built_from",
    "decode_dictionary",
    "encode_labels",
    "explain_missing_frames",
    "explain_relative_path",
    "fetch_catalog",
    "find_classes",
    "find_dtype",
    "find_first_rows",
    "find_kept_value",
    "find_odd_text",
    "find_stored",
    "format_rate",
    "gather_rows",
    "get_frames_path",
    "get_missing_frames_path",
    "has_jpegs",
    "hash_column",
    "holding_row_groups",
    "is_binary",
    "is_media_struct",
    "join_rows",
    "list_texts",
    "list_unindexed_rows",
    "make_memory_catalog",
    "make_stem",
    "map_arrays",
    "mark_signed",
    "number_sources",
    "number_true",
    "open_catalog",
    "pack_index",
    "read_plan_column",
    "read_proxy_table",
    "read_row",
    "sending_as_data",
    "store_catalog",
    "survey",
    "take_storage",
    "unpack_index",
    "write_catalog",
    "write_proxy_table",
]
