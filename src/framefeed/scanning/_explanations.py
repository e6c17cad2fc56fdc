"""Explain why a scan finds no media, and what is lost by a scan in place of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import make_absolute, make_printable
from framefeed._shown import show_name
from framefeed._units import format_count
from framefeed.catalog import Catalog, SurveyOptions, fetch_catalog, open_catalog
from framefeed.errors import MediaError
from framefeed.media import is_s3
from framefeed.scanning._listing import Root
from framefeed.scanning._objects import NO_HTTP_FOLDERS, is_http_folder
from framefeed.scanning._rows import PARQUET, Listing, ScanStats

StrPath = str | os.PathLike[str]
_MOST_ROOTS = 3
"""Roots named in a message."""
_MANY_FAILED = 20
"""Fewer failed rows are looked at one by one."""


def explain_no_media(roots: Sequence[Root], stats: ScanStats) -> str:
    """Explain that roots contain no media, and what to check."""
    if not roots:
        return "no media found, because the list of roots is empty: give at least one file, folder or list of files"
    shown = ", ".join(
        "the table" if isinstance(root, pa.Table) else make_printable(show_name(os.fsdecode(root)))
        for root in roots[:_MOST_ROOTS]
    )
    more = f" and {len(roots) - _MOST_ROOTS} more" if len(roots) > _MOST_ROOTS else ""
    tables = stats.passed_over[PARQUET]
    if tables:
        only = roots[0]
        folder = (
            "FOLDER" if len(roots) > 1 or isinstance(only, pa.Table) else show_name(os.fsdecode(only)).rstrip(os.sep)
        )
        pattern = make_printable(f"{folder}/**/*{PARQUET}")
        return (
            f"no media found in {shown}{more}, but {format_count(tables, 'Parquet file')}, which "
            f"{'is' if tables == 1 else 'are'} not read in folders: if they hold media, or list them, give "
            f'"{pattern}" or their names'
        )
    return (
        f"no media found in {shown}{more}: check the path; a list needs lines, and in "
        "folders only files with the ending of a video or a picture are taken (name other files, or give a glob)"
    )


def explain_failures(catalog: Catalog, listing: Listing) -> list[str]:
    """Explain in one line why no row of a catalog can be read; nothing if one can, or its rows say it."""
    kinds = catalog.table.column("error_type")
    if not len(catalog) or kinds.null_count:
        return []
    row = pc.index(kinds, "MissingMedia").as_py()
    is_missing = row >= 0 and pc.sum(pc.equal(kinds, "MissingMedia")).as_py() == len(catalog) - len(listing.unlistable)
    example = catalog.shown_name(max(row, 0))
    if is_missing and (listing.starts or (listing.has_list and os.path.isabs(example))):
        starts = "; ".join(f"relative paths of {name} start at {start}" for name, start in listing.starts.items())
        advice = f"{starts}; if they start elsewhere, name that folder"
        if not starts:
            advice = "if these are paths of another machine, leave out their beginning, and name the folder of the rest"
        ending = "" if os.path.splitext(example)[1] else (
            '; if only their ending is missing, add it: columns={"name": 0}, path_template="{name}.mp4"'
        )  # fmt: skip
        return [
            f'none of the listed files exists, for example {example}: {advice}: scan(..., root="FOLDER"), on the '
            f"command line --root FOLDER{ending}"
        ]
    if is_http_folder(example):
        return [f"nothing can be read: {example}: {NO_HTTP_FOLDERS}"]
    if len(catalog) < _MANY_FAILED:
        return []
    return [f"none of the {len(catalog):,} rows can be read, for example {catalog.error(0)}"]


def explain_lost_facts(out: StrPath | None, options: SurveyOptions) -> str | None:
    """Explain which facts of the old catalog at ``out`` are lost by this scan; None if none are."""
    if out is None:
        return None
    header = None
    with suppress(MediaError, ValueError):  # The scan itself reads the file later, and raises the error.
        path = make_absolute(os.fsdecode(out))
        if is_s3(path):
            path = fetch_catalog(path, None, options.storage_options).path
        header = open_catalog(path)[1]
    if header is None or header.depth != "frames":
        return None
    name, advice = make_printable(show_name(os.fsdecode(out))), "To have both catalogs, scan to another file"
    if options.depth == "header":
        return (
            f"{name}: this scan reads headers only, and replaces a catalog with frame indexes. {advice}; to have the "
            'frame indexes again, scan with depth="frames"'
        )
    if header.verify == "full" and options.verify != "full":
        return (
            f'{name}: this scan has verify="{options.verify}", and replaces a catalog that was made with '
            f'verify="full": its counts of damaged frames are not kept. {advice}; to have the counts again, scan with '
            'verify="full" (--verify full)'
        )
    return None
