"""What a row of ``bench scan`` is held to, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framefeed.bench._measuring import Interval, Sample, Timings, as_json

SMALLEST = 1e-9
"""Seconds a file: on trees of a few files a difference may be noise below zero."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One line of what is aimed at.

    Attributes:
        what: In words.
        floor: What must be reached.
        aim: What should be.
        at_most: Whether the figure is the better the smaller it is.
        unit: Of the figure.
    """

    what: str
    floor: float
    aim: float
    at_most: bool = False
    unit: str = "x"

    def standing(self, figure: float) -> str:
        """Where a figure stands, in words."""
        sign = -1 if self.at_most else 1
        if sign * figure >= sign * self.aim:
            return f"aim {self.aim:g} reached"
        if sign * figure >= sign * self.floor:
            return f"floor {self.floor:g} held, aim {self.aim:g}"
        return f"{'ABOVE' if self.at_most else 'BELOW'} floor {self.floor:g}"

    def judge(self, figures: Mapping[str, Interval | float]) -> dict[str, Any]:
        """Write down what was found.

        Args:
            figures: By what they were taken of, such as "CPU", the one that counts first.
        """
        first = next(iter(figures.values()))
        return {
            "what": self.what,
            "unit": self.unit,
            "floor": self.floor,
            "aim": self.aim,
            "at_most": self.at_most,
            "figures": {
                name: as_json(of) if isinstance(of, Interval) else {"median": round(of, 3)}
                for name, of in figures.items()
            },
            "standing": self.standing(first.median if isinstance(first, Interval) else first),
        }


def per_file(samples: Timings, files: Mapping[str, int]) -> Timings:
    """The same as seconds a file.

    Args:
        samples: Of whole rounds.
        files: How many files a round of each contender has.
    """
    return Timings({
        name: {n: Sample(of.cpu / files[name], of.wall / files[name]) for n, of in rounds.items()}
        for name, rounds in samples.of.items()
    })  # fmt: skip


def steady(large: Mapping[int, Sample], small: Mapping[int, Sample], more: int) -> dict[int, Sample]:
    """Seconds a file without what a run costs however many files there are.

    Args:
        large: Round -> what many files took.
        small: Round -> what few took.
        more: How many more the many are.
    """
    rounds = sorted(large.keys() & small.keys())
    differences = ((n, large[n] - small[n]) for n in rounds)
    return {n: Sample(max(of.cpu / more, SMALLEST), max(of.wall / more, SMALLEST)) for n, of in differences}
