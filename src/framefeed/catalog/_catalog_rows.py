"""CatalogRows: read the rows and columns of a catalog or view; and verify rows against their files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_position
from framefeed._compute import pc
from framefeed._names import escape, is_url, resolve_name, split_part
from framefeed._shown import is_signed, show_name, strip_url
from framefeed._values import DEFAULT_LIMITS, Limits, MediaInfo
from framefeed.catalog._assembly import CatalogData
from framefeed.catalog._columns import (
    INFO_COLUMNS,
    Facts,
    Label,
    compute_label_codes,
    decode_dictionary,
    encode_labels,
    list_distinct,
)
from framefeed.catalog._plan_columns import PROXY_COLUMN, find_usable_rows
from framefeed.catalog._survey import SIGNED
from framefeed.errors import UsageError
from framefeed.index import MP4_FORMAT_NAME, FrameIndex, make_image_sequence
from framefeed.media import (
    PROXY,
    SEQUENCE_CONTAINER,
    ImageSequence,
    MediaSource,
    SourceIdentity,
    find_options,
    make_part,
    source_name,
)

_MOST_PARTS = 256
"""Parts of archives that a catalog remembers: to make one takes as long as 2 % of a clip."""
# As a dataclass writes itself: `Limits(max_side=16384, ...)`.
_LIMIT = re.compile(r"\b([a-z_]+)=([0-9]{1,18})\b")


@cache
def _read_limits(text: str) -> Limits:
    """Read the limits of a scan, so that what it accepted opens again; none is below the default."""
    given = {name: int(number) for name, number in _LIMIT.findall(text)}
    return Limits(**{name: max(given.get(name, 0), default) for name, default in asdict(DEFAULT_LIMITS).items()})


class CatalogRows:
    """Reader of a catalog's rows and columns. Values that plans read often come from NumPy arrays, not Arrow scalars.

    Args:
        data: The whole catalog.
        rows: Rows that this view shows; None for all.
    """

    def __init__(self, data: CatalogData, rows: IntArray | None = None) -> None:
        self._data = data
        self._rows = rows
        self._parts: dict[int, MediaSource] = {}

    # --- one row --------------------------------------------------------------------------------------

    def take(self, rows: Sequence[int] | IntArray) -> CatalogRows:
        """Give the rows with these numbers, in the order given."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._data.facts.num_rows if self._rows is None else len(self._rows)

    def media_source(self, row: int) -> MediaSource:
        """Get what opens a row: its place in an archive, options and signature of a URL, and the version are known.

        Raises:
            UsageError: It was scanned by a signed URL, and this process has no signature.
            UnreadableMedia: The catalog is damaged.
            MediaError: It is a part that could not be read; the error says so again.
        """
        # A clip needs it several times: to ask ahead, and to read.
        known = self._parts.get(row)
        if known is not None:
            return known
        found = self._find_source(row)
        if isinstance(found, str):
            return MediaSource.of(found, self._data.storage_options, limits=_read_limits(self._data.limits))
        if found.kind == "part":
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            self._parts[row] = found = found.with_limits(_read_limits(self._data.limits))
        return found

    def _find_source(self, row: int) -> MediaSource | str:
        """Find what opens a row; of a part that could not be read the name, by which its container is searched."""
        data_row = self._get_data_row(row)
        if (proxy := self._data.facts.find_proxy(data_row)) is not None:
            return replace(MediaSource.of(proxy), version=PROXY)
        text = self._data.facts.plan_columns.source(data_row)
        if text in self._data.buffers or not (is_url(text) or is_url(self._data.root or "")):
            return MediaSource.of(self._make_source(data_row, text, self._find_own_index(data_row)))
        path, options = resolve_name(text, self._data.root), self._data.storage_options
        found = self._scalars(row, ("bytes", "source_offset", "source_version"))
        version = found["source_version"]
        if not is_url(path):  # Absolute, in a catalog whose relative ones start at a URL.
            return MediaSource.of(self.source(row))
        part = split_part(path)
        if part is None:
            given = self._data.signed.get(path, path)
            return MediaSource.of(given, options, self._check_signed(given, version))
        given = self._data.signed.get(strip_url(part.container), part.container)
        if found["bytes"] is None or found["source_offset"] is None:
            return part._replace(container=given).text
        container = MediaSource.of(given, options, self._check_signed(given, version))
        return make_part(container, found["source_offset"], found["bytes"], path)

    def _check_signed(self, url: str, version: str | None) -> str | None:
        """Return the version of an object that was not scanned by a signature, or can be read without."""
        if version is None or not version.startswith(SIGNED):
            return version
        if not is_signed(url) and not find_options(self._data.storage_options, url):
            raise UsageError(
                f"{show_name(url)}: was scanned by a signed URL, and catalogs keep no signatures: scan the signed "
                "URLs in the process that trains (with out=, so that only new files are opened), or use s3:// URLs "
                "with keys, or give storage_options; framefeed feed cannot read signed URLs",
                source=show_name(url),
            )
        return version.removeprefix(SIGNED)

    def source(self, row: int) -> str | bytes | ImageSequence:
        """Get path, URL or bytes of a row, or its proxy's path; an `ImageSequence` if a folder was indexed as one."""
        data_row = self._get_data_row(row)
        text = self._data.facts.plan_columns.source(data_row)
        return self._make_source(data_row, text, self._find_own_index(data_row))

    def _make_source(self, data_row: int, text: str, index: FrameIndex | None) -> str | bytes | ImageSequence:
        """Make the source of a row from its text; ``index`` is None where the row has none of its own."""
        data = self._data
        if (proxy := data.facts.find_proxy(data_row)) is not None:
            return proxy
        given = data.buffers.get(text)
        if given is not None:
            return given
        path = resolve_name(text, data.root)
        if index is not None:
            return make_image_sequence(path, index) if index.stream.container == SEQUENCE_CONTAINER else path
        if data.frames is None and data.facts.column("container")[data_row].as_py() == SEQUENCE_CONTAINER:
            return ImageSequence(path, fps=data.facts.column("average_fps")[data_row].as_py())
        return path

    def _read_row(self, row: int) -> tuple[str | bytes | ImageSequence, FrameIndex]:
        data_row = self._get_data_row(row)
        index = self._read_index(row, data_row)
        return self._make_source(data_row, self._data.facts.plan_columns.source(data_row), index), index

    def name(self, row: int) -> str:
        """Get the text of the ``source`` column in a row."""
        return self._data.facts.plan_columns.source(self._get_data_row(row))

    def error(self, row: int) -> str | None:
        """Get the error message of a row, or None."""
        error: str | None = self._scalar("error", row)
        return error

    def frame_index(self, row: int) -> FrameIndex:
        """Read the frame index of a row.

        Raises:
            UsageError: The row failed, or is a video of a catalog without frame indexes.
            UnreadableMedia: The frame tables are damaged.
        """
        return self._read_index(row, self._get_data_row(row))

    def _read_index(self, row: int, data_row: int) -> FrameIndex:
        index = self._find_own_index(data_row)
        if index is None:
            index = self._data.facts.stills.frame_index(data_row)
        if index is None:
            error = self.error(row)
            reason = error if error is not None else self._data.why_no_frames("call catalog.with_frame_indexes()")
            raise UsageError(f"row {row} ({self.name(row)}) has no frame index: {reason}")
        return index

    def _has_frame_index(self, row: int) -> bool:
        """Whether `frame_index` gives one."""
        if self.error(row) is not None:
            return False
        # See ``Facts.needs_no_index``.
        return self.has_frame_indexes or (
            self._scalar("kind", row) == "image" and self._scalar("container", row) != MP4_FORMAT_NAME
        )

    def info(self, row: int) -> MediaInfo | None:
        """Get the claims of a row's header; None for a file that could not be read."""
        facts = self._scalars(row, (*INFO_COLUMNS, "bytes"))
        if facts["kind"] is None:
            return None
        frames, claims = self._data.frames, None
        if frames is not None:
            frame_row = int(self._data.facts.plan_columns.frame_rows[self._get_data_row(row)])
            claims = None if frame_row < 0 else frames.claims(frame_row)
        for name in ("num_frames", "duration_seconds", "average_fps"):
            facts[f"{name}_from_header"] = self._scalar(name, row) if claims is None else getattr(claims, name)
        return MediaInfo(**facts)

    def columns(self, row: int) -> dict[str, Any]:
        """Get the label and the manifest's columns of a row as a dict."""
        return self._scalars(row, ("label", *self._data.facts.extra_names))

    def row_fingerprint(self, row: int) -> str | None:
        """Get the hash of the content of the scanned file; None for a failed row."""
        fingerprint: str | None = self._scalar("fingerprint", row)
        return fingerprint

    def row_stat(self, row: int) -> tuple[int, int]:
        """Get (size in bytes, modification time in ns) of the scanned file; -1 where unknown."""
        nbytes, mtime_ns = self._scalars(row, ("bytes", "mtime_ns")).values()
        return -1 if nbytes is None else nbytes, -1 if mtime_ns is None else mtime_ns

    # --- columns --------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> pa.Table:
        """All columns as a `pyarrow.Table`: those of every catalog in a fixed order, then the manifest's own."""
        facts = self._data.facts
        columns = {name: facts.column(name) for name in facts.names}
        columns["label"] = encode_labels(decode_dictionary(columns["label"]), self._data.classes)
        table = pa.table(columns)
        return table if self._rows is None else table.take(pa.array(self._rows))

    @property
    def classes(self) -> list[Label]:
        """Distinct labels of the whole catalog that this one is part of, sorted."""
        return list(self._data.classes)

    @property
    def has_frame_indexes(self) -> bool:
        """Whether the catalog has frame indexes (depth "frames"), which plans of videos need."""
        return self._data.frames is not None

    @cached_property
    def usable_rows(self) -> IntArray:
        """Numbers of the rows that can be read, int64 [U]: without error, and not known to have no frames."""
        if self._rows is None:
            return self._data.facts.plan_columns.usable_rows
        return find_usable_rows(self._select(self._data.facts.plan_columns.has_failed), self.num_frames)

    @cached_property
    def plannable_rows(self) -> IntArray:
        """Numbers of the usable rows that have a frame index or, as still pictures, need none, int64 [P]."""
        rows = self.usable_rows
        return rows if self._data.frames is not None else rows[self._select(self._data.facts.needs_no_index)[rows]]

    @cached_property
    def num_frames(self) -> IntArray:
        """Frames of each row, int64 [R]; -1 where unknown. A readable picture has one, whatever its header claims."""
        return self._select(self._data.facts.plan_columns.numbers("num_frames"))

    @cached_property
    def widths(self) -> IntArray:
        """Displayed width of each row in pixels, int64 [R]; -1 where unknown."""
        return self._select(self._data.facts.plan_columns.numbers("width"))

    @cached_property
    def heights(self) -> IntArray:
        """Displayed height of each row in pixels, int64 [R]; -1 where unknown."""
        return self._select(self._data.facts.plan_columns.numbers("height"))

    def column_values(self, name: str) -> AnyArray:
        """Read a column as a NumPy array [R]: numbers as they are, everything else as codes.

        Codes are int64 positions among the sorted distinct values of the whole catalog (for the label, in
        ``classes``); -1 is null. Numbers with nulls become float64 with NaN.

        Raises:
            UsageError: There is no such column; the message lists the columns.
        """
        if name == "label":
            return self._select(compute_label_codes(self._data.facts.column("label"), self._data.classes))
        column = self._data.facts.column(name)
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            values: AnyArray = column.combine_chunks().to_numpy(zero_copy_only=False)
            return self._select(values.astype(np.float64) if values.dtype == object else values)
        try:
            return self._select(compute_label_codes(column, list_distinct(column)))
        except (TypeError, pa.ArrowException) as error:
            raise UsageError(f"column {name!r} holds {kind}, not numbers or strings") from error

    def rows_without(self, name: str, rows: IntArray) -> IntArray:
        """Select those of the given rows whose value in a column is missing, int64.

        Raises:
            UsageError: There is no such column; the message lists the columns.
        """
        is_null = self._data.facts.column(name).is_null().combine_chunks().to_numpy(zero_copy_only=False)
        return rows[self._select(is_null)[rows]]

    def stream_values(self, name: str) -> IntArray:
        """Read a number of each row's video stream, such as "color_space", int64 [R]; -1 where there is no index.

        Raises:
            UsageError: The catalog has no frame indexes, or streams no such number.
        """
        if self._data.frames is None:
            raise UsageError(self._data.why_no_frames("call catalog.with_frame_indexes()"))
        # A last value for rows without an index, whose frame row is -1.
        values = np.append(self._data.frames.stream_column(name), -1)
        return self._select(values[self._data.facts.plan_columns.frame_rows])

    @cached_property
    def proxy_sizes(self) -> tuple[IntArray, IntArray] | None:
        """Height and width of the proxy of each row in pixels, int64 [R]; -1 where it has none. None if no row has."""
        if not self._data.facts.has_proxies:
            return None
        has_none = self._select(self._data.facts.column(PROXY_COLUMN).is_null().to_numpy())
        heights, widths = (np.where(has_none, -1, self.stream_values(name)) for name in ("height", "width"))
        return heights, widths

    @cached_property
    def lacks_times(self) -> BoolArray:
        """Whether the stream of each row has no times of its frames, bool [R]."""
        is_none = pc.equal(decode_dictionary(self._data.facts.column("times_from")), "none").fill_null(False)
        lacks: BoolArray = self._select(is_none.to_numpy())
        return lacks

    @cached_property
    def changes_size(self) -> BoolArray:
        """Whether the pictures of each row are known to differ in size within the stream, bool [R]."""
        changes: BoolArray = self._select(self._data.facts.column("changes_size").fill_null(False).to_numpy())
        return changes

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        """List of (source, error type, message) of the rows that failed."""
        return [
            (source_name(self._path_name(row), row), self._scalar("error_type", row) or "", self.error(row) or "")
            for row in self.failed_rows.tolist()
        ]

    @cached_property
    def failed_rows(self) -> IntArray:
        """Numbers of the rows that failed, int64 [F]."""
        return np.flatnonzero(self._select(self._data.facts.plan_columns.has_failed)).astype(np.int64)

    def compact(self) -> CatalogData:
        """Copy the data of this view alone."""
        if self._rows is None:
            return replace(self._data, facts=Facts.of_table(self.table))
        frames = self._data.frames
        if frames is not None:
            frames = frames.select(
                row for row in dict.fromkeys(self._data.facts.plan_columns.frame_rows[self._rows].tolist()) if row >= 0
            )
        buffers = self._data.buffers
        if buffers:
            names = {self.name(row) for row in range(len(self))}
            buffers = {text: data for text, data in buffers.items() if text in names}
        return replace(self._data, facts=Facts.of_table(self.table), frames=frames, buffers=buffers)

    def rebased(self, table: pa.Table, folder: str) -> pa.Table:
        """Rewrite relative sources for a catalog file in another folder, if they were relative to the first's."""
        if not self._data.root_is_default or folder == self._data.root:
            return table
        if pc.all(pc.starts_with(table.column("source"), os.sep), min_count=0).as_py():
            return table
        root = self._data.root or ""

        def rebase(text: str) -> str:
            if (part := split_part(text)) is not None:
                return part._replace(container=rebase(part.container)).text
            if is_url(text) or os.path.isabs(text):
                return text
            if is_url(root) or is_url(folder):
                return escape(resolve_name(text, root))
            return escape(os.path.relpath(resolve_name(text, root), folder).replace(os.sep, "/"))

        texts = [rebase(text) for text in table.column("source").to_pylist()]
        return table.set_column(0, "source", pa.array(texts, pa.string()))

    # --- reading --------------------------------------------------------------------------------------

    def _get_data_row(self, row: int) -> int:
        checked = check_position("row", row, len(self), "catalog")
        return checked if self._rows is None else int(self._rows[checked])

    def _find_proxy(self, row: int) -> str | None:
        """Find the path of a row's proxy; None if it has none."""
        return self._data.facts.find_proxy(self._get_data_row(row))

    def _find_own_index(self, data_row: int) -> FrameIndex | None:
        """Find the index of a row in the frame tables; None for a row that has none there, such as a picture."""
        frames = self._data.frames
        if frames is None or (frame_row := int(self._data.facts.plan_columns.frame_rows[data_row])) < 0:
            return None
        return frames.index(frame_row)

    def _identity(self, row: int) -> SourceIdentity:
        """Get the identity of the scanned file."""
        nbytes, mtime_ns = self.row_stat(row)
        # Times before 1970 are negative: -1 ns alone is unknown.
        return SourceIdentity(nbytes, None if mtime_ns == -1 else mtime_ns, self.row_fingerprint(row) or "")

    def _scalar(self, name: str, row: int) -> Any:
        return self._scalars(row, [name])[name]

    def _scalars(self, row: int, names: Iterable[str]) -> dict[str, Any]:
        data_row = self._get_data_row(row)
        return {name: self._data.facts.column(name)[data_row].as_py() for name in names}

    def _select(self, values: AnyArray) -> AnyArray:
        return values if self._rows is None else values[self._rows]

    def _path_name(self, row: int) -> str:
        """Get the path, URL or name of a row, with all that opens it."""
        text = self.name(row)
        return text if text in self._data.buffers else resolve_name(text, self._data.root)

    def shown_name(self, row: int) -> str:
        """Get the path, URL or name of a row for messages, without the secrets of a URL."""
        return source_name(self._path_name(row))


def read_row(catalog: CatalogRows, row: int) -> tuple[str | bytes | ImageSequence, FrameIndex]:
    """Read the source and the frame index of a row together."""
    return catalog._read_row(row)


def explain_relative_path(catalog: CatalogRows, row: int) -> str | None:
    """Explain where a relative path of a row starts, for the message about a missing file; None for other rows."""
    text, data = catalog.name(row), catalog._data
    if data.root is None or os.path.isabs(text) or is_url(text) or text in data.buffers:
        return None
    return (
        f"the paths of this catalog are relative to {data.root}: if the files are elsewhere, name their folder: "
        'Catalog.open(..., root="FOLDER"), on the command line --root FOLDER'
    )


def list_unindexed_rows(catalog: CatalogRows) -> IntArray:
    """List the usable rows that cannot be planned: those that need a frame index in a catalog without, int64."""
    return np.setdiff1d(catalog.usable_rows, catalog.plannable_rows, assume_unique=True)


def check_plannable(catalog: CatalogRows, name: str = "") -> None:
    """Check that the rows of a catalog can be planned, at least some; or all, if it is only not complete.

    ``name`` is its path, for the message.
    """
    usable, plannable = len(catalog.usable_rows), len(catalog.plannable_rows)
    if plannable < usable and (not plannable or catalog._data.missing is not None):
        raise UsageError(f"{name}: {explain_missing_frames(catalog)}".removeprefix(": "))


def explain_missing_frames(catalog: CatalogRows) -> str:
    """Explain why the videos of a catalog cannot be planned, and what to do."""
    remedy = "plan over catalog.with_frame_indexes() (on the command line: scan again, without --headers-only)"
    return catalog._data.why_no_frames(remedy)


def read_built_from_codes(catalog: CatalogRows) -> IntArray:
    """Read how the index of each row was built, as numbers of ``BuiltFrom``, int64 [R]; -1 without an index."""
    frames = catalog._data.frames
    if frames is None:
        return np.full(len(catalog), -1, np.int64)
    # A last value for rows without an index, whose frame row is -1.
    return catalog._select(np.append(frames.built_from(), -1)[catalog._data.facts.plan_columns.frame_rows])


def get_missing_frames_path(catalog: CatalogRows) -> str | None:
    """Get the path of a catalog's missing file of frame tables; None if the catalog has none, or it is there."""
    return catalog._data.missing


def read_arrow_column(catalog: CatalogRows, name: str) -> pa.Array:
    """Read one column of a catalog, [R], dictionaries decoded."""
    column = decode_dictionary(catalog._data.facts.column(name)).combine_chunks()
    return column if catalog._rows is None else column.take(pa.array(catalog._rows))
