"""Listing: the rows of a scan, as groups of sources, without a Python path for each; and the endings of media files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed._names import escape, is_url, split_part, to_stored_name
from framefeed._shown import strip_url
from framefeed.archives import COMPRESSED_ENDINGS
from framefeed.catalog import ListedRows, find_first_rows
from framefeed.errors import FramefeedError
from framefeed.media import PICTURE_SUFFIXES, MediaSource, StorageOptions, make_part

NO_COLUMN_ROW = -1
"""Column row of a row that comes from no manifest, or from one without columns."""
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Located:
    """Facts of sources that a list of objects or an archive gave, one value for each."""

    sizes: IntArray  # bytes, [N]
    versions: Sequence[str]  # of the object, or of what a part lies in
    offsets: IntArray | None = None  # first byte of each part, [N]; None for objects

    def take(self, numbers: Sequence[int]) -> Located:
        chosen = np.asarray(numbers, np.int64)
        offsets = None if self.offsets is None else self.offsets[chosen]
        return Located(self.sizes[chosen], [self.versions[number] for number in numbers], offsets)


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Consecutive sources of one folder and kind, from their listing to their survey.

    Names are relative to the folder: those of files if a walk listed them; a manifest may name files in subfolders.
    Names of the kind "sources" are paths, and `SurveyResult` objects of sources that could not be listed; those of
    "image_folder" are of folders whose pictures are the frames of one video, those of "parts" of parts of one file.
    """

    folder: str  # absolute, without a trailing slash; "" if the names are complete paths or URLs
    names: list[Any] = field(repr=False)
    kind: Literal["files", "sources", "image_folder", "parts"] = "files"
    located: Located | None = field(default=None, repr=False)  # facts that are known from listing

    def __len__(self) -> int:
        return len(self.names)

    def paths(self) -> Iterator[Any]:
        prefix = self.folder and self.folder + os.sep
        return (prefix + name for name in self.names) if prefix else iter(self.names)

    def find_local_container(self) -> str | None:
        """Find the path of the local file that the sources are parts of; None if they are no parts of one."""
        part = split_part(self.names[0]) if self.kind == "parts" else None
        return None if part is None or is_url(part.container) else part.container

    def take(self, numbers: Sequence[int]) -> SourceGroup:
        located = None if self.located is None else self.located.take(numbers)
        return replace(self, names=[self.names[number] for number in numbers], located=located)

    def make_sources(self, storage_options: StorageOptions | None = None) -> list[Any]:
        """Make what is surveyed: paths, and objects for sources of which more is known."""
        if self.located is None:
            return list(self.paths())
        known, sources = self.located, list[Any]()
        containers: dict[str, MediaSource] = {}
        for number, name in enumerate(self.paths()):
            version = known.versions[number]
            part = split_part(name) if known.offsets is not None else None
            if part is None or known.offsets is None:
                sources.append(MediaSource.of(name, storage_options, version))
                continue
            if part.container not in containers:
                container = MediaSource.of(part.container, storage_options)
                containers[part.container] = replace(container, version=version or None)
            offset, size = int(known.offsets[number]), int(known.sizes[number])
            sources.append(make_part(containers[part.container], offset, size, name))
        return sources


def select_sources(groups: Iterable[SourceGroup], is_selected: BoolArray) -> Iterator[SourceGroup]:
    """Select sources of groups by a mask over all of them."""
    start = 0
    for group in groups:
        selected = np.flatnonzero(is_selected[start : start + len(group)]).tolist()
        start += len(group)
        if len(selected) == len(group):
            yield group
        elif selected:
            yield group.take(selected)


@dataclass(slots=True)
class ScanStats:
    """Statistics of a scan. The names of the fields are also keys of the command's JSON."""

    known: int = 0  # sources that were not opened, because they have not changed
    surveyed: int = 0  # sources that were opened
    bytes_read: int = 0  # from these, and from archives and Parquet files to find what lies in them
    by_library: int = 0  # pictures whose headers a library had to read
    gone: int = 0  # sources of the earlier scan that this scan does not include
    repeated_files: int = 0  # listed again, by a link or a second name: they gave no row
    repeated_folders: int = 0  # found again, and not listed again
    passed_over: Counter[str] = field(default_factory=Counter)  # files without the ending of media, by ending
    archives_beside: int = 0  # those of them that are archives, not read because media lie beside them


@dataclass(frozen=True)
class SourceRows(ListedRows):
    """The rows of a scan, and the distinct sources to open, [S], in the order of their first rows."""

    sources: Sequence[SourceGroup] = ()

    @cached_property
    def source_texts(self) -> pa.Array:
        return self.texts if self.numbers is None else self.texts.take(pa.array(find_first_rows(self.numbers)))


@dataclass(slots=True)
class Listing:
    """The rows of a scan, or of one manifest: the names of all groups, in order."""

    groups: list[SourceGroup] = field(default_factory=list)
    column_rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))  # row of ``columns`` of each row, [N]
    columns: pa.Table = field(default_factory=lambda: pa.table({}))  # of manifests, beside the paths
    unlistable: dict[str, FramefeedError] = field(default_factory=dict)  # of folders and lines, which are rows too
    starts: dict[str, str] = field(default_factory=dict)  # folder where relative paths of a manifest start, by its name
    stats: ScanStats = field(default_factory=ScanStats)
    remarks: list[str] = field(default_factory=list)  # warnings
    classes: tuple[str, ...] = ()  # in the order of their numbers, if Parquet files say them and agree
    has_list: bool = False
    texts: dict[str, str] = field(default_factory=dict)  # paths beside media, "" or the version of an object by each

    @property
    def num_rows(self) -> int:
        return len(self.column_rows)

    @property
    def paths(self) -> list[str]:
        """List of the absolute paths or URLs of the rows; for few rows."""
        return [path for group in self.groups for path in group.paths()]

    def get_columns(self) -> pa.Table:
        """Get the manifests' columns for each row; null if a row comes from no manifest."""
        if not self.columns.column_names:
            return self.columns
        return self.columns.take(pa.array(self.column_rows, mask=self.column_rows == NO_COLUMN_ROW))

    def get_classes(self, labels: pa.ChunkedArray | None) -> tuple[str, ...] | None:
        """Get the classes that Parquet files say; None if they say none, or if there are labels beside them."""
        if not self.classes or labels is None:
            return None
        is_known = pc.is_in(labels.cast(pa.string()).drop_null(), pa.array(self.classes))
        return self.classes if pc.all(is_known, min_count=0).as_py() else None

    def make_source_column(self, root: str | None) -> pa.Array:
        """Make the ``source`` column, with the text of `to_stored_name` for each path, string [N]."""
        top = None if root is None else os.path.join(root, "")
        arrays, waiting = list[pa.Array](), list[str]()
        for group in self.groups:
            if not group.folder:
                is_public = group.find_local_container() is not None
                names = group.names if is_public else [strip_url(name) for name in group.names]
                waiting += names if root is None else [to_stored_name(name, root) for name in names]
            else:
                # Names are escaped later, all at once, by `to_strings`.
                prefix = group.folder + os.sep
                if top is not None and prefix.startswith(top):
                    prefix = prefix[len(top) :].replace(os.sep, "/")
                waiting += [prefix + name for name in group.names]
            if len(waiting) >= _ROWS_AT_ONCE:
                arrays.append(to_strings(waiting))
                waiting = []
        return pa.concat_arrays([*arrays, to_strings(waiting)])

    def label_by_folder(self) -> pa.DictionaryArray:
        """Label each row by the name of its folder, dictionary<int32, string> [N]."""
        numbers: dict[str, int] = {}
        folder_numbers, sizes = list[int](), list[int]()
        for group in self.groups:
            # The one folder of all rows of the group, or the folder of each row, inside its archive.
            is_flat = bool(group.folder) and os.sep not in "".join(group.names)
            folders = [group.folder] if is_flat else [os.path.dirname(_find_member(path)) for path in group.paths()]
            if group.kind == "parts":  # An archive that cannot be read has no folder, nor has a row of a Parquet file.
                parts = map(split_part, group.names)
                folders = [
                    "" if part is None or part.scheme == "parquet" else folder
                    for folder, part in zip(folders, parts, strict=True)
                ]
            folder_numbers += [numbers.setdefault(os.path.basename(folder), len(numbers)) for folder in folders]
            sizes += [len(group.names)] if len(folders) == 1 else [1] * len(folders)
        codes = np.repeat(np.array(folder_numbers, np.int32), sizes)
        if (no_folder := numbers.get("")) is not None:  # At the top of an archive.
            codes = pa.array(codes, mask=codes == no_folder)
        return pa.DictionaryArray.from_arrays(codes, pa.array([escape(name) for name in numbers], pa.string()))


def _find_member(path: str) -> str:
    """Return the name of a part within its container; any other path as it is."""
    part = split_part(path)
    return path if part is None else part.member


def to_strings(texts: Sequence[str | None]) -> pa.Array:
    """Make a column of texts; those that are not UTF-8 are escaped."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else escape(text) for text in texts], pa.string())


VIDEO_SUFFIXES = frozenset((
    ".264", ".265", ".3g2", ".3gp", ".asf", ".avi", ".divx", ".dv", ".f4v", ".flv", ".h264", ".h265", ".hevc",
    ".ivf", ".m1v", ".m2ts", ".m2v", ".m4v", ".mjpeg", ".mjpg", ".mk3d", ".mkv", ".mov", ".mp4", ".mpe", ".mpeg",
    ".mpg", ".mts", ".mxf", ".nut", ".obu", ".ogm", ".ogv", ".qt", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv",
    ".y4m"
))  # fmt: skip
"""Endings by which files in folders count as videos; the type of a file is read from its bytes."""

ALL_MEDIA_SUFFIXES = VIDEO_SUFFIXES | PICTURE_SUFFIXES


ZIP, PARQUET = ".zip", ".parquet"
_ARCHIVE_ENDINGS = (".tar", ZIP, *COMPRESSED_ENDINGS)
LISTED_ENDINGS = ALL_MEDIA_SUFFIXES.union(_ARCHIVE_ENDINGS)
"""Endings by which a text in a list is known as the path of a medium or an archive."""
# Each is in one of the endings: ".tar" is in ".tar.gz".
_CONTAINER_PARTS = [ending for ending in (*_ARCHIVE_ENDINGS, PARQUET) if not ending.startswith(".tar.")]


def remove_query(name: str) -> str:
    """Remove the query of a URL of http; those of other protocols, and paths, may have "?" in names."""
    is_of_http = name.lower().startswith(("http://", "https://"))
    return name.partition("?")[0].partition("#")[0] if is_of_http else name


def get_archive_ending(name: str) -> str:
    """Get the lower-case ending of an archive, such as ``.tar`` or ``.tar.gz``; "" for any other name and for parts.

    Archives with another ending than ``.tar`` and ``.zip`` are compressed, and refused.
    """
    lowered = remove_query(name)[-8:].lower()
    if not lowered.endswith(_ARCHIVE_ENDINGS) or split_part(name) is not None:
        return ""
    return next((ending for ending in _ARCHIVE_ENDINGS if lowered.endswith(ending)), "")


def get_container_ending(name: str) -> str:
    """Get the lower-case ending of the name of an archive or a Parquet file; "" for any other name."""
    if remove_query(name)[-len(PARQUET) :].lower() != PARQUET:
        return get_archive_ending(name)
    return PARQUET if split_part(name) is None else ""


def may_have_containers(names: Sequence[str]) -> bool:
    """Whether one of the names may be that of an archive or a Parquet file; fast for a million names of media."""
    text = "\0".join(names).lower()
    return any(ending in text for ending in _CONTAINER_PARTS)


def has_containers(listing: Listing) -> bool:
    """Whether archives or Parquet files are among the rows of a listing."""
    groups = [each for each in listing.groups if each.kind == "files" and may_have_containers(each.names)]
    return any(get_container_ending(name) for group in groups for name in group.names)


def get_suffix(name: str) -> str:
    """Get the lower-case ending of a file name, with its dot."""
    return os.path.splitext(name)[1].lower()


class Endings:
    """A set of lower-case endings with their dots, with a fast search among a million names."""

    def __init__(self, suffixes: Collection[str]) -> None:
        self._suffixes = frozenset(suffixes)
        self._spellings = self._suffixes | {suffix.upper() for suffix in suffixes}

    def has_ending(self, name: str) -> bool:
        """Whether a file name has such an ending; ``.mp4`` alone has none."""
        return get_suffix(name) in self._suffixes

    def sorted_names(self, names: Sequence[str]) -> list[str]:
        """Select the file names that have such an ending, in the order of their bytes."""
        others = self._list_doubtful(names)
        selected = list(names)
        if others:
            left_out = frozenset(name for name in others if not self.has_ending(name))
            selected = [name for name in names if name not in left_out]
        sort_by_bytes(selected)
        return selected

    def count_others(self, names: Sequence[str]) -> Counter[str]:
        """Count the file names without such an ending, by their ending."""
        endings = map(get_suffix, self._list_doubtful(names))
        return Counter(ending for ending in endings if ending not in self._suffixes)

    def _list_doubtful(self, names: Sequence[str]) -> Sequence[str]:
        """List the names whose ending must be taken from them one by one; none in a folder of ``.jpg`` files."""
        # Names that end in a dot and three letters of such an ending, and those that begin with a dot.
        if self._spellings.issuperset(map(_LAST_FOUR, names)):
            return [name for name in names if name[0] == "."] if "\0." in "\0" + "\0".join(names) else ()
        spellings = self._spellings
        return [name for name in names if name[name.rfind(".") :] not in spellings or name[0] == "."]


_LAST_FOUR = itemgetter(slice(-4, None))


def sort_by_bytes(names: list[str]) -> None:
    """Sort names in place, in the order of ``os.fsencode``."""
    # Strings sort like their bytes if they are ASCII; surrogates do not.
    names.sort(key=None if "".join(names).isascii() else os.fsencode)
