"""What the section of a write-up is, and how its table is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from framefeed._units import format_table
from framefeed.bench import Begin, BenchOptions, MakeRow
from framefeed.bench.baselines import Peers

Result = Mapping[str, Any]
"""Of a row, as `run_row` writes it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures: what was published first, then what was measured here; notes are needed to read it."""

    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """One of the write-ups.

    Attributes:
        title: What it is about.
        peers: Modules of the baselines that its rows need.
        plan: Key -> makes a row. Keys are the section's letter, or that, a colon and a word.
        tabulate: Writes its tables, by title, from the results of those of its rows that ran, by key.
        seconds: Least time that it takes, about.
    """

    title: str
    peers: Sequence[str]
    plan: Callable[[BenchOptions, Peers, Path, Begin], Mapping[str, MakeRow]]
    tabulate: Callable[[Mapping[str, Result]], Mapping[str, Table]]
    seconds: float = 60


def describe_table(title: str, table: Table) -> list[str]:
    """Write a table as lines of text."""
    return ["", title, *format_table([table.header, *table.lines], indent="  "), *(f"  {note}" for note in table.notes)]


def say_seconds(values: Sequence[float]) -> str:
    """Median of some rounds, with the fastest and the slowest: `12.3 (12.1-13.0)`."""
    digits = 1 if median(values) < 100 else 0
    span = f" ({min(values):.{digits}f}-{max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{median(values):.{digits}f}{span}"


def list_reasons(row: Result) -> dict[str, str]:
    """Route -> why it has no figures: what it raised, or what was wrong with its output."""
    wrong = {each["name"]: f"WRONG: {each['wrong'][0]}" for each in row["contenders"] if each["num_wrong"]}
    return {name: why.removeprefix("MissingMedia: ") for name, why in row["failed"].items()} | wrong
