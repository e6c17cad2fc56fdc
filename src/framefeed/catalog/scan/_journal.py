"""Store the results of a running scan in a journal beside the catalog, so that a crash loses little.

The journal is a folder ``cat.parquet.journal`` with two Arrow IPC streams per run: ``0000.facts.arrows`` has a batch
for each chunk of sources, ``0000.frames.arrows`` the frame tables of the sources that have an index. The frame tables
of a chunk are written before its facts, so that no facts are without them. Each batch has a checksum: the complete
batches of a torn stream can be read, and blocks that never reached the disk are noticed. Nothing is pickled.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from framefeed._files import is_full, write_errors
from framefeed.catalog._arrow import gather_rows
from framefeed.catalog._assembly import SurveyedSources
from framefeed.catalog._catalog_file import FORMAT
from framefeed.catalog._chunks import ChunkResult, tabulate
from framefeed.catalog._columns import Facts, number_true
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, SCHEMA
from framefeed.catalog._still_rows import SURVEYED
from framefeed.catalog._survey import SurveyResult
from framefeed.errors import FramefeedError, UsageError
from framefeed.parallel import ClosedByWith, raise_shortage, try_again_in_shortage

JOURNALED = pa.schema([pa.field("source", pa.string()), *SURVEYED])
_JOURNAL_FILE = re.compile(r"\d{4,}\.(facts|frames)\.arrows")
_CHECKSUM = b"xxh3"
_SETTINGS = b"framefeed"
_LOCKING_ATTEMPTS = 100


class Journal(ClosedByWith):
    """An open journal: one process writes to it at a time.

    Args:
        target: Path of the future catalog.
        settings: Settings of the scan; runs with other settings are not read.

    Attributes:
        folder: Folder of the journal.
        was_left: Whether it exists from an earlier scan, which was not completed.

    Raises:
        UsageError: Another process is scanning to the same catalog, or the folder cannot be made.
    """

    def __init__(self, target: str, settings: Mapping[str, Any]) -> None:
        self.folder = Path(f"{target}.journal")
        self._settings = json.dumps({"format": FORMAT, **settings}, sort_keys=True).encode()
        self._writers: tuple[_Stream, _Stream] | None = None
        self.was_left = self.folder.is_dir()
        if self.folder.exists() and not self.was_left:
            raise UsageError(f"cannot write {target}: {self.folder} must be a folder, but it is a file: move it away")
        with write_errors(target):
            try:
                self._lock = _lock_folder(self.folder)
            except BlockingIOError as error:
                raise UsageError(f"{target}: another process is scanning to this catalog: wait for it") from error
        self._has_rows = self.was_left

    def read_runs(self) -> Iterator[SurveyedSources]:
        """Read the results of earlier runs, the oldest first; their facts have the columns of ``JOURNALED``."""
        for name in self._names("facts"):
            facts = _read_stream(self.folder / name, JOURNALED, self._settings)
            frames = _read_stream(self.folder / name.replace("facts", "frames"), SCHEMA, self._settings)
            # The frame tables of the last facts may be missing from a torn stream.
            num_left, complete = sum(batch.num_rows for batch in frames), list[pa.RecordBatch]()
            for batch in facts:
                indexes = batch.column("num_key_frames")
                num_left -= len(indexes) - indexes.null_count
                if num_left < 0:
                    break
                complete.append(batch)
            yield SurveyedSources(Facts.of_table(pa.Table.from_batches(complete, JOURNALED)), frames)

    def add(self, facts: pa.RecordBatch, frames: Sequence[pa.RecordBatch]) -> None:
        """Write a chunk.

        Raises:
            UsageError: It cannot be written: the disk is full. Earlier chunks remain.
        """
        with _explaining_write_errors(self.folder, self._has_rows):
            if self._writers is None:
                self._writers = self._create_streams()
            try:
                for batch in frames:
                    self._writers[1].write(batch)
                self._writers[0].write(facts)
            except BaseException:
                # The streams may end with frame tables without facts: later chunks need new streams.
                self._close_writers()
                raise
            self._has_rows = True

    def close(self) -> None:
        """Unlock the journal for other processes, and keep its content."""
        self._close_writers()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clear(self) -> None:
        """Delete the content."""
        self._close_writers()
        for kind in ("facts", "frames"):
            for name in self._names(kind):
                (self.folder / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the journal."""
        self.clear()
        with suppress(OSError):  # Other files in the folder are kept.
            self.folder.rmdir()
        self.close()

    def _close_writers(self) -> None:
        for writer in self._writers or ():
            writer.close()
        self._writers = None

    def _names(self, kind: str) -> list[str]:
        names = [
            name for name in os.listdir(self.folder) if (match := _JOURNAL_FILE.fullmatch(name)) and match[1] == kind
        ]
        return sorted(names, key=lambda name: int(name.split(".")[0]))

    def _create_streams(self) -> tuple[_Stream, _Stream]:
        used = [int(name.split(".")[0]) for kind in ("facts", "frames") for name in self._names(kind)]
        number = max(used, default=-1) + 1
        facts, frames = (self.folder / f"{number:04d}.{kind}.arrows" for kind in ("facts", "frames"))
        with ExitStack() as opened:
            first = opened.enter_context(closing(_Stream(facts, JOURNALED, self._settings)))
            second = _Stream(frames, SCHEMA, self._settings)
            opened.pop_all()
        return first, second


def _lock_folder(folder: Path) -> int:
    """Create a folder if there is none, lock it, and return its descriptor.

    Raises:
        BlockingIOError: Another process has locked it.
    """
    for _ in range(_LOCKING_ATTEMPTS):
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A scan that ended between the two calls has removed the locked folder.
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(folder))


class _Stream:
    """An unbuffered Arrow IPC stream: each batch is written at once."""

    def __init__(self, path: Path, schema: pa.Schema, settings: bytes) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115  # open as long as the scan runs
        self._writer = pa.ipc.new_stream(self._file, schema.with_metadata({_SETTINGS: settings}))

    def write(self, batch: pa.RecordBatch) -> None:
        start = self._file.tell()
        try:
            self._writer.write_batch(batch, custom_metadata={_CHECKSUM: compute_checksum(batch)})
        except BaseException:
            self._file.truncate(start)
            self._file.seek(start)
            raise

    def close(self) -> None:
        with suppress(OSError):  # The end mark does not fit on a full disk, and is not needed.
            self._writer.close()
        self._file.close()


def compute_checksum(batch: pa.RecordBatch) -> bytes:
    """Hash a batch in its written form: of a slice, only its own rows."""
    return xxhash.xxh3_64_hexdigest(batch.serialize()).encode()


def _read_stream(path: Path, schema: pa.Schema, settings: bytes) -> list[pa.RecordBatch]:
    """Read the complete batches of a stream; of a torn stream, those before the tear."""
    batches: list[pa.RecordBatch] = []

    def read() -> None:
        batches.clear()
        with open(path, "rb") as file:
            reader = pa.ipc.open_stream(file)
            if not reader.schema.equals(schema) or (reader.schema.metadata or {}).get(_SETTINGS) != settings:
                return
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                if metadata is None or metadata.get(_CHECKSUM) != compute_checksum(batch):
                    return
                batch.validate(full=True)
                batches.append(batch)

    with suppress(pa.ArrowException, OSError, ValueError, EOFError):
        try_again_in_shortage(read, os.fspath(path), "read")
    return batches


@contextmanager
def _explaining_write_errors(folder: Path, has_rows: bool) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise_shortage(error, os.fspath(folder), "write")
        hint = "make room on the disk" if is_full(error) else "make this folder writable"
        reason = getattr(error, "strerror", None) or error
        following = ": it continues where it stopped" if has_rows else ""
        raise UsageError(
            f"{folder}: the scan's journal cannot be written: {reason}; {hint} and run the same scan again{following}"
        ) from error


WRITE_SECONDS = 2.0
"""Longest time for which results of slow files wait to be written. Chunks of small files take less."""


class JournalWriter(ClosedByWith):
    """Thread-safe writer of results to a journal: chunks when they are done, and slow files before their chunk is done.

    Each source is written once.

    Args:
        journal: The journal.
        texts: Names of the sources in the catalog, [S].
        clock: Function that returns seconds.

    Attributes:
        num_written: Sources written so far.
    """

    def __init__(self, journal: Journal, texts: pa.Array, clock: Callable[[], float] = monotonic) -> None:
        self.num_written = 0
        self._journal = journal
        self._texts = texts
        self._clock = clock
        self._written_at = clock()
        self._is_open = True
        self._lock = threading.Lock()
        # Sources of unfinished chunks, by number: results to be written, and sources that are written.
        self._waiting: dict[int, SurveyResult] = {}
        self._early: set[int] = set()

    def record(self, number: int, result: SurveyResult) -> None:
        """Record the result of one source, and write all waiting results if the last write is ``WRITE_SECONDS`` ago.

        After `close` results are ignored: a worker may end later than its scan.

        Raises:
            UsageError: The journal cannot be written.
        """
        with self._lock:
            if not self._is_open:
                return
            self._waiting[number] = result
            if self._clock() - self._written_at >= WRITE_SECONDS:
                self._write_waiting()

    def write(self, start: int, surveyed: ChunkResult) -> None:
        """Write the sources of a chunk that are not written yet.

        Args:
            start: Number of its first source.
            surveyed: Result of the chunk.

        Raises:
            UsageError: The journal cannot be written.
        """
        with self._lock:
            early, waiting = (
                [number for number in numbers if start <= number < start + len(surveyed)]
                for numbers in (self._early, self._waiting)
            )
            texts = self._texts.slice(start, len(surveyed))
            if not early:
                self._add(texts, surveyed.facts, surveyed.frames)
            elif len(early) < len(surveyed):
                is_left = np.ones(len(surveyed), dtype=bool)
                is_left[[number - start for number in early]] = False
                has_index = surveyed.facts.column("num_key_frames").is_valid().to_numpy(zero_copy_only=False)
                frame_rows = number_true(has_index)[has_index & is_left]
                frames = list(gather_rows(surveyed.frames, frame_rows, ROWS_PER_BATCH))
                mask = pa.array(is_left)
                self._add(texts.filter(mask), surveyed.facts.filter(mask), frames)
            self._early.difference_update(early)
            for number in waiting:
                del self._waiting[number]

    def close(self) -> None:
        """Write waiting results, unless writing has failed, and ignore later ones."""
        with self._lock:
            try:
                if self._is_open and self._waiting:
                    self._write_waiting()
            finally:
                self._is_open = False

    def _write_waiting(self) -> None:
        numbers = sorted(self._waiting)
        facts, frames = tabulate(self._waiting[number] for number in numbers)
        self._add(self._texts.take(pa.array(numbers)), facts, frames)
        self._early.update(numbers)
        self._waiting.clear()

    def _add(self, texts: pa.Array, facts: pa.RecordBatch, frames: Sequence[pa.RecordBatch]) -> None:
        try:
            self._journal.add(pa.RecordBatch.from_arrays([texts, *facts.columns], schema=JOURNALED), frames)
        except FramefeedError:
            self._is_open = False
            raise
        self.num_written += len(texts)
        self._written_at = self._clock()
