"""What differs between PyAV 18 and 19 for those that read: how a file is opened, and what a rational number is."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer

# PyAV 18 raises an error for a title that is not UTF-8, unless it is told not to; 19 has no such option.
_ANY_TITLES: dict[str, Any] = {"metadata_errors": "replace"} if hasattr(InputContainer, "metadata_errors") else {}


def open_input(file: Any, file_format: str | None = None, options: dict[str, str] | None = None) -> InputContainer:
    """Open a path or a file object for reading, whatever bytes its titles have."""
    opened: InputContainer = av.open(file, "r", format=file_format, options=options, **_ANY_TITLES)
    return opened


def read_rational(value: Any) -> Fraction | None:
    """Convert a rational number of libav; None where it is not set: None of PyAV 18, 0/1 or a number over 0 of 19."""
    return Fraction(value.numerator, value.denominator) if value else None
