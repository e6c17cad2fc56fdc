"""Parse sizes, where ``200GB`` is 200 x 1000**3 bytes, and write counts, sizes, durations and tables for people.

A point in time of a video is no duration: messages write it in seconds with as many digits as tell frames apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from math import isfinite
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


UNKNOWN = "–"
"""Written for a number that is not finite."""


def format_count(count: int, noun: str, nouns: str = "") -> str:
    """Write a count with its noun.

    >>> format_count(1, "file"), format_count(2000, "class", "classes")
    ('1 file', '2,000 classes')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def format_number(number: float) -> str:
    """Write a number with three significant digits, or all digits of its whole part; also for rates.

    >>> format_number(0.0125), format_number(12.5), format_number(1920.4)
    ('0.0125', '12.5', '1,920')
    """
    if not isfinite(number):
        return UNKNOWN
    if 100 <= abs(number) < 1e15:
        return f"{number:,.0f}"
    mantissa, _, exponent = f"{number:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def format_share(part: float, whole: float = 1.0, *, decimals: int = 0) -> str:
    """Write a share of a whole; only an exact 0 is ``0 %``, and only the whole is ``100 %``.

    >>> format_share(2 / 3), format_share(1, 8, decimals=1), format_share(1, 10_000)
    ('67 %', '12.5 %', '< 1 %')
    """
    if not whole or not part:
        return "0 %"
    if part == whole:
        return "100 %"
    percent, step = 100 * part / whole, 10.0**-decimals
    rounded = f"{percent:.{decimals}f}"
    if float(rounded) == 0:
        return f"< {step:g} %"
    return f"> {100 - step:g} %" if float(rounded) == 100 else f"{rounded} %"


def format_scaled(number: float, units: Sequence[str]) -> str:
    """Write a number in the unit that fits; each unit is 1000 times the one before.

    >>> format_scaled(2.0736, ("Mpx", "Gpx")), format_scaled(15_000, ("Mpx", "Gpx"))
    ('2.07 Mpx', '15 Gpx')
    """
    if not isfinite(number):
        return UNKNOWN
    for unit in units[:-1]:
        if abs(number) < 999.5:
            return f"{format_number(number)} {unit}"
        number /= 1000
    return f"{format_number(number)} {units[-1]}"


def format_bytes(count: float) -> str:
    """Write a size in decimal units.

    >>> format_bytes(812), format_bytes(3420), format_bytes(200e9)
    ('812 bytes', '3.42 kB', '200 GB')
    """
    return "1 byte" if count == 1 else format_scaled(count, ("bytes", "kB", "MB", "GB", "TB", "PB"))


def format_seconds(seconds: float) -> str:
    """Write a duration.

    >>> format_seconds(0.0123), format_seconds(0.42), format_seconds(12.34)
    ('12.3 ms', '0.42 s', '12.3 s')
    >>> format_seconds(200), format_seconds(7500), format_seconds(7200)
    ('3 min 20 s', '2 h 05 min', '2 h')
    """
    if not isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < 0.0995:
        return f"{format_number(1000 * seconds)} ms"
    if seconds < 59.95:
        return f"{format_number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {rest:02d} min" if rest and hours < 100 else f"{round(seconds / 3600):,} h"


def format_table(rows: Sequence[Sequence[str]], sides: str = "", *, indent: str = "") -> list[str]:
    """Align columns, two blanks apart.

    >>> format_table([("CPU", "2 s"), ("wall", "10 s")], "lr")
    ['CPU    2 s', 'wall  10 s']

    ``sides`` has a letter for each column: "r" to the right, any other to the left, as all columns without a letter.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides.ljust(len(widths)), strict=True)
        ]
        lines.append(f"{indent}{'  '.join(cells)}".rstrip())
    return lines
