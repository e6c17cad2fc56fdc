"""Expand braces in the names of shards: ``train-{000000..000999}.tar``, ``{train,val}-{0..9}.tar``.

A name with braces that a file or an object has is that one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from framefeed._names import is_url
from framefeed._shown import show_name
from framefeed.errors import FramefeedError, MediaError, MissingMedia, UnreadableMedia, UsageError
from framefeed.media import MediaSource, StorageOptions
from framefeed.scanning._rows import Listing, SourceGroup
from framefeed.scanning._walk import is_glob

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
            f"{show_name(pattern)}: stands for {count} names, {MOST_NAMES} at most are expanded: give "
            "several patterns, or a list"
        )
    return list(map("".join, product(*choices)))


def _list_choices(pattern: str, text: str) -> list[str] | _Numbers:
    if "," in text:
        return text.split(",")
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{show_name(pattern)}: expected two numbers such as {{000..099}}, got {{{text}}}; if it is part of "
            "a file's name, there is no such file"
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


def expand_root(path: str, storage_options: StorageOptions | None = None) -> list[str]:
    """Expand a root that is no file's name; a root without braces is itself."""
    if not _BRACES.search(path) or _exists(path, storage_options):
        return [path]
    names = expand_braces(path)
    if not is_url(path) and not any(os.path.lexists(name) or is_glob(name) for name in names):
        raise MissingMedia(
            f"{path}: there is no such file, and none of the {len(names):,} that it stands for, such as {names[0]}: "
            "check its spelling",
            source=path,
            stage="open",
        )
    return names


def expand_lines(listing: Listing, storage_options: StorageOptions | None = None) -> Listing:
    """Expand the names of a list that are no files' names; each name has the columns of its line."""
    groups, counts = list[SourceGroup](), list[int]()
    errors, left = dict[str, FramefeedError](), MOST_NAMES
    for group in listing.groups:
        if "{" not in "".join(group.names):
            groups.append(group)
            counts += [1] * len(group)
            continue
        names = list[str]()
        for path in group.paths():
            expanded = [path]
            if path not in listing.unlistable and _BRACES.search(path) and not _exists(path, storage_options):
                try:
                    expanded = expand_braces(path)
                except UsageError as error:
                    errors[path] = UnreadableMedia(str(error), source=path, stage="open")
            left -= len(expanded) - 1
            if left < 0:
                raise UsageError(f"the braces of a list stand for more than {MOST_NAMES:,} names: give several lists")
            names += expanded
            counts.append(len(expanded))
        groups.append(SourceGroup("", names))
    column_rows = np.repeat(listing.column_rows, counts)
    return replace(listing, groups=groups, column_rows=column_rows, unlistable=listing.unlistable | errors)


def _exists(path: str, storage_options: StorageOptions | None) -> bool:
    if not is_url(path):
        return os.path.lexists(path)
    try:
        MediaSource.of(path, storage_options).stat()
    except MediaError:
        return False
    return True
