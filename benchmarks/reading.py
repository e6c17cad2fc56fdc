"""Read the figures of result files, of `framefeed bench ... --json` today and of its earlier forms.

A figure is known by its address, "SUITE/ROW/COMPARISON/FIGURE", such as "decode/test-60/many files/CPU".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Number:
    """A median, with the ends of its interval where there are any."""

    median: float
    low: float | None = None
    high: float | None = None
    against: str = ""

    @classmethod
    def read(cls, figure: dict[str, Any], factor: float = 1) -> Number:
        """Take it from a figure of a result."""
        ends = (figure[name] * factor if name in figure else None for name in ("low", "high"))
        return cls(figure["median"] * factor, *ends, figure.get("against", ""))

    def format(self, digits: int, *, span: bool = True) -> str:
        """Write it, with its interval: `2.20 (2.13-2.27)`."""
        text = f"{self.median:.{digits}f}"
        if not span or self.low is None or self.high is None:
            return text
        return f"{text} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def read_numbers(*names: str) -> dict[str, Number]:
    """Read all figures of some result files; those of later files replace those of earlier ones.

    Args:
        names: Paths, or names in `benchmarks/results`.
    """
    return {
        address: number
        for name in names
        for address, number in _numbers_of(json.loads((RESULTS / name).read_text(encoding="utf-8")))
    }


def _numbers_of(document: Any) -> Iterator[tuple[str, Number]]:
    if not isinstance(document, dict):
        return
    if document.get("bench") == "all":
        for part in document.values():
            yield from _numbers_of(part)
    elif "bench" in document:
        suite = document["bench"]
        for row in document["rows"]:
            read = _read_row if "comparisons" in row else EARLIER_ROWS[suite]
            yield from ((f"{suite}/{row['key']}/{address}", number) for address, number in read(row))


def _read_row(row: dict[str, Any]) -> Iterator[tuple[str, Number]]:
    for comparison in row["comparisons"]:
        for name, figure in comparison["figures"].items():
            yield f"{comparison['key']}/{name}", Number.read(figure)


# --- results of before design/0020 ---------------------------------------------------------------

_METRICS = {"cpu": "CPU", "cpu_own_resize": "CPU, libraries with their own resize", "wall": "wall"}


def _read_earlier_decode(row: dict[str, Any]) -> Iterator[tuple[str, Number]]:
    for outcome in (*row.get("best", ()), *row.get("goals", ())):
        key = f"{outcome['rule']}: {' + '.join(outcome['peers'])}" if outcome["peers"] else outcome["rule"]
        for name, title in _METRICS.items():
            if name in outcome:
                yield f"{key}/{title}", Number.read(outcome[name])
    if row["key"] == "length":
        yield "ours/CPU", Number.read(row["cpu_long_to_short"])
        yield "ours/wall", Number.read(row["wall_long_to_short"])
    for video in row.get("videos", ()):
        for method, decibels in video["psnr_db"].items():
            yield f"{video['video']}/{method}", Number(decibels)
        yield f"{video['video']}, above torchcodec/PSNR", Number(video["above_torchcodec_db"])
    for workers, share in row.get("overhead", {}).items():
        yield f"overhead/wall, {workers} threads", Number.read(share, 100)
    if row["key"] == "moving":
        yield from ((f"moving/wall, {name}", Number.read(ratio)) for name, ratio in row["wall"].items())
    if row["key"] == "memory":
        yield "peak/peak", Number(row["peak_mb"])


# How a goal was worded -> key of the comparison today, and its figures where they are named otherwise.
_SCAN_KEYS = {
    "the rate of PyAV in a process pool": "pyav",
    "the rate of imagesize": "imagesize",
    "share of bare open + fstat + pread + close": "limit",
    "media files opened": "opened",
    "the cost of walk + stat + reading the old table": "cost",
    "the rate of av.open, for facts": "facts",
    "the rate of TorchCodec's exact constructor, for the frame table": "frame table",
    "peak": "peak",
    "opening it": "opening",
}


def _read_earlier_scan(row: dict[str, Any]) -> Iterator[tuple[str, Number]]:
    for goal in row["goals"]:
        what = goal["what"]
        key = _SCAN_KEYS.get(what) or "planning"
        if what.startswith("share of walk"):
            key = "1 core" if what.endswith(", 1 core") else "all cores"
        for name, figure in goal["figures"].items():
            today = {"memory": "planning" if key == "planning" else "most"}.get(name, name)
            yield f"{key}/{today}", Number.read(figure)


def _read_earlier_cache(row: dict[str, Any]) -> Iterator[tuple[str, Number]]:
    for name, text in row.get("reported", {}).items():
        ours, _, rival = name.partition(" against ")
        share, cpu, low, high = map(float, re.findall(r"\d+\.\d+", text)[:4])
        yield f"speed of {rival}/{ours}", Number(cpu, low, high)
        yield f"bytes of {rival}/{ours}", Number(share)
    for goal in row["goals"]:
        for title, figure in goal["figures"].items():
            metric, _, rest = title.partition(", ")
            number = Number.read(figure)
            if row["key"] == "exact" and "PNG" in goal["what"]:
                if metric == "CPU":
                    yield f"speed of PNG (OpenCV)/{rest}", number
            elif row["key"] == "exact":
                ours, against, rival = (rest if metric == "CPU" else title).partition(" against ")
                if against:
                    kind = "bytes" if "bytes" in goal["what"] else "speed"
                    yield f"{kind} of {rival}/{ours}", number
                    yield f"{kind} of joblib lz4, its fastest level/{ours}", number
            elif row["key"] == "original":
                yield f"{'fastest peer' if 'peer' in goal['what'] else 'decoder'}/{metric}", number
            elif row["key"] == "second":
                yield f"second/{title}", number
            elif row["key"] == "batches":
                yield f"{'loader' if rest == 'ClipLoader' else 'store'}/{metric}", number
            elif row["key"] == "filling":
                kind = "outputs, codec auto" if "outputs" in goal["what"] else "planes, lz4"
                yield f"{kind}/{metric}", number


EARLIER_ROWS = {"decode": _read_earlier_decode, "scan": _read_earlier_scan, "cache": _read_earlier_cache}
