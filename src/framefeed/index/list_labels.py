"""What is odd about the labels of a list: objects and lists, text among integers, and rows without a label."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from framefeed.index.list_text import ListTable
from framefeed.index.list_values import MOST_JSON, shortened
from framefeed.index.names import visible

_INTEGER = r"^\s*[-+]?\d+\s*$"
_MOST_STRAY = 0.2
"""Share of labels that may be mistakes: where more are text, numbers are names of classes too."""
_LABEL = "label"


def without_nested_labels(found: ListTable) -> ListTable:
    """Make a row whose label is an object or a list a bad row without a label."""
    if _LABEL not in found.table.column_names:
        return found
    at = found.table.column_names.index(_LABEL)
    labels = found.table.column(at)
    scalars = found.scalars.get(at, pa.nulls(len(labels)) if pa.types.is_nested(labels.type) else labels)
    bad = {
        row: f"{found.place(row)}: the label is {_as_json(labels[row].as_py())}, expected text or a number: correct or "
        "remove it"
        for row in pc.indices_nonzero(pc.and_(labels.is_valid(), scalars.is_null())).to_pylist()
    }
    return replace(found, table=found.table.set_column(at, _LABEL, scalars), bad={**found.bad, **bad}) if bad else found


def _as_json(value: object) -> str:
    # In a column of several types, an object is JSON text.
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return shortened(text, MOST_JSON)


def stray_label(found: ListTable) -> str | None:
    """Say that a label is text though the others are integers, where that is so."""
    if _LABEL not in found.table.column_names:
        return None
    labels = found.table.column(_LABEL)
    if not (pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)):
        return None
    is_label = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(labels), ""), False)
    is_integer = pc.fill_null(pc.match_substring_regex(labels, _INTEGER), False)
    count, integers = pc.sum(is_label).as_py() or 0, pc.sum(is_integer).as_py() or 0
    stray = count - integers
    if not stray or integers < 2 or stray > max(1, _MOST_STRAY * count):
        return None
    row = pc.index(pc.and_(is_label, pc.invert(is_integer)), True).as_py()
    first = visible(shortened(labels[row].as_py()))
    others = f" ({stray - 1} more are text too)" if stray > 1 else ""
    return (
        f"{found.place(row)}: the label {first!r} is text, but {integers} of {count} labels are integers{others}: so "
        "all labels are text, and this one is a class of its own: correct it, or remove the line"
    )


def missing_label(found: ListTable) -> str | None:
    """Say how many rows have no label, where the list has a column of labels."""
    if _LABEL not in found.table.column_names:
        return None
    labels = found.table.column(_LABEL)
    is_text = pa.types.is_string(labels.type) or pa.types.is_large_string(labels.type)
    is_missing = pc.or_(labels.is_null(), pc.fill_null(pc.equal(labels, ""), False)) if is_text else labels.is_null()
    rows = [row for row in pc.indices_nonzero(is_missing).to_pylist() if row not in found.bad]
    if not rows or len(rows) == len(labels):
        return None
    return (
        f"{found.place(rows[0])}: the label is empty, as in {len(rows)} of {len(labels)} rows: such rows stay "
        "without a label. If they have none, as in a test set, this is fine: select the other rows before "
        "plan_clips(columns=['label']), with catalog.filter(pc.field('label').is_valid()). If it is a mistake, add the "
        "labels"
    )
