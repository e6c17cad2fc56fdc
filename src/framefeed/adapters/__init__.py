"""The same loader in the clothes of each framework. Here: what several of them do with targets."""

from __future__ import annotations

from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError
from framefeed.plan import EpochPlan, Requests, check_targets

IGNORED_TARGET = -100
"""Target of a clip that failed: the default ``ignore_index`` of torch's losses; Keras' have ``ignore_class=``."""


def check_target(plan: EpochPlan, target: str) -> None:
    """Check that a plan has the column of a target, with a value in each row.

    Raises:
        UsageError: It has not; the message says how to plan with it.
    """
    if target not in plan.columns:
        is_known = target in plan.catalog.table.column_names
        near = "" if is_known else did_you_mean(str(target), plan.columns)
        advice = near or f": plan with columns=[{target!r}]"
        raise UsageError(f"target: the plan has no column {target!r}, only {list(plan.columns)}{advice}")
    if not isinstance(plan.rule, Requests):
        check_targets(plan.catalog, target, plan.catalog.usable_rows)
