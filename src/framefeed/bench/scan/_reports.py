"""A report of ``bench scan`` as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framefeed.bench._reports import aligned, machine_line

Row = Mapping[str, Any]
_PLAIN = ("pictures", "bytes", "seconds", "planned", "peak_mb", "resident_mb", "opened_by_python", "opened_by_anybody")
"""Facts of a row that are shown as they are."""


def scan_row_lines(row: Row, with_goals: bool = True) -> list[str]:
    """One row: its title and its figures.

    Args:
        row: Of a report.
        with_goals: Whether to say how figures stand to what this project aims at.
    """
    lines = ["", row["title"], *_rates(row.get("engines") or row.get("ways") or ())]
    lines += [f"  {name.replace('_', ' ')}: {_shown(row[name])}" for name in _PLAIN if name in row]
    lines += [f"  {name} failed: {why}" for name, why in row.get("failed", {}).items()]
    lines += [f"  WRONG: {line}" for line in row.get("wrong", ())]
    return lines + [line for goal in row["goals"] for line in (_goal(goal) if with_goals else _figures(goal))]


def scan_closing_lines(report: Row) -> list[str]:
    """What belongs to all rows: what was left out, the machine."""
    lines = [f"not run: {key}: {why}" for key, why in report["skipped"].items()]
    lines += [f"not compared, not installed: {name} ({why})" for name, why in report["missing"].items()]
    return [*lines, "", machine_line(report)]


def _rates(engines: Sequence[Row]) -> list[str]:
    if not engines:
        return []
    ranked = sorted(engines, key=lambda engine: -engine["files_per_cpu_second"])
    header = ["", "files/CPU s", "files/s", "start-up CPU s", ""]
    lines = aligned([header, *map(_cells, ranked)])
    return lines + [f"    {engine['name']}: {line}" for engine in ranked for line in engine.get("wrong", ())]


def _cells(engine: Row) -> list[str]:
    start_up = engine.get("start_up", {}).get("cpu_seconds", engine.get("start_up_cpu_seconds"))
    wrong = engine.get("num_wrong")
    return [
        engine["name"],
        *(f"{engine[name]:,.0f}" for name in ("files_per_cpu_second", "files_per_second")),
        "" if start_up is None else f"{start_up:.2f}",
        f"{wrong} WRONG" if wrong else "",
    ]


def _goal(goal: Row) -> list[str]:
    lines = [f"  {goal['what']}: {goal['standing']}"]
    for name, figure in goal["figures"].items():
        lines.append(f"    {name}: {_figure(figure, goal['unit'])}")
    return lines


def _figures(goal: Row) -> list[str]:
    lines: list[str] = []
    for name, figure in goal["figures"].items():
        text = _figure(figure, goal["unit"])
        lines.append(f"    {text}: {name}" if lines else f"  {goal['what']}: {text}: {name}")
    return lines


def _figure(figure: Row, unit: str) -> str:
    pairs = f" ({figure['low']:.2f}-{figure['high']:.2f}, {figure['pairs']} pairs)" if "pairs" in figure else ""
    return f"{figure['median']:.2f}{unit}{pairs}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)
