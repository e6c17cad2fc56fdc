"""Roots -> rows: folders are walked, globs matched, manifests read, named files are rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from framefeed._checks import expected
from framefeed.errors import MissingMedia, UnreadableMedia, UsageError
from framefeed.index.list_columns import ListOptions
from framefeed.index.listing_globs import glob_groups, is_glob
from framefeed.index.listing_repeats import Found, without_repeats
from framefeed.index.listing_rows import BARE, Group, Listing
from framefeed.index.listing_suffixes import ALL_MEDIA_SUFFIXES, VIDEO_SUFFIXES, suffix_of
from framefeed.index.listing_walk import ImageFolders, Walk
from framefeed.index.manifests import MANIFEST_SUFFIXES, read_manifest
from framefeed.index.names import absolute, is_url

__all__ = ["ALL_MEDIA_SUFFIXES", "VIDEO_SUFFIXES", "Group", "ImageFolders", "Listing", "Roots", "list_roots"]

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
    names = listed_roots(roots)
    finder = _Finder(Walk(suffixes, image_folders, by_parent=by_parent), without, lists, by_parent=by_parent)
    for root in names:
        path = absolute(os.fsdecode(root))
        if len(names) == 1 or suffix_of(path) not in ALL_MEDIA_SUFFIXES:
            _refuse_missing(path)
        finder.add(path)
    if lists is not None and (lists.columns or lists.path_template) and not finder.num_lists:
        raise UsageError(
            "columns and path_template are for lists of media files, and no root is a list: leave them out, or "
            "name a list "
            "such as train.txt"
        )
    listing = without_repeats(finder.found, finder.columns, finder.walk.walked, by_parent=by_parent)
    listing.unlistable |= finder.bad
    listing.remarks = finder.remarks
    return listing


def listed_roots(roots: object) -> list[str | os.PathLike[str]]:
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


def _refuse_missing(path: str) -> None:
    if is_url(path) or not path or "\0" in path or is_glob(path) or suffix_of(path) in MANIFEST_SUFFIXES:
        return
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingMedia(f"{path}: no such file or folder: check its spelling", source=path, stage="open") from error
    except OSError:
        pass  # There is something: scanning it says what is wrong.


class _Finder:
    """Collects what roots give, in their order."""

    def __init__(self, walk: Walk, without: frozenset[str], lists: ListOptions | None, *, by_parent: bool) -> None:
        self.walk = walk
        self.by_parent = by_parent
        self.without = without
        self.lists = lists
        self.num_lists = 0
        self.bad: dict[str, UnreadableMedia] = {}
        self.remarks: list[str] = []
        self.found: list[Found] = []
        self.columns = pa.table({})

    def add(self, path: str) -> None:
        """Add a root."""
        if is_url(path) or "\0" in path:
            self.found.append(Found(Group("", [path])))
        elif os.path.isdir(path):
            self.found += [Found(group, _is_told_apart(group)) for group in self.walk.folder(path)]
        elif is_glob(path):
            groups = glob_groups(path, self.walk, self.without)
            self.found += [Found(group, _is_told_apart(group), may_repeat=True) for group in groups]
        elif suffix_of(path) in MANIFEST_SUFFIXES:
            manifest = read_manifest(path, self.lists)
            self.num_lists += 1
            self.bad |= manifest.bad
            # Where a list has no label, the name of the folder is the label.
            missing = None if self.by_parent else manifest.missing_label
            self.remarks += [
                remark for remark in (manifest.all_missing, manifest.stray_label, missing) if remark is not None
            ]
            start = self.columns.num_rows if manifest.columns.column_names else BARE
            self.found.append(Found(Group(manifest.folder, manifest.names), first_column_row=start))
            self.columns = _joined(self.columns, manifest.columns)
        else:
            self.found.append(Found(Group("", [path])))


def _is_told_apart(group: Group) -> bool:
    """Whether it is known where the group's folder really lies, and which of its files are links."""
    return bool(group.folder) and group.kind == "files"


def _joined(first: pa.Table, second: pa.Table) -> pa.Table:
    """Put the columns of two manifests together; where types differ beyond numbers, both become strings."""
    if not first.column_names or not second.column_names:
        return first if first.column_names else second
    for name in set(first.column_names) & set(second.column_names):
        kinds = {first.schema.field(name).type, second.schema.field(name).type} - {pa.null()}
        if len(kinds) > 1 and not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            first, second = (_as_strings(table, name) for table in (first, second))
    return pa.concat_tables([first, second], promote_options="permissive")


def _as_strings(table: pa.Table, name: str) -> pa.Table:
    at, column = table.column_names.index(name), table.column(name)
    if not pa.types.is_nested(column.type):
        return table.set_column(at, name, column.cast(pa.string()))
    texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
    return table.set_column(at, name, pa.array(texts, pa.string()))
