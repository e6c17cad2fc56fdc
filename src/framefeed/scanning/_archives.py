"""Read the archives among the rows of a scan: each archive's row becomes the rows of its media.

Archives are walked at once in threads, a few at a time; their rows keep the order of the archives, then of the members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._names import is_url
from framefeed._shown import show_name
from framefeed._values import DEFAULT_LIMITS, ByteReader, Limits, SourceStat, read_bytes
from framefeed.archives import LOCAL_READS, REMOTE_READS, explain_compressed, walk_tar
from framefeed.catalog import PackedFile
from framefeed.errors import DeadlineExceeded, MediaError, UnreadableMedia, UsageError
from framefeed.media import MediaSource, StorageOptions, find_container_version
from framefeed.parallel import ordered_map, try_again_in_shortage
from framefeed.scanning._chunks import count_bytes_read
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._list_table import LABEL
from framefeed.scanning._list_template import TemplatePart
from framefeed.scanning._listing import append_columns
from framefeed.scanning._manifests import CATALOG_IS_NO_LIST, is_catalog
from framefeed.scanning._packed_rows import MEDIA, find_media_column, make_value_rows, make_zip_rows
from framefeed.scanning._rows import (
    NO_COLUMN_ROW,
    PARQUET,
    ZIP,
    Listing,
    Located,
    ScanStats,
    SourceGroup,
    get_archive_ending,
    get_container_ending,
    may_have_containers,
)
from framefeed.scanning._tar_columns import FIELD, KEY, check_template, fill_nulls, join_columns
from framefeed.scanning._tar_rows import ArchiveRows, TarRowMaker, make_error_row

T = TypeVar("T")
R = TypeVar("R")

# Requests wait more than they compute: so many archives by URL are walked at once, if the caller does not say.
_REMOTE_AT_ONCE = 16
_IN_FLIGHT_PER_WORKER = 2
_NOT_PACKED = (
    "has no column of media (binary, or struct<bytes, path>): if it is a list of media, name it without a pattern; or "
    'say which column holds media, as in columns={"media": "video"}'
)


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How archives are read."""

    limits: Limits = DEFAULT_LIMITS  # what an archive may claim
    workers: int | None = None  # archives that are walked at once; None for a number that fits
    template: Sequence[TemplatePart] = ()  # parts of ``path_template``, to fit names of members
    label_from: Literal["parent"] | None = None
    storage_options: StorageOptions | None = field(default=None, repr=False)  # options by URL prefix, or None
    # Names of the columns of archives and Parquet files, and the folder where their relative paths start.
    lists: ListOptions = field(default_factory=ListOptions)


class _Slice(NamedTuple):
    """Neighbours in a group that are all archives, or none of them; ``start`` is the first row."""

    start: int
    group: SourceGroup
    is_archive: bool


def read_archives(listing: Listing, options: ArchiveOptions) -> Listing:
    """Read the archives among the rows of a listing, and put the rows of their media in their place.

    An archive that cannot be read is a row with its error.

    Raises:
        UsageError: The template fits no member.
    """
    slices = list(_cut_groups(listing))
    containers = [path for each in slices if each.is_archive for path in each.group.paths()]
    if not containers:
        return listing
    check_template(options.template)
    archives = map_containers(partial(_walk_archive, options=options), containers, containers, options, listing.stats)
    names = ListOptions() if listing.has_list else _choose_names(containers, options.lists)
    columns, remarks = join_columns(archives, options.template, _name_rivals(options), names)
    labelled = [each.remark for each in archives if each.remark]
    remarks += [each + (f" ({len(labelled):,} files)" if labelled[1:] else "") for each in labelled[:1]]
    return _replace_rows(listing, slices, archives, columns, remarks)


def map_containers(
    read: Callable[[T], R], paths: Sequence[str], items: Iterable[T], options: ArchiveOptions, stats: ScanStats
) -> list[R]:
    """Call a function for each container, several at once; return the results in order.

    The bytes that it read are added to the statistics.
    """
    # More results may wait for those before them.
    workers = _REMOTE_AT_ONCE if options.workers is None and any(map(is_url, paths)) else options.workers
    in_flight = _IN_FLIGHT_PER_WORKER * (workers or _REMOTE_AT_ONCE)

    def count(pair: tuple[str, T]) -> tuple[R, int]:
        return count_bytes_read(read, pair[1], is_local=not is_url(pair[0]))

    with ordered_map(count, zip(paths, items, strict=True), workers=workers, max_in_flight=in_flight) as results:
        outcomes = list(results)
    stats.bytes_read += sum(nbytes for _, nbytes in outcomes)
    return [result for result, _ in outcomes]


def _cut_groups(listing: Listing) -> Iterator[_Slice]:
    start = 0
    for group in listing.groups:
        cuts = [0, len(group)]
        if group.kind == "files" and may_have_containers(group.names):
            is_archive = np.array([bool(get_container_ending(name)) for name in group.names])
            if not listing.unlistable.keys().isdisjoint(group.names):
                is_archive &= [name not in listing.unlistable for name in group.names]
            cuts[1:1] = (np.flatnonzero(is_archive[1:] != is_archive[:-1]) + 1).tolist()
        else:
            is_archive = np.zeros(1, np.bool_)
        for first, last in pairwise(cuts):
            part = group if len(cuts) == 2 else group.take(range(first, last))
            yield _Slice(start + first, part, bool(is_archive[first]))
        start += len(group)


def _choose_names(containers: Sequence[str], options: ListOptions) -> ListOptions:
    """Choose the names that are for columns of archives: all but that of the media, if there are Parquet files."""
    has_parquet = any(get_container_ending(path) == PARQUET for path in containers)
    names = {new: old for new, old in (options.columns or {}).items() if new != MEDIA or not has_parquet}
    return replace(options, columns=names, path_template=None)


def _name_rivals(options: ArchiveOptions) -> str:
    """Name the arguments that give labels besides those in archives."""
    names = ["label_from"] if options.label_from else []
    return " and ".join([*names, *(["path_template"] if any(part.name == LABEL for part in options.template) else [])])


def _replace_rows(
    listing: Listing, slices: Sequence[_Slice], archives: Sequence[ArchiveRows], columns: pa.Table, remarks: list[str]
) -> Listing:
    """Put the rows of archives in the place of the archives; ``columns`` has a row for each of them."""
    groups, numbers, owners = list[SourceGroup](), list[IntArray](), list[IntArray]()
    waiting, first = iter(archives), listing.columns.num_rows
    for start, group, is_archive in slices:
        lines = listing.column_rows[start : start + len(group)]
        if not is_archive:
            groups.append(group)
            numbers.append(lines)
            continue
        for line in lines.tolist():
            rows = next(waiting)
            groups += _make_groups(rows)
            numbers.append(np.arange(first, first + len(rows)) if columns.column_names else np.full(len(rows), line))
            owners.append(np.full(len(rows), line))
            first += len(rows)
    errors = {rows.names[row]: error for rows in archives for row, error in rows.errors.items()}
    classes = {rows.classes for rows in archives if rows.classes}
    return replace(
        listing,
        classes=classes.pop() if len(classes) == 1 else (),
        groups=groups,
        column_rows=np.concatenate(numbers),
        columns=listing.columns
        if not columns.column_names
        else append_columns(listing.columns, _add_line_columns(columns, listing.columns, np.concatenate(owners))),
        unlistable=listing.unlistable | errors,
        remarks=[*listing.remarks, *remarks],
    )


def _make_groups(rows: ArchiveRows) -> Iterator[SourceGroup]:
    """Make groups of an archive's rows: of media, of rows with errors, which are told by their names, and of files."""
    kind = np.zeros(len(rows), np.uint8)
    kind[list(rows.errors)] = 1
    kind[list(rows.files)] = 2
    cuts = [0, *(np.flatnonzero(kind[1:] != kind[:-1]) + 1).tolist(), len(rows)]
    for first, last in pairwise(cuts):
        names = rows.names[first:last]
        if names and kind[first] == 2:
            yield SourceGroup("", names)
        elif names:
            located = Located(rows.size[first:last], [rows.version] * len(names), rows.offset[first:last])
            yield SourceGroup("", names, "parts", located)


def _add_line_columns(columns: pa.Table, lines: pa.Table, owners: IntArray) -> pa.Table:
    """Add to columns of members those of the line that names their archive: row ``owners`` of ``lines`` for each."""
    is_bare = owners == NO_COLUMN_ROW
    if not lines.column_names or is_bare.all():
        return columns
    taken = lines.take(pa.array(owners, mask=is_bare))
    joined = {name: columns.column(name) for name in columns.column_names}
    for name in taken.column_names:
        new = f"manifest_{name}" if name in (KEY, FIELD) else name
        joined[new] = fill_nulls(joined[new], taken.column(name)) if new in joined else taken.column(name)
    return pa.table(joined)


def _walk_archive(container: str, options: ArchiveOptions) -> ArchiveRows:
    compressed = explain_compressed(show_name(container), get_archive_ending(container))
    if compressed is not None:
        error = UnreadableMedia(compressed, source=show_name(container), stage="open")
        return make_error_row(container, error)
    try:
        return try_again_in_shortage(partial(_read_rows, container, options), show_name(container), "open")
    except (MediaError, DeadlineExceeded) as error:
        return make_error_row(container, error)


def _read_rows(container: str, options: ArchiveOptions) -> ArchiveRows:
    source = MediaSource.of(container, options.storage_options)
    with source.opened() as reader:
        if get_container_ending(container) in (ZIP, PARQUET):
            return _read_packed(container, source, reader, options)
        windows = _Windows(reader)
        maker = TarRowMaker(container, options.limits, windows.read_part)
        reads = REMOTE_READS if source.is_remote else LOCAL_READS
        for table in walk_tar(windows, source.name, options.limits, reads):
            maker.add(table)
            windows.forget()
        return maker.finish(find_version(source, reader))


def _read_packed(container: str, source: MediaSource, reader: ByteReader, options: ArchiveOptions) -> ArchiveRows:
    """Make the rows of a zip archive, or of a Parquet file."""
    if get_container_ending(container) == ZIP:
        return make_zip_rows(container, reader, options.limits, partial(find_version, source, reader))
    try:
        file = PackedFile(reader, source.name, options.limits, source.make_stamp(reader))
        column = find_media_column(file, reader, options.lists)
        if column is not None:
            reads = REMOTE_READS if source.is_remote else LOCAL_READS
            version = find_version(source, reader)
            by_parent = options.label_from == "parent"
            return make_value_rows(container, file, column, options.lists, version, reads, by_parent=by_parent)
        what = CATALOG_IS_NO_LIST if is_catalog(file.schema.names) else _NOT_PACKED
    except UsageError as error:
        raise UsageError(f"{source.name}: {error}", source=source.name) from error
    raise UnreadableMedia(f"{source.name}: {what}", source=source.name, stage="open")


def find_version(source: MediaSource, reader: ByteReader) -> str:
    """Find the version of an open container; "" if a server does not say it."""
    return find_container_version(reader, is_remote=source.is_remote) or ""


class _Windows:
    """A reader that keeps what is read until `forget`: the labels of a sample are read with its headers."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._starts = list[int]()
        self._parts = list[bytes]()

    def read(self, offset: int, count: int) -> bytes:
        """Read and keep up to ``count`` bytes at ``offset``."""
        data = read_bytes(self._reader, offset, count)
        self._starts.append(offset)
        self._parts.append(data)
        return data

    def read_part(self, offset: int, count: int) -> bytes:
        """Read up to ``count`` bytes, from what is kept if it has them."""
        number = bisect_right(self._starts, offset) - 1
        if number >= 0:
            start = offset - self._starts[number]
            data = self._parts[number]
            if start + count <= len(data):
                return data[start : start + count]
        return read_bytes(self._reader, offset, count)

    def forget(self) -> None:
        """Give up what is kept."""
        del self._starts[:-1], self._parts[:-1]  # The next headers may lie in the last window.

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from byte ``offset`` on; return the number of bytes read."""
        data = self.read(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def stat(self) -> SourceStat:
        """Size and time of the archive."""
        return self._reader.stat()

    def close(self) -> None:
        """The reader stays open."""
