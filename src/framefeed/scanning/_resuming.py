"""Resume an earlier scan: reuse results of the old catalog and the journal for files that have not changed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from fractions import Fraction
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from framefeed._arrays import BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed._names import is_remote, make_printable, resolve_name
from framefeed.catalog import (
    ROWS_PER_BATCH,
    SIGNED,
    SURVEYED,
    CatalogHeader,
    Facts,
    FrameTables,
    SurveyedSources,
    SurveyOptions,
    SurveyResult,
    find_first_rows,
    format_rate,
    gather_rows,
    number_sources,
    number_true,
    open_catalog,
)
from framefeed.errors import MediaError, UsageError
from framefeed.index import PROOF_RULES, BuiltFrom
from framefeed.media import SEQUENCE_CONTAINER, list_folder
from framefeed.scanning._chunks import ChunkResult, cut_into_chunks, survey_chunks
from framefeed.scanning._journal import JOURNALED, Journal, JournalWriter
from framefeed.scanning._rows import ScanStats, SourceGroup, SourceRows, select_sources
from framefeed.scanning._still_rows import to_time_column

UNKNOWN, FAILED = -1, -2
"""In place of a size: of a source that must be opened, and of one whose error this scan knows already."""
_BELIEVED = [get_args(BuiltFrom).index(name) for name in ("packets+proof", "packets+ends")]


class RunResults:
    """Facts and frame tables of several runs, the most trusted first: of rows about one source, the first counts.

    ``old`` are all rows of the old catalog, if its results are the last run, and its header.
    """

    def __init__(
        self, rows: SourceRows, runs: Iterable[SurveyedSources], old: tuple[Facts, CatalogHeader] | None = None
    ) -> None:
        self.rows = rows
        given = list(runs)
        self.runs = [run for run in given if run.facts.num_rows]
        self._num_journaled = sum(run.facts.num_rows for run in (given if old is None else given[:-1]))
        self.old = old
        self._num_rows = sum(run.facts.num_rows for run in self.runs)

    def __len__(self) -> int:
        return self._num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column of ``JOURNALED``."""
        chunks = [chunk for run in self.runs for chunk in run.facts.column(name).chunks]
        return pa.chunked_array(chunks, JOURNALED.field(name).type)

    def join(self) -> SurveyedSources:
        """Join all rows; a column is read when it is used."""
        batches = [batch for run in self.runs for batch in run.frames]
        return SurveyedSources(Facts(SURVEYED, len(self), self.column), batches)

    def select(self, rows: IntArray) -> SurveyedSources:
        """Copy rows, in the order given."""
        # Row of all frame tables of each row; a source with an index is one that has a number of key frames.
        frame_rows, count = list[IntArray](), 0
        for run in self.runs:
            numbers = number_true(run.facts.column("num_key_frames").is_valid().to_numpy())
            frame_rows.append(np.where(numbers >= 0, numbers + count, -1))
            count += sum(batch.num_rows for batch in run.frames)
        used = np.concatenate(frame_rows)[rows]
        joined = self.join()
        frames = gather_rows(joined.frames, used[used >= 0], ROWS_PER_BATCH)
        return SurveyedSources(Facts.of_table(joined.facts.table().take(pa.array(rows))), list(frames))

    @cached_property
    def row_of_source(self) -> IntArray:
        """Row of each source of this scan, int64 [S]; -1 if it is new, or its size or time is another."""
        rows, texts = self.rows, self.rows.source_texts
        if not len(self):
            return np.full(len(texts), -1, np.int64)
        sources = self.column("source")
        if len(texts) == len(self) and sources.equals(pa.chunked_array([texts])):
            numbers = np.arange(len(self), dtype=np.int64)
        else:
            indices = pc.index_in(texts, value_set=sources.combine_chunks())
            numbers = indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        size, mtime_ns = stat_all(rows.sources)
        is_same = (self._numbers("bytes")[numbers] == size) & (self._read_stamps()[numbers] == mtime_ns)
        earlier_rows = np.where((numbers >= 0) & (((size >= 0) & is_same) | self._goes_on(numbers, size)), numbers, -1)
        if rows.root is not None:
            # The error of a failed source names another path if its folder has been moved: it is surveyed again.
            failed = self.column("error_type").is_valid().to_numpy()
            suspects = np.flatnonzero((earlier_rows >= 0) & failed[earlier_rows])
            errors = self.column("error").take(pa.array(earlier_rows[suspects])).to_pylist()
            for number, text, error in zip(suspects, texts.take(pa.array(suspects)).to_pylist(), errors, strict=True):
                if make_printable(resolve_name(text, rows.root)) not in error:
                    earlier_rows[number] = -1
        return earlier_rows

    def _goes_on(self, numbers: IntArray, size: IntArray) -> BoolArray:
        """Find the objects of which nothing is known before they are opened, and which the scan that goes on opened.

        To ask for one again takes as long as to survey it. Readers of the catalog notice if one was replaced.
        """
        if not self._num_journaled or not (size < 0).any():
            return np.zeros(len(numbers), np.bool_)
        is_read = self.column("error_type").is_null().to_numpy()
        goes_on: BoolArray = (size == UNKNOWN) & (numbers < self._num_journaled) & is_read[numbers]
        candidates = np.flatnonzero(goes_on)
        texts = self.rows.source_texts.take(pa.array(candidates)).to_pylist()
        goes_on[candidates] = [is_remote(text) for text in texts]
        return goes_on

    @property
    def is_unchanged(self) -> bool:
        """Whether these are all sources of this scan, in their order."""
        rows = self.row_of_source
        return 0 < len(self) == len(rows) and np.array_equal(rows, np.arange(len(self)))

    def _read_stamps(self) -> IntArray:
        """Read the modification time of each source, or the hash of its version, int64 [N]."""
        times, versions = self._numbers("mtime_ns"), self.column("source_version")
        if versions.null_count == len(versions):
            return times
        hashed = [0 if version is None else hash_version(version) for version in versions.to_pylist()]
        return np.where(versions.is_valid().to_numpy(), np.array(hashed, np.int64), times)

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self.column(name).fill_null(np.iinfo(np.int64).min).to_numpy()
        return numbers


def read_earlier_results(target: str | None, journal: Journal, options: SurveyOptions, rows: SourceRows) -> RunResults:
    """Read the results of earlier runs: those of the journal, the newest first, then the catalog at ``target``, if any.

    Results of another depth or other settings are not read.
    """
    runs = list(journal.read_parts())[::-1]
    if target is None or not os.path.exists(target):
        return RunResults(rows, runs)
    with suppress(MediaError):  # An unreadable catalog is ignored.
        known, header, frames = open_catalog(target)
        if known.has_proxies:
            raise UsageError(
                f"out: {target} is a catalog of proxies, which a scan would make one of the originals: scan to the "
                "catalog of the originals, and make their proxies with ff.make_proxies, which keeps those that it has"
            )
        has_all = _has_settings(header, options) and not (frames is None and header.frames_id is not None)
        if has_all and (options.fps is None or _has_sequence_rate(known, frames, options.fps)):
            facts = known
            if not known.column("source").equals(pa.chunked_array([rows.source_texts])):
                # Lines of a manifest about one file share its facts.
                first = find_first_rows(number_sources(known.column("source").combine_chunks()))
                if len(first) < known.num_rows:
                    taken = pa.array(first)
                    facts = Facts(known.schema, len(first), lambda name: known.column(name).take(taken))
            run = SurveyedSources(facts, () if frames is None else frames.batches)
            runs.append(run if header.rules == PROOF_RULES else _leave_out_believed(run))
            return RunResults(rows, runs, (known, header))
    return RunResults(rows, runs)


def _has_settings(header: CatalogHeader, options: SurveyOptions) -> bool:
    """Whether a scan with these options would read the same facts as that of a catalog."""
    settings = (options.depth, options.verify, repr(options.limits), format_rate(options.assume_fps))
    return (header.depth, header.verify, header.limits, header.assume_fps) == settings


def _leave_out_believed(run: SurveyedSources) -> SurveyedSources:
    """Leave out the sources whose packets were believed, and those with damaged frames: other rules may differ."""
    has_index = run.facts.column("num_key_frames").is_valid().to_numpy()
    is_left = pc.greater(run.facts.column("num_damaged_frames"), 0).fill_null(False).to_numpy().copy()
    is_left[has_index] |= np.isin(FrameTables(run.frames).built_from()[: np.count_nonzero(has_index)], _BELIEVED)
    if not is_left.any():
        return run
    mask = pa.array(~is_left)
    facts = Facts(run.facts.schema, mask.true_count, lambda name: run.facts.column(name).filter(mask))
    frame_rows = number_true(has_index)[has_index & ~is_left]
    return SurveyedSources(facts, list(gather_rows(run.frames, frame_rows, ROWS_PER_BATCH)))


def _has_sequence_rate(facts: Facts, frames: FrameTables | None, fps: Fraction) -> bool:
    """Whether the image sequences of a catalog have this rate; those of one scan all have the same."""
    is_sequence = pc.equal(facts.column("container"), SEQUENCE_CONTAINER).fill_null(False)
    if frames is None:
        return set(facts.column("average_fps").filter(is_sequence).to_pylist()) <= {float(fps)}
    rows = facts.plan_columns.frame_rows[is_sequence.to_numpy()]
    return not (rows >= 0).any() or frames.index(int(rows[rows >= 0][0])).time_base == 1 / fps


def survey_sources(
    earlier: RunResults, journal: Journal | None, options: SurveyOptions, stats: ScanStats
) -> SurveyedSources:
    """Survey the sources that are new or have changed; each chunk is written before the next one is surveyed."""
    if earlier.is_unchanged:
        stats.known = len(earlier)
        return earlier.join()
    rows, is_new = earlier.rows, earlier.row_of_source < 0
    texts = rows.source_texts
    stats.known = int(np.count_nonzero(~is_new))
    if len(earlier):
        stats.gone = len(earlier) - pc.sum(pc.is_in(earlier.column("source"), value_set=texts)).as_py()
    chunks = list(cut_into_chunks(select_sources(rows.sources, is_new), options))
    new_texts = texts.filter(pa.array(is_new)) if stats.known else texts
    writer = None if journal is None else JournalWriter(journal, new_texts)

    def survey_and_record() -> Generator[ChunkResult]:
        start, record = 0, None if writer is None else writer.record
        # Closed here: otherwise the traceback of a kept error would keep the workers alive.
        with (
            nullcontext() if writer is None else writer,
            closing(survey_chunks(chunks, options, num_known=stats.known, record=record)) as results,
        ):
            for result in results:
                if writer is not None:
                    writer.write(start, result)
                start += len(result)
                stats.surveyed += len(result)
                stats.bytes_read += result.bytes_read
                stats.by_library += result.by_library
                yield result

    try:
        with closing(survey_and_record()) as results:
            new = SurveyedSources.of((each.facts, each.frames) for each in results)
    except KeyboardInterrupt as interrupt:
        if journal is None or writer is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; the results of {stats.known + writer.num_written:,} of {len(is_new):,} files are saved in "
            f"{journal.folder}: run the same scan again to continue"
        ) from interrupt
    if not stats.known:
        return new
    rows_of_sources = np.where(is_new, len(earlier) + np.cumsum(is_new) - 1, earlier.row_of_source)
    return RunResults(rows, [*earlier.runs, new]).select(rows_of_sources)


def stat_all(groups: Sequence[SourceGroup]) -> tuple[IntArray, IntArray]:
    """Get size and mtime_ns of every source without opening it, int64 [S] each; size ``UNKNOWN`` or ``FAILED``.

    In place of the time, sources with a version have its hash.
    """
    pairs = [_stat_group(group) for group in groups]
    sizes, times = zip(*pairs, strict=True) if pairs else ((), ())
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *sizes]), np.concatenate([empty, *times])


def _stat_group(group: SourceGroup) -> tuple[IntArray, IntArray]:
    if group.located is not None:
        hashed = np.array([hash_version(version) for version in group.located.versions], np.int64)
        is_known = np.array([bool(version) for version in group.located.versions])
        return np.where(is_known, group.located.sizes, UNKNOWN), hashed
    sizes, times = [UNKNOWN] * len(group), [-1] * len(group)
    if group.kind == "sources":
        sizes = [FAILED if isinstance(name, SurveyResult) else UNKNOWN for name in group.names]
    if group.kind == "image_folder":
        # The same facts of folders of pictures as `ImageSequence`, without opening their files.
        for number, path in enumerate(group.paths()):
            with suppress(MediaError, OSError):
                stat = list_folder(path).stat
                sizes[number], times[number] = stat.bytes, stat.mtime_ns or 0
    elif group.kind == "files":
        stat_file = os.stat
        with _opening_folder(group) as folder:
            for number, name in enumerate(group.paths() if folder is None else group.names):
                try:
                    facts = stat_file(name, dir_fd=folder)
                except (OSError, ValueError):
                    continue
                sizes[number] = facts.st_size
                times[number] = facts.st_mtime_ns
    return np.array(sizes, np.int64), to_time_column(times)


def hash_version(version: str) -> int:
    """Hash a version; objects that were read by a signature have the same one without."""
    return int(np.uint64(xxhash.xxh3_64_intdigest(version.removeprefix(SIGNED).encode())).astype(np.int64))


@contextmanager
def _opening_folder(group: SourceGroup) -> Iterator[int | None]:
    """Open the folder of a group, so that the system finds each file by its name alone; None where that is no use."""
    folder = None
    if len(group) > 1 and group.folder and os.stat in os.supports_dir_fd:
        with suppress(OSError):
            folder = os.open(group.folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)
