"""Rates of the engines as a picture: bars on a logarithmic scale, Plain SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from framefeed.bench.scan._facts import BARE_OURS, LIMIT, OURS

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
_PEER = "#8aa4c0"


def draw_rates(report: Mapping[str, Any]) -> str | None:
    """Draw the row "headers", and the whole scan where it was measured, as one SVG document; None without the row.

    Args:
        report: Of ``bench scan``.
    """
    rows = {row["key"]: {each["name"]: each for each in row["contenders"]} for row in report["rows"]}
    if not rows.get("headers"):
        return None
    engines = rows["headers"]
    whole = {shown: rows["scan"][name] for name, shown in _WHOLE.items() if name in rows.get("scan", {})}
    all_rates = {name: float(each["per_cpu_second"]) for name, each in (engines | whole).items()}
    rates = dict(sorted(all_rates.items(), key=lambda item: -item[1]))
    low = 10 ** math.floor(math.log10(min(rates.values())))
    high = max(*rates.values(), 10 * low)
    height = _TOP + _STEP * len(rates) + 70

    def scale(rate: float) -> float:
        """Pixels from the left, by the logarithm."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(max(rate, low) / low) / math.log10(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Files per CPU second by engine">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(24, 34, "Width and height of pictures: files per CPU second", font_size=19, fill=_INK, font_weight=650),
        _text(24, 58, f"median of {len(next(iter(engines.values()))['cpu_seconds'])} interleaved rounds; warm cache, "
              "logarithmic scale", font_size=13),
    ]  # fmt: skip
    top, bottom, power = _TOP - 8, _TOP + _STEP * len(rates), low
    while power <= high:
        at = scale(power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}" stroke="{_GRID}"/>')
        parts.append(_text(at, bottom + 18, f"{power:,.0f}", text_anchor="middle"))
        power *= 10
    for line, (name, rate) in enumerate(rates.items()):
        top, end = _TOP + _STEP * line, scale(rate)
        weight = 650 if name in (OURS, BARE_OURS) else 400
        parts += [
            _text(_LEFT - 12, top + 16, name, font_size=14, fill=_INK, text_anchor="end", font_weight=weight),
            f'<rect x="{_LEFT}" y="{top}" width="{max(2.0, end - _LEFT):.1f}" height="{_BAR}" rx="3" '
            f'fill="{_COLOURS.get(name, _PEER)}"/>',
            _text(end + 8, top + 16, f"{rate:,.0f}", font_size=13, fill=_INK, font_weight=weight),
        ]
    machine = report["machine"]
    parts += [_text(24, height - 16, f"{machine['processor']}, {machine['cores']} cores"), "</svg>"]
    return "\n".join(parts) + "\n"


def _text(left: float, base: float, text: str, **style: str | int) -> str:
    """Text that begins, ends or is centred at a point; style by SVG's names, with "_" for "-"."""
    attributes = {"font_size": 12, "fill": _FAINT, **style}
    shown = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{left:.1f}" y="{base}" {shown}>{escape(text)}</text>'
