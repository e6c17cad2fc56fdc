"""Rates of the engines as a picture: bars on a logarithmic scale, with what is aimed at. Plain SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from framefeed.bench.scan._headers import BARE_OURS, LIMIT, MARKS, OURS

_LEFT, _RIGHT, _TOP, _STEP, _BAR = 248, 96, 92, 38, 22
_WIDTH = 880
_INK, _FAINT, _GRID = "#1f2933", "#64707d", "#e4e8ec"
_WHOLE = {"framefeed, 1 core": "framefeed, whole scan", "walk + " + LIMIT + ", 1 core": "walk + the same"}
"""Ways of the row "scan" that are drawn, and what they are called there."""
_COLOURS = {
    OURS: "#0b7a75",
    BARE_OURS: "#0b7a75",
    "framefeed, whole scan": "#4ba39f",
    LIMIT: "#c3cad2",
    "walk + the same": "#c3cad2",
}
_ROOM = 70
"""Pixels that a figure takes."""
_PEER = "#8aa4c0"
_FLOOR, _AIM = "#c2571a", "#7a3ea1"


def rates_chart(report: Mapping[str, Any]) -> str | None:
    """Draw the row "headers", and the whole scan where it was measured, as one SVG document; None without the row.

    Args:
        report: Of ``bench scan``.
    """
    rows = {row["key"]: row for row in report["rows"]}
    if "headers" not in rows:
        return None
    row, machine = rows["headers"], report["machine"]
    marks = {name: aimed_rates(_rates(row["engines"]), name) for name in (OURS, BARE_OURS)}
    whole = _rates(rows["scan"]["ways"]) if "scan" in rows else {}
    all_rates = _rates(row["engines"]) | {shown: whole[name] for name, shown in _WHOLE.items() if name in whole}
    rates = dict(sorted(all_rates.items(), key=lambda item: -item[1]))
    low = 10 ** math.floor(math.log10(min(rates.values())))
    high = max(*rates.values(), *(rate for of in marks.values() for rate in of.values()), 10 * low)
    height = _TOP + _STEP * len(rates) + 102
    scale = _Scale(low, high)
    middle = (
        f"{row['originals']} originals, hard links of them; median of {_rounds(row['engines'][0])} interleaved rounds"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Files per CPU second by engine">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(24, 34, "Width and height of pictures: files per CPU second", font_size=19, fill=_INK, font_weight=650),
        _text(24, 58, f"{middle}; warm cache, logarithmic scale", font_size=13),
        *_grid(scale, _TOP - 8, _TOP + _STEP * len(rates)),
        *(part for line, name in enumerate(rates) for part in _bar(scale, line, name, rates[name])),
        *(_figure(scale, line, name, rates[name], marks.get(name, {})) for line, name in enumerate(rates)),
        *(part for line, name in enumerate(rates) for part in _marks(scale, line, marks.get(name, {}))),
        _legend(height - 48),
        _text(24, height - 16, f"{machine['processor']}, {machine['cores']} cores"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def aimed_rates(rates: Mapping[str, float], name: str) -> dict[str, float]:
    """The rate of one way of ours at which every floor that it is held to holds, and at which every aim is reached."""
    held = [(mark, rates[peer]) for peer, (ours, mark) in MARKS.items() if peer in rates and ours == name]
    if not held:
        return {}
    return {"floor": max(mark.floor * rate for mark, rate in held), "aim": max(mark.aim * rate for mark, rate in held)}


class _Scale:
    """Files a second -> pixels from the left, by the logarithm."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self._span = math.log10(high / low)

    def __call__(self, rate: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(max(rate, self.low) / self.low) / self._span


def _grid(scale: _Scale, top: float, bottom: float) -> list[str]:
    parts = []
    power = scale.low
    while power <= scale.high:
        at = scale(power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}" stroke="{_GRID}"/>')
        parts.append(_text(at, bottom + 18, f"{power:,.0f}", text_anchor="middle"))
        power *= 10
    return parts


def _bar(scale: _Scale, line: int, name: str, rate: float) -> list[str]:
    top, end = _TOP + _STEP * line, scale(rate)
    weight = 650 if name in (OURS, BARE_OURS) else 400
    return [
        _text(_LEFT - 12, top + 16, name, font_size=14, fill=_INK, text_anchor="end", font_weight=weight),
        f'<rect x="{_LEFT}" y="{top}" width="{max(2.0, end - _LEFT):.1f}" height="{_BAR}" rx="3" '
        f'fill="{_COLOURS.get(name, _PEER)}"/>',
    ]


def _figure(scale: _Scale, line: int, name: str, rate: float, marks: Mapping[str, float]) -> str:
    """The rate right of its bar, and right of marks that it would hide."""
    left, weight = scale(rate), 650 if name in (OURS, BARE_OURS) else 400
    for mark in sorted(map(scale, marks.values())):
        left = mark if left - 8 <= mark < left + _ROOM else left
    return _text(left + 8, _TOP + _STEP * line + 16, f"{rate:,.0f}", font_size=13, fill=_INK, font_weight=weight)


def _marks(scale: _Scale, line: int, marks: Mapping[str, float]) -> list[str]:
    top = _TOP + _STEP * line - 5
    return [
        f'<line x1="{scale(rate):.1f}" x2="{scale(rate):.1f}" y1="{top}" y2="{top + _BAR + 10}" '
        f'stroke="{_FLOOR if name == "floor" else _AIM}" stroke-width="3" stroke-linecap="round">'
        f"<title>{name}: {rate:,.0f}</title></line>"
        for name, rate in marks.items()
    ]


def _legend(top: float) -> str:
    words = [(_FLOOR, "floor of ours"), (_AIM, "aim of ours")]
    parts, left = [], 24.0
    for colour, word in words:
        parts.append(
            f'<line x1="{left}" x2="{left}" y1="{top - 11}" y2="{top + 3}" stroke="{colour}" stroke-width="3" '
            'stroke-linecap="round"/>'
        )
        parts.append(_text(left + 10, top, word))
        left += 32 + 6.2 * len(word)
    return "".join(parts)


def _text(left: float, base: float, text: str, **style: str | int) -> str:
    """Text that begins, ends or is centred at a place; style by SVG's names, with "_" for "-"."""
    attributes = {"font_size": 12, "fill": _FAINT, **style}
    shown = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{left:.1f}" y="{base}" {shown}>{escape(text)}</text>'


def _rates(engines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {engine["name"]: float(engine["files_per_cpu_second"]) for engine in engines}


def _rounds(engine: Mapping[str, Any]) -> int:
    rounds: Sequence[float] = engine["cpu_microseconds_a_file"]
    return len(rounds)
