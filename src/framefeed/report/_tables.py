"""Lists of counted values with bars, and tables of files that a click on a column's head sorts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from framefeed._units import UNKNOWN
from framefeed.report._columns import (
    MAX_NAME,
    MAX_TITLE,
    Counts,
    format_count,
    format_share,
    shorten,
    show_full_name,
)
from framefeed.report._markup import Node, make_element

MAX_VALUES = 12
MAX_MESSAGE = 240


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table of files.

    Attributes:
        shown: Text of the cell.
        value: Number to sort by; None sorts by the text, NaN comes last.
        title: The full text, if ``shown`` is a part of it.
        is_name: Whether it is a file's name: written left to right in any script.
        is_sentence: Whether it is a sentence, which needs a wide column.
    """

    shown: str
    value: float | None = None
    title: str | None = None
    is_name: bool = False
    is_sentence: bool = False


def make_name_cell(stored: str, folder: str = "") -> Cell:
    """Show a file's name relative to the common folder; a long name without its middle."""
    full = show_full_name(stored)
    shown = shorten(show_full_name(stored.removeprefix(folder)), MAX_NAME)
    return Cell(shown, title=None if shown == full else full, is_name=True)


def make_text_cell(stored: str) -> Cell:
    """Show a word, such as a codec's name; a dash if it is empty."""
    full = show_full_name(stored) or UNKNOWN
    shown = shorten(full, MAX_NAME)
    return Cell(shown, title=None if shown == full else full)


def make_message_cell(stored: str) -> Cell:
    """Show an error's message; a long message without its middle."""
    full = show_full_name(stored)
    shown = shorten(full, MAX_MESSAGE)
    return Cell(shown, title=None if shown == full else shorten(full, MAX_TITLE), is_sentence=True)


def make_sortable_table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], sorted_by: int | None = None
) -> Node:
    """Make a table that a click on a column sorts.

    Args:
        caption: Caption of the table.
        heads: Names of the columns.
        rows: Cells of each row, one for each column.
        sorted_by: Column by which the rows are already sorted, greatest first.
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
            content: Node | str = make_element("bdi", cell.shown, dir="ltr") if cell.is_name else cell.shown
            what = "name" if cell.is_name else "told" if cell.is_sentence else None
            kind = what or ("number" if cell.value is not None else None)
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


@dataclass(frozen=True, slots=True)
class BarEntry:
    """One entry of a list with bars.

    Attributes:
        name: Name of the value.
        part: Share of the whole, 0 to 1, and length of the bar.
        shown: Numbers, as text.
        is_rest: Whether it sums up the values that are not listed.
    """

    name: str
    part: float
    shown: tuple[str, ...]
    is_rest: bool = False


def make_count_list(heading: str, counts: Counts, *, limit: int = MAX_VALUES, note: str | None = None) -> Node:
    """Make a figure of counted values, each with a bar, its count and its share.

    Args:
        heading: Heading of the figure.
        counts: The values, in order.
        limit: Values with an entry of their own; the others are one entry.
        note: A sentence below the list.
    """
    rest = counts.counts[limit:]
    rows = [(name, number, False) for name, number in zip(counts.names[:limit], counts.counts[:limit], strict=True)]
    rows += [(f"{format_count(len(rest))} more", sum(rest), True)] if rest else []
    rows += [("unknown", counts.unknown, True)] if counts.unknown else []
    total = counts.total
    entries = [
        BarEntry(name, number / max(1, total), (format_count(number), format_share(number, total)), is_rest)
        for name, number, is_rest in rows
    ]
    return make_bar_list(heading, entries, note)


def make_bar_list(heading: str, entries: Sequence[BarEntry], note: str | None = None) -> Node:
    """Make a figure of entries, each a line of text with a bar below it."""
    items = []
    for entry in entries:
        full = show_full_name(entry.name)
        short = shorten(full, MAX_NAME)
        name = make_element("bdi", short, class_="value", title=None if short == full else full)
        # Even the smallest share has a visible bar.
        width = f"{max(100 * entry.part, 0.6):.1f}%"
        kind = "mark rest" if entry.is_rest else "mark"
        bar = make_element("rect", class_=kind, width=width, height=6, rx=2) if entry.part else None
        numbers = [make_element("span", number, class_="number") for number in entry.shown]
        line = make_element("svg", bar, class_="line", aria_hidden="true")
        items.append(make_element("li", name, *numbers, line))
    shown = make_element("ul", *items, class_="bars") if items else make_element("p", "nothing to count", class_="note")
    remark = None if note is None else make_element("p", note, class_="note")
    return make_element("figure", make_element("h3", heading), shown, remark, class_="values")
