"""Comparisons of pixels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def assert_same_arrays(ours: Iterable[Any], expected: Iterable[Any]) -> None:
    """As many arrays, of the same shapes and numbers, one by one."""
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def psnr(one: Any, other: Any) -> float:
    """Peak signal-to-noise ratio of pictures of 8 bits, in dB; 99 where they are equal."""
    error = float(((np.asarray(one, np.float64) - np.asarray(other, np.float64)) ** 2).mean())
    return float(10 * np.log10(255**2 / error)) if error else 99.0
