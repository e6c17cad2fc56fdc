"""List the rows of roots: folders are walked, globs matched, lists and tables read; any other path is a row.

A file that is listed twice is one row: that of its own path if it is listed, else that of the first link. But files
that are labelled by their folders have a row for each label.

A walk lists a file twice only by links, or in a folder that is listed under several names. Only then, or with named
files or manifests, all rows are compared, first by the hashes of their real paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._checks import expand_home, expected
from framefeed._files import describe_dead_link
from framefeed._names import is_url, make_absolute
from framefeed.errors import MissingMedia, UsageError
from framefeed.scanning._braces import expand_lines, expand_root
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._list_json import to_texts
from framefeed.scanning._manifests import (
    ArrowStream,
    is_manifest,
    read_arrow,
    read_manifest,
    to_table,
)
from framefeed.scanning._objects import is_object_root
from framefeed.scanning._packed_rows import is_packed, is_parquet
from framefeed.scanning._rows import (
    ALL_MEDIA_SUFFIXES,
    NO_COLUMN_ROW,
    PARQUET,
    Listing,
    SourceGroup,
    get_archive_ending,
    get_container_ending,
    get_suffix,
    has_containers,
    select_sources,
)
from framefeed.scanning._walk import ImageFolders, Walk, WalkFacts, is_folder_path, is_glob, list_glob

_ROWS_AT_ONCE = 4096


Origin = Literal["walk", "glob", "name"]
"""How a group was found. A walk and a glob list files in the folder itself, and record which are links; a walk lists
none twice. Anything else is found by its name."""


def drop_repeats(listing: Listing, origins: Sequence[Origin], facts: WalkFacts, *, by_parent: bool = False) -> None:
    """Drop the rows of a file that is listed again without columns, or with the columns of an earlier row.

    Lines of a manifest that name one file with different columns are different rows: segments of one video. A row
    without columns gets those of a later row of the same file. With ``by_parent``, rows in folders of different names
    stay.
    """
    if not facts.links and not facts.is_relisted and set(origins) <= {"walk"}:
        return
    reals = _RealPaths(listing.groups, origins, facts, by_parent=by_parent)
    hashes = reals.hash_paths()
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order[1:]] == hashes[order[:-1]]
    rows = np.unique(np.concatenate([order[1:][equal], order[:-1][equal]]))
    files = list(reals.resolve_rows(rows))
    column_rows, kept = listing.column_rows, np.ones(listing.num_rows, np.bool_)
    keys = list(_make_line_keys(listing.columns, column_rows[rows]))
    bare = _choose_bare_rows(rows.tolist(), files, keys)
    completed, kept_keys = set[str](), set[tuple[str, str]]()
    for row, (real, _), key in zip(rows.tolist(), files, keys, strict=True):
        is_counted = True  # But for a row whose file has a line in a manifest.
        if key is None:
            kept[row], is_counted = bare.get(real) == row, real in bare
        elif real in bare and real not in completed:
            column_rows[bare[real]] = column_rows[row]
            completed.add(real)
            kept_keys.add((real, key))
            kept[row], is_counted = False, False
        else:
            kept[row] = (real, key) not in kept_keys
            kept_keys.add((real, key))
        listing.stats.repeated_files += is_counted and not kept[row]
    listing.groups = list(select_sources(listing.groups, kept))
    listing.column_rows = column_rows[kept]


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


def _make_line_keys(columns: pa.Table, column_rows: IntArray) -> Iterator[str | None]:
    """Make keys that distinguish lines about one file; None for rows without columns."""
    for start in range(0, len(column_rows), _ROWS_AT_ONCE):
        rows = column_rows[start : start + _ROWS_AT_ONCE]
        bare = rows == NO_COLUMN_ROW
        values = [None] * len(rows) if bare.all() else columns.take(pa.array(rows, mask=bare)).to_pylist()
        # As text, because NaN is not equal to itself.
        yield from (None if is_bare else repr(value) for value, is_bare in zip(values, bare.tolist(), strict=True))


class _RealPaths:
    """Resolver of the rows' paths, as ``os.path.realpath``, with one call per folder."""

    def __init__(
        self, groups: Sequence[SourceGroup], origins: Sequence[Origin], facts: WalkFacts, *, by_parent: bool
    ) -> None:
        self._groups = groups
        self._origins = origins
        self._facts = facts
        self._by_parent = by_parent
        self._folders: dict[str, str] = {}

    def hash_paths(self) -> IntArray:
        """Hash the real path of each row."""
        parts = [
            np.fromiter(map(hash, self._resolve_group(number, group.names)), np.int64, len(group))
            for number, group in enumerate(self._groups)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def resolve_rows(self, rows: IntArray) -> Iterator[tuple[str, bool]]:
        """Yield the key of the file of each row, which ascend, and whether the row's own path is a link."""
        ends = np.cumsum([len(group) for group in self._groups])
        numbers = np.searchsorted(ends, rows, side="right")
        for number in np.unique(numbers).tolist():
            group = self._groups[number]
            first = int(ends[number]) - len(group)
            names = [group.names[row - first] for row in rows[numbers == number].tolist()]
            links = None if self._origins[number] == "name" else self._facts.links.get(group.folder, ())
            for name, real in zip(names, self._resolve_group(number, names), strict=True):
                path = os.path.join(group.folder, name)
                label = f"{os.path.basename(os.path.dirname(path))}{os.sep}" if self._by_parent else ""
                yield label + real, os.path.islink(path) if links is None else name in links

    def _resolve_group(self, number: int, names: Sequence[str]) -> Iterator[str]:
        folder = self._groups[number].folder
        if self._origins[number] == "name":
            start = folder and folder + os.sep
            yield from (self._resolve_path(start + name) for name in names)
            return
        links = self._facts.links.get(folder, ())
        prefix = self._facts.real_folders.get(folder, folder) + os.sep
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


Root: TypeAlias = str | os.PathLike[str] | pa.Table
Roots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ArrowStream


def list_roots(
    roots: Roots | Sequence[Root],
    *,
    suffixes: frozenset[str] = ALL_MEDIA_SUFFIXES,
    image_folders: ImageFolders = "image",
    without: frozenset[str] = frozenset(),
    by_parent: bool = False,
    lists: ListOptions | None = None,
    text_ending: str = "",
) -> Listing:
    """List the media of folders, globs, manifests, tables and named files.

    A folder lists its files by their endings, a glob lists its matches (a pattern that is the path of an existing file
    is that file), both in the order of ``os.fsencode(path)``. Any other path is a row, also if it is missing or no
    media. But there is MissingMedia for a missing manifest, and for a root that is the only one, or has no ending of
    media, such as a mistyped folder.

    Args:
        roots: One or several.
        suffixes: Lower-case endings of the files to list in a folder.
        image_folders: "video" makes one row of each folder that directly contains pictures: they are the frames of a
            video.
        without: Paths of files that globs do not match: those that the scan writes.
        by_parent: Files are labelled by the names of their folders: a file in folders of two names is two rows.
        lists: Options for reading manifests.
        text_ending: Ending of the texts beside media, which are noted; "" for none.
    """
    lists, names = lists or ListOptions(), list[str | pa.Table]()
    for root in check_roots(roots):
        names += expand_root(root, lists.storage_options) if isinstance(root, str) else [root]
    walk = Walk(
        suffixes, image_folders, by_parent=by_parent, storage_options=lists.storage_options, text_ending=text_ending
    )
    listing = Listing(unlistable=walk.facts.unlistable, stats=walk.facts.stats, texts=walk.facts.texts)
    column_rows, origins = [listing.column_rows], list[Origin]()
    for root in names:
        if isinstance(root, str):
            has_ending = get_suffix(root) in ALL_MEDIA_SUFFIXES or bool(get_archive_ending(root))
            if len(names) == 1 or not has_ending:
                _check_exists(make_absolute(root))
        listed = _read_list(root, lists, is_only=len(names) == 1)
        if listed is None:
            groups, origin = _list_groups(root, walk, without)
            column_rows.append(np.full(sum(map(len, groups)), NO_COLUMN_ROW))
        else:
            listed = expand_lines(listed, lists.storage_options)
            groups, origin, listing.has_list = listed.groups, "name", True
            listing.unlistable |= listed.unlistable
            listing.starts |= listed.starts
            has_columns = bool(listed.columns.column_names)
            column_rows.append(listed.column_rows + (listing.columns.num_rows if has_columns else 0))
            listing.columns = append_columns(listing.columns, listed.columns) if has_columns else listing.columns
        listing.groups += groups
        # A folder of pictures, or a path as a whole, is compared as if it was named.
        origins += [origin if group.folder and group.kind == "files" else "name" for group in groups]
    if (lists.columns or lists.path_template) and not listing.has_list and not has_containers(listing):
        raise UsageError(
            "columns and path_template are for lists of media files, and no root is a list: leave them out, or "
            "name a list such as train.txt"
        )
    listing.column_rows = np.concatenate(column_rows)
    drop_repeats(listing, origins, walk.facts, by_parent=by_parent)
    return listing


def _read_list(root: str | pa.Table, lists: ListOptions, *, is_only: bool) -> Listing | None:
    """Read a root that is a list; None for any other, and for a damaged Parquet file among others, which is a row."""
    if isinstance(root, pa.Table):
        return read_arrow(root, lists)
    path = make_absolute(root)
    if not is_manifest(path) or is_object_root(path) or "\0" in path:
        return None
    if not is_url(path) and (is_folder_path(path) or is_glob(path)):
        return None
    if get_container_ending(path) == PARQUET and is_packed(path, lists):
        return None
    try:
        return read_manifest(path, lists)
    except UsageError:
        if is_only or get_container_ending(path) != PARQUET or is_parquet(path, lists):
            raise
        return None


def _list_groups(root: str, walk: Walk, without: frozenset[str]) -> tuple[list[SourceGroup], Origin]:
    path = make_absolute(root)
    if is_object_root(path):
        return walk.list_objects(path), "name"
    if not is_url(path) and "\0" not in path:
        if is_folder_path(path):
            return walk.list_folder(path), "walk"
        if is_glob(path):
            return list_glob(path, walk, without), "glob"
    return [SourceGroup("", [path])], "name"


def check_roots(roots: object) -> list[str | pa.Table]:
    """Check roots, and convert them to a list of paths, with the home folder in place of ``~``, or of one table."""
    refuse_dataset(roots)
    what = (
        'the path of a folder, a media file or a list of files, such as "videos/", or several such paths, or a table '
        "of pandas (2.2 or newer), polars or pyarrow"
    )
    if hasattr(roots, "__arrow_c_stream__") or hasattr(roots, "__arrow_c_array__"):
        return [to_table(cast(ArrowStream, roots))]
    if isinstance(roots, (str, os.PathLike)):
        return [expand_home(os.fsdecode(roots))]
    if isinstance(roots, (type, bytes, Mapping)) or not isinstance(roots, Iterable):
        raise expected("roots", what, roots)
    names = list(roots)
    for root in names:
        refuse_dataset(root)
        if not isinstance(root, (str, os.PathLike, pa.Table)):
            raise expected("roots", what, root)
    return [root if isinstance(root, pa.Table) else expand_home(os.fsdecode(root)) for root in names]


def refuse_dataset(root: object) -> None:
    """Refuse a data set of Hugging Face, which is no root; by its module, because it is not imported here."""
    if type(root).__module__.partition(".")[0] == "datasets":
        raise UsageError(
            f"roots: got a {type(root).__name__} of Hugging Face: for one that lists paths, give its table, "
            "dataset.data.table (of a split, if it has several); for one with the media themselves, give its Parquet "
            'files, which for a data set of the Hub are "hf://datasets/ORG/NAME/**/*.parquet", or as the Hub has '
            'converted them "hf://datasets/ORG/NAME@refs/convert/parquet/**/*.parquet"'
        )


def _check_exists(path: str) -> None:
    if is_url(path) or not path or "\0" in path or is_glob(path) or is_manifest(path):
        return
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        advice = describe_dead_link(path) or ": check its spelling"
        raise MissingMedia(f"{path}: no such file or folder{advice}", source=path, stage="open") from error
    except OSError:
        pass  # It exists: the scan reports its error.


def append_columns(first: pa.Table, second: pa.Table) -> pa.Table:
    """Append the rows of a table of columns to another; columns of different types, except numbers, become strings."""
    if not first.column_names:
        return second
    for name in set(first.column_names) & set(second.column_names):
        kinds = {first.schema.field(name).type, second.schema.field(name).type} - {pa.null()}
        if len(kinds) > 1 and not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            first, second = (_to_strings(table, name) for table in (first, second))
    return pa.concat_tables([first, second], promote_options="permissive")


def _to_strings(table: pa.Table, name: str) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, to_texts(table.column(name)))
