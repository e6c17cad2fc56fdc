"""Draw the rates of the rows "headers" and "scan" of a result of `python -m benchmarks.scan` as an SVG picture.

usage: python -m benchmarks.scan.chart RESULT.json > CHART.svg      (in the project's folder)
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

LEFT, RIGHT, TOP, STEP, BAR, WIDTH = 248, 96, 92, 38, 22, 880
INK, FAINT, GRID = "#1f2933", "#64707d", "#e4e8ec"
LIMIT = "open + fstat + pread + close"
# Contenders of the row "scan" that are drawn, and what they are called there.
WHOLE = {"framefeed, 1 core": "framefeed, whole scan", f"walk + {LIMIT}, 1 core": "walk + the same"}
COLOURS = {"framefeed, whole scan": "#4ba39f", LIMIT: "#c3cad2", "walk + the same": "#c3cad2"}
OWN, PEER = "#0b7a75", "#8aa4c0"


def draw_rates(report: Mapping[str, Any]) -> str:
    """Draw bars on a logarithmic scale."""
    rows = {row["key"]: {each["name"]: each for each in row["contenders"]} for row in report["rows"]}
    engines, scans = rows["headers"], rows.get("scan", {})
    entries = engines | {shown: scans[name] for name, shown in WHOLE.items() if name in scans}
    rates = dict(sorted(((name, each["per_cpu_second"]) for name, each in entries.items()), key=lambda item: -item[1]))
    low = 10 ** math.floor(math.log10(min(rates.values())))
    span = math.log10(max(*rates.values(), 10 * low) / low)
    height, bottom = TOP + STEP * len(rates) + 70, TOP + STEP * len(rates)

    def scale(rate: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(max(rate, low) / low) / span

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Files per CPU second by engine">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        write_text(24, 34, "Width and height of pictures: files per CPU second", font_size=19, fill=INK),
        write_text(24, 58, f"median of {len(next(iter(engines.values()))['cpu_seconds'])} interleaved rounds; warm "
                   "cache, logarithmic scale", font_size=13),
    ]  # fmt: skip
    for power in range(math.floor(span) + 1):
        at = scale(low * 10**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 8}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(write_text(at, bottom + 18, f"{low * 10**power:,.0f}", text_anchor="middle"))
    for line, (name, rate) in enumerate(rates.items()):
        top, end, is_ours = TOP + STEP * line, scale(rate), name.startswith("framefeed")
        style = {"fill": INK, "font_weight": 650 if is_ours else 400}
        colour = COLOURS.get(name, OWN if is_ours else PEER)
        parts += [
            write_text(LEFT - 12, top + 16, name, font_size=14, text_anchor="end", **style),
            f'<rect x="{LEFT}" y="{top}" width="{max(2.0, end - LEFT):.1f}" height="{BAR}" rx="3" fill="{colour}"/>',
            write_text(end + 8, top + 16, f"{rate:,.0f}", font_size=13, **style),
        ]
    machine = report["machine"]
    parts += [write_text(24, height - 16, f"{machine['processor']}, {machine['cores']} cores"), "</svg>"]
    return "\n".join(parts) + "\n"


def write_text(left: float, base: float, text: str, **style: str | int) -> str:
    """Write text that begins, ends or is centred at a point; style by SVG's names, with "_" for "-"."""
    shown = " ".join(
        f'{name.replace("_", "-")}="{value}"' for name, value in {"font_size": 12, "fill": FAINT, **style}.items()
    )
    return f'<text x="{left:.1f}" y="{base}" {shown}>{escape(text)}</text>'


if __name__ == "__main__":
    print(draw_rates(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
