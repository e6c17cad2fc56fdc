"""Draw the README's picture: clips of an epoch per CPU second, from a result of `benchmarks.load --rows epoch`.

`python -m benchmarks.figures` writes it to docs/images.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from statistics import median
from typing import Any

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
