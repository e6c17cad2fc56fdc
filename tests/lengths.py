"""How much a run tests: a part (`make test`), all (`make test-all`), or the long forms too (`make chaos`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, TypeVar

IS_LONG = os.environ.get("FRAMEFEED_LONG_TESTS") == "1"
IS_ALL = IS_LONG or os.environ.get("FRAMEFEED_ALL_TESTS") == "1"

Size = TypeVar("Size")


def either(*, short: Size, long: Size) -> Size:
    """Choose the size for this run: the long one is for tests that are marked ``long``."""
    return long if IS_LONG else short


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combine the values of axes: every pair of values of two axes occurs; in `make test-all`, the whole product.

    Only for tests that `tests/times.txt` shows to be long, and never for axes of error types, codecs or formats.
    """
    cases = list(product(*axes))
    return cases if IS_ALL else cover_pairs(cases)


def cover_pairs(cases: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Choose cases greedily until each pair of values that occurs in one of them is covered; they stay in order."""
    ranks = [tuple(map(repr, case)) for case in cases]
    pairs = [set(combinations(enumerate(rank), 2)) for rank in ranks]
    missing = set().union(*pairs)
    chosen = set()
    while missing:
        best = max(range(len(cases)), key=lambda number: len(pairs[number] & missing))
        chosen.add(best)
        missing -= pairs[best]
    return [case for number, case in enumerate(cases) if number in chosen]
