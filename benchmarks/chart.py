"""Draw SVG pictures of results: the epochs of `framefeed bench load`, for the README, and the rates of a scan.

usage: python -m benchmarks.chart RESULT.json > CHART.svg      (in the project's folder)

`python -m benchmarks.figures` draws the README's picture anew. A result that has no row "epoch" is drawn as a scan: the
rates of its row "headers", and of the whole scan.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

LEFT, RIGHT, TOP, STEP, BAR, WIDTH = 248, 96, 92, 38, 22, 880
INK, FAINT, GRID = "#1f2933", "#64707d", "#e4e8ec"
LIMIT = "open + fstat + pread + close"
# Contenders of the row "scan" that are drawn, and what they are called there.
WHOLE = {"framefeed, 1 core": "framefeed, whole scan", f"walk + {LIMIT}, 1 core": "walk + the same"}
COLOURS = {"framefeed, whole scan": "#4ba39f", LIMIT: "#c3cad2", "walk + the same": "#c3cad2"}
OWN, PEER = "#0b7a75", "#8aa4c0"
# Libraries of the epochs, and what they are called; of each, its fastest method is drawn.
LIBRARIES = {"decord2": "decord2", "torchcodec": "TorchCodec", "spdl": "SPDL"}
# The background is drawn too: a page that is dark shows the picture of its reader's browser, which may be light.
STYLE = """<style>
.ground { fill: #ffffff } .ink { fill: #1f2933 } .faint { fill: #57606a } .own { fill: #0b7a75 } .peer { fill: #5b7893 }
.span { stroke: #1f2933 } .value { fill: #ffffff } .bold, .value { font-weight: 650 }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } .ink { fill: #e6edf3 } .faint { fill: #9aa4af } .own { fill: #17827c } .peer { fill: #4a6078 }
.span { stroke: #e6edf3 }
}
</style>"""


def draw_epoch(report: Mapping[str, Any]) -> str:
    """Draw a bar for the clips of an epoch per CPU second: ours, and the fastest method of each other library."""
    rates = sorted(read_epoch(report).items(), key=lambda item: -median(item[1]))
    width, left, top, step = 720, 116, 76, 38
    scale = (width - left - 32) / max(each[-1] for _, each in rates)
    height = top + step * len(rates) + 34
    machine = f"{report['machine']['processor']}, {report['machine']['cores']} cores"
    used = [f"{title} {report['versions'][key]}" for key, title in LIBRARIES.items()]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Clips of an epoch per CPU second: framefeed and three other libraries">',
        STYLE,
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        place_text(24, 32, "Clips per CPU second, in an epoch of random clips", "ink bold", 18),
        place_text(24, 56, "25 real H.264 files; 16 frames of 224 x 224 in a clip, batches of 8, 2 workers", "faint"),
    ]  # fmt: skip
    for number, (title, each) in enumerate(rates):
        parts += draw_bar(title, each, left, top + step * number, scale)
    note = f"Bar: median round; line: slowest to fastest. {machine}; {', '.join(used)}"
    return "\n".join([*parts, place_text(24, height - 14, note, "faint", 12), "</svg>"]) + "\n"


def read_epoch(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the clips per CPU second of each round, ascending, by library."""
    row = next(row for row in report["rows"] if row["key"] == "epoch")
    figures = {each["key"]: each["figures"]["CPU"] for each in row["comparisons"]}
    titles = {figures["decord2"]["ours"]: "framefeed"} | {figures[key]["against"]: LIBRARIES[key] for key in LIBRARIES}
    return {
        titles[each["name"]]: sorted(each["amount"] / seconds for seconds in each["cpu_seconds"])
        for each in row["contenders"]
        if each["name"] in titles
    }


def draw_bar(title: str, rates: list[float], left: float, top: float, scale: float) -> list[str]:
    """Draw the median of some rates as a bar, and a line from the lowest to the highest."""
    is_own, rate, height = title == "framefeed", median(rates), 24
    low, high, middle = left + scale * rates[0], left + scale * rates[-1], top + height / 2
    line = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
    return [
        place_text(left - 12, top + 17, title, "ink bold" if is_own else "ink", 14, anchor="end"),
        f'<rect class="{"own" if is_own else "peer"}" x="{left}" y="{top}" width="{scale * rate:.1f}" '
        f'height="{height}" rx="3"/>',
        f'<path class="span" d="{line}"/>',
        place_text(left + 10, top + 17, f"{rate:.1f}", "value", 14),
    ]


def place_text(left: float, base: float, text: str, kind: str, size: int = 13, anchor: str = "start") -> str:
    """Write text at a point, in a class of the picture's style."""
    place = f'x="{left:.1f}" y="{base}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


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
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    has_epochs = any(row["key"] == "epoch" for row in document["rows"])
    print(draw_epoch(document) if has_epochs else draw_rates(document), end="")
