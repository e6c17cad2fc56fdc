"""Globs: ``*``, ``?``, ``[...]`` within a name, and ``**`` for any number of folders, as the ``glob`` module has them.

Unlike there, ``**`` enters no linked folders, so that loops end, and a folder that cannot be listed is not left out in
silence but a row with its error.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from framefeed.errors import UsageError
from framefeed.index.listing_rows import Group
from framefeed.index.listing_suffixes import sort_by_bytes
from framefeed.index.listing_walk import Walk, files_group, is_folder
from framefeed.parallel.shortage import raise_shortage, try_again_in_shortage

_ANY_DEPTH = "**"
_MAGIC = re.compile(r"[*?\[]")


def is_glob(path: str) -> bool:
    """Whether a path has wildcards and is not simply the name of something that exists."""
    return _MAGIC.search(path) is not None and not os.path.lexists(path)


def glob_groups(pattern: str, walk: Walk, without: frozenset[str] = frozenset()) -> list[Group]:
    """List what a glob matches, in the order of ``os.fsencode(path)``.

    Files count whatever their ending. A folder that is matched is walked, as if it was named, but for patterns with
    ``**``, which say themselves what is wanted of each depth.

    Args:
        pattern: An absolute path with wildcards.
        walk: Lists the folders that are matched, and takes notes of links.
        without: Paths of files that do not count: those that are written themselves.

    Raises:
        UsageError: It matches nothing.
    """
    *above, last = pattern.split(os.sep)
    globbing = _Globbing(walk, without)
    folders: Iterable[str] = [""]
    for part in above[1:]:
        folders = dict.fromkeys(inner for folder in folders for inner in globbing.folders(folder, part))
    for folder in folders:
        globbing.match(folder, last)
    groups = globbing.groups
    if _ANY_DEPTH in (*above, last):
        globbing.matched_folders.clear()
    if not groups and not globbing.matched_folders:
        raise UsageError(
            f"{pattern}: this pattern matches no file: check the names of its folders, and put it in quotes in a shell"
        )
    groups += [group for folder in globbing.matched_folders for group in walk.folder(folder)]
    return _in_order(groups)


@dataclass(slots=True)
class _Globbing:
    """What a pattern has matched so far."""

    walk: Walk
    without: frozenset[str]
    groups: list[Group] = field(default_factory=list)
    matched_folders: list[str] = field(default_factory=list)

    def folders(self, folder: str, part: str) -> Iterator[str]:
        """The folders that one part of a pattern stands for, seen from a folder."""
        if part == _ANY_DEPTH:
            yield from self._below(folder)
        elif not _MAGIC.search(part):
            yield folder + os.sep + part
        else:
            matches = _matcher(part)
            yield from (entry.path for entry in self._entries(folder) if matches(entry.name) and entry.is_folder)

    def match(self, folder: str, part: str) -> None:
        """Add what the last part of a pattern matches in a folder."""
        if part == _ANY_DEPTH:
            for inner in self._below(folder):
                self.match(inner, "*")
            return
        matches = _matcher(part)
        names, links = list[str](), set[str]()
        for entry in self._entries(folder):
            if not matches(entry.name) or (self.without and os.path.join(folder, entry.name) in self.without):
                continue
            if entry.is_folder:
                self.matched_folders.append(entry.path)
            else:
                names.append(entry.name)
                if entry.is_link:
                    links.add(entry.name)
        if names:
            sort_by_bytes(names)
            self.groups.append(files_group(folder or os.sep, names))
            self.walk.walked.note(folder, os.path.realpath(folder), links)

    def _below(self, folder: str) -> Iterator[str]:
        folders = [folder]
        while folders:
            folder = folders.pop()
            yield folder
            entries = self._entries(folder)
            folders += [
                entry.path
                for entry in entries
                if entry.is_folder and not entry.is_link and not entry.name.startswith(".")
            ]

    def _entries(self, folder: str) -> Iterator[_Entry]:
        folder = folder or os.sep
        try:
            with try_again_in_shortage(partial(os.scandir, folder), folder, "open") as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield _Entry(entry.name)
                    else:
                        yield _Entry(entry.name, entry.path, is_folder(entry), entry.is_symlink())
        except (FileNotFoundError, NotADirectoryError):
            pass  # A part without wildcards names nothing here.
        except OSError as error:
            raise_shortage(error, folder, "open")
            self.groups.append(self.walk.walked.unlistable_row(folder, error))


class _Entry(NamedTuple):
    """An entry of a folder; only for those that are no plain files there is more than a name."""

    name: str
    path: str = ""
    is_folder: bool = False
    is_link: bool = False


def _matcher(part: str) -> Callable[[str], bool]:
    """What a part of a pattern matches; hidden names only where it begins with a dot itself."""
    match = re.compile(fnmatch.translate(part)).match
    if part.startswith("."):
        return lambda name: match(name) is not None
    return lambda name: match(name) is not None and not name.startswith(".")


def _in_order(groups: list[Group]) -> list[Group]:
    """Bring the rows of groups, each in its own order, into the order of their paths' bytes."""
    groups = sorted(groups, key=_first)
    if all(_last(group) < _first(later) for group, later in pairwise(groups)):
        return groups
    # A folder's files lie around those of its subfolders.
    rows = [
        (os.fsencode(path), name, group)
        for group in groups
        for path, name in zip(group.paths(), group.names, strict=True)
    ]
    rows.sort(key=itemgetter(0))
    return [
        Group(folder, [name for _, name, _ in part], kind)
        for (folder, kind), part in groupby(rows, lambda row: (row[2].folder, row[2].kind))
    ]


def _first(group: Group) -> bytes:
    return os.fsencode(os.path.join(group.folder, group.names[0]))


def _last(group: Group) -> bytes:
    return os.fsencode(os.path.join(group.folder, group.names[-1]))
