"""Sizes of samples: short in the tests; ``make chaos`` runs the tests that are marked ``long`` with the long ones."""

from __future__ import annotations

import os
from typing import TypeVar

IS_LONG = os.environ.get("FRAMEFEED_LONG_TESTS") == "1"

Size = TypeVar("Size")


def either(*, short: Size, long: Size) -> Size:
    """Choose the size for this run."""
    return long if IS_LONG else short
