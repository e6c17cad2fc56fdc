"""Find the rows of several catalogs that have the same value in a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import BoolArray, IntArray
from framefeed._nearest import did_you_mean
from framefeed.catalog._catalog import Catalog
from framefeed.errors import UsageError

STEM = "stem"
"""In place of a column: the name of each file without its folder and its suffix."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows that belong together."""

    rows: IntArray  # of each catalog, [S, M], in the order of the first catalog
    unmatched: tuple[tuple[int, int, str], ...]  # catalog, row and reason of each row that has no partner


def join_rows(catalogs: Mapping[str, Catalog], on: str) -> JoinedRows:
    """Find the plannable rows of some catalogs, by the names of their streams, with the same value in column ``on``.

    "stem" is the names of the files, if no catalog has such a column. A value may be in one row of each catalog.
    """
    names = list(catalogs)
    by_stem = on == STEM and not any(STEM in catalog._data.facts.names for catalog in catalogs.values())
    keys = [_read_stems(catalog) if by_stem else _read_keys(catalog, name, on) for name, catalog in catalogs.items()]
    kinds = [key.type for key in keys]
    if any(kind != kinds[0] for kind in kinds):
        both = ", ".join(f"{kind} in {name!r}" for name, kind in zip(names, kinds, strict=True))
        raise UsageError(f"on={on!r}: the column has different types, {both}: write one type in all catalogs")
    plannable = [catalog.plannable_rows for catalog in catalogs.values()]
    keys = [key.take(pa.array(rows)) for key, rows in zip(keys, plannable, strict=True)]
    for name, key, rows in zip(names, keys, plannable, strict=True):
        _check_unique(catalogs[name], name, on, key, rows)
    own = [pc.index_in(keys[0], value_set=key) for key in keys]
    known = np.logical_and.reduce([_find_known(each, keys[0]) for each in own])
    if len(keys[0]) and not known.any():
        some = "; ".join(f"{name!r} has {_show(key)}" for name, key in zip(names, keys, strict=True))
        raise UsageError(f"on={on!r}: no value is in all catalogs: {some}")
    matched = [each.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[known] for each in own]
    rows = np.stack([each[numbers] for each, numbers in zip(plannable, matched, strict=True)])
    return JoinedRows(rows, tuple(_list_unmatched(names, on, keys, plannable, rows)))


def _read_keys(catalog: Catalog, name: str, on: str) -> pa.Array:
    facts = catalog._data.facts
    if on not in facts.names:
        advice = did_you_mean(on, facts.names) or '; on="stem" joins by the names of the files'
        raise UsageError(f"on={on!r}: the catalog of stream {name!r} has no such column{advice}")
    values = facts.column(on).combine_chunks()
    if catalog._rows is not None:
        values = values.take(pa.array(catalog._rows))
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_integer(values.type):
        largest = pc.max(values).as_py()
        if largest is not None and largest > _LARGEST:
            raise UsageError(
                f"on={on!r}: the value {largest} of stream {name!r} is above {_LARGEST}, the largest that can be "
                "joined: write the column as text in all catalogs"
            )
        return values.cast(pa.int64())
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    if not pa.types.is_string(values.type):
        raise UsageError(f"on={on!r}: expected a column of text or integers, got {values.type} in stream {name!r}")
    return values


def _read_stems(catalog: Catalog) -> pa.Array:
    return pa.array([PurePosixPath(catalog.shown_name(row)).stem for row in range(len(catalog))], pa.string())


def _find_known(numbers: pa.Array, keys: pa.Array) -> BoolArray:
    known: BoolArray = numbers.is_valid().to_numpy(zero_copy_only=False) & keys.is_valid().to_numpy(
        zero_copy_only=False
    )
    return known


def _check_unique(catalog: Catalog, name: str, on: str, keys: pa.Array, rows: IntArray) -> None:
    values = keys.drop_null()
    counts = pc.value_counts(values)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if not len(repeated):
        return
    value = repeated[0]["values"]
    first, second = rows[np.flatnonzero(pc.equal(keys, value).fill_null(False).to_numpy(zero_copy_only=False))[:2]]
    raise UsageError(
        f"on={on!r}: {value.as_py()!r} is in rows {first} ({catalog.shown_name(int(first))}) and {second} "
        f"({catalog.shown_name(int(second))}) of stream {name!r}, and {len(repeated)} values are so: a value may be in "
        "one row of each catalog; leave rows out with catalog.filter(), or name the pairs with ff.plan_requests"
    )


def _show(keys: pa.Array) -> str:
    return ", ".join(repr(key) for key in keys[:2].to_pylist()) + (", ..." if len(keys) > 2 else "") or "no rows"


def _list_unmatched(
    names: list[str], on: str, keys: list[pa.Array], plannable: list[IntArray], rows: IntArray
) -> list[tuple[int, int, str]]:
    unmatched = []
    for number, (key, own_rows) in enumerate(zip(keys, plannable, strict=True)):
        lacking = np.array([~_find_known(pc.index_in(key, value_set=other), key) for other in keys])
        values = key.to_pylist()
        for line in np.flatnonzero(~np.isin(own_rows, rows[number])).tolist():
            value, other = values[line], names[int(lacking[:, line].argmax())]
            reason = f"{on} is null" if value is None else f"{on}={value!r} is in no row of stream {other!r}"
            unmatched.append((number, int(own_rows[line]), f"UsageError: {reason}"))
    return unmatched
