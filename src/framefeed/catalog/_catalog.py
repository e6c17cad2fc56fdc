"""Catalog: many videos and pictures as one table, with their frame indexes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import and_
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_integer, check_path, check_position, expand_home, expected
from framefeed._compute import pc
from framefeed._names import check_local_path, is_url, make_folder_absolute
from framefeed._shown import has_hidden_query, show_name
from framefeed._units import format_bytes
from framefeed._values import Limits, resolve_limits
from framefeed.catalog._assembly import CatalogData, ListedRows, survey_rows
from framefeed.catalog._catalog_file import (
    CatalogHeader,
    SavedFiles,
    format_rate,
    get_frames_path,
    open_catalog,
    write_catalog,
)
from framefeed.catalog._catalog_rows import CatalogRows
from framefeed.catalog._catalog_urls import StoredCatalog, fetch_catalog, find_stored, get_url_folder, uploading
from framefeed.catalog._columns import FACTS, Facts, content_fingerprint, count_one_frame, decode_dictionary
from framefeed.catalog._entries import CatalogEntry
from framefeed.catalog._frame_tables import FrameTables
from framefeed.catalog._proxies import attach_proxies
from framefeed.catalog._selecting import (
    assign_rows,
    check_fractions,
    explain_filter_error,
    explain_gaps,
    explain_unknown_sources,
    match_value,
    read_rows,
)
from framefeed.catalog._sending import is_sent_as_data
from framefeed.catalog._survey import SurveyOptions
from framefeed.catalog._verifying import Verification, verify_rows
from framefeed.errors import StaleSource, UsageError
from framefeed.media import StorageOptions, check_storage_options

StrPath = str | os.PathLike[str]
RowSelection = npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]
"""Row numbers, or a mask of all rows."""
MAX_PICKLED_BYTES = 64_000_000
"""Largest unsaved catalog that is pickled as data."""
BYTES_PER_PATH = 128
"""Estimated size of a pickled path of an image sequence."""


class Catalog(CatalogRows):
    """Many videos and pictures as one table, made by `scan` or opened by `Catalog.open`.

    Args:
        data: The whole catalog.
        rows: Rows that this view shows; None for all.
        saved: The files that hold it, if any do.
    """

    def __init__(self, data: CatalogData, rows: IntArray | None = None, saved: SavedFiles | None = None) -> None:
        if isinstance(data, (str, os.PathLike)):
            raise UsageError("Catalog: a saved one is opened with ff.Catalog.open(path), and ff.scan(folder) makes one")
        super().__init__(data, rows)
        self._saved = saved

    @classmethod
    def open(
        cls,
        path: StrPath,
        root: StrPath | None = None,
        *,
        local: StrPath | None = None,
        storage_options: StorageOptions | None = None,
    ) -> Catalog:
        """Open a saved catalog; columns are read when they are used, frame tables are mapped into memory.

        Args:
            path: Path of the Parquet file; or its URL: both files are then copied to the disk, and mapped there.
            root: Folder where relative sources start, or its URL; by default the folder of the file.
            local: Folder for the copies, shared by all processes; by default ``~/.cache/framefeed/catalogs``.
            storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources". Plans over
                the catalog take it to their workers; no file has it.

        Raises:
            MissingMedia: There is no such file.
            UnreadableMedia: It is not a catalog, or damaged.
            StaleSource: The frame tables beside it belong to another catalog.
        """
        check_storage_options(storage_options)
        text = check_path("path", path, "cat.parquet")
        given = None if root is None else make_folder_absolute(check_path("root", root, "videos/"))
        folder = None if local is None else os.path.abspath(check_local_path("local", local, "catalogs/"))
        if is_url(text):
            copy = fetch_catalog(text, folder, storage_options)
            name, default_root, frames_name, url = copy.path, copy.folder, copy.frames_name, text
        else:
            name, url = os.path.abspath(text), None
            default_root, frames_name = os.path.dirname(name), get_frames_path(name)
        facts, header, frames = open_catalog(name)
        data = CatalogData(
            facts,
            frames,
            tuple(header.classes),
            header.verify,
            given or default_root,
            root_is_default=given is None,
            limits=header.limits,
            assume_fps=None if header.assume_fps is None else Fraction(header.assume_fps),
            missing=frames_name if frames is None and header.frames_id is not None else None,
            rules=header.rules,
            storage_options=storage_options,
        )
        # A worker finds the copy, but not where it is from.
        return cls(data, saved=SavedFiles(name, given if url is None else data.root, header.fingerprint, url=url))

    def to_parquet(self, path: StrPath) -> None:
        """Write the facts as Parquet, and the frame tables beside them as ``<name>.frames.arrow``.

        From then on the catalog is pickled as this path. After a crash, either the old or the new files are there. To
        ``s3://bucket/cat.parquet`` both are written as objects, by the ``storage_options`` of the catalog.

        Raises:
            UsageError: The catalog holds media in memory, or the files cannot be written.
            StaleSource: Another writer has put another catalog there meanwhile.
        """
        name = check_path("path", path, "cat.parquet")
        if is_url(name):
            store_catalog(self, name, find_stored(name, self._data.storage_options))
        else:
            name = os.path.abspath(name)
            header = self._write(name, os.path.dirname(name))
            self._saved = SavedFiles(name, None if self._data.root_is_default else self._data.root, header.fingerprint)

    def _write(self, path: str, folder: str) -> CatalogHeader:
        """Write both files, for a catalog whose relative sources start at a folder."""
        if self._data.buffers and any(self.name(row) in self._data.buffers for row in range(len(self))):
            raise UsageError(
                "this catalog cannot be saved: it holds media in memory or ImageSequence objects: scan files or "
                "folders instead"
            )
        data = self.compact()
        table = self.rebased(data.facts.table(), folder)
        assumed = format_rate(data.assume_fps)
        header = CatalogHeader(
            self.fingerprint, data.depth, data.verify, list(data.classes), None, data.limits, assumed, data.rules
        )
        return write_catalog(path, table, header, data.frames)

    @overload
    def __getitem__(self, row: int | np.integer[Any]) -> CatalogEntry: ...
    @overload
    def __getitem__(self, row: slice | Sequence[int] | RowSelection) -> Catalog: ...
    def __getitem__(self, row: int | np.integer[Any] | slice | Sequence[int] | RowSelection) -> CatalogEntry | Catalog:
        """Give one row by its number, or a catalog of several rows by a slice, row numbers, or a mask of all rows."""
        if isinstance(row, slice):
            return self.take(np.arange(len(self), dtype=np.int64)[row])
        if isinstance(row, SupportsIndex) and not isinstance(row, (np.ndarray, bool, np.bool_)):
            return CatalogEntry(self, check_position("row", row, len(self), "catalog"))
        chosen = read_rows(row, self._data.facts.names)
        if chosen.dtype == bool and len(chosen) != len(self):
            raise UsageError(f"mask: expected one entry per row ({len(self)}), got {len(chosen)}")
        return self.take(np.flatnonzero(chosen) if chosen.dtype == bool else chosen)

    def __iter__(self) -> Iterator[CatalogEntry]:
        return (CatalogEntry(self, row) for row in range(len(self)))

    def __repr__(self) -> str:
        path = f", {show_name(self._saved.url or self._saved.path)!r}" if self._saved else ""
        damaged = np.count_nonzero(self.column_values("num_damaged_frames") > 0)
        faults = f"{len(self.failed_rows)} failed" + (f", {damaged} with damaged frames" if damaged else "")
        if self.proxy_sizes is not None:
            faults += f", {np.count_nonzero(self.proxy_sizes[0] > 0)} read from proxies"
        return f"Catalog({len(self)} rows, {faults}, depth={self._data.depth!r}{path})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that a plan depends on: content and order of rows and columns, but not file locations."""
        if self._saved is not None and self._saved.rows is None:
            return self._saved.fingerprint
        table, depth = self.table, self._data.depth
        if depth == "header":
            # A scan of the same pictures at depth "frames", which gives the same plans, has this fingerprint; of videos
            # it has more facts.
            table, depth = count_one_frame(table), "frames"
        return content_fingerprint(table, [depth, self._data.verify, *map(str, self._data.classes)])

    def hash_sources(self, columns: Sequence[str] = ()) -> str:
        """Hash what decides the frames of clips: facts of the rows and some columns, but no labels and no locations."""
        facts = [name for name in FACTS if name != "label"]
        kept = [name for name in self.table.column_names if name in facts or name in columns]
        table, depth = self.table.select(kept), self._data.depth
        if depth == "header":
            table, depth = count_one_frame(table), "frames"
        return content_fingerprint(table, [depth, self._data.verify])

    # --- other catalogs -------------------------------------------------------------------------------

    def take(self, rows: Sequence[int] | IntArray) -> Catalog:
        """Give a catalog of the rows with these numbers, in the order given; labels keep their numbers."""
        local = read_rows(rows, self._data.facts.names)
        if local.dtype == bool:
            raise UsageError("rows: expected row numbers, got a mask: use catalog[mask]")
        if len(local) and not (local.min() >= -len(self) and local.max() < len(self)):
            wrong = local.max() if local.max() >= len(self) else local.min()
            raise expected("rows", f"row numbers from {-len(self)} to {len(self) - 1}", int(wrong))
        local = np.where(local < 0, local + len(self), local)
        saved = self._saved
        if saved is not None:
            saved = replace(saved, rows=local if saved.rows is None else saved.rows[local])
        return Catalog(self._data, local if self._rows is None else self._rows[local], saved)

    @property
    def errors(self) -> Catalog:
        """Catalog of the rows that failed."""
        return self.take(self.failed_rows)

    def without(self, errors: Catalog | Verification | Iterable[Any]) -> Catalog:
        """Give a catalog of the rows of all other sources, in their order; labels keep their numbers.

        Example: ``catalog.without(catalog.verify(sample=0.1))``

        Args:
            errors: A catalog such as ``catalog.errors``; the result of `verify`; a list of paths or names as in the
                column ``source``; or a list of entries, such as those of a loader's ledger. Results and entries may
                name sources of other catalogs, such as another part of a split.

        Raises:
            UsageError: A path or name of the list is not in this catalog.
        """
        texts, names = set[str](), set[str]()
        if isinstance(errors, Catalog):
            names = {errors._path_name(row) for row in range(len(errors))}
        elif isinstance(errors, Verification):
            names = {each.source for each in errors.differences} | {each.source for each in errors.errors}
            names |= errors.sources
        elif isinstance(errors, Iterable) and not isinstance(errors, (str, bytes)):
            for each in errors:
                if isinstance(each, CatalogEntry):
                    names.add(each._catalog._path_name(each.row))
                elif hasattr(each, "source"):
                    opened = str(getattr(each, "opened", None) or each.source)
                    (texts if has_hidden_query(opened) else names).add(opened)
                elif isinstance(each, (str, os.PathLike)):
                    texts.add(expand_home(os.fsdecode(each)))
                else:
                    raise expected("errors", "sources as text, or entries that have a source", each)
        else:
            raise expected("errors", "a Catalog, the result of catalog.verify(), or a list of sources", errors)
        names |= texts
        is_left = np.ones(len(self), np.bool_)
        for row in range(len(self)):
            own = {self._path_name(row), self.name(row), self._find_proxy(row)}
            if not names.isdisjoint(own):
                is_left[row] = False
                texts -= own
        if texts:
            known = [self.shown_name(row) for row in range(len(self))]
            raise UsageError(explain_unknown_sources(sorted(texts), known))
        return self.take(np.flatnonzero(is_left))

    def filter(self, condition: Any = None, /, **equal: Any) -> Catalog:
        """Give a catalog of the rows that fulfil all conditions.

        Example: ``catalog.filter(pyarrow.compute.field("width") >= 640, split="train")``

        Args:
            condition: An expression of pyarrow; or a mask, one truth value per row: NumPy, Arrow or a list. Rows for
                which it is null are left out.
            **equal: Columns and the value that they must have; None takes the rows without a value.

        Raises:
            UsageError: The expression does not fit the columns, or the mask does not fit the rows.
        """
        if condition is None and not equal:
            raise UsageError("filter: expected an expression, a mask, or columns with values, got none of them")
        names = self._data.facts.names
        if condition is not None and not isinstance(condition, pc.Expression):
            mask = read_rows(condition, names)
            if mask.dtype != bool:
                raise expected("filter", "a mask of all rows; for row numbers write catalog.take(rows)", condition)
            return self[mask].filter(**equal) if equal else self[mask]
        expressions = [match_value(name, value) for name, value in equal.items()]
        expression = reduce(and_, expressions if condition is None else [condition, *expressions])
        label = self.table.column("label")
        plain = self.table.set_column(self.table.column_names.index("label"), "label", decode_dictionary(label))
        numbered = plain.append_column("\0row", pa.array(np.arange(len(self))))
        try:
            rows = np.sort(numbered.filter(expression).column("\0row").to_numpy())
        except (pa.ArrowException, TypeError) as error:
            raise UsageError(explain_filter_error(expression, str(error), names)) from error
        return self.take(rows)

    @overload
    def split(
        self, fractions: Mapping[str, float], seed: int, by: str = ..., stratify: str | Literal[False] | None = ...
    ) -> dict[str, Catalog]: ...
    @overload
    def split(
        self, fractions: Sequence[float], seed: int, by: str = ..., stratify: str | Literal[False] | None = ...
    ) -> list[Catalog]: ...
    def split(
        self,
        fractions: Mapping[str, float] | Sequence[float],
        seed: int,
        by: str = "source",
        stratify: str | Literal[False] | None = None,
    ) -> dict[str, Catalog] | list[Catalog]:
        """Split into several catalogs; all rows of one source (or of one value of ``by``) are in the same part.

        The groups that stay together are sorted by a hash of their value and the seed, and cut. Sizes are the nearest
        possible: without groups of several rows, the rows of the largest remainders. Rows that are added or removed
        later move only groups near a cut. A warning names parts that come out empty, and classes that are missing from
        a part.

        Args:
            fractions: Share of each part, as a dict from names to shares or as a list; they add up to 1.
            seed: Another seed gives other parts.
            by: Column whose equal values stay together; "fingerprint" keeps copies of one file together.
            stratify: Column of classes: each part gets its share of the rows of every class, to within one group. A
                group with several classes counts for the one that most of its rows have. None takes "label" if there
                are labels, False takes no column.

        Returns:
            The parts: a dict if ``fractions`` is a dict, else a list.

        Raises:
            UsageError: The fractions do not add up to 1, or there is no such column.
        """
        shares = check_fractions(fractions)
        if not (stratify is None or stratify is False or isinstance(stratify, str)):
            raise expected("stratify", "the name of a column, None or False", stratify)
        has_labels = self.table.column("label").null_count < len(self)
        classes = stratify or ("label" if stratify is None and has_labels else None)
        columns = [by] if classes is None else [by, classes]
        for name in columns:
            self._data.facts.column(name)
        try:
            groups, *strata = (decode_dictionary(self.table.column(name)) for name in columns)
            rows_of_parts = assign_rows(groups, shares, check_integer("seed", seed), *strata)
        except pa.ArrowException as error:
            raise UsageError(f"cannot split by column {by!r}: {error}") from error
        names = list(fractions) if isinstance(fractions, Mapping) else range(len(shares))
        sizes = zip(names, shares, map(len, rows_of_parts), strict=True)
        empty = [f"{name!r} ({share:g})" for name, share, size in sizes if share > 0 and not size]
        if empty and len(self):
            warnings.warn(
                f"split: of {len(self)} rows, none came into part {', '.join(empty)}. Give the part a larger fraction, "
                "or choose its rows with catalog[mask]",
                UserWarning,
                stacklevel=2,
            )
        gaps = explain_gaps(names, shares, rows_of_parts, strata[0]) if strata else None
        if gaps is not None:
            warnings.warn(
                f"split: {gaps}: they have too few rows for these fractions. Give the part a larger fraction, or "
                f"choose its rows with catalog[mask]; if the column {classes!r} does not hold classes, "
                "stratify=False does not look at it",
                UserWarning,
                stacklevel=2,
            )
        parts = [self.take(rows) for rows in rows_of_parts]
        return dict(zip(fractions, parts, strict=True)) if isinstance(fractions, Mapping) else parts

    def with_frame_indexes(self, workers: int | None = None, *, limits: Limits | None = None) -> Catalog:
        """Give a catalog with frame indexes, as `scan` at depth "frames" makes; this one if it has them.

        Args:
            workers: Number of threads; None takes the thread budget.
            limits: What a file may claim; None means the defaults of `Limits`. A file that claims more is a row with
                LimitExceeded. The limits of the scan are not used: give them again.

        Raises:
            UsageError: ``workers`` or ``limits`` is wrong.
        """
        bounds = resolve_limits(limits)
        if self.has_frame_indexes:
            return self
        table, texts = self.table, [self.name(row) for row in range(len(self))]
        sources = {self.name(row): self._find_source(row) for row in range(len(self))}
        rows = ListedRows(
            pa.array(texts, pa.string()),
            labels=decode_dictionary(table.column("label")),
            extra=table.select(self._data.facts.extra_names),
            root=self._data.root,
            buffers=self._data.buffers,
            classes=self._data.classes,
            signed=self._data.signed,
        )
        options = SurveyOptions(
            "frames", self._data.verify, workers, limits=bounds, assume_fps=self._data.assume_fps,
            storage_options=self._data.storage_options,
        )  # fmt: skip
        data = survey_rows(rows, list(sources.values()), options)
        return Catalog(replace(data, root_is_default=self._data.root_is_default))

    def with_proxies(self, folder: StrPath) -> Catalog:
        """Give a catalog that reads the proxies of a folder, made by `make_proxies`, in place of these files.

        Rows, labels, columns, frame numbers and times are the same, and so is every plan; sizes and crops are still
        about the original's pictures. Files without a proxy are read themselves.

        Example: ``ff.Catalog.open("cat.parquet").with_proxies("small/")``

        Raises:
            MissingMedia: There are no proxies in the folder.
            StaleSource: A file has changed since its proxy was made.
            UsageError: This catalog reads proxies already.
        """
        return Catalog(attach_proxies(self, check_path("folder", folder, "small/")))

    def verify(self, sample: float | None = None, workers: int | None = None, *, seed: int = 0) -> Verification:
        """Check whether the files are still those that were scanned, and decode them to compare the frames.

        For each row these are compared: the file's size and content, the claims of its header, and, at depth "frames",
        the number, times and packets of the frames that full decoding gives. Pixels are not kept. Rows that failed in
        the scan are left out. Bad files are listed in the result; what says nothing about a file is raised.

        Example: ``Catalog.open("cat.parquet").verify(sample=0.01).ok``

        Args:
            sample: A number of readable rows (int), a share of them (float), or None for all.
            workers: Number of threads; None takes the thread budget. The result is the same for any number.
            seed: Decides which rows are drawn.

        Raises:
            UsageError: ``sample`` or ``workers`` is out of range.
        """
        return verify_rows(self, sample, workers, seed)

    # --- pickling -------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        saved = self._saved
        if saved is not None and not is_sent_as_data():
            rows = None if saved.rows is None else saved.rows.tobytes()
            rights = (self._data.storage_options, dict(self._data.signed))
            return (_reopen, (replace(saved, rows=None), self.has_frame_indexes, rows, rights))
        data = self.compact()
        frames = data.frames
        table = data.facts.table()
        media_bytes = sum(
            len(media) if isinstance(media, bytes) else BYTES_PER_PATH * len(media.paths or "")
            for media in data.buffers.values()
        )
        size = table.nbytes + (0 if frames is None else frames.nbytes) + media_bytes
        if size > MAX_PICKLED_BYTES and saved is None:
            raise UsageError(
                f"this catalog is not saved and takes {format_bytes(size)}, but a worker process can be sent at most "
                f"{format_bytes(MAX_PICKLED_BYTES)}: save it with catalog.to_parquet(path)"
            )
        # The other fields of `CatalogData`, in their order.
        rest = (
            data.classes, data.verify, data.root, data.root_is_default, dict(data.buffers), data.limits,
            data.assume_fps, data.missing, data.rules, data.storage_options, dict(data.signed),
        )  # fmt: skip
        return (_rebuild, (table, None if frames is None else frames.batches, rest))


def add_signatures(catalog: Catalog, signed: Mapping[str, str]) -> Catalog:
    """Give a catalog that reads objects by signed URLs, in this process and its workers.

    They are ``signed`` by the text in the column ``source``, which has no signature.
    """
    return Catalog(replace(catalog._data, signed=signed), catalog._rows, catalog._saved)


def store_catalog(catalog: Catalog, url: str, stored: StoredCatalog | None) -> None:
    """Write a catalog to a bucket: the frame tables first, then the catalog; each is one conditional request.

    The catalog is then pickled as the copy of what was written. If another writer has put another one there since
    ``stored`` was there, that is StaleSource.
    """
    options, folder = catalog._data.storage_options, get_url_folder(url)
    with uploading(url, stored, options) as path:
        header = catalog._write(path, folder)
    copy = fetch_catalog(url, None, options)  # which is there, unless the server did not say its version
    root = folder if catalog._data.root_is_default else catalog._data.root
    catalog._saved = SavedFiles(copy.path, root, header.fingerprint, url=url)


_Rights = tuple[StorageOptions | None, Mapping[str, str]]
"""Options by URL prefix, and signed URLs: they go to workers, and into no file."""


def _reopen(saved: SavedFiles, has_frames: bool, rows: bytes | None, rights: _Rights) -> Catalog:
    path = saved.path
    # On another machine there is no copy.
    opened = path if saved.url is None or os.path.exists(path) else saved.url
    catalog = add_signatures(Catalog.open(opened, saved.root, storage_options=rights[0]), rights[1])
    if catalog.fingerprint != saved.fingerprint:
        raise StaleSource(
            f"{path}: this catalog file has changed since it was sent to this process: open it again with "
            "Catalog.open and plan again",
            source=path,
        )
    if has_frames and not catalog.has_frame_indexes:
        raise StaleSource(f"{path}: its frame tables are missing: restore {get_frames_path(path)}", source=path)
    return catalog if rows is None else catalog.take(np.frombuffer(rows, dtype=np.int64))


def _rebuild(table: pa.Table, batches: Sequence[pa.RecordBatch] | None, rest: tuple[Any, ...]) -> Catalog:
    frames = None if batches is None else FrameTables(batches)
    return Catalog(CatalogData(Facts.of_table(table), frames, *rest))
