"""Lists of failed files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from framefeed.cli.printing import complain
from framefeed.index.catalog import Catalog
from framefeed.index.names import printable as utf8
from framefeed.index.names import without_dots
from framefeed.plan.clips import ClipRule
from framefeed.plan.epoch import EpochPlan, plan_clips, unknown_damage

KNOWN_SHOWN = 3
"""Of the rows that failed in a scan, which has listed them all."""
SHOWN = 100
"""More lines than this are not read; the catalog and ``--json`` have them all."""

Failed = tuple[str, str, str]
"""Source, error type, message."""


def list_failed(failed: Sequence[Failed], *, known: int = 0) -> None:
    """List failures on standard error, one line each.

    Args:
        failed: What failed.
        known: How many of the first failed in a scan, which has listed them: only some are shown again.
    """
    shown = failed[known : known + SHOWN]
    lines = [f"failed: {_described(failure)}" for failure in shown]
    if known:
        told = [f"failed in the scan: {_described(failure)}" for failure in failed[:known][:KNOWN_SHOWN]]
        if known > KNOWN_SHOWN:
            told.append(
                f"failed in the scan: {known - KNOWN_SHOWN:,} more, not shown ('framefeed report' lists all {known:,})"
            )
        lines = told + lines
    rest = len(failed) - known - len(shown)
    complain(*lines, *([f"failed: {rest:,} more, not shown"] if rest else []))


def as_json(failures: Sequence[Failed]) -> list[dict[str, str]]:
    """The same for ``--json``."""
    return [{"source": source, "error_type": kind, "error": error} for source, kind, error in failures]


def quietly_planned(catalog: Catalog, rule: ClipRule, **options: Any) -> EpochPlan:
    """Make a plan; print its warnings as one line, without the one about failed rows, which a command lists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plan = plan_clips(catalog, rule, **options)
    remark = unknown_damage(catalog, plan.options.on_damaged)
    complain(*([] if remark is None else [remark]))
    return plan


def failures_of_plan(plan: EpochPlan) -> list[Failed]:
    """Return the rows that a plan leaves out, those that failed in the scan first."""
    return [(source, *error.split(": ", 1)) for source, error in plan.excluded]  # type: ignore[misc]


def _described(failure: Failed) -> str:
    source, kind, message = failure
    # Most messages begin with the name, or with the form in which a catalog keeps it: then it is not said twice.
    told = message.removeprefix(f"{source}: ").removeprefix(f"{utf8(source)}: ")
    return f"{without_dots(source)}: {told} ({kind})"
