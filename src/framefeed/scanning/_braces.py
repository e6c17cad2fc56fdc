"""Expand braces in the names of shards: ``train-{000000..000999}.tar``, ``{train,val}-{0..9}.tar``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product

from framefeed.errors import UsageError

MOST_NAMES = 1_000_000
"""Names of one pattern."""
# Braces without braces inside, in which there are two dots or a comma; others are part of a name.
_BRACES = re.compile(r"\{([^{}]*(?:\.\.|,)[^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})", re.ASCII)


def expand_braces(pattern: str) -> list[str]:
    """Expand the ranges of numbers and the alternatives of a pattern; the last of them changes first.

    Numbers keep the width of the wider end if either end begins with 0, and count down if the first is the larger.
    Braces without two dots or a comma are part of the name.

    >>> expand_braces("{a,b}-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar', 'b-08.tar', 'b-09.tar', 'b-10.tar']

    Raises:
        UsageError: A range is not of two numbers, or there are more than a million names.
    """
    parts = _BRACES.split(pattern)
    choices = [_list_choices(pattern, part) if number % 2 else [part] for number, part in enumerate(parts)]
    count = math.prod(map(len, choices))
    if count > MOST_NAMES:
        raise UsageError(
            f"{pattern}: stands for {count} names, {MOST_NAMES} at most are expanded: give several patterns, or a list"
        )
    return list(map("".join, product(*choices)))


def _list_choices(pattern: str, text: str) -> list[str] | _Numbers:
    if "," in text:
        return text.split(",")
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{pattern}: expected two numbers such as {{000..099}}, got {{{text}}}; if it is part of a file's name, "
            "there is no such file"
        )
    return _Numbers(match[1], match[2])


class _Numbers:
    """The numbers of a range as text, which are counted before they are made."""

    def __init__(self, first: str, last: str) -> None:
        low, high = int(first), int(last)
        self._range = range(low, high + 1) if low <= high else range(low, high - 1, -1)
        has_width = any(len(end) > 1 and end[0] == "0" for end in (first, last))
        self._width = max(len(first), len(last)) if has_width else 0

    def __len__(self) -> int:
        return len(self._range)

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self._width}}" for number in self._range)
