"""Listing: what there is to scan, row by row, without one Python path a row.

Which file names count as media in a folder, by their endings; what a file really is, its bytes tell.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed.catalog._names import escape, to_stored_name
from framefeed.errors import UnreadableMedia
from framefeed.media import PICTURE_SUFFIXES

NO_COLUMN_ROW = -1
"""Stands for the row of the manifests' columns where a row comes from no manifest, or from one without columns."""
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Rows whose paths begin with one folder, one after the other.

    Attributes:
        folder: Absolute path without a trailing slash, or "" for rows whose names are complete paths or URLs.
        names: Path of each row's file from that folder, in row order: where a walk found it, its name; a manifest may
            name files in subfolders.
        kind: "image_folder" where the names are those of folders whose pictures are the frames of one video.
    """

    folder: str
    names: list[str]
    kind: Literal["files", "image_folder"] = "files"

    def paths(self) -> Iterator[str]:
        """Complete path or URL of each row."""
        prefix = self.folder and self.folder + os.sep
        return (prefix + name for name in self.names)


@dataclass(slots=True)
class Listing:
    """What there is to scan, row by row: the groups' names, one group after the other.

    Attributes:
        groups: The rows.
        column_rows: Row of ``columns`` that belongs to each row, -1 for none, int64 [N].
        columns: The columns of all manifests together.
        unlistable: Folders that could not be read, which are rows too.
        repeated_files: How many rows were left out because the same file has one.
        repeated_folders: How often a folder was met again, and not listed again.
        passed_over: How many files of folders have another ending than media, by ending.
        remarks: What to warn of about the paths and labels of lists.
    """

    groups: list[PathGroup] = field(default_factory=list)
    column_rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    columns: pa.Table = field(default_factory=lambda: pa.table({}))
    unlistable: dict[str, UnreadableMedia] = field(default_factory=dict)
    repeated_files: int = 0
    repeated_folders: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.column_rows)

    @property
    def paths(self) -> list[str]:
        """Absolute path or URL of each row, as a list: for few rows."""
        return list(self.iter_paths())

    def iter_paths(self) -> Iterator[str]:
        """Absolute path or URL of each row."""
        for group in self.groups:
            yield from group.paths()

    def taken_columns(self) -> pa.Table:
        """The manifests' columns for each row, null where a row comes from no manifest."""
        rows = pa.array(self.column_rows, mask=self.column_rows == NO_COLUMN_ROW)
        return self.columns.take(rows) if self.columns.column_names else self.columns

    def texts(self, root: str | None) -> pa.Array:
        """What the ``source`` column says of each row, as ``names.stored`` gives it for each path, string [N].

        Args:
            root: Folder that paths below it are to be relative to, or None.
        """
        arrays, waiting = list[pa.Array](), list[str]()
        for group in self.groups:
            waiting += _make_texts(group, root)
            if len(waiting) >= _ROWS_AT_ONCE:
                arrays.append(_to_string_array(waiting))
                waiting = []
        return pa.concat_arrays([*arrays, _to_string_array(waiting)])

    def parents(self) -> pa.DictionaryArray:
        """Name of the folder in which each row lies, as a label, dictionary<int32, string> [N]."""
        numbers: dict[str, int] = {}
        found, sizes = list[int](), list[int]()
        for group in self.groups:
            folders = _list_folders(group)
            found += [numbers.setdefault(os.path.basename(folder), len(numbers)) for folder in folders]
            sizes += [len(group.names)] if len(folders) == 1 else [1] * len(folders)
        codes = np.repeat(np.array(found, np.int32), sizes)
        return pa.DictionaryArray.from_arrays(codes, pa.array([escape(name) for name in numbers], pa.string()))


def _list_folders(group: PathGroup) -> list[str]:
    """The folder that holds all rows of a group, else that of each row."""
    if group.folder and os.sep not in "".join(group.names):
        return [group.folder]
    return [os.path.dirname(path) for path in group.paths()]


def _make_texts(group: PathGroup, root: str | None) -> list[str]:
    if not group.folder and root is None:
        return group.names
    if not group.folder:
        return [to_stored_name(name, root) for name in group.names]
    # Not escaped yet: `_to_string_array` looks at all of them at once.
    prefix = group.folder + os.sep
    top = None if root is None else os.path.join(root, "")
    if top is not None and prefix.startswith(top):
        prefix = prefix[len(top) :].replace(os.sep, "/")
    return [prefix + name for name in group.names]


def _to_string_array(texts: Sequence[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([escape(text) for text in texts], pa.string())


# fmt: off
VIDEO_SUFFIXES = frozenset(
    (
        ".264",
        ".265",
        ".3g2",
        ".3gp",
        ".asf",
        ".avi",
        ".divx",
        ".dv",
        ".f4v",
        ".flv",
        ".h264",
        ".h265",
        ".hevc",
        ".ivf",
        ".m1v",
        ".m2ts",
        ".m2v",
        ".m4v",
        ".mjpeg",
        ".mjpg",
        ".mk3d",
        ".mkv",
        ".mov",
        ".mp4",
        ".mpe",
        ".mpeg",
        ".mpg",
        ".mts",
        ".mxf",
        ".nut",
        ".obu",
        ".ogm",
        ".ogv",
        ".qt",
        ".rm",
        ".rmvb",
        ".ts",
        ".vob",
        ".webm",
        ".wmv",
        ".y4m",
    )
)
# fmt: on
"""Endings of video files. What counts as media in a folder; what a file really is, its bytes tell."""

ALL_MEDIA_SUFFIXES = VIDEO_SUFFIXES | PICTURE_SUFFIXES


def get_suffix(name: str) -> str:
    """Lower-case ending of a file name, with its dot."""
    return os.path.splitext(name)[1].lower()


def list_other_endings(names: Sequence[str]) -> list[str]:
    """Lower-case endings of those file names that are no media's by their ending."""
    return [ending for name in names if (ending := get_suffix(name)) not in ALL_MEDIA_SUFFIXES]


class Endings:
    """Endings to look for, quickly: among a million names nothing is split that need not be.

    Args:
        suffixes: Lower-case endings with their dots.
    """

    def __init__(self, suffixes: Collection[str]) -> None:
        self._suffixes = frozenset(suffixes)
        self._as_spelt = self._suffixes | {suffix.upper() for suffix in suffixes}

    def wants(self, name: str) -> bool:
        """Whether a file name has such an ending; one that is nothing but an ending (``.mp4``) has none."""
        return get_suffix(name) in self._suffixes

    def sorted_names(self, names: Sequence[str]) -> list[str]:
        """Those of some file names that have such an ending, in the order of their bytes."""
        as_spelt = self._as_spelt
        found = [name for name in names if name[name.rfind(".") :] in as_spelt]
        if len(found) < len(names):
            found += [name for name in names if name[name.rfind(".") :] not in as_spelt and self.wants(name)]
        sort_by_bytes(found)
        hidden, others = bisect_left(found, "."), bisect_left(found, chr(ord(".") + 1))
        found[hidden:others] = filter(self.wants, found[hidden:others])
        return found


def sort_by_bytes(names: list[str]) -> None:
    """Sort names in place, in the order of ``os.fsencode``."""
    # ASCII is in the order of its bytes as it is; among other names surrogates are not.
    names.sort(key=None if "".join(names).isascii() else os.fsencode)
