"""Sections that list files, in tables that a click on a column's head sorts: failed, damaged and most costly files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import pyarrow as pa

from framefeed._arrays import FloatArray, IntArray
from framefeed._names import make_printable, remove_dots, unescape
from framefeed._shown import show_name
from framefeed._units import UNKNOWN, format_bytes, format_number, format_seconds, format_share
from framefeed.proxies import ProxyEstimate
from framefeed.report._bars import ONE_TWO_FIVE, Axis, draw_bars, draw_counts, draw_histogram, list_bars
from framefeed.report._columns import (
    MAX_NAME,
    MILLISECONDS_PER_MEGAPIXEL,
    Columns,
    Costs,
    find_largest,
    format_count,
    format_count_of,
    format_megapixels,
    predict_costs,
    shorten,
    show_full_name,
)
from framefeed.report._markup import Node, Section, make_element, make_grid

MAX_COSTLY = 50
MAX_LARGEST = 20
MAX_FAILED = 200
MAX_DAMAGED = 200
MAX_CODECS = 8
# Characters of a message in a table; the full message is its tooltip.
MAX_MESSAGE = 240
RANDOM = "a random frame"
ALL = "all frames"
_BY_RANDOM = (
    "Cost is the predicted number of megapixels to decode for one random frame: pixels of a picture × (GOP length + 1) "
    "/ 2; for an image, its pixels. The prediction assumes GOPs of equal length within a file. The time for a "
    "megapixel depends on the codec; for H.264, 100 megapixels take about "
    f"{format_seconds(0.1 * MILLISECONDS_PER_MEGAPIXEL)} of one core."
)
_BY_ALL = (
    "This catalog does not have the positions of key frames, so the cost of a random frame is not known: files are "
    "ordered by the megapixels of all their frames. Scan with --depth frames to see it."
)
EQUALLY_OFTEN = "Share of the total cost if one frame of each file is read."


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table of files."""

    shown: str  # text of the cell
    value: float | None = None  # number to sort by; None sorts by the text, NaN comes last
    title: str | None = None  # the full text, if ``shown`` is a part of it
    # "name" of a file, which is written left to right in any script; "sentence", which needs a wide column; None for
    # all others.
    kind: str | None = None


def make_text_cell(stored: str, kind: str | None = None, folder: str = "") -> Cell:
    """Show a text, relative to a folder, and without its middle if it is long; a dash if it is empty."""
    full = show_full_name(stored)
    shown = shorten(show_full_name(stored.removeprefix(folder)), MAX_MESSAGE if kind == "sentence" else MAX_NAME)
    if not full and kind is None:
        return Cell(UNKNOWN)
    return Cell(shown, title=None if shown == full else full, kind=kind)


def _make_cells(values: FloatArray, show: Callable[[float], str]) -> list[Cell]:
    return [Cell(show(value), value) for value in values.tolist()]


def _make_name_cells(columns: Columns, rows: IntArray) -> list[Cell]:
    return [make_text_cell(name, "name", columns.common_folder) for name in columns.names(rows)]


def make_table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], sorted_by: int | None = None
) -> Node:
    """Make a table that a click on a column sorts.

    The rows are already sorted by the column ``sorted_by``, greatest first.
    """
    head = []
    for column, name in enumerate(heads):
        kind = "number" if all(row[column].value is not None for row in rows) else None
        button = make_element("button", name, make_element("span", class_="arrow", aria_hidden="true"), type="button")
        order = "descending" if column == sorted_by else "none"
        head.append(make_element("th", button, scope="col", class_=kind, aria_sort=order))
    body = []
    for row in rows:
        cells = []
        for cell in row:
            content: Node | str = make_element("bdi", cell.shown, dir="ltr") if cell.kind == "name" else cell.shown
            kind = cell.kind or ("number" if cell.value is not None else None)
            key = None if cell.value is None else "" if isnan(cell.value) else f"{cell.value:.17g}"
            cells.append(make_element("td", content, class_=kind, title=cell.title, data_value=key))
        body.append(make_element("tr", *cells))
    table = make_element(
        "table",
        make_element("caption", caption),
        make_element("thead", make_element("tr", *head)),
        make_element("tbody", *body),
        class_="sortable",
    )
    # Focusable, so that the keyboard can scroll it.
    return make_element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def make_failed_section(columns: Columns) -> Section:
    """List the files that cannot be read, with reasons."""
    rows = columns.failed
    if not len(rows):
        return Section("failed", "Failed files", "None: every file could be read when it was scanned.")
    shown = rows[:MAX_FAILED]
    sources, kinds, errors = (columns.texts(name, shown) for name in ("source", "error_type", "error"))
    messages = [remove_name(error, show_name(source)) for error, source in zip(errors, sources, strict=True)]
    cells = zip(
        _make_name_cells(columns, shown),
        map(make_text_cell, kinds),
        (make_text_cell(message, "sentence") for message in messages),
        strict=True,
    )
    more = f" The first {MAX_FAILED} are listed; Catalog.errors lists all." if len(rows) > len(shown) else ""
    return Section(
        "failed",
        "Failed files",
        f"{format_count(len(rows))} of {format_count_of(len(columns.files), 'file')} failed.{more}",
        draw_counts("Reasons", columns.counts("error_type", rows)),
        _make_folder_note(columns),
        make_table("Failed files", ("file", "error", "message"), list(cells)),
    )


def make_damaged_section(columns: Columns) -> Section | None:
    """List the files that can be read, but have damaged frames; None if no file was fully decoded."""
    known = columns.usable[np.isfinite(columns.numbers("num_damaged_frames", columns.usable))]
    if not len(known):
        return None
    damaged = columns.numbers("num_damaged_frames", known)
    rows, counts = known[damaged > 0], damaged[damaged > 0]
    decoded = f"{format_count_of(len(known), 'file')} whose frames were all decoded"
    if not len(rows):
        return Section("damaged", "Damaged frames", f"None in {decoded}.")
    order = find_largest(counts, MAX_DAMAGED)
    frames = columns.numbers("num_frames", rows[order])
    cells = zip(
        _make_name_cells(columns, rows[order]),
        _make_cells(counts[order], format_number),
        _make_cells(frames, format_number),
        _make_cells(counts[order] / frames, lambda share: format_share(share, decimals=1)),
        strict=True,
    )
    more = f" The {MAX_DAMAGED} files with the most damaged frames are listed." if len(rows) > MAX_DAMAGED else ""
    damaged_frames = format_count_of(counts.sum(), "frame")
    summary = (
        f"{damaged_frames} in {format_count_of(len(rows), 'file')}, of {decoded}. "
        "These frames cannot be decoded without damage; plan_clips(..., on_damaged=...) sets what is delivered instead."
        f"{more}"
    )
    heads = ("file", "damaged frames", "frames", "share")
    table = make_table("Files with damaged frames", heads, list(cells), sorted_by=1)
    return Section("damaged", "Damaged frames", summary, _make_folder_note(columns), table)


def make_proxies_section(estimate: ProxyEstimate) -> Section:
    """Show what smaller copies of the files would cost and gain."""
    rows = []
    for each in estimate.kinds:
        made = each.num_proxies > 0
        rows.append(
            [
                Cell(each.kind),
                Cell(format_count(each.num_files), each.num_files),
                Cell(format_bytes(each.bytes), each.bytes),
                Cell(format_bytes(each.proxy_bytes), each.proxy_bytes) if made else Cell("stay", np.nan),
                Cell(each.describe_gain(), each.gain),
                make_text_cell(each.describe_reason(), "sentence"),
            ]
        )
    for reason, (count, nbytes) in estimate.reasons.items():
        numbers = Cell(format_count(count), count), Cell(format_bytes(nbytes), nbytes)
        rows.append(
            [Cell(UNKNOWN), *numbers, Cell("stay", np.nan), Cell(UNKNOWN, np.nan), make_text_cell(reason, "sentence")]
        )
    heads = ("kind", "files", "bytes", "bytes of proxies", "gain, clips a second", "why they stay")
    return Section("proxies", "Smaller copies", estimate.answer(), make_table("What proxies would bring", heads, rows))


def remove_name(message: str, name: str) -> str:
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
        _BY_RANDOM if by_random else _BY_ALL,
        make_grid(plot, _make_codec_list(columns, sort_by), _make_concentration_table(known)),
        _make_folder_note(columns),
        *tables,
    )


def _make_codec_list(columns: Columns, values: FloatArray) -> Node:
    """List the share of each codec in the cost of reading one frame of each file."""
    codecs = columns.catalog.table.column("codec").take(pa.array(columns.usable)).combine_chunks().dictionary_encode()
    codes = codecs.indices.fill_null(len(codecs.dictionary)).to_numpy()
    names = [*codecs.dictionary.to_pylist(), ""]
    sums = np.bincount(codes, np.nan_to_num(values), minlength=len(names))
    order = [each for each in np.argsort(-sums, kind="stable").tolist() if sums[each] > 0]
    bars = list_bars([names[each] or "unknown" for each in order], sums[order].tolist(), MAX_CODECS)
    return draw_bars("By codec", bars, show=format_megapixels, note=EQUALLY_OFTEN)


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
            share = format_share(float(ascending[files - 1]), total, decimals=1)
            numbers = (make_element("td", each, class_="number") for each in (format_count(files), share))
            items.append(make_element("tr", make_element("th", f"costliest {100 * part:g} %", scope="row"), *numbers))
    titles = (make_element("th", title, scope="col") for title in ("files", "of total cost"))
    head = make_element("thead", make_element("tr", make_element("td"), *titles))
    table = make_element("table", head, make_element("tbody", *items), class_="numbers wide")
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
        RANDOM: _make_cells(predicted.random_megapixels[chosen], format_megapixels),
        ALL: _make_cells(predicted.all_megapixels[chosen], format_megapixels),
        "codec": [make_text_cell(codec) for codec in columns.texts("codec", rows)],
        "width × height": sizes,
        "frames": _make_cells(columns.numbers("num_frames", rows), format_number),
        "GOP": _make_cells(predicted.gop[chosen], format_number),
        "bytes": _make_cells(columns.numbers("bytes", rows), format_bytes),
    }
    heads = [sorted_by, *(head for head in facts if head != sorted_by)]
    cells = zip(_make_name_cells(columns, rows), *(facts[head] for head in heads), strict=True)
    return make_table(caption, ["file", *heads], list(cells), sorted_by=1)


def _make_folder_note(columns: Columns) -> Node:
    folder = columns.common_folder
    if not folder:
        return make_element("p", class_="note")
    full = show_full_name(remove_dots(folder))
    bdi = make_element("bdi", shorten(full, MAX_NAME), title=full, dir="ltr")
    return make_element("p", "Names are relative to ", bdi, ".", class_="note")
