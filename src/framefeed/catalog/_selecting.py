"""Choose rows of a catalog: by number, by mask, by an expression over columns, by values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._checks import describe_value, expected
from framefeed._compute import pc
from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError

_NO_FIELD = re.compile(r"No match for FieldRef\.Name\((.*?)\)")
"""Beginning of Arrow's message about a missing column; after it comes the whole schema."""
_MAKE_PARTS = "; parts = catalog.split({'train': 0.8, 'val': 0.2}, seed=0) makes parts, such as parts['train']"
_COMPARISON = re.compile(r"\s*([^\s=!<>]+)\s*(==?|!=|<=|>=|<|>)\s*(.+?)\s*")


def read_rows(rows: object, names: Sequence[str]) -> npt.NDArray[Any]:
    """Convert row numbers to int64, or a mask to bool [R]; the message of an error may name columns."""
    if isinstance(rows, (pa.Array, pa.ChunkedArray)) and pa.types.is_boolean(rows.type):
        rows = rows.fill_null(False)
    array = np.asarray(rows)
    if array.ndim == 1 and (array.dtype == bool or not len(array) or np.issubdtype(array.dtype, np.integer)):
        return array if array.dtype == bool else array.astype(np.int64)
    given = expected("rows", "an integer, a slice, row numbers or a mask of all rows", rows)
    raise UsageError(f"{given}{_write_filter(rows, names)}")


def _write_filter(given: object, names: Sequence[str]) -> str:
    """Write the line that does what a string or a function was meant to do; "" for other arguments."""
    if isinstance(given, pc.Expression):
        return ": write catalog.filter(expression)"
    if isinstance(given, (bool, np.bool_)):
        return ": == between a column of Arrow and a value gives one bool: write catalog.filter(label='cat')"
    if callable(given):
        return (
            ": functions of rows are not called: write catalog.filter(label='cat') for equal values, or "
            "catalog.filter(pc.field('width') >= 640) (with import pyarrow.compute as pc)"
        )
    if not isinstance(given, str):
        return ""
    if given in names:
        return f": write catalog.column_values({given!r}), or catalog.table[{given!r}]"
    comparison = _COMPARISON.fullmatch(given)
    if comparison is None:
        return ": write catalog.filter(pc.field('width') >= 640) (with import pyarrow.compute as pc)"
    name, sign, value = comparison.groups()
    if sign.strip("=") or not name.isidentifier():
        return f": write catalog.filter(pc.field({name!r}) {sign} {value}) (with import pyarrow.compute as pc)"
    return f": write catalog.filter({name}={value})"


def match_value(name: str, value: Any) -> pc.Expression:
    """Make the expression that is true where a column has a value, or for None where it has none."""
    if value is None:
        return pc.field(name).is_null()
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)) or callable(value):
        several = f"{name}: expected one value of the column, got {describe_value(value)}"
        raise UsageError(f"{several}: for several values write catalog.filter(pc.field({name!r}).isin([...]))")
    try:
        return pc.field(name) == (value.item() if isinstance(value, np.generic) else value)
    except (pa.ArrowException, TypeError):
        raise expected(name, "a value of this column", value) from None


def explain_filter_error(expression: pc.Expression, reason: str, names: Sequence[str]) -> str:
    columns = f"the columns are {', '.join(names)}"
    if (missing := _NO_FIELD.search(reason)) is not None:
        advice = _MAKE_PARTS if missing[1] == "split" else did_you_mean(missing[1], names)
        return f"expression: this catalog has no column {missing[1]!r}: {columns}{advice}"
    return f"expression: {expression} does not fit the columns: {reason.splitlines()[0]}; {columns}"
