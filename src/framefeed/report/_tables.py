"""Tables: of counted values with bars, and of files, which can be sorted by a click on a column's head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framefeed.report._columns import SHOWN_NAME, SHOWN_TITLE, UNKNOWN, Counts, count, full_name, share, shortened
from framefeed.report._markup import Node, element, elements

SHOWN_VALUES = 12
SHOWN_MESSAGE = 240


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table of files.

    Attributes:
        shown: Its text.
        value: The number that it is sorted by; None sorts by the text, NaN comes last.
        title: The full text where ``shown`` is a part of it.
        is_name: Whether it is a file's name: letters of any script, and still read from the left.
        is_told: Whether it is a sentence, which needs room.
    """

    shown: str
    value: float | None = None
    title: str | None = None
    is_name: bool = False
    is_told: bool = False


def name_cell(stored: str, folder: str = "") -> Cell:
    """Show a file's name: relative to a folder that all have in common, its middle left out where it is long."""
    full = full_name(stored)
    shown = shortened(full_name(stored.removeprefix(folder)), SHOWN_NAME)
    return Cell(shown, title=None if shown == full else full, is_name=True)


def text_cell(stored: str) -> Cell:
    """Show a word, such as a codec's name; a dash where there is none."""
    full = full_name(stored) or UNKNOWN
    shown = shortened(full, SHOWN_NAME)
    return Cell(shown, title=None if shown == full else full)


def message_cell(stored: str) -> Cell:
    """Show an error's message, its middle left out where it is long."""
    full = full_name(stored)
    shown = shortened(full, SHOWN_MESSAGE)
    return Cell(shown, title=None if shown == full else shortened(full, SHOWN_TITLE), is_told=True)


def sortable_table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], sorted_by: int | None = None
) -> Node:
    """A table whose columns sort it.

    Args:
        caption: What it lists.
        heads: Names of the columns.
        rows: Cells, one a column.
        sorted_by: Column by which the rows come already sorted, greatest first.
    """
    numeric = [all(row[column].value is not None for row in rows) for column in range(len(heads))]
    head = [_head(name, numeric[column], column == sorted_by) for column, name in enumerate(heads)]
    body = [elements("tr", [_cell(cell) for cell in row]) for row in rows]
    table = element(
        "table",
        element("caption", caption),
        element("thead", elements("tr", head)),
        elements("tbody", body),
        class_="sortable",
    )
    # Focusable, so that a keyboard can move what a phone would swipe.
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _head(name: str, is_numeric: bool, is_sorted: bool) -> Node:
    button = element("button", name, element("span", class_="arrow", aria_hidden="true"), type="button")
    order = "descending" if is_sorted else "none"
    return element("th", button, scope="col", class_="number" if is_numeric else None, aria_sort=order)


def _cell(cell: Cell) -> Node:
    content: Node | str = element("bdi", cell.shown, dir="ltr") if cell.is_name else cell.shown
    kind = "name" if cell.is_name else "told" if cell.is_told else "number" if cell.value is not None else None
    return element("td", content, class_=kind, title=cell.title, data_value=_sort_key(cell.value))


def _sort_key(value: float | None) -> str | None:
    return None if value is None else "" if value != value else f"{value:.17g}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list with bars.

    Attributes:
        name: What it is about.
        part: Its share of the whole, 0 to 1: also the length of its bar.
        shown: Its numbers, as text.
        is_rest: Whether it stands for what is not listed.
    """

    name: str
    part: float
    shown: tuple[str, ...]
    is_rest: bool = False


def count_list(heading: str, counts: Counts, *, limit: int = SHOWN_VALUES, note: str | None = None) -> Node:
    """A figure of counted values, each with a bar, its count and its share.

    Args:
        heading: What is counted.
        counts: The values, in the order in which they are listed.
        limit: Values listed one by one; the others are one entry.
        note: A sentence below the list.
    """
    rest = counts.counts[limit:]
    rows = [(name, number, False) for name, number in zip(counts.names[:limit], counts.counts[:limit], strict=True)]
    rows += [(f"{count(len(rest))} more", sum(rest), True)] if rest else []
    rows += [("unknown", counts.unknown, True)] if counts.unknown else []
    total = counts.total
    entries = [
        Entry(name, number / max(1, total), (count(number), share(number, total)), is_rest)
        for name, number, is_rest in rows
    ]
    return bar_list(heading, entries, note)


def bar_list(heading: str, entries: Sequence[Entry], note: str | None = None) -> Node:
    """A figure of entries, each a line of text with a bar below it."""
    items = [_item(entry) for entry in entries]
    shown = elements("ul", items, class_="bars") if items else element("p", "nothing to count", class_="note")
    told = None if note is None else element("p", note, class_="note")
    return element("figure", element("h3", heading), shown, told, class_="values")


def _item(entry: Entry) -> Node:
    full = full_name(entry.name)
    short = shortened(full, SHOWN_NAME)
    name = element("bdi", short, class_="value", title=None if short == full else full)
    # What is there at all can be seen.
    width = f"{max(100 * entry.part, 0.6):.1f}%"
    kind = "mark rest" if entry.is_rest else "mark"
    bar = element("rect", class_=kind, width=width, height=6, rx=2) if entry.part else None
    numbers = [element("span", shown, class_="number") for shown in entry.shown]
    return element("li", name, *numbers, element("svg", bar, class_="line", aria_hidden="true"))
