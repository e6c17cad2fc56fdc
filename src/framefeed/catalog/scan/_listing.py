"""List the rows of roots: folders are walked, globs matched, manifests read; any other path is a row.

A file that is listed twice is one row: that of its own path if it is listed, else that of the first link. But files
that are labelled by their folders have a row for each label.

A walk lists a file twice only by links, or in a folder that is listed under several names. Only then, or with named
files or manifests, all rows are compared, first by the hashes of their real paths.
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
from framefeed._names import is_url, make_absolute
from framefeed.catalog.scan._list_columns import ListOptions
from framefeed.catalog.scan._manifests import MANIFEST_SUFFIXES, read_manifest
from framefeed.catalog.scan._rows import (
    ALL_MEDIA_SUFFIXES,
    NO_COLUMN_ROW,
    Listing,
    PathGroup,
    get_suffix,
)
from framefeed.catalog.scan._walk import ImageFolders, Walk, WalkFacts, is_glob, list_glob
from framefeed.errors import MissingMedia, UnreadableMedia, UsageError

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of rows, and its origin.

    Attributes:
        group: The rows.
        is_walked: Whether the real path of the folder and its links are recorded in `WalkFacts`.
        may_repeat: Whether rows that are no links may be in another group too. No folder is walked twice.
        first_column_row: Row of the manifests' columns that belongs to the first row (the others follow); or -1.
    """

    group: PathGroup
    is_walked: bool = False
    may_repeat: bool = False
    first_column_row: int = NO_COLUMN_ROW

    def number_column_rows(self) -> IntArray:
        """Number the rows of the manifests' columns that belong to the rows; -1 for none."""
        size = len(self.group.names)
        if self.first_column_row == NO_COLUMN_ROW:
            return np.full(size, NO_COLUMN_ROW, np.int64)
        return np.arange(self.first_column_row, self.first_column_row + size, dtype=np.int64)


def drop_repeats(
    groups: Sequence[ListedGroup], columns: pa.Table, facts: WalkFacts, *, by_parent: bool = False
) -> Listing:
    """Drop the rows of a file that is listed again without columns, or with the columns of an earlier row.

    Lines of a manifest that name one file with different columns are different rows: segments of one video.

    Args:
        groups: The rows.
        columns: Columns of all manifests.
        facts: Facts about the walked folders.
        by_parent: Keep a row for each label if folders of different names contain one file.
    """
    column_rows = np.concatenate([np.empty(0, np.int64), *(listed.number_column_rows() for listed in groups)])
    kept = np.ones(len(column_rows), np.bool_)
    repeated = 0
    if facts.links or facts.is_relisted or not all(listed.is_walked and not listed.may_repeat for listed in groups):
        repeated = _mark_repeats(_RealPaths(groups, facts, by_parent=by_parent), columns, column_rows, kept)
    kept_groups, start = list[PathGroup](), 0
    for group in (listed.group for listed in groups):
        these = kept[start : start + len(group.names)]
        start += len(these)
        if these.all():
            kept_groups.append(group)
        elif these.any():
            names = [group.names[number] for number in np.flatnonzero(these).tolist()]
            kept_groups.append(PathGroup(group.folder, names, group.kind))
    return Listing(
        kept_groups,
        column_rows[kept],
        columns,
        facts.unlistable,
        repeated,
        facts.repeated_folders,
        facts.passed_over,
    )


def _mark_repeats(reals: _RealPaths, columns: pa.Table, column_rows: IntArray, kept: np.ndarray) -> int:
    """Mark the rows to drop in ``kept``; a row without columns gets those of a later row of the same file.

    Returns:
        Number of dropped rows, without rows whose file has a line in a manifest.
    """
    rows = np.flatnonzero(_find_equal_hashes(reals.hash_paths()))
    files = list(reals.resolve_rows(rows))
    keys = list(_make_line_keys(columns, column_rows[rows]))
    bare = _choose_bare_rows(rows.tolist(), files, keys)
    completed, kept_keys, repeated = set[str](), set[tuple[str, str]](), 0
    for row, (real, _), key in zip(rows.tolist(), files, keys, strict=True):
        if key is None:
            kept[row] = bare.get(real) == row
            repeated += real in bare and not kept[row]
        elif real in bare and real not in completed:
            column_rows[bare[real]] = column_rows[row]
            completed.add(real)
            kept_keys.add((real, key))
            kept[row] = False
        else:
            kept[row] = (real, key) not in kept_keys
            repeated += not kept[row]
            kept_keys.add((real, key))
    return repeated


def _choose_bare_rows(
    rows: Sequence[int], files: Sequence[tuple[str, bool]], keys: Sequence[str | None]
) -> dict[str, int]:
    """Choose the row without columns to keep for each file: the first that is no link, else the first.

    A file whose first row is a line of a manifest keeps none.
    """
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
    """Make keys that distinguish lines about one file; None for rows without columns."""
    for start in range(0, len(column_rows), _ROWS_AT_ONCE):
        rows = column_rows[start : start + _ROWS_AT_ONCE]
        bare = rows == NO_COLUMN_ROW
        values = [None] * len(rows) if bare.all() else columns.take(pa.array(rows, mask=bare)).to_pylist()
        # As text, because NaN is not equal to itself.
        yield from (None if is_bare else repr(value) for value, is_bare in zip(values, bare.tolist(), strict=True))


class _RealPaths:
    """Resolver of the rows' paths, as ``os.path.realpath``, with one call per folder.

    Args:
        groups: The rows.
        facts: Facts about the walked folders.
        by_parent: Distinguish rows of one file by the names of their folders.
    """

    def __init__(self, groups: Sequence[ListedGroup], facts: WalkFacts, *, by_parent: bool) -> None:
        self._groups = groups
        self._facts = facts
        self._by_parent = by_parent
        self._folders: dict[str, str] = {}

    def hash_paths(self) -> IntArray:
        """Hash the real path of each row."""
        sizes = [len(listed.group.names) for listed in self._groups]
        parts = [
            np.fromiter(map(hash, self._resolve_group(listed, listed.group.names)), np.int64, size)
            for listed, size in zip(self._groups, sizes, strict=True)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def resolve_rows(self, rows: IntArray) -> Iterator[tuple[str, bool]]:
        """Yield the key of each row's file, and whether the row's own path is a link.

        Args:
            rows: Rows, ascending.
        """
        ends = np.cumsum([len(listed.group.names) for listed in self._groups])
        groups = np.searchsorted(ends, rows, side="right")
        for group in np.unique(groups).tolist():
            listed = self._groups[group]
            first = int(ends[group]) - len(listed.group.names)
            names = [listed.group.names[row - first] for row in rows[groups == group].tolist()]
            links = self._facts.links.get(listed.group.folder, ()) if listed.is_walked else None
            for name, real in zip(names, self._resolve_group(listed, names), strict=True):
                path = os.path.join(listed.group.folder, name)
                label = f"{os.path.basename(os.path.dirname(path))}{os.sep}" if self._by_parent else ""
                yield label + real, os.path.islink(path) if links is None else name in links

    def _resolve_group(self, groups: ListedGroup, names: Sequence[str]) -> Iterator[str]:
        folder = groups.group.folder
        if not groups.is_walked:
            start = folder and folder + os.sep
            yield from (self._resolve_path(start + name) for name in names)
            return
        links = self._facts.links.get(folder, ())
        prefix = self._facts.real_folder(folder) + os.sep
        for name in names:
            yield self._resolve_path(os.path.join(folder, name)) if name in links else prefix + name

    def _resolve_path(self, path: str) -> str:
        if is_url(path) or not path or "\0" in path:
            return path
        folder, _, name = path.rpartition(os.sep)
        if name in ("", os.curdir, os.pardir) or os.path.islink(path):
            return os.path.realpath(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder or os.sep)
        return path if real == folder else os.path.join(real, name)


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
        roots: One or several. A folder lists its files by their endings, a glob lists its matches (``data/**/*.jpg``;
            a pattern that is the path of an existing file is that file), both in the order of ``os.fsencode(path)``.
            Any other path is a row, also if it is missing or no media.
        suffixes: Lower-case endings of the files to list in a folder.
        image_folders: "video" makes one row of each folder that directly contains pictures: they are the frames of a
            video.
        without: Paths of files that globs do not match: those that the scan writes.
        by_parent: Files are labelled by the names of their folders: a file in folders of two names is two rows.
        lists: Options for reading manifests.

    Raises:
        UsageError: A root is no path, a glob matches nothing, or a manifest cannot be understood.
        MissingMedia: A manifest is missing; or a root that is the only one, or has no ending of media, such as a
            mistyped folder. Another missing file is a row.
    """
    names = check_roots(roots)
    walk = Walk(suffixes, image_folders, by_parent=by_parent)
    groups, columns = list[ListedGroup](), pa.table({})
    num_lists, bad, remarks = 0, dict[str, UnreadableMedia](), list[str]()
    for root in names:
        path = make_absolute(os.fsdecode(root))
        if len(names) == 1 or get_suffix(path) not in ALL_MEDIA_SUFFIXES:
            _check_exists(path)
        if is_url(path) or "\0" in path:
            groups.append(ListedGroup(PathGroup("", [path])))
        elif os.path.isdir(path):
            groups += [ListedGroup(group, _is_walked(group)) for group in walk.list_folder(path)]
        elif is_glob(path):
            matches = list_glob(path, walk, without)
            groups += [ListedGroup(group, _is_walked(group), may_repeat=True) for group in matches]
        elif get_suffix(path) in MANIFEST_SUFFIXES:
            manifest = read_manifest(path, lists)
            num_lists += 1
            bad |= manifest.bad
            # Without a label in the list, the name of the folder is the label.
            missing_label = None if by_parent else manifest.missing_label
            remarks += filter(None, (manifest.all_missing, manifest.stray_label, missing_label))
            start = columns.num_rows if manifest.columns.column_names else NO_COLUMN_ROW
            groups.append(ListedGroup(PathGroup(manifest.folder, manifest.names), first_column_row=start))
            columns = _join_columns(columns, manifest.columns)
        else:
            groups.append(ListedGroup(PathGroup("", [path])))
    if lists is not None and (lists.columns or lists.path_template) and not num_lists:
        raise UsageError(
            "columns and path_template are for lists of media files, and no root is a list: leave them out, or "
            "name a list "
            "such as train.txt"
        )
    listing = drop_repeats(groups, columns, walk.facts, by_parent=by_parent)
    listing.unlistable |= bad
    listing.remarks = remarks
    return listing


def check_roots(roots: object) -> list[str | os.PathLike[str]]:
    """Check roots, and convert them to a list of paths.

    Raises:
        UsageError: A root is not a path.
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
        pass  # It exists: the scan reports its error.


def _is_walked(group: PathGroup) -> bool:
    return bool(group.folder) and group.kind == "files"


def _join_columns(first: pa.Table, second: pa.Table) -> pa.Table:
    """Join the columns of two manifests; columns of different types, except numbers, become strings."""
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
