"""Draw the row "simulation": use of the consumer over producers, a line for each loader, as an SVG picture.

usage: python -m benchmarks.load.chart RESULT.json > CHART.svg      (in the project's folder)
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.load.simulation import CONSUMER_SECONDS, OURS, PRODUCER_SECONDS, PRODUCERS, find_period
from benchmarks.scan.chart import write_text

WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 86, 372
INK, FAINT, GRID = "#1f2933", "#64707d", "#e4e8ec"
COLOURS = ("#0b7a75", "#b5543a", "#5b6fa8", "#b98a1f", "#8a5a9e", "#4a5560", "#c2185b", "#4f7a28")
"""Of the lines, ours first; dark enough on white, and different in lightness too."""
MARKS = ("circle", "square", "diamond", "triangle", "cross", "bar", "post", "wedge")
_STEP = 42
"""Pixels between two names, each above its numbers: lines may lie on each other."""
FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"


def draw_use(report: Mapping[str, Any]) -> str | None:
    """Draw the plot from a report; None if it has no such row."""
    row = next((row for row in report["rows"] if row["key"] == "simulation"), None)
    if row is None:
        return None
    lines: dict[str, dict[str, float]] = row["facts"]["use_of_the_consumer_in_percent"]
    machine = report["machine"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="{FONT}" role="img" aria-label="Use of the consumer by number of producers">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        write_text(24, 32, "Use of the consumer by number of producers", font_size=19, fill=INK),
        write_text(24, 54, f"a producer makes a batch in {PRODUCER_SECONDS} s, the consumer trains on it in "
                       f"{CONSUMER_SECONDS} s; median of {_count_rounds(row)} rounds", font_size=13),
        *_draw_axes(),
    ]  # fmt: skip
    ideal = {str(each): 100 * CONSUMER_SECONDS / find_period(each) for each in PRODUCERS}
    parts.append(f'<polyline points="{_join(ideal)}" fill="none" stroke="{FAINT}" stroke-dasharray="5 4"/>')
    # Ours is drawn last, on top.
    for number, (name, use) in reversed(list(enumerate(lines.items()))):
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        thick = 3 if name == OURS else 1.6
        parts.append(f'<polyline points="{_join(use)}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
        parts += [draw_mark(mark, *_find_point(*each), colour) for each in use.items()]
    for number, (name, use) in enumerate(lines.items()):
        colour, base = COLOURS[number % len(COLOURS)], TOP + 12 + _STEP * number
        most = ", ".join(f"{use[each]:.0f}" for each in map(str, PRODUCERS) if each in use)
        weight = 650 if name == OURS else 400
        parts += [
            draw_mark(MARKS[number % len(MARKS)], WIDTH - RIGHT + 22, base - 4, colour),
            write_text(WIDTH - RIGHT + 36, base, name, font_size=13, fill=INK, font_weight=weight),
            write_text(WIDTH - RIGHT + 36, base + 17, f"{most} %"),
        ]
    base = TOP + 12 + _STEP * len(lines)
    parts += [
        f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{base - 4}" y2="{base - 4}" stroke="{FAINT}" '
        'stroke-dasharray="5 4"/>',
        write_text(WIDTH - RIGHT + 36, base, "ideal", font_size=13),
        write_text(24, HEIGHT - 16, f"{machine['processor']}, {machine['cores']} cores"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _draw_axes() -> list[str]:
    parts = []
    for percent in range(0, 101, 20):
        at = _scale_use(percent)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GRID}"/>')
        parts.append(write_text(LEFT - 10, at + 4, f"{percent} %", text_anchor="end"))
    parts += [write_text(_scale_producers(each), BOTTOM + 22, str(each), text_anchor="middle") for each in PRODUCERS]
    return [*parts, write_text((LEFT + WIDTH - RIGHT) / 2, BOTTOM + 42, "producers", text_anchor="middle")]


def draw_mark(mark: str, left: float, top: float, colour: str) -> str:
    """Draw the mark of a line at a point."""
    paths = {
        "square": "M-4 -4H4V4H-4Z",
        "diamond": "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",
        "triangle": "M0 -5.5L5 4H-5Z",
        "cross": "M-4 -4L4 4M-4 4L4 -4",
        "bar": "M-5.5 -2H5.5V2H-5.5Z",
        "post": "M-2 -5.5H2V5.5H-2Z",
        "wedge": "M0 5.5L5 -4H-5Z",
    }
    if mark == "circle":
        return f'<circle cx="{left:.1f}" cy="{top:.1f}" r="4.5" fill="{colour}"/>'
    style = f'fill="none" stroke="{colour}" stroke-width="2"' if mark == "cross" else f'fill="{colour}"'
    return f'<path transform="translate({left:.1f} {top:.1f})" d="{paths[mark]}" {style}/>'


def _find_point(producers: str, percent: float) -> tuple[float, float]:
    return _scale_producers(int(producers)), _scale_use(percent)


def _join(use: Mapping[str, float]) -> str:
    return " ".join("{:.1f},{:.1f}".format(*_find_point(*each)) for each in use.items())


def _scale_producers(producers: int) -> float:
    """Logarithmic, with room at both ends."""
    inner = WIDTH - RIGHT - LEFT - 60
    return LEFT + 30 + inner * math.log(producers / PRODUCERS[0]) / math.log(PRODUCERS[-1] / PRODUCERS[0])


def _scale_use(percent: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * percent / 100


def _count_rounds(row: Mapping[str, Any]) -> int:
    return max((len(each["wall_seconds"]) for each in row["contenders"]), default=0)


if __name__ == "__main__":
    print(draw_use(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
