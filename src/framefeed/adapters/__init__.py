"""The same loader in the clothes of each framework. Here: what several of them do with targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefeed._arrays import AnyArray, BoolArray
from framefeed._checks import expected
from framefeed._nearest import did_you_mean
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
    if len(shape := plan.clips.columns[target].shape) > 1:
        raise UsageError(
            f"target: expected a column with one number per clip, but {target!r} has {list(shape[1:])}: leave target "
            f"out, and take it by name, as in batch[{target!r}]"
        )
    if not isinstance(clips.rule, Requests) and clips.own_texts is None:
        joined = np.unique(clips.layout.find_rows(np.arange(clips.count))) if plan.streams else None
        check_targets(clips.catalog, target, clips.catalog.plannable_rows if joined is None else joined)


def find_target_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Find the dtype of targets from that of their column: bools become integers, to hold the ignored one."""
    return np.dtype(np.int64) if dtype.kind == "b" else dtype


def convert_target(column: AnyArray, ok: BoolArray) -> AnyArray:
    """Copy a column of a batch as targets: those of clips that failed are NaN in floats, else `IGNORED_TARGET`."""
    targets = column.astype(find_target_dtype(column.dtype))
    targets[~ok] = np.nan if targets.dtype.kind == "f" else IGNORED_TARGET
    return targets
