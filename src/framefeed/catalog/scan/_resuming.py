"""Resume an earlier scan: reuse results of the old catalog and the journal for files that have not changed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import BoolArray, IntArray
from framefeed._names import make_printable, resolve_name
from framefeed.catalog._arrow import gather_rows
from framefeed.catalog._assembly import SurveyedSources
from framefeed.catalog._catalog_file import format_rate, open_catalog
from framefeed.catalog._chunks import ChunkResult, SourceGroup, cut_into_chunks, survey_chunks
from framefeed.catalog._columns import Facts, number_true
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, FrameTables
from framefeed.catalog._still_rows import SURVEYED, to_time_column
from framefeed.catalog._survey import SurveyOptions
from framefeed.catalog.scan._journal import JOURNALED, Journal, JournalPart, JournalWriter
from framefeed.errors import MediaError
from framefeed.media import SEQUENCE_CONTAINER, SourceStat, list_folder


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Results of one run.

    Attributes:
        column: Function that reads a column of ``JOURNALED``.
        num_rows: Number of rows.
        frames: Batches of frame tables: a row for each source with an index, in order, and then maybe others.
    """

    column: Callable[[str], pa.ChunkedArray]
    num_rows: int
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, part: JournalPart) -> EarlierRun:
        """Wrap a part of a journal."""
        return cls(part.facts.column, part.facts.num_rows, part.frames)


class EarlierResults:
    """Facts and frame tables of earlier runs; of several rows about one source, the first counts.

    Args:
        runs: Earlier runs, the most trusted first.
    """

    def __init__(self, runs: Sequence[EarlierRun]) -> None:
        self._runs = [run for run in runs if run.num_rows]
        self._num_rows = sum(run.num_rows for run in self._runs)

    def __len__(self) -> int:
        return self._num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column of ``JOURNALED``."""
        chunks = [chunk for run in self._runs for chunk in run.column(name).chunks]
        return pa.chunked_array(chunks, JOURNALED.field(name).type)

    @property
    def facts(self) -> pa.Table:
        """All columns but the source."""
        return pa.table({name: self.column(name) for name in SURVEYED.names}, SURVEYED)

    @property
    def frames(self) -> list[pa.RecordBatch]:
        """Batches of frame tables."""
        return [batch for run in self._runs for batch in run.frames]

    @property
    def frame_rows(self) -> IntArray:
        """Row in the frame tables of each row, int64 [K]; -1 for none."""
        rows, count = [np.empty(0, np.int64)], 0
        for run in self._runs:
            run_rows = number_frame_rows(run.column("num_key_frames"))
            rows.append(np.where(run_rows >= 0, run_rows + count, -1))
            count += sum(batch.num_rows for batch in run.frames)
        return np.concatenate(rows)

    def match(self, texts: pa.Array, size: IntArray, mtime_ns: IntArray) -> IntArray:
        """Find the rows of sources that have not changed.

        Args:
            texts: Sources.
            size: Their current sizes in bytes; -1 if unknown.
            mtime_ns: Their current modification times.

        Returns:
            Row of each source if its size and time are the same; else -1. int64 [N].
        """
        sources = self.column("source")
        if len(texts) == len(self) and sources.equals(pa.chunked_array([texts])):
            rows = np.arange(len(self), dtype=np.int64)
        else:
            indices = pc.index_in(texts, value_set=sources.combine_chunks())
            rows = indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        if not len(self):
            return rows
        is_same = (self._numbers("bytes")[rows] == size) & (self._numbers("mtime_ns")[rows] == mtime_ns)
        return np.where((rows >= 0) & (size >= 0) & is_same, rows, -1)

    def count_others(self, texts: pa.Array) -> int:
        """Count the rows of sources that are not among ``texts``."""
        if not len(self):
            return 0
        return len(self) - int(pc.sum(pc.is_in(self.column("source"), value_set=texts)).as_py())

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self.column(name).fill_null(np.iinfo(np.int64).min).to_numpy()
        return numbers


def number_frame_rows(num_key_frames: pa.ChunkedArray) -> IntArray:
    """Number the rows that have an index, which are those of the frame tables; -1 for the others."""
    return number_true(num_key_frames.is_valid().to_numpy())


@dataclass(frozen=True, slots=True)
class DistinctSources:
    """The distinct sources of a scan.

    Attributes:
        texts: Their names in the catalog, [S].
        groups: The sources to open, in the same order.
        root: Folder that the texts are relative to, or None.
    """

    texts: pa.Array
    groups: Sequence[SourceGroup]
    root: str | None = None


def read_earlier_results(target: str | None, journal: Journal, options: SurveyOptions) -> EarlierResults:
    """Read the results of earlier runs: those of the journal, the newest first, then the catalog at ``target``."""
    runs = list(map(EarlierRun.of, journal.read_parts()))
    return EarlierResults([*runs[::-1], *_read_catalog(target, options)])


def _read_catalog(target: str | None, options: SurveyOptions) -> Iterator[EarlierRun]:
    if target is None or not os.path.exists(target):
        return
    with suppress(MediaError):  # An unreadable catalog is ignored.
        facts, header, frames = open_catalog(target)
        lacks_frames = frames is None and header.frames_id is not None
        settings = (options.depth, options.verify, repr(options.limits), format_rate(options.assume_fps))
        if lacks_frames or (header.depth, header.verify, header.limits, header.assume_fps) != settings:
            return
        if options.fps is not None and not _has_sequence_rate(facts, frames, options.fps):
            return
        batches = () if frames is None else frames.batches
        numbers = facts.source_numbers
        if not len(numbers) or int(numbers[-1]) == len(numbers) - 1:
            yield EarlierRun(facts.column, facts.num_rows, batches)
        else:  # Lines of a manifest about one file share its facts.
            first = pa.array(np.unique(numbers, return_index=True)[1])
            yield EarlierRun(lambda name: facts.column(name).take(first), len(first), batches)


def _has_sequence_rate(facts: Facts, frames: FrameTables | None, fps: Fraction) -> bool:
    """Whether the image sequences of a catalog have this rate; those of one scan all have the same."""
    is_sequence = pc.equal(facts.column("container"), SEQUENCE_CONTAINER).fill_null(False)
    if frames is None:
        return set(facts.column("average_fps").filter(is_sequence).to_pylist()) <= {float(fps)}
    rows = facts.frame_rows[is_sequence.to_numpy()]
    index = frames.index(int(rows[rows >= 0][0])) if (rows >= 0).any() else None
    return index is None or index.time_base == 1 / fps


@dataclass(slots=True)
class ScanStats:
    """Statistics of a scan. The names of the fields are also keys of the command's JSON.

    Attributes:
        known: Number of sources that were not opened, because they have not changed.
        surveyed: Number of sources that were opened.
        bytes_read: Bytes read from these.
        by_library: Number of pictures whose headers a library had to read.
        gone: Number of sources of the earlier scan that this scan does not include.
        repeated_files: Number of files that were listed again, by a link or a second name, and gave no row.
        repeated_folders: Number of folders that were found again, and not listed again.
        passed_over: Number of files in folders without the ending of a media file, by ending.
    """

    known: int = 0
    surveyed: int = 0
    bytes_read: int = 0
    by_library: int = 0
    gone: int = 0
    repeated_files: int = 0
    repeated_folders: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)

    def count(self, surveyed: ChunkResult) -> None:
        """Add a chunk."""
        self.surveyed += len(surveyed)
        self.bytes_read += surveyed.bytes_read
        self.by_library += surveyed.by_library


@dataclass(frozen=True, slots=True)
class ResumedSurvey:
    """Results of a scan that reuses earlier ones.

    Attributes:
        collect: Function that returns the results of all sources.
        is_unchanged: Whether they are, row by row, the earlier results.
        stats: Statistics of the scan.
    """

    collect: Callable[[], SurveyedSources]
    is_unchanged: bool
    stats: ScanStats


def survey_sources(
    sources: DistinctSources, earlier: EarlierResults, journal: Journal | None, options: SurveyOptions
) -> ResumedSurvey:
    """Survey the sources that are new or have changed.

    Args:
        sources: The sources of the scan.
        earlier: Results of earlier runs.
        journal: Journal for new results.
        options: Depth of the survey.
    """
    if not len(earlier):
        earlier_rows = np.full(len(sources.texts), -1, dtype=np.int64)
    else:
        earlier_rows = earlier.match(sources.texts, *stat_all(sources.groups))
        if sources.root is not None:
            earlier_rows[_find_moved_failures(sources, earlier, earlier_rows)] = -1
        if len(earlier_rows) == len(earlier) and np.array_equal(earlier_rows, np.arange(len(earlier_rows))):
            stats = ScanStats(len(earlier_rows))
            return ResumedSurvey(lambda: SurveyedSources(earlier.facts, earlier.frames), True, stats)
    is_new = earlier_rows < 0
    num_known = len(is_new) - int(np.count_nonzero(is_new))
    stats = ScanStats(num_known, gone=earlier.count_others(sources.texts))
    texts = sources.texts.take(pa.array(np.flatnonzero(is_new))) if num_known else sources.texts
    new_sources = DistinctSources(texts, list(select_sources(sources.groups, is_new)))
    writer = None if journal is None else JournalWriter(journal, new_sources.texts)
    try:
        with closing(_survey_and_record(new_sources, writer, options, stats)) as chunks:
            new = SurveyedSources.of(chunks)
    except KeyboardInterrupt as interrupt:
        if journal is None or writer is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; the results of {stats.known + writer.num_written:,} of {len(is_new):,} files are saved in "
            f"{journal.folder}: run the same scan again to continue"
        ) from interrupt
    results = _join_results(earlier, earlier_rows, new) if stats.known else new
    return ResumedSurvey(lambda: results, False, stats)


def _find_moved_failures(sources: DistinctSources, earlier: EarlierResults, earlier_rows: IntArray) -> list[int]:
    """Find failed sources whose error names another path: their folder has been moved."""
    failed = earlier.column("error_type").is_valid().to_numpy()
    numbers = np.flatnonzero((earlier_rows >= 0) & failed[earlier_rows])
    errors = earlier.column("error").take(pa.array(earlier_rows[numbers])).to_pylist()
    texts = sources.texts.take(pa.array(numbers)).to_pylist()
    paths = (make_printable(resolve_name(text, sources.root)) for text in texts)
    return [number for number, path, error in zip(numbers.tolist(), paths, errors, strict=True) if path not in error]


def _survey_and_record(
    sources: DistinctSources, writer: JournalWriter | None, options: SurveyOptions, stats: ScanStats
) -> Generator[ChunkResult]:
    """Survey sources; each chunk is written before the next one is surveyed."""
    start, chunks = 0, list(cut_into_chunks(sources.groups, options))
    record = None if writer is None else writer.record
    # Closed here: otherwise the traceback of a kept error would keep the workers alive.
    with (
        nullcontext() if writer is None else writer,
        closing(survey_chunks(chunks, options, num_known=stats.known, record=record)) as results,
    ):
        for result in results:
            if writer is not None:
                writer.write(start, result)
            start += len(result)
            stats.count(result)
            yield result


def _join_results(earlier: EarlierResults, earlier_rows: IntArray, new: SurveyedSources) -> SurveyedSources:
    is_new = earlier_rows < 0
    rows = np.where(is_new, len(earlier) + np.cumsum(is_new) - 1, earlier_rows)
    facts = pa.concat_tables([earlier.facts, new.facts]).take(pa.array(rows))
    new_frame_rows = number_frame_rows(new.facts.column("num_key_frames"))
    count = sum(batch.num_rows for batch in earlier.frames)
    frame_rows = np.append(earlier.frame_rows, np.where(new_frame_rows >= 0, new_frame_rows + count, -1))[rows]
    used = frame_rows[frame_rows >= 0]
    return SurveyedSources(facts, list(gather_rows([*earlier.frames, *new.frames], used, ROWS_PER_BATCH)))


def stat_all(groups: Sequence[SourceGroup]) -> tuple[IntArray, IntArray]:
    """Get size and mtime_ns of every source without opening it, int64 [S] each; size -1 if unknown."""
    pairs = [_stat_group(group) for group in groups]
    sizes, times = zip(*pairs, strict=True) if pairs else ((), ())
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *sizes]), np.concatenate([empty, *times])


def _stat_group(group: SourceGroup) -> tuple[IntArray, IntArray]:
    if group.kind == "image_folder":
        return _stat_folders(group)
    if group.kind != "files":
        return np.full(len(group), -1, np.int64), np.full(len(group), -1, np.int64)
    sizes, times = list[int](), list[int]()
    stat, prefix = os.stat, group.prefix
    for name in group.names:
        try:
            facts = stat(prefix + name)
        except (OSError, ValueError):
            sizes.append(-1)
            times.append(-1)
        else:
            sizes.append(facts.st_size)
            times.append(facts.st_mtime_ns)
    return np.array(sizes, np.int64), to_time_column(times)


def _stat_folders(group: SourceGroup) -> tuple[IntArray, IntArray]:
    """Get the same facts of folders of pictures as `ImageSequence`, without opening their files."""
    stats = list[SourceStat]()
    for name in group.names:
        try:
            stats.append(list_folder(group.prefix + name).stat)
        except MediaError:
            stats.append(SourceStat(-1))
    return np.array([each.bytes for each in stats], np.int64), to_time_column([each.mtime_ns or 0 for each in stats])


def select_sources(groups: Sequence[SourceGroup], is_selected: BoolArray) -> Iterator[SourceGroup]:
    """Select sources of groups by a mask over all of them."""
    start = 0
    for group in groups:
        selected = np.flatnonzero(is_selected[start : start + len(group)]).tolist()
        start += len(group)
        if len(selected) == len(group):
            yield group
        elif selected:
            yield SourceGroup(group.prefix, [group.names[number] for number in selected], group.kind)
