"""Store the results of a running scan in a journal beside the catalog, so that a crash loses little.

The journal is a folder ``cat.parquet.journal`` of parts, which are renamed when they are whole. A part is two Arrow IPC
streams, one behind the other: facts of some sources, and the frame tables of those that have an index. The name of the
file has its number and the hash of its bytes, so that a part which did not reach the disk whole is noticed. Nothing is
pickled.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from framefeed._files import is_full, lock_folder, unlock, write_errors
from framefeed.catalog import (
    FORMAT,
    SCHEMA,
    SURVEYED,
    Facts,
    SurveyedSources,
    SurveyResult,
    collect_results,
)
from framefeed.errors import FramefeedError, UsageError
from framefeed.parallel import ClosedByWith, raise_shortage, try_again_in_shortage
from framefeed.scanning._chunks import ChunkResult

JOURNALED = pa.schema([pa.field("source", pa.string()), *SURVEYED])
_PART = re.compile(r"(\d{6,})-([0-9a-f]{16})\.part")
_UNFINISHED = "unfinished.tmp"
_LOCK = "lock"
_ARGUMENTS = "arguments.json"
WAIT_SECONDS = (0.01, 0.1)
"""Between two looks whether another scan has ended: at first, and at most."""
WAIT_SHARE = 0.005
"""Length of a pause as a share of the wait so far, between these two: the wait for a short scan is not much longer."""
SHOWN_SECONDS = 1.0
"""A shorter wait is not shown: ranks wait some milliseconds for each other where the catalog is up to date."""
# Facts of pictures are mostly nulls and repetitions: compressing them takes less time than writing the rest.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_SETTINGS = b"framefeed"


class Journal(ClosedByWith):
    """An open journal: one process writes to it at a time, and others wait until it is closed.

    Args:
        target: Name of the future catalog.
        settings: Settings of the scan; parts with other settings are not read.
        arguments: All that decides the result, for processes that wait: only the same scan waits.
        show_line: Is called with a line if there is something to wait for; None shows none.
        folder: Where it is; None for ``.journal`` behind the name.

    Attributes:
        was_left: Whether it exists from an earlier scan, which was not completed.
        has_waited: Whether another process had it open.

    Raises:
        UsageError: Another process is scanning to the same catalog with other arguments, or the folder cannot be made.
    """

    def __init__(
        self,
        target: str,
        settings: Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
        show_line: Callable[[str], object] | None = None,
        folder: str | None = None,
    ) -> None:
        self.folder = Path(f"{target}.journal" if folder is None else folder)
        self.has_waited = False
        self._settings = json.dumps({"format": FORMAT, **settings}, sort_keys=True).encode()
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"cannot write {target}: {self.folder} must be a folder, but it is a file: move it away")
        # Hashes: arguments may hold what is not to be stored, such as the password of a URL.
        given = {name: xxhash.xxh3_64_hexdigest(repr(value).encode()) for name, value in (arguments or {}).items()}
        with write_errors(target if folder is None else folder):
            if folder is not None:
                self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._lock = self._wait_for_lock(target, given, show_line)
            try:
                self.was_left = bool(set(os.listdir(self.folder)) - {_LOCK})
                (self.folder / _ARGUMENTS).write_text(json.dumps(given))
            except BaseException:
                self.close()  # Otherwise this process would wait for itself.
                raise
        self._next_number = max((int(name.split("-")[0]) for name in self._list_parts()), default=-1) + 1

    def _wait_for_lock(self, target: str, given: Mapping[str, str], show_line: Callable[[str], object] | None) -> int:
        """Lock the journal; the lock of a process ends with it, so that nothing else bounds the wait."""
        others, is_shown, since = list[str](), False, monotonic()
        while True:
            with suppress(BlockingIOError):
                return lock_folder(self.folder, _LOCK)
            before, others = others, []
            with suppress(OSError, ValueError, AttributeError):  # It is not written whole yet.
                there = json.loads((self.folder / _ARGUMENTS).read_bytes())
                others = [name for name in {**given, **there} if given.get(name) != there.get(name)]
            # Twice, because the file of a killed scan may lie there until the next one has written its own.
            if others and others == before:
                raise UsageError(
                    f"{target}: another process is scanning to this catalog with other arguments "
                    f"({', '.join(others)}): choose another out=, or wait until it has ended"
                )
            waited = monotonic() - since
            if show_line is not None and waited >= SHOWN_SECONDS and not (is_shown or others):
                show_line(f"{target}: another process is scanning to this catalog: waiting for it")
                is_shown = True
            self.has_waited = True
            least, most = WAIT_SECONDS
            sleep(most if others else min(most, max(least, WAIT_SHARE * waited)))

    def read_parts(self, schema: pa.Schema = JOURNALED) -> Iterator[SurveyedSources]:
        """Read the results of earlier scans, the oldest first, but for damaged parts and those of other settings.

        Their facts have the columns of ``schema``.
        """
        for name in self._list_parts():
            part = None
            with suppress(pa.ArrowException, OSError, ValueError):
                read = partial(self._read_part, name, schema)
                part = try_again_in_shortage(read, os.fspath(self.folder / name), "read")
            if part is not None:
                yield part

    def _read_part(self, name: str, schema: pa.Schema) -> SurveyedSources | None:
        data = (self.folder / name).read_bytes()
        if f"-{xxhash.xxh3_64_hexdigest(data)}." not in name:
            return None
        buffer = pa.BufferReader(data)
        with pa.ipc.open_stream(buffer) as reader:
            if not reader.schema.equals(schema) or (reader.schema.metadata or {}).get(_SETTINGS) != self._settings:
                return None
            facts = reader.read_all().replace_schema_metadata(None)
        with pa.ipc.open_stream(buffer) as reader:
            frames = list(reader)
        facts.validate(full=True)
        for batch in frames:
            batch.validate(full=True)
        return SurveyedSources(Facts.of_table(facts), frames)

    def add(
        self, facts: Sequence[pa.RecordBatch], frames: Sequence[pa.RecordBatch], schema: pa.Schema = JOURNALED
    ) -> None:
        """Write a part: facts of ``schema``, and their frame tables. If it fails, earlier parts remain."""
        unfinished = self.folder / _UNFINISHED
        try:
            sink = pa.BufferOutputStream()
            for kind, batches in ((schema.with_metadata({_SETTINGS: self._settings}), facts), (SCHEMA, frames)):
                with pa.ipc.new_stream(sink, kind, options=_COMPRESSED) as stream:
                    for batch in batches:
                        stream.write_batch(batch)
            data = left = memoryview(sink.getvalue())
            with open(unfinished, "wb", buffering=0) as file:
                # A write may take a part of the bytes only; the next one then says why.
                while left:
                    left = left[file.write(left) :]
            digest = xxhash.xxh3_64_hexdigest(data)
            unfinished.rename(self.folder / f"{self._next_number:06d}-{digest}.part")
        except (OSError, pa.ArrowException) as error:
            raise_shortage(error, os.fspath(self.folder), "write")
            hint = "make room on the disk" if is_full(error) else "make this folder writable"
            following = ": it continues where it stopped" if self._next_number else ""
            raise UsageError(
                f"{self.folder}: the scan's journal cannot be written: {getattr(error, 'strerror', None) or error}; "
                f"{hint} and run the same scan again{following}"
            ) from error
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
        self._next_number += 1

    def close(self) -> None:
        """Unlock the journal for other processes, and keep its content."""
        if self._lock >= 0:
            unlock(self._lock)
            self._lock = -1

    def clear(self) -> None:
        """Delete the content."""
        for name in [*self._list_parts(), _UNFINISHED]:
            (self.folder / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the journal."""
        self.clear()
        for name in (_ARGUMENTS, _LOCK):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # Other files in the folder are kept.
            self.folder.rmdir()
        self.close()

    def _list_parts(self) -> list[str]:
        matches = filter(None, map(_PART.fullmatch, os.listdir(self.folder)))
        return [match[0] for match in sorted(matches, key=lambda match: int(match[1]))]


WRITE_SECONDS = 2.0
"""A crash loses the results of so many seconds at most."""
WRITE_ROWS = 65_536
"""Or of so many sources: pictures are scanned at hundreds of thousands a second."""


class JournalWriter(ClosedByWith):
    """Thread-safe writer of results to a journal: chunks when they are done, and single files before that.

    Each source is written once. Of a chunk from a thread all files are recorded on their own but for pictures whose
    headers are read in batches; of a chunk from a process none. ``texts`` are the names of the sources, [S].
    """

    def __init__(self, journal: Journal, texts: pa.Array, clock: Callable[[], float] = monotonic) -> None:
        self.num_written = 0
        self._journal = journal
        self._texts = texts
        self._clock = clock
        self._written_at = clock()
        self._is_open = True
        self._lock = threading.Lock()
        # Chunks that are done, to be written.
        self._facts: list[pa.RecordBatch] = []
        self._frames: list[pa.RecordBatch] = []
        # Results of single sources, by number, to be written; and such sources of chunks that are not done.
        self._waiting: dict[int, SurveyResult] = {}
        self._recorded: set[int] = set()

    def record(self, number: int, result: SurveyResult) -> None:
        """Record the result of one source; write all if the last write is ``WRITE_SECONDS`` ago.

        After `close` results are ignored: a worker may end later than its scan.
        """
        with self._lock:
            if self._is_open:
                self._waiting[number] = result
                self._recorded.add(number)
                self._write_if_due()

    def write(self, start: int, surveyed: ChunkResult) -> None:
        """Record a chunk from source number ``start`` on, without the sources that were recorded on their own."""
        with self._lock:
            recorded = [number for number in self._recorded if start <= number < start + len(surveyed)]
            texts, facts, frames = self._texts.slice(start, len(surveyed)), surveyed.facts, surveyed.frames
            if recorded:
                # Left are pictures whose headers were read in batches: they have no frame tables.
                is_left = np.ones(len(surveyed), dtype=bool)
                is_left[np.array(recorded) - start] = False
                texts, facts, frames = texts.filter(pa.array(is_left)), facts.filter(pa.array(is_left)), ()
            if len(texts):
                self._collect(texts, facts, frames)
            self._recorded.difference_update(recorded)
            self._write_if_due()

    def close(self) -> None:
        """Write what is recorded, unless writing has failed, and ignore later results."""
        with self._lock:
            try:
                if self._is_open:
                    self._write_all()
            finally:
                self._is_open = False

    def _collect(self, texts: pa.Array, facts: pa.RecordBatch, frames: Sequence[pa.RecordBatch]) -> None:
        self._facts.append(pa.RecordBatch.from_arrays([texts, *facts.columns], schema=JOURNALED))
        self._frames += frames

    def _write_if_due(self) -> None:
        if self._clock() - self._written_at >= WRITE_SECONDS or sum(map(len, self._facts)) >= WRITE_ROWS:
            self._write_all()

    def _write_all(self) -> None:
        if self._waiting:
            numbers = sorted(self._waiting)
            facts, frames = collect_results(self._waiting[number] for number in numbers)
            self._collect(self._texts.take(pa.array(numbers)), facts, frames)
            self._waiting.clear()
        if self._facts:
            try:
                self._journal.add(self._facts, self._frames)
            except FramefeedError:
                self._is_open = False
                raise
            self.num_written += sum(map(len, self._facts))
            self._facts, self._frames = [], []
        self._written_at = self._clock()
