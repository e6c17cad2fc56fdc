"""How much a run tests: a part (`make test`), all (`make test-all`), or the long forms too (`make chaos`)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

IS_LONG = os.environ.get("FRAMEFEED_LONG_TESTS") == "1"
IS_ALL = IS_LONG or os.environ.get("FRAMEFEED_ALL_TESTS") == "1"

Size = TypeVar("Size")


def either(*, short: Size, long: Size) -> Size:
    """Choose the size for this run: the long one is for tests that are marked ``long``."""
    return long if IS_LONG else short


def sampled(cases: Sequence[Any], kind: Callable[[Any], Hashable], *, step: int | None = None) -> list[Any]:
    """Choose cases for `make test`, and leave the others to `make test-all`.

    Only where another test has all of them, or where those of a kind differ in what the test is not about.

    Args:
        cases: Values of parameters; a tuple has one for each.
        kind: Of each kind, the first is run.
        step: And each so-manyth from there on.
    """
    seen: Counter[Hashable] = Counter()
    chosen = []
    for case in cases:
        number = seen[kind(case)]
        seen[kind(case)] += 1
        values = case if isinstance(case, tuple) else (case,)
        is_run = number % step == 0 if step else number == 0
        chosen.append(case if is_run else pytest.param(*values, marks=pytest.mark.test_all))
    return chosen


def pairwise(*axes: Sequence[Any]) -> list[Any]:
    """Combine the values of axes: in `make test`, so that every pair of values of two axes occurs, and else all.

    Only for tests that `tests/times.txt` shows to be long, and never for axes of error types, codecs or formats.
    """
    cases = list(product(*axes))
    chosen = set(cover_pairs(cases))
    left_out = pytest.mark.test_all
    return [case if number in chosen else pytest.param(*case, marks=left_out) for number, case in enumerate(cases)]


def choose_pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combine the values of axes as `pairwise` does, for a loop within one test."""
    cases = list(product(*axes))
    return cases if IS_ALL else [cases[number] for number in cover_pairs(cases)]


def cover_pairs(cases: Sequence[tuple[Any, ...]]) -> list[int]:
    """Choose cases greedily until each pair of values that occurs in one of them is covered; return their numbers."""
    pairs = [set(combinations(enumerate(map(repr, case)), 2)) for case in cases]
    missing = set().union(*pairs)
    chosen = []
    while missing:
        best = max(range(len(cases)), key=lambda number: len(pairs[number] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen)
