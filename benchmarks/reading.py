"""Read the figures of result files, of `framefeed bench ... --json`.

A figure is known by its address, "SUITE/ROW/COMPARISON/FIGURE", such as "decode/test-60/many files/CPU".
"""

from __future__ import annotations

import json
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
    def read(cls, figure: dict[str, Any]) -> Number:
        """Take it from a figure of a result."""
        return cls(figure["median"], figure.get("low"), figure.get("high"), figure.get("against", ""))

    def format(self, digits: int, *, span: bool = True) -> str:
        """Write it, with its interval: `2.20 (2.13-2.27)`."""
        text = f"{self.median:.{digits}f}"
        if not span or self.low is None or self.high is None:
            return text
        return f"{text} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def read_numbers(*names: str) -> dict[str, Number]:
    """Read all figures of result files, paths or names in `benchmarks/results`; those of later ones replace others."""
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
            # Rows of before design/0020 have none, but for those that goals name.
            for comparison in row.get("comparisons", ()):
                for name, figure in comparison["figures"].items():
                    yield f"{suite}/{row['key']}/{comparison['key']}/{name}", Number.read(figure)
