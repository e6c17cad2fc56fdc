"""Numbers and names as people read them."""

from __future__ import annotations

from math import isfinite

from framefeed.index.names import unescape, visible

SHOWN_NAME = 72
"""Characters of a name in a table; the full one is its tooltip."""
SHOWN_TITLE = 5000
"""Characters of a tooltip: the longest name that Linux allows, and then some."""
UNKNOWN = "–"


def count(value: float) -> str:
    """Write a whole number: ``1,234,567``."""
    return f"{round(value):,}"


def count_of(number: float, noun: str) -> str:
    """Write a count with its noun: ``1 file``, ``2,000 files``."""
    return f"{count(number)} {noun if number == 1 else f'{noun}s'}"


def share(part: float, whole: float) -> str:
    """Write a share: ``12.3 %``; what is not nothing is never written as nothing, nor what is not all as all."""
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    if part != whole and not 0.05 <= percent < 99.95:
        return "< 0.1 %" if percent < 1 else "> 99.9 %"
    return f"{percent:.1f} %" if part != whole else "100 %"


def number(value: float) -> str:
    """Write a number with three significant digits or all of its whole ones: ``0.0125``, ``12.5``, ``1,920``."""
    if not isfinite(value):
        return UNKNOWN
    if 100 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(value: float) -> str:
    """Write a large number briefly: ``1.25 M``, ``3.2 G``."""
    return _scaled(value, ("", "k", "M", "G", "T")).strip()


def data_size(value: float) -> str:
    """Write a number of bytes: ``820 B``, ``1.25 MB``; 1 kB is 1000 bytes."""
    return _scaled(value, ("B", "kB", "MB", "GB", "TB", "PB"))


def megapixels(value: float) -> str:
    """Write megapixels: ``2.07 Mpx``, ``1.5 Gpx``."""
    return _scaled(value, ("Mpx", "Gpx", "Tpx", "Ppx"))


def seconds(value: float) -> str:
    """Write a duration in its largest fitting unit: ``0.5 s``, ``2.5 min``, ``1.5 h``, ``41.7 days``."""
    if not isfinite(value):
        return UNKNOWN
    for unit, length in (("days", 172_800), ("h", 3600), ("min", 60)):
        if value >= length:
            return f"{number(value / (86_400 if unit == 'days' else length))} {unit}"
    return f"{number(value)} s"


def full_name(text: str) -> str:
    """Show a stored name as it is, but for characters that must not be shown as they are."""
    return shortened(visible(unescape(text)), SHOWN_TITLE)


def shortened(text: str, length: int) -> str:
    """Leave out the middle of a long text; ends tell names apart."""
    if len(text) <= length:
        return text
    tail = length * 2 // 5
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    if not isfinite(value):
        return UNKNOWN
    for unit in units[:-1]:
        if abs(value) < 999.5:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} {units[-1]}"
