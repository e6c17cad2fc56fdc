"""Tables of files that a click on a column's head sorts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from framefeed._units import UNKNOWN
from framefeed.report._columns import MAX_NAME, MAX_TITLE, shorten, show_full_name
from framefeed.report._markup import Node, make_element

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
