"""A file met twice is one row: that of its own path where it is met by that, else of the first link.

Where files are labelled by their folders, one that is met under two labels is a row for each. Within a walk nothing is
met twice, but for files that are links, and folders that are listed by several names. Only where there are such, named
files or manifests, all rows are compared: by the hashes of their real paths first, so that few are compared by more.
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


def without_repeats(found: Sequence[Found], columns: pa.Table, walked: Walked, *, by_parent: bool = False) -> Listing:
    """Drop what adds nothing: a file named again without columns, or with those of a row that it has.

    Lines of a manifest that name one file with different columns are different rows: segments of one video.

    Args:
        found: The rows.
        columns: Of all manifests.
        walked: What is known of the folders that were walked.
        by_parent: Rows of one file in folders of two names are different rows too.
    """
    column_rows = np.concatenate([np.empty(0, np.int64), *(one.column_rows() for one in found)])
    kept = np.ones(len(column_rows), np.bool_)
    repeated = 0
    if walked.links or walked.is_relisted or not all(one.is_walked and not one.may_repeat for one in found):
        repeated = _judge(_Reals(found, walked, by_parent=by_parent), columns, column_rows, kept)
    groups = list(_kept_groups(found, kept))
    return Listing(
        groups,
        column_rows[kept],
        columns,
        walked.unlistable,
        repeated,
        walked.repeated_folders,
        walked.passed_over,
    )


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


def _judge(reals: _Reals, columns: pa.Table, column_rows: IntArray, kept: np.ndarray) -> int:
    """Decide row by row; a row without columns takes those of a later row about the same file.

    Returns:
        How many rows are dropped, those not counted whose file has a line in a manifest.
    """
    rows = np.flatnonzero(_occurs_again(reals.hashes()))
    files = list(reals.of_rows(rows))
    keys = list(_line_keys(columns, column_rows[rows]))
    bare, taken, met, repeated = _bare_rows(rows.tolist(), files, keys), set[str](), set[tuple[str, str]](), 0
    for row, (real, _), key in zip(rows.tolist(), files, keys, strict=True):
        if key is None:
            kept[row] = bare.get(real) == row
            repeated += real in bare and not kept[row]
        elif real in bare and real not in taken:
            column_rows[bare[real]] = column_rows[row]
            taken.add(real)
            met.add((real, key))
            kept[row] = False
        else:
            kept[row] = (real, key) not in met
            repeated += not kept[row]
            met.add((real, key))
    return repeated


def _bare_rows(rows: Sequence[int], files: Sequence[tuple[str, bool]], keys: Sequence[str | None]) -> dict[str, int]:
    """The row without columns that each file keeps: the first that is no link, else the first; none after a line."""
    bare, linked, lined = dict[str, int](), set[str](), set[str]()
    for row, (real, is_link), key in zip(rows, files, keys, strict=True):
        if key is not None:
            if real not in bare:
                lined.add(real)
        elif real not in lined and (real not in bare or (real in linked and not is_link)):
            bare[real] = row
            linked -= {real}
            linked |= {real} if is_link else set()
    return bare


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
    """What the paths of rows really name, as ``os.path.realpath``, with one look-up a folder.

    Args:
        found: The rows.
        walked: What is known of the folders that were walked.
        by_parent: Tell rows of one file apart by the names of the folders in which they were found.
    """

    def __init__(self, found: Sequence[Found], walked: Walked, *, by_parent: bool) -> None:
        self._found = found
        self._walked = walked
        self._by_parent = by_parent
        self._folders: dict[str, str] = {}

    def hashes(self) -> IntArray:
        """Hash of each row's real path."""
        sizes = [len(one.group.names) for one in self._found]
        parts = [
            np.fromiter(map(hash, self._of_group(one, one.group.names)), np.int64, size)
            for one, size in zip(self._found, sizes, strict=True)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def of_rows(self, rows: IntArray) -> Iterator[tuple[str, bool]]:
        """What tells the files of some rows apart, and whether the row's own path is a link; rows in their order."""
        ends = np.cumsum([len(one.group.names) for one in self._found])
        groups = np.searchsorted(ends, rows, side="right")
        for group in np.unique(groups).tolist():
            one = self._found[group]
            first = int(ends[group]) - len(one.group.names)
            names = [one.group.names[row - first] for row in rows[groups == group].tolist()]
            links = self._walked.links.get(one.group.folder, ()) if one.is_walked else None
            for name, real in zip(names, self._of_group(one, names), strict=True):
                path = os.path.join(one.group.folder, name)
                label = f"{os.path.basename(os.path.dirname(path))}{os.sep}" if self._by_parent else ""
                yield label + real, os.path.islink(path) if links is None else name in links

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
