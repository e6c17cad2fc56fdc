"""Roots -> rows: folders are walked, manifests read, named files taken as they are; a file met twice is one row."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from framefeed.errors import UnreadableMedia, UsageError
from framefeed.index.manifests import MANIFEST_SUFFIXES, VIDEO_SUFFIXES, read_manifest, suffix_of
from framefeed.index.names import absolute, is_url

Roots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_BARE = -1


@dataclass(slots=True)
class Listing:
    """What there is to scan, row by row.

    Attributes:
        paths: Absolute path or URL of each row.
        column_rows: Row of ``columns`` that belongs to it, -1 for none.
        columns: The columns of all manifests together.
        unlistable: Folders that could not be read, which are rows too.
    """

    paths: list[str] = field(default_factory=list)
    column_rows: list[int] = field(default_factory=list)
    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    unlistable: dict[str, UnreadableMedia] = field(default_factory=dict)

    def taken_columns(self) -> pa.Table:
        """The manifests' columns for each row, null where a row comes from no manifest."""
        rows = pa.array([None if row == _BARE else row for row in self.column_rows], pa.int64())
        return self.columns.take(rows) if self.columns.column_names else self.columns


def list_roots(roots: Roots) -> Listing:
    """List the media of folders, manifests and named files.

    Args:
        roots: One or several; a folder gives its files by their endings, in the order of ``os.fsencode(path)``.

    Raises:
        UsageError: A root is no path, or a manifest cannot be understood.
        MissingMedia: A manifest is missing.
    """
    listing = Listing()
    names = [roots] if isinstance(roots, (str, os.PathLike)) else roots
    for root in names:
        if not isinstance(root, (str, os.PathLike)):
            raise UsageError(f"scan takes paths of folders, media files and manifests, not {type(root).__name__}")
        _add_root(listing, absolute(os.fsdecode(root)))
    return _without_repeats(listing)


def _add_root(listing: Listing, path: str) -> None:
    if not is_url(path) and "\0" not in path and os.path.isdir(path):
        paths = sorted(_walk(path, listing.unlistable), key=os.fsencode)
        listing.paths += paths
        listing.column_rows += [_BARE] * len(paths)
    elif suffix_of(path) in MANIFEST_SUFFIXES and not is_url(path):
        manifest = read_manifest(path)
        start = listing.columns.num_rows if listing.columns.column_names else 0
        has_columns = bool(manifest.columns.column_names)
        listing.paths += manifest.paths
        listing.column_rows += [start + row if has_columns else _BARE for row in range(len(manifest.paths))]
        listing.columns = _joined(listing.columns, manifest.columns)
    else:
        listing.paths.append(path)
        listing.column_rows.append(_BARE)


def _walk(root: str, unlistable: dict[str, UnreadableMedia]) -> Iterator[str]:
    """Yield the files of a folder by their endings; each folder once, so that a loop of links ends."""
    folders, links, seen = [root], list[str](), set[tuple[int, int]]()
    while folders or links:
        # Folders that lie here come before linked ones: a file that has both kinds of path is found by its own.
        folder = folders.pop() if folders else links.pop()
        try:
            facts = os.stat(folder)
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: os.fsencode(entry.name), reverse=True)
        except OSError as error:
            message = f"{folder}: this folder cannot be listed: {error.strerror}"
            unlistable[folder] = UnreadableMedia(message, source=folder, stage="open")
            yield folder
            continue
        folders += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        links += [entry.path for entry in found if entry.is_symlink() and _is_dir(entry)]
        yield from (entry.path for entry in found if suffix_of(entry.name) in VIDEO_SUFFIXES and not _is_dir(entry))


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # A link to itself.
        return False


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
    at = table.column_names.index(name)
    return table.set_column(at, name, table.column(name).cast(pa.string()))


def _without_repeats(listing: Listing) -> Listing:
    """Drop what adds nothing: a file named again without columns, or with those of a row that it has.

    Lines of a manifest that name one file with different columns are different rows: segments of one video.
    """
    folders: dict[str, str] = {}
    reals = [_real(path, folders) for path in listing.paths]
    keys = _line_keys(listing, reals)
    paths, column_rows = list[str](), list[int]()
    met: set[tuple[str, str | None]] = set()
    files, bare = set[str](), dict[str, int]()
    for path, columns, real, key in zip(listing.paths, listing.column_rows, reals, keys, strict=True):
        if columns != _BARE and real in bare:
            column_rows[bare.pop(real)] = columns
            met.add((real, key))
        elif (real, key) not in met and not (columns == _BARE and real in files):
            if columns == _BARE:
                bare[real] = len(paths)
            met.add((real, key))
            files.add(real)
            paths.append(path)
            column_rows.append(columns)
    listing.paths, listing.column_rows = paths, column_rows
    return listing


def _line_keys(listing: Listing, reals: Sequence[str]) -> list[str | None]:
    """What tells lines about one file apart; None where there is nothing to tell apart."""
    times = Counter(reals)
    rows = [_BARE if times[real] == 1 else row for real, row in zip(reals, listing.column_rows, strict=True)]
    values = listing.columns.to_pylist() if any(row != _BARE for row in rows) else []
    # Through repr, because NaN is not equal to itself.
    return [None if row == _BARE else repr(values[row]) for row in rows]


def _real(path: str, folders: dict[str, str]) -> str:
    """What a path really names, as ``os.path.realpath``, with one look-up a folder."""
    if is_url(path) or not path or "\0" in path:
        return path
    folder, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir) or os.path.islink(path):
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)
