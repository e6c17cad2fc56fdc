"""CatalogRows: read the rows and columns of a catalog or view; and verify rows against their files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_count_or_share, check_integer, check_position
from framefeed._compute import pc
from framefeed._names import escape, is_url, resolve_name
from framefeed._values import MediaInfo
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
from framefeed.catalog._plan_columns import find_usable_rows
from framefeed.errors import FramefeedError, StaleSource, UsageError
from framefeed.index import MP4_FORMAT_NAME, FrameIndex, index_media, make_image_sequence, probe
from framefeed.media import SEQUENCE_CONTAINER, ImageSequence, MediaSource, SourceIdentity, source_name
from framefeed.parallel import Err, ordered_outcomes, thread_budget


class CatalogRows:
    """Reader of a catalog's rows and columns. Values that plans read often come from NumPy arrays, not Arrow scalars.

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
        """Get the path, URL or encoded bytes of a row; or an `ImageSequence` if a folder was indexed as one."""
        text = self.name(row)
        given = self._data.buffers.get(text)
        if given is not None:
            return given
        path = resolve_name(text, self._data.root)
        frames = self._data.frames
        if frames is None:
            is_sequence = self._scalar("container", row) == SEQUENCE_CONTAINER
            return ImageSequence(path, fps=self._scalar("average_fps", row)) if is_sequence else path
        frame_row = self._get_frame_row(row)
        if frame_row < 0 or frames.index(frame_row).stream.container != SEQUENCE_CONTAINER:
            return path
        return make_image_sequence(path, frames.index(frame_row))

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
        frames = self._data.frames
        frame_row = -1 if frames is None else self._get_frame_row(row)
        if frames is not None and frame_row >= 0:
            return frames.index(frame_row)
        index = self._data.facts.stills.frame_index(self._get_data_row(row))
        if index is None:
            error = self.error(row)
            reason = error if error is not None else self._data.why_no_frames("call catalog.with_frame_indexes()")
            raise UsageError(f"row {row} ({self.name(row)}) has no frame index: {reason}")
        return index

    def _has_frame_index(self, row: int) -> bool:
        """Whether `frame_index` gives one."""
        if self.error(row) is not None:
            return False
        return self.has_frame_indexes or _needs_no_index(**self._scalars(row, ("kind", "container")))

    def info(self, row: int) -> MediaInfo | None:
        """Get the claims of a row's header; None for a file that could not be read."""
        facts = self._scalars(row, (*INFO_COLUMNS, "bytes"))
        if facts["kind"] is None:
            return None
        frames = self._data.frames
        claims = None if frames is None or self._get_frame_row(row) < 0 else frames.claims(self._get_frame_row(row))
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
        texts = [
            text
            if is_url(text) or os.path.isabs(text)
            else escape(os.path.relpath(resolve_name(text, root), folder).replace(os.sep, "/"))
            for text in table.column("source").to_pylist()
        ]
        return table.set_column(0, "source", pa.array(texts, pa.string()))

    # --- reading --------------------------------------------------------------------------------------

    def _get_data_row(self, row: int) -> int:
        checked = check_position("row", row, len(self), "catalog")
        return checked if self._rows is None else int(self._rows[checked])

    def _get_frame_row(self, row: int) -> int:
        """Get the row of the frame tables; -1 for a row without an index of its own, such as a picture."""
        return int(self._data.facts.plan_columns.frame_rows[self._get_data_row(row)])

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


def _needs_no_index(kind: str, container: str) -> bool:
    """Whether a readable row has no frame tables; see ``Facts.needs_no_index``."""
    return kind == "image" and container != MP4_FORMAT_NAME


def explain_relative_path(catalog: CatalogRows, row: int) -> str:
    """Explain where a relative path of a row starts, for the message about a missing file; "" for other rows."""
    text, data = catalog.name(row), catalog._data
    if data.root is None or os.path.isabs(text) or is_url(text) or text in data.buffers:
        return ""
    return (
        f"; the paths of this catalog are relative to {data.root}: if the files are elsewhere, name their folder: "
        'Catalog.open(..., root="FOLDER"), on the command line --root FOLDER'
    )


def list_unindexed_rows(catalog: CatalogRows) -> IntArray:
    """List the usable rows that cannot be planned: those that need a frame index in a catalog without, int64."""
    return np.setdiff1d(catalog.usable_rows, catalog.plannable_rows, assume_unique=True)


def check_plannable(catalog: CatalogRows, name: str = "") -> None:
    """Check that the rows of a catalog can be planned, at least some; or all, if it is only not complete.

    Args:
        catalog: The catalog.
        name: Its path, for the message.

    Raises:
        UsageError: It has videos alone, and no frame indexes; or videos, whose frame tables are missing.
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
    """Read one column of a catalog, [R], dictionaries decoded.

    Raises:
        UsageError: There is no such column; the message lists the known.
    """
    column = decode_dictionary(catalog._data.facts.column(name)).combine_chunks()
    return column if catalog._rows is None else column.take(pa.array(catalog._rows))


_IN_FLIGHT_PER_WORKER = 2


class Difference(NamedTuple):
    """A value of a catalog that differs from the file.

    Attributes:
        source: Path or name.
        what: "file", "frames", "time_base", "times_from", "time_shift", "pts", "frame_packet", "damaged", "packets", or
            the name of a column.
        expected: The value in the catalog.
        found: The value of the file.
    """

    source: str
    what: str
    expected: str
    found: str


class Failure(NamedTuple):
    """A source that could not be verified.

    Attributes:
        source: Path or name.
        error: Type and message.
    """

    source: str
    error: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of `Catalog.verify`.

    Attributes:
        checked: Number of rows that were checked.
        differences: Values that differ from the catalog, in the order of rows.
        errors: Sources that could not be read, in the order of rows.
        sources: Path, URL or name of each row that is in ``differences`` or ``errors``, with all that opens it.
    """

    checked: int
    differences: tuple[Difference, ...]
    errors: tuple[Failure, ...]
    sources: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether no difference and no error was found."""
        return not self.differences and not self.errors

    def __repr__(self) -> str:
        return f"Verification({self.checked} checked, {len(self.differences)} differences, {len(self.errors)} errors)"


def verify_rows(catalog: CatalogRows, sample: float | None, workers: int | None, seed: int) -> Verification:
    """Verify rows of a catalog; see `Catalog.verify`."""
    check_integer("seed", seed, least=0)
    rows = catalog.usable_rows
    if sample is not None:
        check_count_or_share("sample", sample)
        count = ceil(sample * len(rows)) if isinstance(sample, float) else int(sample)
        rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:count])]
    threads = thread_budget().threads if workers is None else check_integer("workers", workers, least=0)
    differences: list[Difference] = []
    errors: list[Failure] = []
    sources = set[str]()
    in_flight = _IN_FLIGHT_PER_WORKER * max(1, threads)
    verify_row = partial(_verify_row, catalog)
    with ordered_outcomes(verify_row, rows.tolist(), workers=threads, max_in_flight=in_flight) as outcomes:
        for row, outcome in zip(rows.tolist(), outcomes, strict=True):
            if isinstance(outcome, Err):
                raise outcome.error
            sources.update([catalog._path_name(row)] if outcome.value else [])
            differences += [each for each in outcome.value if isinstance(each, Difference)]
            errors += [each for each in outcome.value if isinstance(each, Failure)]
    return Verification(len(rows), tuple(differences), tuple(errors), frozenset(sources))


def _verify_row(catalog: CatalogRows, row: int) -> list[Difference | Failure]:
    name = source_name(catalog._path_name(row), row)
    try:
        media = MediaSource.of(catalog.source(row))
        info = catalog.info(row)
        if catalog.has_frame_indexes:
            index = catalog.frame_index(row)
            media.check_identity(index.identity)
            assumed = 1 / index.time_base if index.times_from == "assumed" else None
            now, decoded = index_media(media, "full", assume_fps=assumed)
            differences = [*_compare_info(info, now), *_compare_frames(index, decoded)]
        else:
            media.check_identity(catalog._identity(row))
            differences = _compare_info(info, probe(media))
    except StaleSource as error:
        return [Difference(name, "file", "the file that was scanned", str(error))]
    except FramefeedError as error:
        return [Failure(name, f"{type(error).__name__}: {error}")]
    return [Difference(name, *difference) for difference in differences]


def _compare_info(expected: MediaInfo | None, actual: MediaInfo) -> list[tuple[str, str, str]]:
    pairs = ((name, getattr(expected, name, None), getattr(actual, name)) for name in INFO_COLUMNS)
    return [(name, str(before), str(now)) for name, before, now in pairs if before != now]


def _compare_frames(expected: FrameIndex, actual: FrameIndex) -> list[tuple[str, str, str]]:
    """List the differences of two indexes in frames and packets; ``built_from`` may differ."""
    if len(expected) != len(actual):
        return [("frames", str(len(expected)), str(len(actual)))]
    differences = []
    for name in ("time_base", "times_from", "time_shift"):
        before, now = getattr(expected, name), getattr(actual, name)
        if before != now:
            differences.append((name, str(before), str(now)))
    columns: list[tuple[str, Any, Any]] = [
        ("pts", expected.pts, actual.pts),
        ("frame_packet", expected.frame_packet, actual.frame_packet),
    ]
    if expected.num_damaged_frames is not None and actual.num_damaged_frames is not None:
        numbers = np.arange(len(actual), dtype=np.int64)
        columns.append(("damaged", expected.is_damaged(numbers), actual.is_damaged(numbers)))
    if len(expected.packets) != len(actual.packets):
        return [*differences, ("packets", str(len(expected.packets)), str(len(actual.packets)))]
    for name in ("offset", "size", "pts"):
        columns.append(("packets", getattr(expected.packets, name), getattr(actual.packets, name)))
    for what, before, now in columns:
        different = np.flatnonzero(before != now)
        if len(different):
            position = int(different[0])
            rest = f" and {len(different) - 1} more" if len(different) > 1 else ""
            differences.append((what, f"{before[position]} at {position}{rest}", f"{now[position]}"))
    return differences
