"""Draw section D: seconds for the clips over the length of the video, a line for each route, as an SVG picture.

usage: python -m benchmarks.sections.chart RESULT.json > CHART.svg      (in the project's folder)
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.load.chart import COLOURS, FONT, GRID, INK, MARKS, draw_mark
from benchmarks.scan.chart import write_text
from benchmarks.sections.d import OURS, OWN_LOOPS

WIDTH, HEIGHT = 930, 484
LEFT, RIGHT, TOP, BOTTOM = 64, 360, 100, 414
_STEP = 44
"""Pixels between two names, each above its numbers."""
_LEFT_OUT = OWN_LOOPS[2].name
"""The route that is in the table only."""


def draw_lengths(report: Mapping[str, Any]) -> str:
    """Draw the routes of the row "D:test" on logarithmic scales; the quickest at the longest video comes first."""
    row = next(row for row in report["rows"] if row["key"] == "D:test")
    lines = read_lines(row)
    lengths = [int(length) for length in row["facts"]["indexing_seconds"]]
    low = 0.7 * min(min(line.values()) for line in lines.values())
    high = max(max(line.values()) for line in lines.values())
    span = math.log10(high / low) * 1.05

    def place(length: int, seconds: float) -> tuple[float, float]:
        inner = WIDTH - RIGHT - LEFT - 60
        share = math.log(length / lengths[0]) / (math.log(lengths[-1] / lengths[0]) or 1)
        return LEFT + 30 + inner * share, BOTTOM - (BOTTOM - TOP) * math.log10(seconds / low) / span

    machine = report["machine"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="{FONT}" role="img" aria-label="Seconds for random clips by length of the video">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        write_text(24, 32, "Random clips of one video: seconds by its length", font_size=19, fill=INK),
        write_text(24, 54, row["title"].replace(": ", "; "), font_size=13),
        write_text(24, 72, "In short videos clips of a batch overlap: what they share is decoded once", font_size=13),
    ]
    for seconds in list_ticks(low, low * 10**span):
        at = place(lengths[0], seconds)[1]
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GRID}"/>')
        parts.append(write_text(LEFT - 10, at + 4, f"{seconds:g} s", text_anchor="end"))
    parts += [write_text(place(each, low)[0], BOTTOM + 22, f"{each:,} s", text_anchor="middle") for each in lengths]
    parts.append(write_text((LEFT + WIDTH - RIGHT) / 2, BOTTOM + 42, "length of the video", text_anchor="middle"))
    # Ours, which is the first, is drawn last, on top.
    for number, (name, line) in reversed(list(enumerate(lines.items()))):
        points = " ".join("{:.1f},{:.1f}".format(*place(*each)) for each in line.items())
        colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
        thick = 3 if name == OURS else 1.6
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
        parts += [draw_mark(mark, *place(*each), colour) for each in line.items()]
    wrong = {each["rule"] for each in row["contenders"] if each["num_wrong"]}
    for number, (name, line) in enumerate(lines.items()):
        parts += draw_name(number, name, line, ", then wrong frames" if name in wrong else "")
    parts += [write_text(24, HEIGHT - 14, f"{machine['processor']}, {machine['cores']} cores"), "</svg>"]
    return "\n".join(parts) + "\n"


def draw_name(number: int, name: str, line: Mapping[int, float], more: str) -> list[str]:
    """Draw the mark and the name of a line, above its seconds."""
    left, base = WIDTH - RIGHT + 36, TOP + 12 + _STEP * number
    numbers = ", ".join(f"{line[length]:.1f}" for length in sorted(line))
    return [
        draw_mark(MARKS[number % len(MARKS)], left - 14, base - 4, COLOURS[number % len(COLOURS)]),
        write_text(left, base, name, font_size=13, fill=INK, font_weight=650 if name == OURS else 400),
        write_text(left, base + 17, f"{numbers} s{more}"),
    ]


def list_ticks(low: float, high: float) -> Iterator[float]:
    """1, 2, 5, 10, ... within the scale."""
    power = 10 ** math.floor(math.log10(low))
    while power <= high:
        yield from (power * step for step in (1, 2, 5) if low <= power * step <= high)
        power *= 10


def read_lines(row: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """Route -> length -> median seconds, of the routes whose frames were right; ours first."""
    lines: dict[str, dict[int, float]] = {}
    for each in row["contenders"]:
        route, length = each["rule"], each["name"].rpartition(", ")[2]
        if not each["num_wrong"] and route != _LEFT_OUT:
            lines.setdefault(route, {})[int(length.removesuffix(" s"))] = median(each["wall_seconds"])
    return dict(sorted(lines.items(), key=lambda line: (line[0] != OURS, _last(line[1]))))


def _last(line: Mapping[int, float]) -> float:
    return line[max(line)]


def main(words: Sequence[str]) -> None:
    """Print the picture of a result."""
    print(draw_lengths(json.loads(Path(words[0]).read_text(encoding="utf-8"))), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
