"""A file met twice is one row.

Within a walk nothing is met twice, but for files that are links. Only where there are such files, named ones or
manifests, all rows are compared: by the hashes of their real paths first, so that few are compared by more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framefeed.index.listing_rows import BARE, Group, IntArray, Listing
from framefeed.index.listing_walk import Walked
from framefeed.index.names import is_url

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """A group as it was found.

    Attributes:
        group: The rows.
        is_walked: Whether it is noted where the folder really lies, and which of these files are links.
        may_repeat: Whether a row that is no link may be one of another group too: no folder is walked twice.
        first_column_row: Row of the manifests' columns that belongs to its first row, the others follow; or -1.
    """

    group: Group
    is_walked: bool = False
    may_repeat: bool = False
    first_column_row: int = BARE

    def column_rows(self) -> IntArray:
        """Row of the manifests' columns that belongs to each row, or -1."""
        size = len(self.group.names)
        if self.first_column_row == BARE:
            return np.full(size, BARE, np.int64)
        return np.arange(self.first_column_row, self.first_column_row + size, dtype=np.int64)


def without_repeats(found: Sequence[Found], columns: pa.Table, walked: Walked) -> Listing:
    """Drop what adds nothing: a file named again without columns, or with those of a row that it has.

    Lines of a manifest that name one file with different columns are different rows: segments of one video.
    """
    column_rows = np.concatenate([np.empty(0, np.int64), *(one.column_rows() for one in found)])
    kept = np.ones(len(column_rows), np.bool_)
    if walked.links or not all(one.is_walked and not one.may_repeat for one in found):
        _judge(_Reals(found, walked), columns, column_rows, kept)
    return Listing(list(_kept_groups(found, kept)), column_rows[kept], columns, walked.unlistable)


def _kept_groups(found: Sequence[Found], kept: np.ndarray) -> Iterator[Group]:
    start = 0
    for one in found:
        group = one.group
        these = kept[start : start + len(group.names)]
        start += len(these)
        if these.all():
            yield group
        elif these.any():
            names = [group.names[number] for number in np.flatnonzero(these).tolist()]
            yield Group(group.folder, names, group.kind)


def _judge(reals: _Reals, columns: pa.Table, column_rows: IntArray, kept: np.ndarray) -> None:
    """Decide row by row; a row without columns takes those of a later row about the same file."""
    hashes = reals.hashes()
    repeated = np.flatnonzero(_occurs_again(hashes))
    met = set[tuple[str, str | None]]()
    files, bare = set[str](), dict[str, int]()
    keys = _line_keys(columns, column_rows[repeated])
    for row, real, key in zip(repeated.tolist(), reals.of_rows(repeated), keys, strict=True):
        is_bare = column_rows[row] == BARE
        if not is_bare and real in bare:
            column_rows[bare.pop(real)] = column_rows[row]
            met.add((real, key))
            kept[row] = False
        elif (real, key) in met or (is_bare and real in files):
            kept[row] = False
        else:
            if is_bare:
                bare[real] = row
            met.add((real, key))
            files.add(real)


def _occurs_again(hashes: IntArray) -> np.ndarray:
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order[1:]] == hashes[order[:-1]]
    again = np.zeros(len(hashes), np.bool_)
    again[order[1:][equal]] = True
    again[order[:-1][equal]] = True
    return again


def _line_keys(columns: pa.Table, column_rows: IntArray) -> Iterator[str | None]:
    """What tells lines about one file apart; None for rows without columns."""
    for start in range(0, len(column_rows), _ROWS_AT_ONCE):
        rows = column_rows[start : start + _ROWS_AT_ONCE]
        bare = rows == BARE
        values = [None] * len(rows) if bare.all() else columns.take(pa.array(rows, mask=bare)).to_pylist()
        # Through repr, because NaN is not equal to itself.
        yield from (None if is_bare else repr(value) for value, is_bare in zip(values, bare.tolist(), strict=True))


class _Reals:
    """What the paths of rows really name, as ``os.path.realpath``, with one look-up a folder."""

    def __init__(self, found: Sequence[Found], walked: Walked) -> None:
        self._found = found
        self._walked = walked
        self._folders: dict[str, str] = {}

    def hashes(self) -> IntArray:
        """Hash of each row's real path."""
        sizes = [len(one.group.names) for one in self._found]
        parts = [
            np.fromiter(map(hash, self._of_group(one, one.group.names)), np.int64, size)
            for one, size in zip(self._found, sizes, strict=True)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def of_rows(self, rows: IntArray) -> Iterator[str]:
        """The real paths of some rows, given in their order."""
        ends = np.cumsum([len(one.group.names) for one in self._found])
        groups = np.searchsorted(ends, rows, side="right")
        for group in np.unique(groups).tolist():
            one = self._found[group]
            first = int(ends[group]) - len(one.group.names)
            yield from self._of_group(one, [one.group.names[row - first] for row in rows[groups == group].tolist()])

    def _of_group(self, found: Found, names: Sequence[str]) -> Iterator[str]:
        folder = found.group.folder
        if not found.is_walked:
            start = folder and folder + os.sep
            yield from (self._of_path(start + name) for name in names)
            return
        links = self._walked.links.get(folder, ())
        prefix = self._walked.real_folder(folder) + os.sep
        for name in names:
            yield self._of_path(os.path.join(folder, name)) if name in links else prefix + name

    def _of_path(self, path: str) -> str:
        if is_url(path) or not path or "\0" in path:
            return path
        folder, _, name = path.rpartition(os.sep)
        if name in ("", os.curdir, os.pardir) or os.path.islink(path):
            return os.path.realpath(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder or os.sep)
        return path if real == folder else os.path.join(real, name)
