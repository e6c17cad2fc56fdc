"""Open media and make plans: what commands share that needs the rooms, which `framefeed --help` does not load."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.catalog import Catalog
from framefeed.cli._arguments import read_at_least
from framefeed.cli._io import Failed, print_error
from framefeed.plan import ClipRule, EpochPlan, find_remarks, plan_clips


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the limits that intact files may exceed."""
    parser.add_argument("--max-pixels", type=read_at_least(1), default=DEFAULT_LIMITS.max_pixels, metavar="N",
                        help="largest picture that is opened, in pixels (width times height) "
                        f"(default: {DEFAULT_LIMITS.max_pixels}, which is 8192 x 8192)")  # fmt: skip


def make_limits(args: argparse.Namespace) -> Limits:
    """Make the limits from the options."""
    return Limits(max_pixels=args.max_pixels)


def make_plan_quietly(catalog: Catalog, rule: ClipRule, *, shows_remarks: bool = True, **options: Any) -> EpochPlan:
    """Make a plan; print its warnings as lines, but for that of failed rows, which are listed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        plan = plan_clips(catalog, rule, **options)
    if shows_remarks:
        print_error(*find_remarks(plan))
    return plan


def list_plan_failures(plan: EpochPlan) -> list[Failed]:
    """List the rows that a plan leaves out, those that failed in the scan first."""
    return [(source, *error.split(": ", 1)) for source, error in plan.excluded]  # type: ignore[misc]
