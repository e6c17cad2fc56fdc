"""Sections that list files: failed files, damaged files, and the most costly files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from framefeed._arrays import FloatArray, IntArray
from framefeed._names import make_printable, remove_dots, unescape
from framefeed._shown import show_name
from framefeed._units import UNKNOWN, format_bytes, format_number, format_seconds, format_share
from framefeed.report import _columns
from framefeed.report._bars import ONE_TWO_FIVE, Axis, draw_bars, draw_counts, draw_histogram, list_bars
from framefeed.report._columns import (
    MILLISECONDS_PER_MEGAPIXEL,
    Columns,
    Costs,
    find_largest,
    predict_costs,
)
from framefeed.report._markup import Node, Section, make_element, make_grid, make_paragraph
from framefeed.report._tables import (
    Cell,
    make_message_cell,
    make_name_cell,
    make_sortable_table,
    make_text_cell,
)

MAX_COSTLY = 50
MAX_LARGEST = 20
MAX_FAILED = 200
MAX_DAMAGED = 200
MAX_CODECS = 8
RANDOM = "a random frame"
ALL = "all frames"
EQUALLY_OFTEN = "Share of the total cost if one frame of each file is read."


def make_failed_section(columns: Columns) -> Section:
    """List the files that cannot be read, with reasons."""
    rows = columns.failed
    if not len(rows):
        return Section(
            "failed", "Failed files", (make_paragraph("None: every file could be read when it was scanned."),)
        )
    shown = rows[:MAX_FAILED]
    texts = [columns.texts(name, shown) for name in ("source", "error_type", "error")]
    cells = [
        (
            make_name_cell(name, columns.common_folder),
            make_text_cell(kind),
            make_message_cell(_remove_name(error, show_name(source))),
        )
        for name, source, kind, error in zip(columns.names(shown), *texts, strict=True)
    ]
    more = f"The first {MAX_FAILED} are listed; Catalog.errors lists all." if len(rows) > len(shown) else ""
    summary = (
        f"{_columns.format_count(len(rows))} of {_columns.format_count_of(len(columns.files), 'file')} failed. {more}"
    )
    return Section(
        "failed",
        "Failed files",
        (
            make_paragraph(summary.strip()),
            draw_counts("Reasons", columns.counts("error_type", rows)),
            _make_folder_note(columns),
            make_sortable_table("Failed files", ("file", "error", "message"), cells),
        ),
    )


def make_damaged_section(columns: Columns) -> Section | None:
    """List the files that can be read, but have damaged frames; None if no file was fully decoded."""
    known = columns.usable[np.isfinite(columns.numbers("num_damaged_frames", columns.usable))]
    if not len(known):
        return None
    damaged = columns.numbers("num_damaged_frames", known)
    rows, counts = known[damaged > 0], damaged[damaged > 0]
    decoded = f"{_columns.format_count_of(len(known), 'file')} whose frames were all decoded"
    if not len(rows):
        return Section("damaged", "Damaged frames", (make_paragraph(f"None in {decoded}."),))
    order = find_largest(counts, MAX_DAMAGED)
    frames = columns.numbers("num_frames", rows[order])
    cells = list(
        zip(
            [make_name_cell(name, columns.common_folder) for name in columns.names(rows[order])],
            _make_cells(counts[order], format_number),
            _make_cells(frames, format_number),
            _make_cells(counts[order] / frames, lambda share: format_share(share, decimals=1)),
            strict=True,
        )
    )
    more = f" The {MAX_DAMAGED} files with the most damaged frames are listed." if len(rows) > MAX_DAMAGED else ""
    damaged_frames = _columns.format_count_of(counts.sum(), "frame")
    summary = (
        f"{damaged_frames} in {_columns.format_count_of(len(rows), 'file')}, of {decoded}. "
        "These frames cannot be decoded without damage; plan_clips(..., on_damaged=...) sets what is delivered instead."
        f"{more}"
    )
    table = make_sortable_table(
        "Files with damaged frames", ("file", "damaged frames", "frames", "share"), cells, sorted_by=1
    )
    return Section("damaged", "Damaged frames", (make_paragraph(summary), _make_folder_note(columns), table))


def _remove_name(message: str, name: str) -> str:
    """Remove the name at the start of a message, and the folder of the file at the time of the scan."""
    folder, is_named, rest = message.partition(f"{make_printable(unescape(name))}: ")
    return rest if is_named and (not folder or folder.endswith("/")) else message


def make_cost_section(columns: Columns) -> Section | None:
    """List the files that cost most to decode, the largest files, and those with the longest GOPs."""
    if not len(columns.usable):
        return None
    predicted = predict_costs(columns)
    by_random = bool(np.isfinite(predicted.random_megapixels).any())
    sort_by = predicted.random_megapixels if by_random else predicted.all_megapixels
    known = sort_by[np.isfinite(sort_by) & (sort_by > 0)]
    unit = "megapixels decoded for one random frame" if by_random else "megapixels of all frames"
    plot = draw_histogram("Cost", sort_by, Axis(unit, ONE_TWO_FIVE))
    worst = find_largest(sort_by, MAX_COSTLY)
    largest = find_largest(columns.numbers("bytes", predicted.rows), MAX_LARGEST)
    longest = find_largest(np.where(np.isin(predicted.rows, columns.videos), predicted.gop, np.nan), MAX_LARGEST)
    tables = [
        _make_file_table(columns, predicted, worst, "Files that cost most", RANDOM if by_random else ALL),
        _make_file_table(columns, predicted, largest, "Largest files", "bytes"),
    ]
    if len(longest):
        tables.append(_make_file_table(columns, predicted, longest, "Longest GOPs", "GOP"))
    return Section(
        "cost",
        "Cost to decode",
        (
            make_paragraph(_describe_cost(by_random)),
            make_grid(plot, _make_codec_list(columns, sort_by), _make_concentration_table(known)),
            _make_folder_note(columns),
            *tables,
        ),
    )


def _describe_cost(by_random: bool) -> str:
    time = f"100 megapixels take about {format_seconds(0.1 * MILLISECONDS_PER_MEGAPIXEL)} of one core"
    if not by_random:
        return (
            "This catalog does not have the positions of key frames, so the cost of a random frame is not known: files "
            "are ordered by the megapixels of all their frames. Scan with --depth frames to see it."
        )
    return (
        "Cost is the predicted number of megapixels to decode for one random frame: pixels of a picture × (GOP length "
        "+ 1) / 2; for an image, its pixels. The prediction assumes GOPs of equal length within a file. The time for a "
        f"megapixel depends on the codec; for H.264, {time}."
    )


def _make_codec_list(columns: Columns, values: FloatArray) -> Node:
    """List the share of each codec in the cost of reading one frame of each file."""
    codecs = columns.catalog.table.column("codec").take(pa.array(columns.usable)).combine_chunks().dictionary_encode()
    codes = codecs.indices.fill_null(len(codecs.dictionary)).to_numpy()
    names = [*codecs.dictionary.to_pylist(), ""]
    sums = np.bincount(codes, np.nan_to_num(values), minlength=len(names))
    order = [each for each in np.argsort(-sums, kind="stable").tolist() if sums[each] > 0]
    bars = list_bars([names[each] or "unknown" for each in order], sums[order].tolist(), MAX_CODECS)
    return draw_bars("By codec", bars, show=_columns.format_megapixels, note=EQUALLY_OFTEN)


def _make_concentration_table(known: FloatArray) -> Node | None:
    """List the share of the costliest files in the cost of reading one frame of each file."""
    total = float(known.sum())
    if len(known) < 10 or not total:
        return None
    ascending = np.sort(known)[::-1].cumsum()
    items = []
    for part in (0.01, 0.05, 0.1, 0.25, 0.5):
        files = int(len(known) * part)
        if files:
            items.append(
                make_element(
                    "tr",
                    make_element("th", f"costliest {100 * part:g} %", scope="row"),
                    make_element("td", _columns.format_count(files), class_="number"),
                    make_element("td", format_share(float(ascending[files - 1]), total, decimals=1), class_="number"),
                )
            )
    titles = ("", "files", "of total cost")
    head = make_element(
        "tr", *(make_element("th", title, scope="col") if title else make_element("td") for title in titles)
    )
    table = make_element("table", make_element("thead", head), make_element("tbody", *items), class_="numbers wide")
    note = make_element("p", EQUALLY_OFTEN, class_="note")
    return make_element("figure", make_element("h3", "Where the cost lies"), table, note, class_="values")


def _make_file_table(columns: Columns, predicted: Costs, chosen: IntArray, caption: str, sorted_by: str) -> Node:
    """List facts of some files; the sorted column comes first, because a phone shows only the left ones."""
    rows = predicted.rows[chosen]
    width, height = (columns.numbers(name, rows) for name in ("width", "height"))
    sizes = [
        Cell(UNKNOWN if np.isnan(w * h) else f"{w:.0f}×{h:.0f}", w * h)
        for w, h in zip(width.tolist(), height.tolist(), strict=True)
    ]
    facts = {
        RANDOM: _make_cells(predicted.random_megapixels[chosen], _columns.format_megapixels),
        ALL: _make_cells(predicted.all_megapixels[chosen], _columns.format_megapixels),
        "codec": [make_text_cell(codec) for codec in columns.texts("codec", rows)],
        "width × height": sizes,
        "frames": _make_cells(columns.numbers("num_frames", rows), format_number),
        "GOP": _make_cells(predicted.gop[chosen], format_number),
        "bytes": _make_cells(columns.numbers("bytes", rows), format_bytes),
    }
    heads = [sorted_by, *(head for head in facts if head != sorted_by)]
    names = [make_name_cell(name, columns.common_folder) for name in columns.names(rows)]
    cells = list(zip(names, *(facts[head] for head in heads), strict=True))
    return make_sortable_table(caption, ["file", *heads], cells, sorted_by=1)


def _make_cells(values: FloatArray, show: Callable[[float], str]) -> list[Cell]:
    return [Cell(show(value), value) for value in values.tolist()]


def _make_folder_note(columns: Columns) -> Node:
    folder = columns.common_folder
    if not folder:
        return make_element("p", class_="note")
    full = _columns.show_full_name(remove_dots(folder))
    bdi = make_element("bdi", _columns.shorten(full, _columns.MAX_NAME), title=full, dir="ltr")
    return make_element("p", "Names are relative to ", bdi, ".", class_="note")
