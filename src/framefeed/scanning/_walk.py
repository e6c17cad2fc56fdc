"""List the media of folders and globs in the order of ``sorted(paths, key=os.fsencode)``, without a path for each file.

The entries of each folder are sorted once: files by their names, folders by their names with a slash after them.

Globs are those of the ``glob`` module: ``*``, ``?``, ``[...]`` within a name, and ``**`` for any number of folders. But
``**`` does not enter linked folders, so that loops end, and a folder that cannot be listed is a row with its error.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, TypeVar

from framefeed._shown import show_name
from framefeed.errors import FramefeedError, UnreadableMedia, UsageError
from framefeed.media import PICTURE_SUFFIXES, StorageOptions, find_options, split_root
from framefeed.parallel import raise_shortage, try_again_in_shortage
from framefeed.scanning._objects import Selection, is_object_glob, list_object_glob, list_prefix
from framefeed.scanning._rows import (
    ALL_MEDIA_SUFFIXES,
    Endings,
    ScanStats,
    SourceGroup,
    get_archive_ending,
    get_suffix,
    sort_by_bytes,
)

R = TypeVar("R")
ImageFolders = Literal["image", "video"]
_MEDIA = Endings(ALL_MEDIA_SUFFIXES)


@dataclass(slots=True)
class WalkFacts:
    """Facts about walked folders, besides their rows."""

    seen: set[tuple[int, int]] = field(default_factory=set)  # device and inode of each listed folder
    unlistable: dict[str, FramefeedError] = field(default_factory=dict)  # of folders
    links: dict[str, set[str]] = field(default_factory=dict)  # names of files that are symbolic links, by folder
    real_folders: dict[str, str] = field(default_factory=dict)  # of each folder whose path contains a link
    is_relisted: bool = False  # whether a folder was listed again under another of its names
    stats: ScanStats = field(default_factory=ScanStats)
    texts: dict[str, str] = field(default_factory=dict)  # as in `Listing`

    def note(self, folder: str, real: str, links: set[str]) -> None:
        """Record the real path of a folder, and the names of its links."""
        if real != folder:
            self.real_folders[folder] = real
        if links:
            self.links[folder] = links | self.links.get(folder, set())

    def unlistable_row(self, folder: str, error: OSError) -> SourceGroup:
        """Make the row of a folder that cannot be listed."""
        message = f"{folder}: this folder cannot be listed: {error.strerror}"
        self.unlistable[folder] = UnreadableMedia(message, source=folder, stage="open")
        return SourceGroup("", [folder])


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to walk, and its real path."""

    path: str
    real: str


@dataclass(frozen=True, slots=True)
class _Entries:
    """The names of regular files in a folder, and its other entries."""

    names: list[str] = field(default_factory=list)
    others: list[os.DirEntry[str]] = field(default_factory=list)


class Walk:
    """Lists folders.

    Args:
        suffixes: Lower-case endings of the files to list.
        image_folders: "video" makes one row of each folder that directly contains pictures, and none of its pictures.
        by_parent: List a folder again under each of its names, because these label its files.
        storage_options: Options by URL prefix, for buckets.
        text_ending: Ending of the texts beside media, which are noted; "" for none.
    """

    def __init__(
        self,
        suffixes: frozenset[str],
        image_folders: ImageFolders = "image",
        *,
        by_parent: bool = False,
        storage_options: StorageOptions | None = None,
        text_ending: str = "",
    ) -> None:
        self.facts = WalkFacts()
        self._by_parent = by_parent
        self._storage_options = storage_options
        self._text_ending = text_ending
        self._files = Endings(suffixes if image_folders == "image" else suffixes - PICTURE_SUFFIXES)
        self._frames = Endings(suffixes & PICTURE_SUFFIXES) if image_folders == "video" else None
        self._archives = list[SourceGroup]()

    def list_folder(self, path: str) -> list[SourceGroup]:
        """List a folder and everything below it; a folder that was listed before gives nothing.

        Archives are listed if nothing else is: beside media they may hold the same media again.

        Real subfolders come before linked ones, and linked ones in the order of their discovery: so a file with several
        paths is listed by the path with the fewest links. A folder that cannot be listed is a row.
        """
        folders, links = [_Folder(path, os.path.realpath(path))], deque[_Folder]()
        groups, self._archives = list[SourceGroup](), []
        while folders or links:
            folder = folders.pop() if folders else links.popleft()
            try:
                inner, linked = self._list(folder, groups)
            except OSError as error:
                groups.append(self.facts.unlistable_row(folder.path, error))
                continue
            folders += reversed(inner)
            links += linked
        archives = [name for group in self._archives for name in group.names]
        if all(name in self.facts.unlistable for group in groups for name in group.paths()):
            groups += self._archives
            self.facts.stats.passed_over -= Counter(map(get_suffix, archives))
        else:
            self.facts.stats.archives_beside += len(archives)
        # Each folder's files are cut where a subfolder comes between them; neighbours that stay together are joined.
        groups.sort(key=_get_path)
        joined = list[SourceGroup]()
        for group in groups:
            if joined and (joined[-1].folder, joined[-1].kind) == (group.folder, group.kind):
                joined[-1].names.extend(group.names)
            else:
                joined.append(group)
        return joined

    def list_objects(self, url: str) -> list[SourceGroup]:
        """List the objects of S3 below a prefix, or that match a pattern."""
        if self._frames is not None:
            raise UsageError(
                f'{show_name(url)}: image_folders="video" is for folders on a disk: name files or folders there, or '
                "leave it out"
            )
        list_them = list_object_glob if is_object_glob(url) else list_prefix
        selection = Selection(split_root(url)[0], self._files, self.facts.stats, self._text_ending, self.facts.texts)
        return list_them(url, find_options(self._storage_options, url), selection)

    def _list(self, folder: _Folder, groups: list[SourceGroup]) -> tuple[list[_Folder], list[_Folder]]:
        """Add the rows of a folder, and return its real and its linked subfolders; none if it was listed before."""
        facts = _ask_twice(os.stat, folder.path)
        is_new = (facts.st_dev, facts.st_ino) not in self.facts.seen
        if not is_new and not (self._by_parent and not _is_loop(folder)):
            self.facts.stats.repeated_folders += 1
            return [], []
        entries = _ask_twice(_list_entries, folder.path)
        names = _list_file_names(entries)
        files = self._files.sorted_names(names)
        archives = [] if len(files) == len(names) else [name for name in names if get_archive_ending(name)]
        sort_by_bytes(archives)
        if self._holds_frames(names):
            groups.append(_make_image_folder_group(folder.path))
        self.facts.note(
            folder.path,
            folder.real,
            {entry.name for entry in entries.others if entry.is_symlink()}.intersection([*files, *archives]),
        )
        here = [
            _Folder(entry.path, os.path.join(folder.real, entry.name))
            for entry in entries.others
            if entry.is_dir(follow_symlinks=False)
        ]
        elsewhere = [
            _Folder(entry.path, os.path.realpath(entry.path))
            for entry in entries.others
            if entry.is_symlink() and is_folder(entry)
        ]
        here.sort(key=_get_content_key)
        elsewhere.sort(key=_get_content_key)
        groups += _cut_files(folder.path, files, [*here, *elsewhere])
        if is_new:
            self._archives += _cut_files(folder.path, archives, [*here, *elsewhere])
            self.facts.seen.add((facts.st_dev, facts.st_ino))
            if len(files) < len(names):
                texts = [name for name in names if name.endswith(self._text_ending)] if self._text_ending else []
                self.facts.texts |= dict.fromkeys((os.path.join(folder.path, name) for name in texts), "")
                self.facts.stats.passed_over.update(_MEDIA.count_others(names))
                self.facts.stats.passed_over -= _MEDIA.count_others(texts)
            return here, elsewhere
        self.facts.is_relisted = True
        # The rows that the folder's name labels: its files, and folders of pictures in it.
        for subfolder in (*here, *elsewhere) if self._frames is not None else ():
            if not _is_loop(subfolder):
                entries = _ask_twice(_list_entries, subfolder.path)
                if self._holds_frames(_list_file_names(entries)):
                    groups.append(_make_image_folder_group(subfolder.path))
        return [], []

    def _holds_frames(self, names: list[str]) -> bool:
        return self._frames is not None and any(map(self._frames.has_ending, names))


def _cut_files(folder: str, files: list[str], subfolders: Sequence[_Folder]) -> Iterator[SourceGroup]:
    """Cut the files of a folder where subfolders come between them: by their bytes, ``a-b`` < ``a/b`` < ``ab``."""
    prefix_size = len(os.fsencode(os.path.join(folder, "")))
    start = 0
    for key in sorted(key for each in subfolders for key in (os.fsencode(each.path), _get_content_key(each))):
        end = bisect_left(files, key[prefix_size:], lo=start, key=os.fsencode)
        if start < end:
            yield make_files_group(folder, files[start:end])
        start = end
    if start < len(files):
        yield make_files_group(folder, files[start:] if start else files)


def _get_path(group: SourceGroup, number: int = 0) -> bytes:
    return os.fsencode(os.path.join(group.folder, group.names[number]))


def _ask_twice(call: Callable[[str], R], folder: str) -> R:
    """Ask the system about a folder; in a shortage twice."""
    return try_again_in_shortage(partial(call, folder), folder, "open")


def _list_entries(folder: str) -> _Entries:
    listed = _Entries()
    add = listed.names.append
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                add(entry.name)
            else:
                listed.others.append(entry)
    return listed


def _list_file_names(entries: _Entries) -> list[str]:
    """List the names of all entries but folders and links to folders."""
    if not entries.others:
        return entries.names
    return entries.names + [entry.name for entry in entries.others if not is_folder(entry)]


def _is_loop(folder: _Folder) -> bool:
    """Whether a folder is a link to a folder that contains it."""
    return (os.path.realpath(os.path.dirname(folder.path)) + os.sep).startswith(os.path.join(folder.real, ""))


def _get_content_key(folder: _Folder) -> bytes:
    return os.fsencode(folder.path + os.sep)


def make_files_group(folder: str, names: list[str]) -> SourceGroup:
    """Make the group of files in a folder."""
    return SourceGroup("", [folder + name for name in names]) if folder == os.sep else SourceGroup(folder, names)


def _make_image_folder_group(path: str) -> SourceGroup:
    folder, name = os.path.split(path)
    return SourceGroup("", [path], "image_folder") if folder == os.sep else SourceGroup(folder, [name], "image_folder")


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError as error:
        raise_shortage(error, entry.path, "open")
        return False  # A link to itself.


def is_folder_path(path: str) -> bool:
    """Whether there is a folder at a path; `os.path.isdir` says no in a shortage, too."""
    try:
        return stat.S_ISDIR(_ask_twice(os.stat, path).st_mode)
    except (OSError, ValueError):
        return False


_ANY_DEPTH = "**"
_MAGIC = re.compile(r"[*?\[]")


def is_glob(path: str) -> bool:
    """Whether a path has wildcards, and is not the path of an existing file."""
    return _MAGIC.search(path) is not None and not os.path.lexists(path)


def list_glob(pattern: str, walk: Walk, without: frozenset[str] = frozenset()) -> list[SourceGroup]:
    """List the matches of a glob, in the order of ``os.fsencode(path)``.

    Files match with any ending. A matched folder is walked, as if it was a root, except for patterns with ``**``, which
    match at each depth themselves. Files ``without``, those that the scan writes, do not match.
    """
    *above, last = pattern.split(os.sep)
    globbing = _GlobMatches(walk, without)
    folders: Iterable[str] = [""]
    for part in above[1:]:
        folders = dict.fromkeys(inner for folder in folders for inner in globbing.find_folders(folder, part))
    for folder in folders:
        globbing.match(folder, last)
    groups = globbing.groups
    if _ANY_DEPTH in (*above, last):
        globbing.matched_folders.clear()
    if not groups and not globbing.matched_folders:
        raise UsageError(
            f"{pattern}: this pattern matches no file: check the names of its folders, and put it in quotes in a shell"
        )
    groups += [group for folder in globbing.matched_folders for group in walk.list_folder(folder)]
    # By the bytes of the paths; each group is sorted already.
    groups.sort(key=_get_path)
    if all(_get_path(group, -1) < _get_path(later) for group, later in pairwise(groups)):
        return groups
    # Files of a subfolder come between those of its folder.
    rows = [
        (os.fsencode(path), name, group)
        for group in groups
        for path, name in zip(group.paths(), group.names, strict=True)
    ]
    rows.sort(key=itemgetter(0))
    return [
        SourceGroup(folder, [name for _, name, _ in part], kind)
        for (folder, kind), part in groupby(rows, lambda row: (row[2].folder, row[2].kind))
    ]


@dataclass(slots=True)
class _GlobMatches:
    """Matches of a glob pattern."""

    walk: Walk
    without: frozenset[str]
    groups: list[SourceGroup] = field(default_factory=list)
    matched_folders: list[str] = field(default_factory=list)

    def find_folders(self, folder: str, part: str) -> Iterator[str]:
        """Find the folders in a folder that match one part of a pattern."""
        if part == _ANY_DEPTH:
            yield from self._below(folder)
        elif not _MAGIC.search(part):
            yield folder + os.sep + part
        else:
            matches = _compile_pattern(part)
            yield from (entry.path for entry in self._list(folder).others if matches(entry.name) and is_folder(entry))

    def match(self, folder: str, part: str) -> None:
        """Add the entries of a folder that match the last part of a pattern."""
        if part == _ANY_DEPTH:
            for inner in self._below(folder):
                self.match(inner, "*")
            return
        matches = _compile_pattern(part)

        def is_listed(name: str) -> bool:
            return matches(name) and (not self.without or os.path.join(folder, name) not in self.without)

        entries = self._list(folder)
        others = [entry for entry in entries.others if is_listed(entry.name)]
        self.matched_folders += [entry.path for entry in others if is_folder(entry)]
        files = [entry for entry in others if not is_folder(entry)]
        names = [*filter(is_listed, entries.names), *(entry.name for entry in files)]
        if names:
            sort_by_bytes(names)
            self.groups.append(make_files_group(folder or os.sep, names))
            links = {entry.name for entry in files if entry.is_symlink()}
            self.walk.facts.note(folder, os.path.realpath(folder), links)

    def _below(self, folder: str) -> Iterator[str]:
        folders = [folder]
        while folders:
            folder = folders.pop()
            yield folder
            folders += [
                entry.path
                for entry in self._list(folder).others
                if is_folder(entry) and not entry.is_symlink() and not entry.name.startswith(".")
            ]

    def _list(self, folder: str) -> _Entries:
        folder = folder or os.sep
        try:
            return _ask_twice(_list_entries, folder)
        except (FileNotFoundError, NotADirectoryError):
            pass  # A part without wildcards need not exist in each folder.
        except OSError as error:
            raise_shortage(error, folder, "open")
            self.groups.append(self.walk.facts.unlistable_row(folder, error))
        return _Entries()


def _compile_pattern(part: str) -> Callable[[str], bool]:
    """Compile a part of a pattern; it matches hidden names only if it begins with a dot."""
    match = re.compile(fnmatch.translate(part)).match
    if part.startswith("."):
        return lambda name: match(name) is not None
    return lambda name: match(name) is not None and not name.startswith(".")
