"""A sweep over seeds as a program (``make chaos``): its options, a log after each seed, a verdict."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from framefeed.errors import FramefeedError
from tests.programs import report_lines, write_log

Outcome = Counter[str] | BaseException
"""What happened at a seed, or what was wrong there."""


def read_options(
    doc: str | None, words: Sequence[str] | None, what: str = "seeds", default: int = 200
) -> argparse.Namespace:
    """Read how many seeds, the first of them, and the log."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument(f"--{what}", type=int, default=default)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--log", type=Path)
    return parser.parse_args(words)


def try_seeds(run: Callable[[int], Counter[str]], options: argparse.Namespace) -> Iterator[Outcome]:
    """Run one seed after the other; what does not hold is an outcome."""
    for seed in range(options.first, options.first + options.seeds):
        try:
            yield run(seed)
        except (AssertionError, FramefeedError) as error:
            yield error


def report_seeds(
    title: str, outcomes: Iterable[Outcome], verdict: Callable[[], str], options: argparse.Namespace
) -> int:
    """Count what happened at the seeds, in a log that is whole after each; return 1 where one failed."""
    total, failed, lines = Counter[str](), 0, [f"# {title}, from seed {options.first} on"]

    def summarise(seeds: int) -> list[str]:
        counts = [f"{count:5} {name}" for name, count in sorted(total.items())]
        return [*lines, *counts, f"{seeds} seeds: {f'{failed} FAILED' if failed else verdict()}"]

    done = 0
    for done, outcome in enumerate(outcomes, 1):
        if isinstance(outcome, Counter):
            total += outcome
        else:
            failed += 1
            lines.append(f"seed {options.first + done - 1}: FAILED: {outcome}")
        if options.log is not None:
            write_log(options.log, "\n".join(summarise(done)) + "\n")
    report_lines(summarise(done), options.log)
    return 1 if failed else 0
