"""Going on where an earlier scan stopped: files that are what they were are not opened again.

What is known from before: the old catalog and the journal's pieces, and which of it still holds.
"""

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
from framefeed.catalog._arrow import gathered
from framefeed.catalog._assembly import Found
from framefeed.catalog._catalog_file import as_text, open_catalog
from framefeed.catalog._columns import Facts, numbered
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, FrameTables
from framefeed.catalog._names import printable, resolved
from framefeed.catalog._still_rows import SURVEYED, as_times
from framefeed.catalog._survey import SurveyOptions
from framefeed.catalog._sweep import Part, Surveyed, chunks_of, sweep
from framefeed.catalog.scan._journal import JOURNALED, Journal, JournalWriter, Piece
from framefeed.errors import MediaError
from framefeed.media import SEQUENCE_CONTAINER, SourceStat, list_folder


@dataclass(frozen=True, slots=True)
class KnownPart:
    """What one run found.

    Attributes:
        column: Gives a column of ``JOURNALED``, read when it is asked for.
        num_rows: Number of rows.
        frames: Batches of frame tables: first a row for each source with an index, in order.
    """

    column: Callable[[str], pa.ChunkedArray]
    num_rows: int
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, piece: Piece) -> KnownPart:
        """Take a piece of a journal."""
        facts = pa.Table.from_batches(piece.facts, JOURNALED)
        return cls(facts.column, facts.num_rows, piece.frames)


class Known:
    """Facts of sources with their frame tables, the most trusted first: where a source is there twice, that row counts.

    Args:
        parts: What earlier runs found.
    """

    def __init__(self, parts: Sequence[KnownPart]) -> None:
        self._parts = [part for part in parts if part.num_rows]
        self._num_rows = sum(part.num_rows for part in self._parts)

    def __len__(self) -> int:
        return self._num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column of ``JOURNALED``."""
        chunks = [chunk for part in self._parts for chunk in part.column(name).chunks]
        return pa.chunked_array(chunks, JOURNALED.field(name).type)

    @property
    def facts(self) -> pa.Table:
        """All columns but the source."""
        return pa.table({name: self.column(name) for name in SURVEYED.names}, SURVEYED)

    @property
    def frames(self) -> list[pa.RecordBatch]:
        """Batches of frame tables."""
        return [batch for part in self._parts for batch in part.frames]

    @property
    def frame_rows(self) -> IntArray:
        """Row in the frame tables of each row, int64 [K]; -1 for none."""
        rows, count = [np.empty(0, np.int64)], 0
        for part in self._parts:
            of_part = frame_rows_of(part.column("num_key_frames"))
            rows.append(np.where(of_part >= 0, of_part + count, -1))
            count += sum(batch.num_rows for batch in part.frames)
        return np.concatenate(rows)

    def match(self, texts: pa.Array, size: IntArray, mtime_ns: IntArray) -> IntArray:
        """Find the rows that still hold.

        Args:
            texts: Sources.
            size: Their bytes now; -1 where they cannot be had.
            mtime_ns: Their modification times now.

        Returns:
            For each source the row that is known of it, if size and time are what they were; else -1. int64 [N].
        """
        sources = self.column("source")
        if len(texts) == len(self) and sources.equals(pa.chunked_array([texts])):
            rows = np.arange(len(self), dtype=np.int64)
        else:
            found = pc.index_in(texts, value_set=sources.combine_chunks())
            rows = found.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        if not len(self):
            return rows
        same = (self._numbers("bytes")[rows] == size) & (self._numbers("mtime_ns")[rows] == mtime_ns)
        return np.where((rows >= 0) & (size >= 0) & same, rows, -1)

    def others(self, texts: pa.Array) -> int:
        """How many known rows are of sources that are not among ``texts``."""
        if not len(self):
            return 0
        return len(self) - int(pc.sum(pc.is_in(self.column("source"), value_set=texts)).as_py())

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self.column(name).fill_null(np.iinfo(np.int64).min).to_numpy()
        return numbers


def frame_rows_of(num_key_frames: pa.ChunkedArray) -> IntArray:
    """Rows in the frame tables that go with facts: one for each row with an index, in order; -1 for the others."""
    return numbered(num_key_frames.is_valid().to_numpy())


@dataclass(frozen=True, slots=True)
class Sources:
    """The distinct sources of a scan.

    Attributes:
        texts: As the catalog names them, [S].
        parts: What to open, in the same order.
        root: Folder that the texts are relative to, or None.
    """

    texts: pa.Array
    parts: Sequence[Part]
    root: str | None = None


def what_is_known(target: str | None, journal: Journal, options: SurveyOptions) -> Known:
    """Read what earlier runs found: the journal's newest first, then the catalog that stands, unless it is None."""
    pieces = [KnownPart.of(piece) for piece in journal.pieces()]
    return Known([*pieces[::-1], *_of_catalog(target, options)])


def _of_catalog(target: str | None, options: SurveyOptions) -> Iterator[KnownPart]:
    if target is None or not os.path.exists(target):
        return
    with suppress(MediaError):  # What cannot be read is found out anew.
        facts, header, frames = open_catalog(target)
        lacks_frames = frames is None and header.frames_id is not None
        wanted = (options.depth, options.verify, repr(options.limits), as_text(options.assume_fps))
        if lacks_frames or (header.depth, header.verify, header.limits, header.assume_fps) != wanted:
            return
        if options.fps is not None and not _has_rate(facts, frames, options.fps):
            return
        batches = () if frames is None else frames.batches
        numbers = facts.source_numbers
        if not len(numbers) or int(numbers[-1]) == len(numbers) - 1:
            yield KnownPart(facts.column, facts.num_rows, batches)
        else:  # Lines of a manifest about one file share its facts.
            first = pa.array(np.unique(numbers, return_index=True)[1])
            yield KnownPart(lambda name: facts.column(name).take(first), len(first), batches)


def _has_rate(facts: Facts, frames: FrameTables | None, fps: Fraction) -> bool:
    """Whether the sequences of a catalog have this rate; all of one scan have the same, and their files no other."""
    is_sequence = pc.equal(facts.column("container"), SEQUENCE_CONTAINER).fill_null(False)
    if frames is None:
        return set(facts.column("average_fps").filter(is_sequence).to_pylist()) <= {float(fps)}
    rows = facts.frame_rows[is_sequence.to_numpy()]
    index = frames.index(int(rows[rows >= 0][0])) if (rows >= 0).any() else None
    return index is None or index.time_base == 1 / fps


@dataclass(slots=True)
class Tally:
    """What a scan took.

    Attributes:
        known: Sources that were not opened, because they are what they were.
        surveyed: Sources that were opened.
        bytes_read: From those.
        by_library: Pictures whose headers were left to a library.
        gone: Sources that are known from before and not asked for now.
        repeated_files: Files that were met again, by a link or a second naming, and gave no row.
        repeated_folders: Folders that were met again, and not listed again.
        passed_over: How many files of folders have another ending than media, by ending.
    """

    known: int = 0
    surveyed: int = 0
    bytes_read: int = 0
    by_library: int = 0
    gone: int = 0
    repeated_files: int = 0
    repeated_folders: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)

    def count(self, surveyed: Surveyed) -> None:
        """Add a chunk."""
        self.surveyed += len(surveyed)
        self.bytes_read += surveyed.bytes_read
        self.by_library += surveyed.by_library


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known after a scan.

    Attributes:
        found: Gives what is known of each source.
        is_unchanged: Whether that is, row by row, what was known before.
        tally: What it took.
    """

    found: Callable[[], Found]
    is_unchanged: bool
    tally: Tally


def find_out(sources: Sources, known: Known, journal: Journal | None, options: SurveyOptions) -> Outcome:
    """Find out what is not known yet.

    Args:
        sources: What is wanted.
        known: What earlier runs found.
        journal: Where to write down what is found.
        options: How much to find out.
    """
    if not len(known):
        held = np.full(len(sources.texts), -1, dtype=np.int64)
    else:
        held = known.match(sources.texts, *stat_all(sources.parts))
        if sources.root is not None:
            held[_of_another_root(sources, known, held)] = -1
        if len(held) == len(known) and np.array_equal(held, np.arange(len(held))):
            return Outcome(lambda: Found(known.facts, known.frames), True, Tally(len(held)))
    missing = np.flatnonzero(held < 0)
    tally = Tally(len(held) - len(missing), gone=known.others(sources.texts))
    left = Sources(_taken(sources.texts, missing), list(parts_left(sources.parts, held < 0)))
    writer = None if journal is None else JournalWriter(journal, left.texts)
    try:
        with closing(_surveyed(left, writer, options, tally)) as surveyed:
            new = Found.of(surveyed)
    except KeyboardInterrupt as interrupt:
        if journal is None or writer is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; the results of {tally.known + writer.num_written:,} of {len(held):,} files are saved in "
            f"{journal.folder}: run the same scan again to continue"
        ) from interrupt
    found = _joined(known, held, new) if tally.known else new
    return Outcome(lambda: found, False, tally)


def _of_another_root(sources: Sources, known: Known, held: IntArray) -> list[int]:
    """Failed sources whose error names another path than theirs: the folder was moved since."""
    failed = known.column("error_type").is_valid().to_numpy()
    places = np.flatnonzero((held >= 0) & failed[held])
    errors = known.column("error").take(pa.array(held[places])).to_pylist()
    texts = sources.texts.take(pa.array(places)).to_pylist()
    paths = (printable(resolved(text, sources.root)) for text in texts)
    return [place for place, path, error in zip(places.tolist(), paths, errors, strict=True) if path not in error]


def _surveyed(
    sources: Sources, writer: JournalWriter | None, options: SurveyOptions, tally: Tally
) -> Generator[Surveyed]:
    """Survey sources, each chunk written down before the next is asked for."""
    start, chunks = 0, list(chunks_of(sources.parts, options))
    keep = None if writer is None else writer.keep
    # Closed here: an error's traceback would keep it, and with it the workers, as long as the error is kept.
    with (
        nullcontext() if writer is None else writer,
        closing(sweep(chunks, options, known=tally.known, keep=keep)) as found,
    ):
        for surveyed in found:
            if writer is not None:
                writer.write(start, surveyed)
            start += len(surveyed)
            tally.count(surveyed)
            yield surveyed


def _taken(texts: pa.Array, rows: IntArray) -> pa.Array:
    if len(rows) == len(texts):
        return texts
    return texts.take(pa.array(rows))


def _joined(known: Known, held: IntArray, new: Found) -> Found:
    """Put what is known and what is new into the order of the sources."""
    is_new = held < 0
    rows = np.where(is_new, len(known) + np.cumsum(is_new) - 1, held)
    facts = pa.concat_tables([known.facts, new.facts]).take(pa.array(rows))
    of_new = frame_rows_of(new.facts.column("num_key_frames"))
    count = sum(batch.num_rows for batch in known.frames)
    frame_rows = np.append(known.frame_rows, np.where(of_new >= 0, of_new + count, -1))[rows]
    wanted = frame_rows[frame_rows >= 0]
    return Found(facts, list(gathered([*known.frames, *new.frames], wanted, ROWS_PER_BATCH)))


def stat_all(parts: Sequence[Part]) -> tuple[IntArray, IntArray]:
    """Bytes and mtime_ns of every source without opening it, int64 [S] each; -1 bytes where they cannot be had."""
    pairs = [_stat_part(part) for part in parts]
    sizes, times = zip(*pairs, strict=True) if pairs else ((), ())
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *sizes]), np.concatenate([empty, *times])


def _stat_part(part: Part) -> tuple[IntArray, IntArray]:
    if part.kind == "image_folder":
        return _stat_folders(part)
    if part.kind != "files":
        return np.full(len(part), -1, np.int64), np.full(len(part), -1, np.int64)
    sizes, times = list[int](), list[int]()
    stat, prefix = os.stat, part.prefix
    for name in part.names:
        try:
            facts = stat(prefix + name)
        except (OSError, ValueError):
            sizes.append(-1)
            times.append(-1)
        else:
            sizes.append(facts.st_size)
            times.append(facts.st_mtime_ns)
    return np.array(sizes, np.int64), as_times(times)


def _stat_folders(part: Part) -> tuple[IntArray, IntArray]:
    """What `ImageSequence` says of folders of pictures, each listed and all of its files looked at, none opened."""
    found = list[SourceStat]()
    for name in part.names:
        try:
            found.append(list_folder(part.prefix + name).stat)
        except MediaError:
            found.append(SourceStat(-1))
    return np.array([each.bytes for each in found], np.int64), as_times([each.mtime_ns or 0 for each in found])


def parts_left(parts: Sequence[Part], wanted: BoolArray) -> Iterator[Part]:
    """The parts of parts that are wanted."""
    start = 0
    for part in parts:
        chosen = np.flatnonzero(wanted[start : start + len(part)]).tolist()
        start += len(part)
        if len(chosen) == len(part):
            yield part
        elif chosen:
            yield Part(part.prefix, [part.names[place] for place in chosen], part.kind)
