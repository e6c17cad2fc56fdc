"""Name the versions that decide pixels; and what differs between PyAV 18 and 19: opened files, rational numbers."""

from __future__ import annotations

import platform
from fractions import Fraction
from functools import cache
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


@cache
def list_versions() -> dict[str, str]:
    """List what pixels depend on besides media: the versions of framefeed, PyAV and libavcodec, and the CPU family."""
    from importlib.metadata import version  # with the package email, 15 ms

    codec = ".".join(map(str, av.library_versions["libavcodec"]))
    own = {"framefeed": version("framefeed"), "pyav": av.__version__, "libavcodec": codec}
    return {**own, "machine": platform.machine()}
