"""What a scan finds on its way into the journal: chunks as they come, and slow files before their chunk is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.errors import FramefeedError
from framefeed.index.chunks import Surveyed, tabulate
from framefeed.index.facts import numbered
from framefeed.index.frame_tables import ROWS_PER_BATCH
from framefeed.index.gathering import gathered
from framefeed.index.journal import JOURNALED, Journal
from framefeed.index.survey import Finding
from framefeed.parallel.closing import ClosedByWith

BoolArray = npt.NDArray[np.bool_]

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
