"""Parse and write sizes and counts: ``200GB`` is 200 x 1000**3 bytes, ``64MiB`` is 64 x 1024**2."""

from __future__ import annotations

import re
from fractions import Fraction
from operator import index as whole_number
from typing import SupportsIndex

from framefeed._checks import expected

UNITS = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGTP", 1)},
    **{f"{letter}IB": 1024**power for power, letter in enumerate("KMGTP", 1)},
}
"""Bytes of each unit, by its name in capitals; names are not case-sensitive."""

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([a-z]{0,3})", re.IGNORECASE | re.ASCII)


def parse_bytes(size: str | SupportsIndex, name: str = "") -> int:
    """Read a size in bytes.

    >>> parse_bytes("200GB"), parse_bytes("1.5 KiB"), parse_bytes(4096)
    (200000000000, 1536, 4096)

    Args:
        size: Whole bytes, or text such as ``200GB``, ``64MiB`` or ``4096``.
        name: Name of the argument, for messages.

    Raises:
        UsageError: It is no size, or below one byte.
    """
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match is not None and match[2].upper() in UNITS:
        count = int(Fraction(match[1]) * UNITS[match[2].upper()])
    elif isinstance(size, (str, bool)) or not hasattr(size, "__index__"):
        raise expected(name, "a size in bytes such as 200GB, 64MiB or 4096", size)
    else:
        count = whole_number(size)
    if count < 1:
        raise expected(name, "a size of at least one byte", size)
    return count


def format_count(count: int, noun: str, nouns: str = "") -> str:
    """Write a count: ``1 file``, ``2,000 files``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def format_bytes(count: float) -> str:
    """Write a size: ``812 bytes``, ``3.4 kB``, ``1,234.5 GB``."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for power, name in enumerate(("kB", "MB"), 1):
        if count < 999.95 * 1000**power:
            return f"{count / 1000**power:.1f} {name}"
    return f"{count / 1e9:,.1f} GB"
