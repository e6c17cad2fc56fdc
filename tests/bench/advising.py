"""``bench all`` in this process: what each row is given and reports, with all the time that it wants."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framefeed.bench._isolated import Ended, Program, _describe
from framefeed.bench.advice import AdviceOptions, _files, _loading, _session, measure_all
from framefeed.errors import MissingMedia
from framefeed.parallel import Err, catch_outcome

ROWS = tuple(_session.PROGRAMS)
HOUR = 3600.0


def rewrite(value: Any) -> Any:
    """Write a value as strict JSON and read it again, as between two processes."""
    return json.loads(json.dumps(value, allow_nan=False))


@dataclass
class Here:
    """Runs rows in this process, instead of `run_isolated`; some not at all."""

    left_out: tuple[str, ...] = ()
    given: dict[str, dict[str, Any]] = field(default_factory=dict)
    reports: dict[str, list[Any]] = field(default_factory=dict)  # of the last run
    seconds: dict[str, float] = field(default_factory=dict)  # after which each would be ended

    def run(self, program: Program, options: dict[str, Any], folder: Path, *, seconds: float) -> Ended:
        row = next((name for name, (each, _) in _session.PROGRAMS.items() if each is program), program.__name__)
        self.given[row], self.seconds[row] = rewrite(options), seconds
        reports = self.reports[row] = []
        if row in self.left_out:
            return Ended(None)
        outcome = catch_outcome(partial(program, self.given[row]), lambda value: reports.append(rewrite(value)))
        last = reports[-1] if reports else None
        if not isinstance(outcome, Err):
            return Ended(last)
        if isinstance(outcome.error, KeyboardInterrupt):
            raise outcome.error
        return Ended(last, _describe(outcome.error))


@contextmanager
def rows_here(here: Here) -> Iterator[pytest.MonkeyPatch]:
    """Run rows in this process, each once or twice: with an hour for it, no clock decides what they do."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # as in a process of their own
        patch.setattr(_session, "run_isolated", here.run)
        patch.setattr(_files, "MOST_ROUNDS", 1)
        patch.setattr(_files, "_PROXY_TURNS", 1)
        patch.setattr(_loading, "MOST_ROUNDS", 1)
        patch.setattr(_loading, "_ROUND_SECONDS", 0.02)
        yield patch


def measure_here(
    media: Any, folder: Path, *, only: tuple[str, ...] = ROWS, here: Here | None = None, **options: Any
) -> dict[str, Any]:
    """Measure some rows, and those that these need."""
    here = here or Here()
    here.left_out = tuple(set(ROWS) - {"media", "decode", *only})
    paths = tuple(map(str, media)) if isinstance(media, list | tuple) else (str(media),)
    given = {"size": (96, 96), "disk": str(folder), "work": folder, "seconds": HOUR, "workers": 2, **options}
    with rows_here(here):
        result = measure_all(AdviceOptions(media=paths, **given))
    for row in (*only, "decode"):
        assert row not in result["failed"], result["failed"][row]
    return rewrite(result)


def begin_row(row: str, media: Any, folder: Path, **options: Any) -> dict[str, Any]:
    """Return what one row is given, in a folder that stays: the sample is there."""
    taken: dict[str, Any] = {}
    made = folder / "work"
    made.mkdir(exist_ok=True)

    def take(program: Program, given: dict[str, Any], scratch: Path, *, seconds: float) -> Ended:
        if program is _session.PROGRAMS[row][0]:
            taken.update(given)
            raise KeyboardInterrupt
        return here.run(program, {**given, "work": str(made)}, scratch, seconds=seconds)

    here = Here()
    with rows_here(here) as patch:
        patch.setattr(_session, "run_isolated", take)
        paths = tuple(map(str, media)) if isinstance(media, list | tuple) else (str(media),)
        given = {"size": (96, 96), "disk": str(folder), "seconds": HOUR, "workers": 2, **options}
        try:
            measure_all(AdviceOptions(media=paths, **given))
        except MissingMedia:
            raise AssertionError(here.reports) from None
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    own = {"work": str(made), "disk_work": str(disk), "cache": str(disk / "cache")}
    return rewrite({**taken, **own, "row_seconds": HOUR})


def run_row(row: str, given: dict[str, Any]) -> list[Any]:
    """Run a row, and return all its reports."""
    reports: list[Any] = []
    with rows_here(Here()):
        _session.PROGRAMS[row][0](given, lambda value: reports.append(rewrite(value)))
    return reports
