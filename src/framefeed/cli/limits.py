"""Limits on what a file may claim: options of the commands that open media."""

from __future__ import annotations

import argparse

from framefeed.cli.parsing import at_least
from framefeed.media.limits import DEFAULT_LIMITS, Limits


def add_limit_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the limits that intact files of users exceed."""
    parser.add_argument("--max-pixels", type=at_least(1), default=DEFAULT_LIMITS.max_pixels, metavar="N",
                        help="largest picture that is opened, in pixels (width times height) "
                        f"(default: {DEFAULT_LIMITS.max_pixels}, which is 8192 x 8192)")  # fmt: skip


def limits_of(args: argparse.Namespace) -> Limits:
    """Make the limits from the options."""
    return Limits(max_pixels=args.max_pixels)
