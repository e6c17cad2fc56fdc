"""Choose rows of a catalog by number, mask, expression or values; and split them into parts by seeded hashes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._checks import describe_value, expected
from framefeed._compute import pc
from framefeed._names import make_printable
from framefeed._nearest import did_you_mean
from framefeed._shown import has_hidden_query
from framefeed.errors import UsageError

_NO_FIELD = re.compile(r"No match for FieldRef\.Name\((.*?)\)")
"""Beginning of Arrow's message about a missing column; after it comes the whole schema."""
_MAKE_PARTS = "; parts = catalog.split({'train': 0.8, 'val': 0.2}, seed=0) makes parts, such as parts['train']"
_COMPARISON = re.compile(r"\s*([^\s=!<>]+)\s*(==?|!=|<=|>=|<|>)\s*(.+?)\s*")
VALUES_AT_ONCE = 65_536
"""Values that are converted to Python objects at once."""
_ROUNDING = 1e-9
"""A share that is so near to a whole number of rows is that number: 0.29 * 100 is 28.999999999999996."""
_MOST_CLASSES_SHOWN = 3
"""Classes that a message names for a part."""
_NULL = b"\xff"  # Not UTF-8, and so no text.


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
    except (pa.ArrowException, TypeError, OverflowError):
        raise expected(name, "a value of this column", value) from None


def explain_filter_error(expression: pc.Expression, reason: str, names: Sequence[str]) -> str:
    columns = f"the columns are {', '.join(names)}"
    if (missing := _NO_FIELD.search(reason)) is not None:
        advice = _MAKE_PARTS if missing[1] == "split" else did_you_mean(missing[1], names)
        return f"expression: this catalog has no column {missing[1]!r}: {columns}{advice}"
    return f"expression: {expression} does not fit the columns: {reason.splitlines()[0]}; {columns}"


# --- parts ------------------------------------------------------------------------------------------


def assign_rows(
    groups: pa.ChunkedArray, fractions: Sequence[float], seed: int, strata: pa.ChunkedArray | None = None
) -> list[IntArray]:
    """Assign rows to parts, all rows of a group to the same part; return the row numbers of each part, ascending.

    Args:
        groups: Group of each row; null is a group of its own.
        fractions: Share of each part in the rows.
        seed: Seed of the order of the groups.
        strata: Class of each row; each part gets its share of every class. A group has the class of most of its rows.
    """
    coded = groups.combine_chunks().dictionary_encode(null_encoding="encode")
    group_of_row = coded.indices.to_numpy()
    sizes = np.bincount(group_of_row, minlength=len(coded.dictionary))
    class_of_group = np.zeros(len(sizes), np.int64)
    if strata is not None:
        class_of_group = _find_classes_of_groups(group_of_row, strata, seed)
    order = np.lexsort((_hash_values(coded.dictionary, seed), class_of_group))
    counts = np.bincount(class_of_group, sizes, minlength=1).astype(np.int64)
    targets = _share_rows(counts, np.array(fractions))
    part_of_group = np.empty(len(sizes), np.int64)
    owed = np.zeros(len(fractions), np.int64)  # What whole groups of earlier classes gave a part too little.
    ends = np.bincount(class_of_group, minlength=1).cumsum()
    for members, target in zip(np.split(order, ends[:-1]), targets, strict=True):
        cuts = np.maximum.accumulate((target + owed).cumsum()[:-1])
        middles = sizes[members].cumsum() - sizes[members] / 2
        part_of_group[members] = cuts.searchsorted(middles, side="right")
        given = np.bincount(part_of_group[members], sizes[members], minlength=len(fractions))
        owed += target - given.astype(np.int64)
    part_of_row = part_of_group[group_of_row]
    return [np.flatnonzero(part_of_row == part).astype(np.int64) for part in range(len(fractions))]


def _find_classes_of_groups(group_of_row: IntArray, strata: pa.ChunkedArray, seed: int) -> IntArray:
    """Number the class of most rows of each group, int64 [G]; the order of classes depends on the seed alone."""
    coded = strata.combine_chunks().dictionary_encode(null_encoding="encode")
    number_of_class = np.argsort(np.argsort(_hash_values(coded.dictionary, seed)))
    class_of_row = number_of_class[coded.indices.to_numpy()]
    pairs, counts = np.unique(group_of_row.astype(np.int64) * len(number_of_class) + class_of_row, return_counts=True)
    group_of_pair, class_of_pair = np.divmod(pairs, max(1, len(number_of_class)))
    ranking = np.lexsort((class_of_pair, -counts, group_of_pair))
    classes = class_of_pair[ranking][np.unique(group_of_pair, return_index=True)[1]]
    return np.unique(classes, return_inverse=True)[1].astype(np.int64)


def _share_rows(counts: IntArray, fractions: FloatArray) -> IntArray:
    """Share the rows of every class among parts, int64 [C, P]: sizes of the parts are the nearest to the fractions."""
    ideals = counts[:, np.newaxis] * fractions
    shares = np.floor(ideals + _ROUNDING).astype(np.int64)
    total = counts.sum() * fractions
    totals = np.floor(total + _ROUNDING).astype(np.int64)
    # Largest remainder (Hamilton's method); of equal ones the first.
    totals[np.argsort(totals - total, kind="stable")[: counts.sum() - totals.sum()]] += 1
    left, free = counts - shares.sum(axis=1), totals - shares.sum(axis=0)
    can_rise, has_risen = ideals - shares > _ROUNDING, np.zeros(shares.shape, np.bool_)
    # First where the part has no row of the class, then the largest remainders.
    numbers, parts = np.nonzero(can_rise)
    ranking = np.lexsort((-(ideals - shares)[numbers, parts], shares[numbers, parts] > 0))
    for number, part in zip(numbers[ranking].tolist(), parts[ranking].tolist(), strict=True):
        if left[number] and free[part]:
            has_risen[number, part] = True
            left[number] -= 1
            free[part] -= 1
    # With three parts or more, what is left may not fit before other classes give way.
    for number in np.repeat(np.arange(len(left)), left).tolist():
        _raise_one(number, can_rise, has_risen, free, set())
    return shares + has_risen


def _raise_one(number: int, can_rise: BoolArray, has_risen: BoolArray, free: IntArray, seen: set[int]) -> bool:
    """Raise one share of a class, after moving those of others to other parts if need be (an augmenting path)."""
    for part in np.flatnonzero(can_rise[number] & ~has_risen[number]).tolist():
        if part in seen:
            continue
        seen.add(part)
        others = [] if free[part] else np.flatnonzero(has_risen[:, part]).tolist()
        mover = next((other for other in others if _raise_one(other, can_rise, has_risen, free, seen)), None)
        if free[part] or mover is not None:
            has_risen[number, part] = True
            if mover is None:
                free[part] -= 1
            else:
                has_risen[mover, part] = False
            return True
    return False


def explain_gaps(
    names: Sequence[object], fractions: Sequence[float], rows_of_parts: Sequence[IntArray], strata: pa.ChunkedArray
) -> str | None:
    """Explain which classes are missing from parts that should have rows; None if none are.

    Args:
        names: Names of the parts.
        fractions: Share of each part.
        rows_of_parts: Row numbers of each part.
        strata: Class of each row; rows without one do not count.
    """
    coded = strata.combine_chunks().dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy()
    gaps = []
    for name, fraction, rows in zip(names, fractions, rows_of_parts, strict=True):
        missing = np.setdiff1d(np.arange(len(coded.dictionary)), codes[rows])
        if fraction > 0 and len(rows) and len(missing):
            shown = ", ".join(repr(coded.dictionary[code].as_py()) for code in missing[:_MOST_CLASSES_SHOWN].tolist())
            more = f" and {len(missing) - _MOST_CLASSES_SHOWN} more" if len(missing) > _MOST_CLASSES_SHOWN else ""
            gaps.append(f"no row of {shown}{more} came into part {name!r}")
    return "; ".join(gaps) or None


def check_fractions(fractions: Mapping[str, float] | Sequence[float]) -> list[float]:
    """Check fractions, and list them in order.

    Raises:
        UsageError: One is negative, or they do not add up to 1.
    """
    if isinstance(fractions, str) or not isinstance(fractions, (Mapping, Sequence)):
        raise expected("", "fractions such as [0.8, 0.2] or {'train': 0.8, 'val': 0.2}", fractions)
    given = list(fractions.values() if isinstance(fractions, Mapping) else fractions)
    try:
        shares = [float(share) for share in given]
    except OverflowError:
        raise expected("fractions", "shares from 0 to 1", max(given)) from None
    if not shares or min(shares) < 0 or not isclose(sum(shares), 1.0, abs_tol=1e-9):
        advice = ": name a part for the rest" if shares and min(shares) >= 0 and sum(shares) < 1 else ""
        advice = ": 80 % is 0.8" if sum(shares) > 1 and max(shares) > 1 else advice
        raise UsageError(f"fractions must be at least 0 and add up to 1, not {shares}{advice}")
    return shares


def _hash_values(values: pa.Array, seed: int) -> npt.NDArray[np.uint64]:
    """Hash the text of each value and the seed to 64 bits."""
    begun = hashlib.blake2b(f"{seed}\0".encode(), digest_size=8)
    digests = bytearray()
    for start in range(0, len(values), VALUES_AT_ONCE):
        for value in values.slice(start, VALUES_AT_ONCE).to_pylist():
            digest = begun.copy()
            digest.update(_NULL if value is None else f"{value}".encode())
            digests += digest.digest()
    return np.frombuffer(digests, ">u8").astype(np.uint64)


_MOST_SHOWN = 3
"""Sources named in a message."""
_MOST_COMPARED = 10_000


def explain_unknown_sources(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Explain that sources are not in a catalog, and which ones may be meant."""
    shown = ", ".join(repr(make_printable(name)) for name in unknown[:_MOST_SHOWN])
    more = f" and {len(unknown) - _MOST_SHOWN} more" if len(unknown) > _MOST_SHOWN else ""
    # Mostly the folder is another one. Comparing a name with a million others would take a minute.
    namesakes = [name for name in known if os.path.basename(name) == os.path.basename(unknown[0])]
    nearest = f"; did you mean {make_printable(namesakes[0])!r}?" if namesakes else did_you_mean(
        unknown[0], known[:_MOST_COMPARED]
    )  # fmt: skip
    hidden = (
        " (a query is hidden: give entries, such as those of a ledger)" if any(map(has_hidden_query, unknown)) else ""
    )
    return f"errors: not in this catalog: {shown}{more}{hidden}: give paths, or names as in the column source{nearest}"
