"""Fill the tables of docs/proxies.md from the newest result of `benchmarks.proxies`, and draw its picture.

python -m benchmarks.proxies_page
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import log10
from statistics import median
from typing import Any

from benchmarks.epoch_picture import place_text
from benchmarks.figures import make_table
from benchmarks.reading import RESULTS
from benchmarks.vlm_chart import STYLE

PAGE = RESULTS.parents[1] / "docs" / "proxies.md"
PICTURE = RESULTS.parents[1] / "docs" / "images" / "proxies.svg"
FILMS = {
    "1080p": "1080p: a 720p trailer, enlarged, x264 medium",
    "phone": "1080p HEVC at 14 Mbit/s, GOP 30, as of phones",
    "720p": "720p: the trailer itself",
    "360p": "360p: made smaller, x264 medium",
    "240p": "240p: made smaller, x264 medium",
}
PHOTOS = {
    "12mp": "4000x3000, quality 90",
    "own": "real ones of 280x360 to 4032x3024",
    "500": "500x375, about 100 kB, as of ImageNet",
}
CACHED = {"film": "720p film, 1,253 frames", "12mp": "40 photos of 4000x3000", "500": "600 photos of 500x375"}
CONTENDERS = {"original": "original", "proxy": "proxy", "lz4": "cache, lz4", "raw": "cache, raw"}
_BLOCK = re.compile(r"(?<=<!-- figures: )(?P<name>proxies-\w+) -->\n(?s:.*?)(?=<!-- end -->)")
# Contenders differ in form too, for those who see no difference in colour.
FORMS = {
    "original": '<circle class="a" cx="{x:.1f}" cy="{y:.1f}" r="6"/>',
    "proxy": '<path class="own" d="M{x:.1f} {y:.1f}m0 -7.5l7.5 7.5l-7.5 7.5l-7.5 -7.5z"/>',
    "lz4": '<path class="c" d="M{x:.1f} {y:.1f}m0 -7l7 12h-14z"/>',
    "raw": '<path class="b" d="M{x:.1f} {y:.1f}m-5.5 -5.5h11v11h-11z"/>',
}


def read_results() -> Any:
    """Read the newest result."""
    return json.loads(sorted(RESULTS.glob("proxies-*.json"))[-1].read_text(encoding="utf-8"))


def say(ratio: Sequence[float], digits: int | None = None) -> str:
    """Write a ratio with its ends; two decimals below 3, one below 30."""
    digits = (2 if ratio[0] < 3 else 1 if ratio[0] < 30 else 0) if digits is None else digits
    return f"{ratio[0]:.{digits}f} ({ratio[1]:.{digits}f}-{ratio[2]:.{digits}f})"


def say_bytes(share: float) -> str:
    """Write the bytes of proxies as a share of those of their originals."""
    return f"{100 * share:.0f} %"


def say_nearness(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Write luma, SSIM and RGB of some proxies."""
    return f"{row['psnr']:.1f} / {row['psnr_worst']:.1f}", f"{row['ssim']:.3f}", f"{row['rgb_psnr']:.1f}"


def fill_films(results: Any) -> str:
    """Films by size."""
    lines = []
    for key, title in FILMS.items():
        row = results["films"]["rows"][key]
        rule = "a proxy" if row["rule"] is None else "stays: not larger than the proxy"
        if "bytes" in (row["rule"] or ""):
            rule = f"stays: {row['bytes']:.1f} times the bytes"
        lines.append((title, say(row["random"]), say(row["every"]), say(row["once"]), say_bytes(row["bytes"]),
                      *say_nearness(row), rule))  # fmt: skip
    head = ("film of 52 s", "random clips", "every frame, in clips", "every frame, in one pass", "bytes",
            "luma, mean / worst, dB", "SSIM", "RGB, dB", "the rule says")  # fmt: skip
    note = (
        "Times as many clips a CPU second as the original: the median of the rounds, and the ends. Clips are 16\n"
        "frames, 4 apart at random, or consecutive; each is a batch. What stays was made for this table alone."
    )
    return f"{make_table(head, lines)}\n{note}\n"


def fill_photos(results: Any) -> str:
    """Photos by size."""
    lines = []
    for key, title in PHOTOS.items():
        row = results["photos"]["rows"][key]
        lines.append((title, f"{row['proxies']} of {row['files']}", say(row["pictures"]), say_bytes(row["bytes"]),
                      *say_nearness(row)))  # fmt: skip
    return make_table(("photos", "proxies", "pictures a CPU second, times the originals'", "bytes",
                       "luma, mean / worst, dB", "SSIM", "RGB, dB"), lines)  # fmt: skip


def fill_caches(results: Any) -> str:
    """Clips a CPU second, and bytes."""
    lines = []
    for key, title in CACHED.items():
        row = results["caches"]["rows"][key]
        cells = [f"{row['rates'][name][0]:,.0f}; {row['bytes'][name] / 1e6:,.1f} MB" for name in CONTENDERS]
        lines.append((f"{title}: {row['unit']}", *cells))
    return make_table(("at 224 x 224, a CPU second; bytes of all", *CONTENDERS.values()), lines)


def fill_writing(results: Any) -> str:
    """Wall and CPU of writing, against ffmpeg."""
    row = results["writing"]["rows"]
    lines = [
        (title, say(row[key]["wall"], 2), say(row[key]["CPU"], 2))
        for key, title in {
            "ffmpeg": "ffmpeg, its own number of threads",
            "ffmpeg, one thread each": "ffmpeg `-threads 1`",
        }.items()
    ]
    own = row["seconds"]["framefeed"]
    wall, cores = median(own["wall"]), results["writing"]["machine"]["cores"]
    note = (
        f"8 copies of the 720p trailer, two at once, on {cores} cores; above 1, framefeed is faster. It takes\n"
        f"{wall:.0f} s, in which it also reads each proxy again and compares it. Nothing else ran."
    )
    return f"{make_table(('against', 'wall: theirs / ours', 'CPU: theirs / ours'), lines)}\n{note}\n"


def fill_estimate(results: Any) -> str:
    """What was estimated of folders, and what came."""
    lines, gains, nbytes = [], [], []
    for key, row in results["estimate"]["rows"].items():
        told = row["estimated"]
        if row["proxies"] and told["proxies"]:
            gains.append(row["gain_ratio"])
            nbytes.append(row["bytes_ratio"])
            gain = f"{told['gain']:.1f} ({told['interval'][0]:.1f}-{told['interval'][1]:.1f})"
            lines.append((key, f"{told['proxies']} / {row['proxies']} of {row['files']}", gain, f"{row['gain'][0]:.1f}",
                          say_bytes(told["bytes"] / told["original_bytes"]), say_bytes(row["bytes"])))  # fmt: skip
        else:
            lines.append((key, f"{told['proxies']} / {row['proxies']} of {row['files']}", "", "", "", ""))
    table = make_table(
        ("folder", "proxies: told / made", "gain: told (interval)", "measured", "bytes: told", "came"), lines
    )

    def count(ratios: Sequence[float], bound: float) -> int:
        return sum(1 / (1 + bound) <= ratio <= 1 + bound for ratio in ratios)

    said = "; ".join(
        f"{what} within 10 %: {count(ratios, 0.1)}, within 25 %: {count(ratios, 0.25)} of {len(ratios)}"
        for what, ratios in (("gains", gains), ("bytes", nbytes))
    )
    return f"{table}\n{said[0].upper()}{said[1:]}.\n"


def fill_crops(results: Any) -> str:
    """Nearness of clips by crop and short side."""
    rows = results["crops"]["rows"]
    columns = [(key, side) for key in ("film", "photos") for side in next(iter(rows[key].values()))]

    def cell(facts: Mapping[str, Any]) -> str:
        return "refused" if facts.get("refused") else f"{facts['mean']:.1f} / {facts['worst']:.1f}"

    lines = [
        (f"`{crop}`", *(cell(rows[key][crop][side]) for key, side in columns)) for crop in next(iter(rows.values()))
    ]
    titles = {"film": "720p film", "photos": "photos of 1280"}
    head = ("dB of RGB, mean / worst clip", *(f"{titles[key]}, {side}" for key, side in columns))
    return make_table(head, lines)


FILLS: Mapping[str, Callable[[Any], str]] = {
    "proxies-crops": fill_crops,
    "proxies-films": fill_films,
    "proxies-photos": fill_photos,
    "proxies-caches": fill_caches,
    "proxies-writing": fill_writing,
    "proxies-estimate": fill_estimate,
}


def fill(text: str, results: Any) -> str:
    """Return the text of the page with the tables that the results give."""
    return _BLOCK.sub(lambda block: f"{block['name']} -->\n\n{FILLS[block['name']](results)}\n", text)


def draw(results: Any) -> str:
    """Draw clips a CPU second against bytes, both by powers of ten: a 720p film, and photos of 12 megapixels."""
    width, height, top, side = 720, 420, 92, 250
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" role="img" '
        'aria-label="Clips a CPU second against bytes: proxies have the fewest bytes, caches the most clips">',
        STYLE,
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        place_text(24, 32, "Clips a CPU second, and the bytes that they need", "ink bold", 18),
        place_text(24, 56, "At 224 x 224; each line is ten times as much. Up and left is better", "faint"),
    ]
    rows = results["caches"]["rows"]
    parts += _draw_panel(rows["film"], "720p film of 52 s: clips of 16 frames", (72, top, side), (6, 9), (0, 4))
    parts += _draw_panel(rows["12mp"], "40 photos of 12 megapixels: pictures", (430, top, side), (6, 9), (1, 5))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_panel(
    row: Mapping[str, Any], title: str, place: tuple[int, int, int], across: tuple[int, int], up: tuple[int, int]
) -> list[str]:
    left, top, side = place
    parts = [place_text(left, top - 10, title, "ink", 13)]
    for power in range(across[0], across[1] + 1):
        x = left + side * (power - across[0]) / (across[1] - across[0])
        size = f"{10 ** (power - 6):,} MB" if power < 9 else "1 GB"
        parts += [
            f'<path class="line" d="M{x:.1f} {top}v{side}"/>',
            place_text(x, top + side + 18, size, "faint", 12, "middle"),
        ]
    for power in range(up[0], up[1] + 1):
        y = top + side * (up[1] - power) / (up[1] - up[0])
        parts += [
            f'<path class="line" d="M{left} {y:.1f}h{side}"/>',
            place_text(left - 8, y + 4, f"{10**power:,}", "faint", 12, "end"),
        ]
    for name, form in FORMS.items():
        rate, nbytes = row["rates"][name][0], row["bytes"][name]
        x = left + side * (log10(nbytes) - across[0]) / (across[1] - across[0])
        y = top + side * (up[1] - log10(rate)) / (up[1] - up[0])
        # The caches are near to each other: the upper one's text stands higher, and where there is room.
        is_left = name == "raw" and x > left + side / 2
        at, anchor, base = (x - 12, "end", y - 12) if is_left else (x + 12, "start", y - 12 if name == "raw" else y - 1)
        parts += [
            form.format(x=x, y=y),
            place_text(at, base, CONTENDERS[name], "ink bold" if name == "proxy" else "ink", 13, anchor),
            place_text(at, base + 15, f"{rate:,.0f} a s, {nbytes / 1e6:,.0f} MB", "faint", 12, anchor),
        ]
    return [*parts, place_text(left + side / 2, top + side + 42, "bytes of all frames", "ink", 13, "middle")]


def main() -> None:
    """Fill the page, and draw the picture."""
    results = read_results()
    PICTURE.write_text(draw(results), encoding="utf-8")
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
