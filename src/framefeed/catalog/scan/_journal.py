"""The journal of a scan: what was found out so far, beside the catalog that is to come, so that a crash loses little.

A folder ``cat.parquet.journal`` with two Arrow IPC streams for every run that wrote to it: ``0000.facts.arrows`` holds
a batch for each chunk of sources, ``0000.frames.arrows`` the frame tables of those that have an index. A chunk's frame
tables are written before its facts, so that facts never stand without them. Each batch travels with a checksum: a torn
stream gives back its whole batches, and blocks that never reached the disk are noticed. Nothing in it is pickled.

What a scan finds on its way into the journal: chunks as they come, and slow files before their chunk is done.
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
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from framefeed._arrays import BoolArray
from framefeed.catalog._arrow import gathered
from framefeed.catalog._catalog_file import FORMAT
from framefeed.catalog._columns import numbered
from framefeed.catalog._frame_tables import ROWS_PER_BATCH, SCHEMA
from framefeed.catalog._still_rows import SURVEYED
from framefeed.catalog._survey import Finding
from framefeed.catalog._sweep import Surveyed, tabulate
from framefeed.errors import FramefeedError, UsageError
from framefeed.media import is_full, writing
from framefeed.parallel import ClosedByWith, raise_shortage, try_again_in_shortage

JOURNALED = pa.schema([pa.field("source", pa.string()), *SURVEYED])
_OURS = re.compile(r"\d{4,}\.(facts|frames)\.arrows")
_CHECKSUM = b"xxh3"
_SETTINGS = b"framefeed"
_LOCKING_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """What one run wrote.

    Attributes:
        facts: Whole batches of ``JOURNALED``.
        frames: Whole batches of frame tables.
    """

    facts: list[pa.RecordBatch]
    frames: list[pa.RecordBatch]


class Journal(ClosedByWith):
    """An open journal: one process writes to it at a time.

    Args:
        target: Path of the catalog that is to come.
        settings: What a row depends on besides its file; pieces that were written under others are not read.

    Attributes:
        folder: Where it lies.
        was_left: Whether an earlier scan left it: that one did not come to its end.

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
        # Here nothing has been done yet.
        with writing(target):
            try:
                self._lock = _locked(self.folder)
            except BlockingIOError as error:
                raise UsageError(f"{target}: another process is scanning to this catalog: wait for it") from error
        self._has_rows = self.was_left

    def pieces(self) -> Iterator[Piece]:
        """Read what earlier runs wrote, the oldest first."""
        for name in self._names("facts"):
            facts = _read_stream(self.folder / name, JOURNALED, self._settings)
            frames = _read_stream(self.folder / name.replace("facts", "frames"), SCHEMA, self._settings)
            yield _consistent(facts, frames)

    def add(self, facts: pa.RecordBatch, frames: Sequence[pa.RecordBatch]) -> None:
        """Write down a chunk.

        Raises:
            UsageError: It cannot be written: the disk is full. What was written before stays.
        """
        with _told(self.folder, self._has_rows):
            if self._writers is None:
                self._writers = self._opened()
            try:
                for batch in frames:
                    self._writers[1].write(batch)
                self._writers[0].write(facts)
            except BaseException:
                # Frame tables without facts may be among them: what comes next needs streams of its own.
                self._close_writers()
                raise
            self._has_rows = True

    def close(self) -> None:
        """Let another process have it; what was written stays."""
        self._close_writers()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clear(self) -> None:
        """Forget what was written."""
        self._close_writers()
        for kind in ("facts", "frames"):
            for name in self._names(kind):
                (self.folder / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """The catalog stands: the journal has done its work."""
        self.clear()
        with suppress(OSError):  # A file in it that is not ours stays.
            self.folder.rmdir()
        self.close()

    def _close_writers(self) -> None:
        for writer in self._writers or ():
            writer.close()
        self._writers = None

    def _names(self, kind: str) -> list[str]:
        names = [name for name in os.listdir(self.folder) if (match := _OURS.fullmatch(name)) and match[1] == kind]
        return sorted(names, key=lambda name: int(name.split(".")[0]))

    def _opened(self) -> tuple[_Stream, _Stream]:
        taken = [int(name.split(".")[0]) for kind in ("facts", "frames") for name in self._names(kind)]
        number = max(taken, default=-1) + 1
        facts, frames = (self.folder / f"{number:04d}.{kind}.arrows" for kind in ("facts", "frames"))
        with ExitStack() as opened:
            first = opened.enter_context(closing(_Stream(facts, JOURNALED, self._settings)))
            second = _Stream(frames, SCHEMA, self._settings)
            opened.pop_all()
        return first, second


def _locked(folder: Path) -> int:
    """Make a folder if there is none, and lock it; gives its descriptor.

    Raises:
        BlockingIOError: Another process has it.
    """
    for _ in range(_LOCKING_ATTEMPTS):
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A scan that ended between the two calls has removed what is locked here.
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
    """An Arrow IPC stream that reaches the system with every batch."""

    def __init__(self, path: Path, schema: pa.Schema, settings: bytes) -> None:
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115  # open as long as the scan runs
        self._writer = pa.ipc.new_stream(self._file, schema.with_metadata({_SETTINGS: settings}))

    def write(self, batch: pa.RecordBatch) -> None:
        whole = self._file.tell()
        try:
            self._writer.write_batch(batch, custom_metadata={_CHECKSUM: checksum(batch)})
        except BaseException:
            self._file.truncate(whole)
            self._file.seek(whole)
            raise

    def close(self) -> None:
        with suppress(OSError):  # The mark of the end does not fit on a full disk: it is not needed.
            self._writer.close()
        self._file.close()


def checksum(batch: pa.RecordBatch) -> bytes:
    """Hash a batch as it is written: what a slice leaves out does not count."""
    return xxhash.xxh3_64_hexdigest(batch.serialize()).encode()


def _read_stream(path: Path, schema: pa.Schema, settings: bytes) -> list[pa.RecordBatch]:
    """Give the whole batches of a stream; of a torn one those before the tear."""
    batches: list[pa.RecordBatch] = []

    def read() -> None:
        batches.clear()
        with open(path, "rb") as file:
            reader = pa.ipc.open_stream(file)
            if not reader.schema.equals(schema) or (reader.schema.metadata or {}).get(_SETTINGS) != settings:
                return
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                if metadata is None or metadata.get(_CHECKSUM) != checksum(batch):
                    return
                batch.validate(full=True)
                batches.append(batch)

    with suppress(pa.ArrowException, OSError, ValueError, EOFError):
        try_again_in_shortage(read, os.fspath(path), "read")
    return batches


def _consistent(facts: list[pa.RecordBatch], frames: list[pa.RecordBatch]) -> Piece:
    """Leave out facts whose frame tables were torn, and frame tables whose facts were."""
    there = sum(batch.num_rows for batch in frames)
    kept: list[pa.RecordBatch] = []
    needed = 0
    for batch in facts:
        needed += indexed(batch)
        if needed > there:
            break
        kept.append(batch)
    return Piece(kept, frames)


def indexed(facts: pa.RecordBatch | pa.Table) -> int:
    """How many of the rows have a frame index."""
    column = facts.column("num_key_frames")
    return int(len(column) - column.null_count)


@contextmanager
def _told(folder: Path, has_rows: bool) -> Iterator[None]:
    """Say what cannot be written, and what to do about it."""
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
"""Most seconds of a worker's finished work that are not in the journal. Chunks of small files take less."""


class JournalWriter(ClosedByWith):
    """Writes what is found about the sources of a scan, each once; for many threads.

    Args:
        journal: Where to write.
        texts: Sources as the catalog names them, [S].
        clock: Gives seconds.

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
        # Of chunks that are not done, by number: what was found, and what of it is written.
        self._waiting: dict[int, Finding] = {}
        self._early: set[int] = set()

    def keep(self, number: int, finding: Finding) -> None:
        """Take what was found about one source; written now if nothing was for some seconds, else soon.

        After `close` nothing is taken: a worker may end later than its scan.

        Raises:
            UsageError: The journal cannot be written.
        """
        with self._lock:
            if not self._is_open:
                return
            self._waiting[number] = finding
            if self._clock() - self._written_at >= WRITE_SECONDS:
                self._write_waiting()

    def write(self, start: int, surveyed: Surveyed) -> None:
        """Write a chunk, but for those of its sources that are written already.

        Args:
            start: Number of its first source.
            surveyed: What was found out about all of its sources.

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
                self._add(texts.filter(pa.array(is_left)), *_filtered(surveyed, is_left))
            self._early.difference_update(early)
            for number in waiting:
                del self._waiting[number]

    def close(self) -> None:
        """Write what waits, unless the journal cannot be written, and take nothing more."""
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


def _filtered(surveyed: Surveyed, is_left: BoolArray) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Facts and frame tables of some of the sources."""
    has_frames = surveyed.facts.column("num_key_frames").is_valid().to_numpy(zero_copy_only=False)
    frame_rows = numbered(has_frames)[has_frames & is_left]
    return surveyed.facts.filter(pa.array(is_left)), list(gathered(surveyed.frames, frame_rows, ROWS_PER_BATCH))
