"""Roots -> rows: folders are walked, globs matched, manifests read, named files are rows.

A file met twice is one row: that of its own path where it is met by that, else of the first link.

Where files are labelled by their folders, one that is met under two labels is a row for each. Within a walk nothing is
met twice, but for files that are links, and folders that are listed by several names. Only where there are such, named
files or manifests, all rows are compared: by the hashes of their real paths first, so that few are compared by more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed.catalog._names import absolute, is_url
from framefeed.catalog.scan._list_columns import ListOptions
from framefeed.catalog.scan._manifests import MANIFEST_SUFFIXES, read_manifest
from framefeed.catalog.scan._rows import (
    ALL_MEDIA_SUFFIXES,
    NO_COLUMN_ROW,
    VIDEO_SUFFIXES,
    Listing,
    PathGroup,
    get_suffix,
)
from framefeed.catalog.scan._walk import ImageFolders, Walk, WalkFacts, is_glob, list_glob
from framefeed.errors import MissingMedia, UnreadableMedia, UsageError

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as it was found.

    Attributes:
        group: The rows.
        is_walked: Whether it is noted where the folder really lies, and which of these files are links.
        may_repeat: Whether a row that is no link may be one of another group too: no folder is walked twice.
        first_column_row: Row of the manifests' columns that belongs to its first row, the others follow; or -1.
    """

    group: PathGroup
    is_walked: bool = False
    may_repeat: bool = False
    first_column_row: int = NO_COLUMN_ROW

    def column_rows(self) -> IntArray:
        """Row of the manifests' columns that belongs to each row, or -1."""
        size = len(self.group.names)
        if self.first_column_row == NO_COLUMN_ROW:
            return np.full(size, NO_COLUMN_ROW, np.int64)
        return np.arange(self.first_column_row, self.first_column_row + size, dtype=np.int64)


def drop_repeats(
    found: Sequence[ListedGroup], columns: pa.Table, walked: WalkFacts, *, by_parent: bool = False
) -> Listing:
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
        repeated = _mark_repeats(_RealPaths(found, walked, by_parent=by_parent), columns, column_rows, kept)
    groups = list(_select_groups(found, kept))
    return Listing(
        groups,
        column_rows[kept],
        columns,
        walked.unlistable,
        repeated,
        walked.repeated_folders,
        walked.passed_over,
    )


def _select_groups(found: Sequence[ListedGroup], kept: np.ndarray) -> Iterator[PathGroup]:
    start = 0
    for one in found:
        group = one.group
        these = kept[start : start + len(group.names)]
        start += len(these)
        if these.all():
            yield group
        elif these.any():
            names = [group.names[number] for number in np.flatnonzero(these).tolist()]
            yield PathGroup(group.folder, names, group.kind)


def _mark_repeats(reals: _RealPaths, columns: pa.Table, column_rows: IntArray, kept: np.ndarray) -> int:
    """Decide row by row; a row without columns takes those of a later row about the same file.

    Returns:
        How many rows are dropped, those not counted whose file has a line in a manifest.
    """
    rows = np.flatnonzero(_find_equal_hashes(reals.hashes()))
    files = list(reals.of_rows(rows))
    keys = list(_make_line_keys(columns, column_rows[rows]))
    bare, taken, met, repeated = _choose_bare_rows(rows.tolist(), files, keys), set[str](), set[tuple[str, str]](), 0
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


def _choose_bare_rows(
    rows: Sequence[int], files: Sequence[tuple[str, bool]], keys: Sequence[str | None]
) -> dict[str, int]:
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


def _find_equal_hashes(hashes: IntArray) -> np.ndarray:
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order[1:]] == hashes[order[:-1]]
    again = np.zeros(len(hashes), np.bool_)
    again[order[1:][equal]] = True
    again[order[:-1][equal]] = True
    return again


def _make_line_keys(columns: pa.Table, column_rows: IntArray) -> Iterator[str | None]:
    """What tells lines about one file apart; None for rows without columns."""
    for start in range(0, len(column_rows), _ROWS_AT_ONCE):
        rows = column_rows[start : start + _ROWS_AT_ONCE]
        bare = rows == NO_COLUMN_ROW
        values = [None] * len(rows) if bare.all() else columns.take(pa.array(rows, mask=bare)).to_pylist()
        # Through repr, because NaN is not equal to itself.
        yield from (None if is_bare else repr(value) for value, is_bare in zip(values, bare.tolist(), strict=True))


class _RealPaths:
    """What the paths of rows really name, as ``os.path.realpath``, with one look-up a folder.

    Args:
        found: The rows.
        walked: What is known of the folders that were walked.
        by_parent: Tell rows of one file apart by the names of the folders in which they were found.
    """

    def __init__(self, found: Sequence[ListedGroup], walked: WalkFacts, *, by_parent: bool) -> None:
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

    def _of_group(self, found: ListedGroup, names: Sequence[str]) -> Iterator[str]:
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


__all__ = ["ALL_MEDIA_SUFFIXES", "VIDEO_SUFFIXES", "ImageFolders", "Listing", "PathGroup", "Roots", "list_roots"]

Roots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def list_roots(
    roots: Roots,
    *,
    suffixes: frozenset[str] = ALL_MEDIA_SUFFIXES,
    image_folders: ImageFolders = "image",
    without: frozenset[str] = frozenset(),
    by_parent: bool = False,
    lists: ListOptions | None = None,
) -> Listing:
    """List the media of folders, globs, manifests and named files.

    Args:
        roots: One or several. A folder gives its files by their endings, a glob what it matches (``data/**/*.jpg``; a
            pattern that is the name of something that exists is that name), both in the order of
            ``os.fsencode(path)``. What else is named is a row, also if it is missing or no media.
        suffixes: Lower-case endings of the files that count in a folder.
        image_folders: "video" makes each folder that directly holds pictures, be it one, a row of its own: a video
            whose frames they are.
        without: Paths of files that globs do not match: those that are to be written.
        by_parent: Files are labelled by their folders' names: one that is met in folders of two names is two rows.
        lists: How manifests are read, where they do not say it themselves.

    Raises:
        UsageError: A root is no path, a glob matches nothing, or a manifest cannot be understood.
        MissingMedia: A manifest is missing; or a root is that is the only one, or that has no ending of media: a
            mistyped folder. Among several files that are named, a missing one is a row.
    """
    names = check_roots(roots)
    finder = _RootLister(Walk(suffixes, image_folders, by_parent=by_parent), without, lists, by_parent=by_parent)
    for root in names:
        path = absolute(os.fsdecode(root))
        if len(names) == 1 or get_suffix(path) not in ALL_MEDIA_SUFFIXES:
            _check_exists(path)
        finder.add(path)
    if lists is not None and (lists.columns or lists.path_template) and not finder.num_lists:
        raise UsageError(
            "columns and path_template are for lists of media files, and no root is a list: leave them out, or "
            "name a list "
            "such as train.txt"
        )
    listing = drop_repeats(finder.found, finder.columns, finder.walk.walked, by_parent=by_parent)
    listing.unlistable |= finder.bad
    listing.remarks = finder.remarks
    return listing


def check_roots(roots: object) -> list[str | os.PathLike[str]]:
    """Take what was given as roots as a list of paths.

    Raises:
        UsageError: Something is not a path.
    """
    what = 'the path of a folder, a media file or a list of files, such as "videos/", or several such paths'
    if isinstance(roots, (str, os.PathLike)):
        return [roots]
    if isinstance(roots, (type, bytes, Mapping)) or not isinstance(roots, Iterable):
        raise expected("roots", what, roots)
    names = list(roots)
    for root in names:
        if not isinstance(root, (str, os.PathLike)):
            raise expected("roots", what, root)
    return names


def _check_exists(path: str) -> None:
    if is_url(path) or not path or "\0" in path or is_glob(path) or get_suffix(path) in MANIFEST_SUFFIXES:
        return
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingMedia(f"{path}: no such file or folder: check its spelling", source=path, stage="open") from error
    except OSError:
        pass  # There is something: scanning it says what is wrong.


class _RootLister:
    """Collects what roots give, in their order."""

    def __init__(self, walk: Walk, without: frozenset[str], lists: ListOptions | None, *, by_parent: bool) -> None:
        self.walk = walk
        self.by_parent = by_parent
        self.without = without
        self.lists = lists
        self.num_lists = 0
        self.bad: dict[str, UnreadableMedia] = {}
        self.remarks: list[str] = []
        self.found: list[ListedGroup] = []
        self.columns = pa.table({})

    def add(self, path: str) -> None:
        """Add a root."""
        if is_url(path) or "\0" in path:
            self.found.append(ListedGroup(PathGroup("", [path])))
        elif os.path.isdir(path):
            self.found += [ListedGroup(group, _is_walked(group)) for group in self.walk.folder(path)]
        elif is_glob(path):
            groups = list_glob(path, self.walk, self.without)
            self.found += [ListedGroup(group, _is_walked(group), may_repeat=True) for group in groups]
        elif get_suffix(path) in MANIFEST_SUFFIXES:
            manifest = read_manifest(path, self.lists)
            self.num_lists += 1
            self.bad |= manifest.bad
            # Where a list has no label, the name of the folder is the label.
            missing = None if self.by_parent else manifest.missing_label
            self.remarks += [
                remark for remark in (manifest.all_missing, manifest.stray_label, missing) if remark is not None
            ]
            start = self.columns.num_rows if manifest.columns.column_names else NO_COLUMN_ROW
            self.found.append(ListedGroup(PathGroup(manifest.folder, manifest.names), first_column_row=start))
            self.columns = _join_columns(self.columns, manifest.columns)
        else:
            self.found.append(ListedGroup(PathGroup("", [path])))


def _is_walked(group: PathGroup) -> bool:
    """Whether it is known where the group's folder really lies, and which of its files are links."""
    return bool(group.folder) and group.kind == "files"


def _join_columns(first: pa.Table, second: pa.Table) -> pa.Table:
    """Put the columns of two manifests together; where types differ beyond numbers, both become strings."""
    if not first.column_names or not second.column_names:
        return first if first.column_names else second
    for name in set(first.column_names) & set(second.column_names):
        kinds = {first.schema.field(name).type, second.schema.field(name).type} - {pa.null()}
        if len(kinds) > 1 and not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            first, second = (_to_strings(table, name) for table in (first, second))
    return pa.concat_tables([first, second], promote_options="permissive")


def _to_strings(table: pa.Table, name: str) -> pa.Table:
    at, column = table.column_names.index(name), table.column(name)
    if not pa.types.is_nested(column.type):
        return table.set_column(at, name, column.cast(pa.string()))
    texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
    return table.set_column(at, name, pa.array(texts, pa.string()))
