"""The sections that list files: those that failed, and those that cost most."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from framefeed._arrays import FloatArray, IntArray
from framefeed.catalog import printable, unescape, without_dots
from framefeed.report import _columns
from framefeed.report._columns import (
    MILLISECONDS_PER_MEGAPIXEL,
    ONE_TWO_FIVE,
    Columns,
    Costs,
    costs,
    histogram,
    largest,
    part_of,
)
from framefeed.report._markup import Node, Section, element, grid, paragraph
from framefeed.report._plots import Axis, histogram_plot
from framefeed.report._tables import (
    Cell,
    Entry,
    bar_list,
    count_list,
    message_cell,
    name_cell,
    sortable_table,
    text_cell,
)

SHOWN_COSTLY = 50
SHOWN_LARGEST = 20
SHOWN_FAILED = 200
SHOWN_DAMAGED = 200
SHOWN_CODECS = 8
RANDOM = "a random frame"
ALL = "all frames"
EQUALLY_OFTEN = "Share of the total cost if one frame of each file is read."


def failed_section(columns: Columns) -> Section:
    """List the files that cannot be read, with reasons."""
    rows = columns.failed
    if not len(rows):
        return Section("failed", "Failed files", (paragraph("None: every file could be read when it was scanned."),))
    shown = rows[:SHOWN_FAILED]
    texts = [columns.texts(name, shown) for name in ("source", "error_type", "error")]
    cells = [
        (name_cell(name, columns.common_folder), text_cell(kind), message_cell(_without_name(error, name)))
        for name, kind, error in zip(*texts, strict=True)
    ]
    more = f"The first {SHOWN_FAILED} are listed; Catalog.errors lists all." if len(rows) > len(shown) else ""
    told = f"{_columns.count(len(rows))} of {_columns.count_of(len(columns.files), 'file')} failed. {more}"
    return Section(
        "failed",
        "Failed files",
        (
            paragraph(told.strip()),
            count_list("Reasons", columns.counts("error_type", rows)),
            _folder_note(columns),
            sortable_table("Failed files", ("file", "error", "message"), cells),
        ),
    )


def damaged_section(columns: Columns) -> Section | None:
    """Files that can be read, but have damaged frames."""
    known = columns.usable[np.isfinite(columns.numbers("num_damaged_frames", columns.usable))]
    if not len(known):
        return None
    damaged = columns.numbers("num_damaged_frames", known)
    rows, counts = known[damaged > 0], damaged[damaged > 0]
    decoded = f"{_columns.count_of(len(known), 'file')} whose frames were all decoded"
    if not len(rows):
        return Section("damaged", "Damaged frames", (paragraph(f"None in {decoded}."),))
    order = np.argsort(-counts, kind="stable")[:SHOWN_DAMAGED]
    frames = columns.numbers("num_frames", rows[order])
    cells = list(
        zip(
            [name_cell(name, columns.common_folder) for name in columns.texts("source", rows[order])],
            _cells(counts[order], _columns.number),
            _cells(frames, _columns.number),
            _cells(counts[order] / frames, lambda share: _columns.share(share, 1)),
            strict=True,
        )
    )
    more = f" The {SHOWN_DAMAGED} files with the most damaged frames are listed." if len(rows) > SHOWN_DAMAGED else ""
    summary = (
        f"{_columns.count_of(counts.sum(), 'frame')} in {_columns.count_of(len(rows), 'file')}, of {decoded}. "
        "These frames cannot be decoded without damage; plan_clips(..., on_damaged=...) sets what is delivered instead."
        f"{more}"
    )
    table = sortable_table(
        "Files with damaged frames", ("file", "damaged frames", "frames", "share"), cells, sorted_by=1
    )
    return Section("damaged", "Damaged frames", (paragraph(summary), _folder_note(columns), table))


def _without_name(message: str, name: str) -> str:
    """Leave out the name that a message begins with, and the folder that the file lay in when it was scanned."""
    folder, is_named, rest = message.partition(f"{printable(unescape(name))}: ")
    return rest if is_named and (not folder or folder.endswith("/")) else message


def cost_section(columns: Columns) -> Section | None:
    """Files that will cost most to decode, the largest ones, and those with the longest GOPs."""
    if not len(columns.usable):
        return None
    predicted = costs(columns)
    by_random = bool(np.isfinite(predicted.random_megapixels).any())
    sort_by = predicted.random_megapixels if by_random else predicted.all_megapixels
    worst = largest(sort_by, SHOWN_COSTLY)
    table = _file_table(columns, predicted, worst, "Files that cost most", RANDOM if by_random else ALL)
    return Section(
        "cost",
        "Cost to decode",
        (
            paragraph(_cost_told(by_random)),
            _cost_figures(columns, sort_by, by_random),
            _folder_note(columns),
            table,
            *_other_extremes(columns, predicted),
        ),
    )


def _cost_told(by_random: bool) -> str:
    took = f"100 megapixels take about {100 * MILLISECONDS_PER_MEGAPIXEL:.0f} ms of one core"
    if not by_random:
        return (
            "This catalog does not have the positions of key frames, so the cost of a random frame is not known: files "
            "are ordered by the megapixels of all their frames. Scan with --depth frames to see it."
        )
    return (
        "Cost is the predicted number of megapixels to decode for one random frame: pixels of a picture × (GOP length "
        "+ 1) / 2; for an image, its pixels. The prediction assumes GOPs of equal length within a file. The time for a "
        f"megapixel depends on the codec; for H.264, {took}."
    )


def _cost_figures(columns: Columns, values: FloatArray, by_random: bool) -> Node:
    known = values[np.isfinite(values) & (values > 0)]
    name = "megapixels decoded for one random frame" if by_random else "megapixels of all frames"
    plot = histogram_plot("Cost", histogram(known, part_of(ONE_TWO_FIVE, known)), Axis(name, _columns.number),
                          len(values) - len(known))  # fmt: skip
    return grid(plot, _by_codec(columns, values), _concentration(known))


def _by_codec(columns: Columns, values: FloatArray) -> Node:
    """How much of the work is which codec's, if one frame of each file is read."""
    codecs = columns.catalog.table.column("codec").take(pa.array(columns.usable)).combine_chunks().dictionary_encode()
    codes = codecs.indices.fill_null(len(codecs.dictionary)).to_numpy()
    names = [*codecs.dictionary.to_pylist(), ""]
    sums = np.bincount(codes, np.nan_to_num(values), minlength=len(names))
    total = float(sums.sum()) or 1.0
    order = [each for each in np.argsort(-sums, kind="stable").tolist() if sums[each] > 0]
    parts = [(names[each] or "unknown", float(sums[each]), False) for each in order[:SHOWN_CODECS]]
    rest = order[SHOWN_CODECS:]
    parts += [(f"{len(rest)} more", float(sums[rest].sum()), True)] if rest else []
    entries = [Entry(name, part / total, (_columns.share(part, total),), is_rest) for name, part, is_rest in parts]
    return bar_list("By codec", entries, EQUALLY_OFTEN)


def _concentration(known: FloatArray) -> Node | None:
    """How much of the work the costliest files are, if one frame of each is read."""
    total = float(known.sum())
    if len(known) < 10 or not total:
        return None
    ascending = np.sort(known)[::-1].cumsum()
    items = []
    for part in (0.01, 0.05, 0.1, 0.25, 0.5):
        files = int(len(known) * part)
        if files:
            items.append(
                element(
                    "tr",
                    element("th", f"costliest {100 * part:g} %", scope="row"),
                    element("td", _columns.count(files), class_="number"),
                    element("td", _columns.share(float(ascending[files - 1]), total), class_="number"),
                )
            )
    titles = ("", "files", "of total cost")
    head = element("tr", *(element("th", title, scope="col") if title else element("td") for title in titles))
    table = element("table", element("thead", head), element("tbody", *items), class_="numbers wide")
    note = element("p", EQUALLY_OFTEN, class_="note")
    return element("figure", element("h3", "Where the cost lies"), table, note, class_="values")


def _other_extremes(columns: Columns, predicted: Costs) -> list[Node]:
    size = columns.numbers("bytes", predicted.rows)
    is_video = np.isin(predicted.rows, columns.videos)
    gop = np.where(is_video, predicted.gop, np.nan)
    tables = [_file_table(columns, predicted, largest(size, SHOWN_LARGEST), "Largest files", "bytes")]
    longest = largest(gop, SHOWN_LARGEST)
    if len(longest):
        tables.append(_file_table(columns, predicted, longest, "Longest GOPs", "GOP"))
    return tables


def _file_table(columns: Columns, predicted: Costs, places: IntArray, caption: str, sorted_by: str) -> Node:
    """Facts of some files; what they are sorted by stands beside their names, where a phone shows it."""
    rows = predicted.rows[places]
    facts = {
        RANDOM: _cells(predicted.random_megapixels[places], _columns.megapixels),
        ALL: _cells(predicted.all_megapixels[places], _columns.megapixels),
        "codec": [text_cell(codec) for codec in columns.texts("codec", rows)],
        "size": _size_cells(columns, rows),
        "frames": _cells(columns.numbers("num_frames", rows), _columns.number),
        "GOP": _cells(predicted.gop[places], _columns.number),
        "bytes": _cells(columns.numbers("bytes", rows), _columns.data_size),
    }
    heads = [sorted_by, *(head for head in facts if head != sorted_by)]
    names = [name_cell(name, columns.common_folder) for name in columns.texts("source", rows)]
    cells = list(zip(names, *(facts[head] for head in heads), strict=True))
    return sortable_table(caption, ["file", *heads], cells, sorted_by=1)


def _size_cells(columns: Columns, rows: IntArray) -> list[Cell]:
    width, height = (columns.numbers(name, rows) for name in ("width", "height"))
    shown = [
        _columns.UNKNOWN if np.isnan(w * h) else f"{w:.0f}×{h:.0f}"
        for w, h in zip(width.tolist(), height.tolist(), strict=True)
    ]
    return [Cell(text, area) for text, area in zip(shown, (width * height).tolist(), strict=True)]


def _cells(values: FloatArray, show: Callable[[float], str]) -> list[Cell]:
    return [Cell(show(value), value) for value in values.tolist()]


def _folder_note(columns: Columns) -> Node:
    folder = columns.common_folder
    if not folder:
        return element("p", class_="note")
    full = _columns.full_name(without_dots(folder))
    bdi = element("bdi", _columns.shortened(full, _columns.SHOWN_NAME), title=full, dir="ltr")
    return element("p", "Names are relative to ", bdi, ".", class_="note")
