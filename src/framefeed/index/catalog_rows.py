"""CatalogRows: reading what a catalog, or a view of some of its rows, knows."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._cached import cached_property
from framefeed._checks import check_position
from framefeed.errors import UsageError
from framefeed.index.assembly import CatalogData
from framefeed.index.catalog_roll import usable_of
from framefeed.index.facts import INFO_COLUMNS, Facts, Label, decoded, distinct, encode_labels, label_codes
from framefeed.index.frame_index import FrameIndex
from framefeed.index.names import escape, is_url, resolved
from framefeed.index.sequence_index import sequence_of, still_index
from framefeed.media.info import MediaInfo
from framefeed.media.sequence import SEQUENCE_CONTAINER, ImageSequence
from framefeed.media.source import SourceIdentity

IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]


class CatalogRows:
    """Rows of a catalog, and how to read them. What plans read often comes from NumPy arrays, never from Arrow scalars.

    Args:
        data: The whole catalog.
        rows: Rows that this view shows; None for all.
    """

    def __init__(self, data: CatalogData, rows: IntArray | None = None) -> None:
        self._data = data
        self._rows = rows

    # --- one row --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._data.facts.num_rows if self._rows is None else len(self._rows)

    def source(self, row: int) -> str | bytes | ImageSequence:
        """Path, URL or encoded bytes of a row; an `ImageSequence` if a folder was indexed as one."""
        text = self.name(row)
        given = self._data.buffers.get(text)
        return self._located(row, resolved(text, self._data.root)) if given is None else given

    def name(self, row: int) -> str:
        """Text of the ``source`` column in a row."""
        return self._data.facts.source(self._base(row))

    def error(self, row: int) -> str | None:
        """Why a row failed, or None."""
        return self._data.facts.texts("error")[self._base(row)]

    def frame_index(self, row: int) -> FrameIndex:
        """Read the frame index of a row.

        Raises:
            UsageError: The row failed, or the catalog has no frame indexes.
            UnreadableMedia: The frame tables are damaged.
        """
        if self._data.frames is None:
            raise UsageError(self._data.why_no_frames("call catalog.with_frame_indexes()"))
        at = int(self._data.frame_rows[self._base(row)])
        index = self._still_index(row) if at < 0 else self._data.frames.index(at)
        if index is None:
            raise UsageError(f"row {row} ({self.name(row)}) has no frame index: {self.error(row)}")
        return index

    def _still_index(self, row: int) -> FrameIndex | None:
        """A still picture is an index of one; what failed has none."""
        info = None if self.error(row) is not None else self.info(row)
        if info is None or info.kind != "image":
            return None
        nbytes, mtime_ns = self.row_stat(row)
        identity = SourceIdentity(nbytes, None if mtime_ns == -1 else mtime_ns, self.row_fingerprint(row) or "")
        return still_index(info, identity)

    def info(self, row: int) -> MediaInfo | None:
        """What the header of a row claims; None for a file that could not be read."""
        facts = {name: self._scalar(name, row) for name in (*INFO_COLUMNS, "bytes")}
        if facts["kind"] is None:
            return None
        names = ("num_frames", "duration_seconds", "average_fps")
        at = -1 if self._data.frames is None else int(self._data.frame_rows[self._base(row)])
        if self._data.frames is not None and at >= 0:
            claims = self._data.frames.claims(at)
            facts |= {f"{name}_from_header": getattr(claims, name) for name in names}
        else:
            facts |= {f"{name}_from_header": self._scalar(name, row) for name in names}
        return MediaInfo(**facts)

    def columns(self, row: int) -> dict[str, Any]:
        """Dict of the label and the manifest's columns of a row."""
        return {name: self._scalar(name, row) for name in ("label", *self._data.facts.extra_names)}

    def row_fingerprint(self, row: int) -> str | None:
        """Hash of the content of the scanned file; None for a failed row."""
        return self._data.facts.texts("fingerprint")[self._base(row)]

    def row_stat(self, row: int) -> tuple[int, int]:
        """(size in bytes, modification time in ns) of the scanned file; -1 where unknown."""
        at = self._base(row)
        return int(self._data.facts.numbers("bytes")[at]), int(self._data.facts.numbers("mtime_ns")[at])

    # --- columns --------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> pa.Table:
        """All columns as a `pyarrow.Table`: those of every catalog in a fixed order, then the manifest's own."""
        facts = self._data.facts
        columns = {name: facts.column(name) for name in facts.names}
        columns["label"] = encode_labels(decoded(columns["label"]), self._data.classes)
        table = pa.table(columns)
        return table if self._rows is None else table.take(pa.array(self._rows))

    @property
    def classes(self) -> list[Label]:
        """Distinct labels of the whole catalog that this one is part of, sorted."""
        return list(self._data.classes)

    @property
    def has_frame_indexes(self) -> bool:
        """Whether the catalog has frame indexes (depth "frames"), which plans need."""
        return self._data.frames is not None

    @cached_property
    def usable_rows(self) -> IntArray:
        """Numbers of the rows that can be read, int64 [U]: without error, and not known to have no frames."""
        if self._rows is None:
            return self._data.facts.usable_rows
        return usable_of(self._shown(self._data.facts.has_failed), self.num_frames)

    @cached_property
    def num_frames(self) -> IntArray:
        """Frames of each row, int64 [R]; -1 where unknown."""
        return self._numbers("num_frames")

    @cached_property
    def widths(self) -> IntArray:
        """Displayed width of each row in pixels, int64 [R]; -1 where unknown."""
        return self._numbers("width")

    @cached_property
    def heights(self) -> IntArray:
        """Displayed height of each row in pixels, int64 [R]; -1 where unknown."""
        return self._numbers("height")

    def column_values(self, name: str) -> AnyArray:
        """Read a column as a NumPy array [R]: numbers as they are, everything else as codes.

        Codes are int64 positions among the sorted distinct values of the whole catalog (for the label, in
        ``classes``); -1 is null. Numbers with nulls become float64 with NaN.

        Raises:
            UsageError: There is no such column; the message lists the columns.
        """
        if name == "label":
            return self._shown(label_codes(self._data.facts, self._data.classes))
        column = self._data.facts.column(name)
        if _is_number(column.type):
            values: AnyArray = column.combine_chunks().to_numpy(zero_copy_only=False)
            return self._shown(values.astype(np.float64) if values.dtype == object else values)
        try:
            return self._shown(label_codes(Facts.of_table(pa.table({"label": column})), distinct(column)))
        except (TypeError, pa.ArrowException) as error:
            raise UsageError(f"column {name!r} holds {column.type}, not numbers or strings") from error

    def rows_without(self, name: str, rows: IntArray) -> IntArray:
        """Give those of the given rows whose value in a column is missing, int64.

        Raises:
            UsageError: There is no such column; the message lists the columns.
        """
        is_null = self._data.facts.column(name).is_null().combine_chunks().to_numpy(zero_copy_only=False)
        return rows[self._shown(is_null)[rows]]

    def stream_values(self, name: str) -> IntArray:
        """Read a number of each row's video stream, such as "color_space", int64 [R]; -1 where there is no index.

        Raises:
            UsageError: The catalog has no frame indexes, or streams no such number.
        """
        if self._data.frames is None:
            raise UsageError(self._data.why_no_frames("call catalog.with_frame_indexes()"))
        # One more for rows without an index, whose place is -1.
        values = np.append(self._data.frames.stream_column(name), -1)
        return self._shown(values[self._data.frame_rows])

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        """List of (source, error type, message) of the rows that failed."""
        kinds = self._data.facts.texts("error_type")
        return [
            (self.shown_name(row), kinds[self._base(row)] or "", self.error(row) or "")
            for row in self.failed_rows.tolist()
        ]

    @cached_property
    def failed_rows(self) -> IntArray:
        """Numbers of the rows that failed, int64 [F]."""
        return np.flatnonzero(self._shown(self._data.facts.has_failed)).astype(np.int64)

    def compact(self) -> CatalogData:
        """The data of this view alone."""
        if self._rows is None:
            return replace(self._data, facts=Facts.of_table(self.table))
        frames = self._data.frames
        if frames is not None:
            frames = frames.select(row for row in dict.fromkeys(self._data.frame_rows[self._rows].tolist()) if row >= 0)
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
        texts = [_moved(text, self._data.root or "", folder) for text in table.column("source").to_pylist()]
        return table.set_column(0, "source", pa.array(texts, pa.string()))

    # --- reading --------------------------------------------------------------------------------------

    def _checked(self, row: SupportsIndex) -> int:
        return check_position("row", row, len(self), "catalog")

    def _base(self, row: int) -> int:
        checked = self._checked(row)
        return checked if self._rows is None else int(self._rows[checked])

    def _located(self, row: int, path: str) -> str | ImageSequence:
        if self._data.frames is None:
            is_sequence = self._scalar("container", row) == SEQUENCE_CONTAINER
            return ImageSequence(path, fps=self._scalar("average_fps", row)) if is_sequence else path
        at = int(self._data.frame_rows[self._base(row)])
        index = None if at < 0 else self._data.frames.index(at)
        return path if index is None or index.stream.container != SEQUENCE_CONTAINER else sequence_of(path, index)

    def _scalar(self, name: str, row: int) -> Any:
        return self._data.facts.column(name)[self._base(row)].as_py()

    def _shown(self, values: AnyArray) -> AnyArray:
        return values if self._rows is None else values[self._rows]

    def _numbers(self, name: str) -> IntArray:
        return self._shown(self._data.facts.numbers(name))

    def shown_name(self, row: int) -> str:
        """Path, URL or name of a row, as `failures`, `verify` and messages show it."""
        text = self.name(row)
        return text if text in self._data.buffers else resolved(text, self._data.root)


def missing_hint(catalog: CatalogRows, row: int) -> str:
    """Say where the path of a row starts if it is relative, for the message about a file that is missing."""
    text, data = catalog.name(row), catalog._data
    if data.root is None or os.path.isabs(text) or is_url(text) or text in data.buffers:
        return ""
    return (
        f"; the paths of this catalog are relative to {data.root}: if the files are elsewhere, name their folder: "
        'Catalog.open(..., root="FOLDER"), on the command line --root FOLDER'
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _moved(text: str, root: str, folder: str) -> str:
    name = resolved(text, root)
    if is_url(text) or os.path.isabs(text):
        return text
    return escape(os.path.relpath(name, folder).replace(os.sep, "/"))


def why_no_frames(catalog: CatalogRows, remedy: str) -> str:
    """Say why a catalog has no frame indexes, and what to do about it."""
    return catalog._data.why_no_frames(remedy)


def built_from_codes(catalog: CatalogRows) -> IntArray:
    """How the frames of each row were found: places in ``BuiltFrom``, int64 [R]; -1 where there is no index."""
    frames = catalog._data.frames
    if frames is None:
        return np.full(len(catalog), -1, np.int64)
    # One more for rows without an index, whose place is -1.
    return catalog._shown(np.append(frames.built_from(), -1)[catalog._data.frame_rows])


def missing_frames(catalog: CatalogRows) -> str | None:
    """Path of a catalog's frame tables, where it has some and the file is not there; else None."""
    return catalog._data.missing


def arrow_column(catalog: CatalogRows, name: str) -> pa.Array:
    """Read one column of a catalog as it is stored, [R], text and labels decoded.

    Raises:
        UsageError: There is no such column; the message lists the known.
    """
    column = decoded(catalog._data.facts.column(name)).combine_chunks()
    return column if catalog._rows is None else column.take(pa.array(catalog._rows))
