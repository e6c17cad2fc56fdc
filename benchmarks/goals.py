"""Compare results with the goals of this project: met, held or missed, with figures.

usage: python -m benchmarks.goals [RESULT...]      (in the project's folder)

Without RESULT, all of benchmarks/results; with some, only the goals that they have figures for.

A goal has a floor, which must hold, and an aim. The exit code is 1 where a floor does not hold. Where another figure
bounds what is possible, floor and aim are at most shares of it ("bound", "floor_share", "aim_share").
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.reading import RESULTS, Number, read_numbers

GOALS = Path(__file__).resolve().parent / "goals.json"


def judge(goal: dict[str, object], number: Number | None) -> tuple[str, str]:
    """Say where a figure stands, in a word and in full."""
    at_most = bool(goal.get("at_most"))
    floor, aim = (float(str(goal[name])) for name in ("floor", "aim"))
    bound = "at most" if at_most else "at least"
    wanted = f"{bound} {floor:g}, aim {aim:g}"
    if number is None:
        return "not measured", wanted
    sign = -1 if at_most else 1
    verdict = (
        "met" if sign * number.median >= sign * aim else "held" if sign * number.median >= sign * floor else "MISSED"
    )
    return verdict, f"{number.format(3)}; {wanted}"


def limit(goal: dict[str, object], numbers: Mapping[str, Number]) -> dict[str, object]:
    """Lower floor and aim to their shares of the bound, where the goal has one that is measured."""
    bound = numbers.get(str(goal.get("bound")))
    if bound is None:
        return goal
    return goal | {
        name: round(min(float(str(goal[name])), float(str(goal[f"{name}_share"])) * bound.median), 3)
        for name in ("floor", "aim")
    }


def main() -> int:
    """Print all goals; 1 where a floor does not hold."""
    parser = argparse.ArgumentParser(description="Compare results with the goals of this project.")
    parser.add_argument("results", nargs="*", metavar="RESULT")
    given = parser.parse_args().results
    names = given or sorted(path.name for path in RESULTS.glob("*.json"))
    numbers = read_numbers(*(str(Path(name).resolve()) if Path(name).is_file() else name for name in names))
    verdicts = []
    for goal in json.loads(GOALS.read_text(encoding="utf-8")):
        if given and goal["figure"] not in numbers:
            continue
        verdict, text = judge(limit(goal, numbers), numbers.get(goal["figure"]))
        verdicts.append(verdict)
        print(f"{verdict:12}  {goal['figure']}: {text}")
    print(
        ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        or "no goal is measured"
    )
    return int("MISSED" in verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
