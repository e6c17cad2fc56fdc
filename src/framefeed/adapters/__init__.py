"""The same loader in the clothes of each framework. Here: what several of them do with targets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from framefeed._arrays import AnyArray, BoolArray
from framefeed._checks import check_choice, expected
from framefeed._nearest import did_you_mean
from framefeed._units import format_count
from framefeed.catalog import TextColumn
from framefeed.errors import UsageError
from framefeed.plan import PLAN_COLUMN, EpochPlan, Requests, check_targets

IGNORED_TARGET = -100
"""Target of a clip that failed: the default ``ignore_index`` of torch's losses; Keras' have ``ignore_class=``."""


def check_target(plan: EpochPlan, target: str) -> None:
    """Check that a plan has the column of a target, with a value in each row."""
    if not isinstance(target, str):
        raise expected("target", "the name of a column", target)
    if plan.parts and target in plan.columns:
        for part in plan.parts if target != PLAN_COLUMN else ():
            check_target(part, target)
        return
    # Of several streams, columns are those of the first.
    clips, *_ = plan.clips.list_plain()
    if target not in plan.columns:
        is_known = not plan.parts and target in clips.catalog.table.column_names
        near = "" if is_known else did_you_mean(target, plan.columns)
        advice = near or f": plan with columns=[{target!r}]"
        raise UsageError(f"target: the plan has no column {target!r}, only {list(plan.columns)}{advice}")
    column = plan.clips.columns[target]
    if len(column.shape) > 1:
        holds = "lists of text" if isinstance(column, TextColumn) else str(list(column.shape[1:]))
        raise UsageError(
            f"target: expected a column with one number or text per clip, but {target!r} has {holds}: leave target "
            f"out, and take it by name, as in batch[{target!r}]"
        )
    if clips.has_table_columns:
        return
    if isinstance(clips.rule, Requests) and clips.rule.at is None:
        if isinstance(column, TextColumn) and len(missing := column.find_nulls(np.arange(len(column)))):
            raise UsageError(
                f"target: {len(missing)} of {len(column)} requests have no text of {target!r}: leave them out, first "
                f"number {missing[0]}"
            )
    else:
        joined = np.unique(clips.layout.find_rows(np.arange(clips.count))) if plan.streams else None
        check_targets(clips.catalog, target, clips.catalog.plannable_rows if joined is None else joined)


def find_codes(plan: EpochPlan, target: str | None) -> dict[str, int] | None:
    """Find the code of each text of a target, those of ``plan.texts[target]``; None if it holds numbers."""
    if target is None or not isinstance(plan.clips.columns[target], TextColumn):
        return None
    return {text: code for code, text in enumerate(plan.texts[target])}


def refuse_texts(plan: EpochPlan, framework: str) -> None:
    """Raise UsageError if a plan delivers text to a framework that has no arrays of it."""
    columns = [(name, each) for name, each in plan.clips.columns.items() if isinstance(each, TextColumn)]
    if not columns:
        return
    coded = [name for name, column in columns if not column.has_lists]
    advice = f", or plan_clips with columns={{{coded[0]!r}: 'codes'}}" if coded else ""
    names = [name for name, _ in columns]
    raise UsageError(f"columns {names} hold text, which {framework} has no arrays of: plan without them{advice}")


Null = Literal["empty", "error"]
"""What a text that is missing becomes: "" with one warning, or an error."""


def check_nulls(plan: EpochPlan, null: Null, target: str | None) -> None:
    """Warn once of columns of text that lack some, for frameworks that have no None; or raise UsageError.

    With a target no text is delivered.
    """
    check_choice("null", null, get_args(Null))
    if target is not None:
        return
    lacking: dict[str, int] = {}
    first = ""
    for clips in plan.clips.list_plain():
        for name, column in clips.columns.items():
            if not isinstance(column, TextColumn) or name not in plan.columns:
                continue
            is_by_row = not isinstance(clips.rule, Requests) and not clips.has_table_columns
            missing = column.find_nulls(clips.catalog.plannable_rows if is_by_row else np.arange(len(column)))
            lacking[name] = lacking.get(name, 0) + len(missing)
            first = first or (f", first of row {missing[0]}" if len(missing) else "")
    found = ", ".join(f"{name!r} in {format_count(count, 'row')}" for name, count in lacking.items() if count)
    if found and null == "error":
        raise UsageError(
            f"there is no text of column {found}{first}: leave them out, of a catalog with "
            f"catalog.filter(pyarrow.compute.field({next(iter(lacking))!r}).is_valid()), or give null='empty'"
        )
    if found:
        warnings.warn(
            f"there is no text of column {found}{first}: items have '' there; null='error' refuses such rows",
            UserWarning,
            stacklevel=3,
        )


def find_target_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Find the dtype of targets from that of their column: bools and codes of text become integers."""
    return np.dtype(np.int64) if dtype.kind in "bO" else dtype


def convert_target(column: Any, ok: BoolArray, codes: Mapping[str, int] | None = None) -> AnyArray:
    """Copy a column of a batch as targets: those of clips that failed are NaN in floats, else `IGNORED_TARGET`.

    Text becomes its ``codes``, and -1 where it is missing.
    """
    if codes is not None:
        column = np.array([codes.get(text, -1) for text in column], dtype=np.int64)
    targets: AnyArray = column.astype(find_target_dtype(column.dtype))
    targets[~ok] = np.nan if targets.dtype.kind == "f" else IGNORED_TARGET
    return targets
