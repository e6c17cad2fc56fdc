"""Have all segments of a job made by threads or processes, and watch over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from queue import Empty, SimpleQueue
from time import perf_counter

import numpy as np

from framefeed._arrays import IntArray
from framefeed.errors import DeadlineExceeded, FramefeedError, UsageError, WorkerLost
from framefeed.parallel import (
    CLOSE_SECONDS,
    SOON_SECONDS,
    Err,
    InlinePool,
    Ok,
    Pool,
    ProcessEnded,
    ProcessPool,
    SharedMemory,
    StopDetector,
    ThreadPool,
    catch_outcome,
)
from framefeed.transcode._folder import WorkFolder
from framefeed.transcode._options import WorkerOptions
from framefeed.transcode._process import RemoteSegments, make_late_error, view_board
from framefeed.transcode._segments import Segment, SegmentQueue
from framefeed.transcode._targets import SegmentRecord, VideoTarget, check_alike
from framefeed.transcode._working import BEATS, DONE, FRAME, NUM_COLUMNS, MapJob, SegmentWorker

Show = Callable[[int], object]

_TICK_SECONDS = 0.2
"""Time between two checks of the workers, and between two updates of the progress bar."""

START_UP_SECONDS = 300.0
"""Longest time for ``setup``, as of worker processes."""


class _Stopped(Exception):
    """The run has ended while a worker was at a segment."""


class SegmentRun:
    """Makes all segments of a job that are not in its work folder yet."""

    def __init__(self, job: MapJob, options: WorkerOptions, folder: WorkFolder, show: Show) -> None:
        self._job = job
        self._deadline_seconds = options.deadline_seconds
        self._folder = folder
        self._show = show
        self._queue = SegmentQueue(job.segments, folder.records)
        self._lock = threading.Lock()
        self._is_stopped = False
        self._done = 0
        self._ended: SimpleQueue[tuple[int, Ok[None] | Err]] = SimpleQueue()
        self._threads: dict[int, threading.Thread] = {}
        count = min(options.num_workers, len(self._queue))
        self._remote: RemoteSegments | None = None
        self._board: IntArray = np.zeros((max(1, count), NUM_COLUMNS), dtype=np.int64)
        self._pool: Pool = InlinePool()
        if options.are_processes:
            memory = SharedMemory()
            block = memory.allocate(self._board.nbytes)
            self._remote = RemoteSegments(job, block, options.deadline_seconds)
            self._board = view_board(block.data)
            if count:
                self._pool = ProcessPool(count, memory=memory)
        elif count:
            self._pool = ThreadPool(count)
        # Calls in processes have deadlines of their own, which end the process.
        is_watched = isinstance(self._pool, ThreadPool) and self._remote is None
        self._watch = _Watch(self._board, options.deadline_seconds if is_watched else None)

    def run(self) -> None:
        """Make the segments; raise the error of the earliest frame if one failed."""
        errors: list[BaseException] = []
        wait_seconds = SOON_SECONDS
        try:
            if len(self._queue):
                for worker in range(max(1, self._pool.workers)):
                    self._threads[worker] = threading.current_thread()
                    self._pool.submit(partial(self._work, worker))
                self._wait(errors)
            # Threads end at the next frame; processes are killed.
            wait_seconds = CLOSE_SECONDS
        finally:
            self._is_stopped = True
            if errors or wait_seconds == SOON_SECONDS:
                self._pool.abandon()
            self._pool.close(wait_seconds)
            # Also after Ctrl-C: their tracebacks refer to this run and its memory, which refer to them.
            self._collect(errors)
        if errors:
            try:
                raise min(errors, key=_order_error)
            finally:
                # The traceback refers to this frame, which must not refer to the error.
                errors.clear()

    def _wait(self, errors: list[BaseException]) -> None:
        """Wait until all workers have ended, or one has failed."""
        while self._threads and not errors:
            began = perf_counter()
            try:
                worker, outcome = self._ended.get(timeout=_TICK_SECONDS)
            except Empty:
                for thread in self._threads.values():
                    if not thread.is_alive() and self._ended.empty():
                        raise WorkerLost(
                            f"{self._job.source.name}: {thread.name} died while it made segments"
                        ) from None
                self._watch.check(began, self._threads, self._make_late_error)
            else:
                del self._threads[worker]
                if isinstance(outcome, Err):
                    errors.append(outcome.error)
            with self._lock:
                finished = sum(len(self._job.segments[number]) for number in self._folder.records)
                begun = int(self._board[list(self._threads), DONE].sum())
            self._done = max(self._done, finished + begun)
            self._show(self._done)
        self._collect(errors)

    def _collect(self, errors: list[BaseException]) -> None:
        """Take the errors of workers that failed at about the same time, but not those that ending the run caused."""
        while not self._ended.empty():
            _, outcome = self._ended.get()
            if isinstance(outcome, Err) and not isinstance(outcome.error, _Stopped | ProcessEnded) and errors:
                errors.append(outcome.error)

    def _make_late_error(self, worker: int) -> FramefeedError:
        if not self._board[worker, BEATS]:
            return DeadlineExceeded(
                f"{self._job.source.name}: setup was still running after {START_UP_SECONDS:g} s",
                source=self._job.source.name,
                stage="setup",
            )
        return make_late_error(self._job, self._board[worker], self._deadline_seconds)

    def _work(self, worker: int) -> None:
        if worker in self._threads:
            self._threads[worker] = threading.current_thread()
        self._ended.put((worker, catch_outcome(self._make_segments, worker)))

    def _make_segments(self, worker: int) -> None:
        if self._remote is not None:
            self._make_with(worker, partial(self._remote.make, worker=worker))
            return
        local = SegmentWorker(self._job, self._board[worker])
        self._board[worker, BEATS] += 1
        try:
            self._make_with(worker, partial(self._make_here, local))
        finally:
            local.close()

    def _make_with(self, worker: int, make: Callable[[Segment], SegmentRecord]) -> None:
        while not self._is_stopped:
            with self._lock:
                segment = self._queue.take(worker)
            if segment is None:
                return
            record = make(segment)
            with self._lock:
                if self._is_stopped:
                    return
                self._board[worker, DONE] = 0
                self._check_fits(record)
                self._folder.add(record)

    def _make_here(self, worker: SegmentWorker, segment: Segment) -> SegmentRecord:
        steps = worker.work(segment)
        try:
            while not self._is_stopped:
                next(steps)
        except StopIteration as end:
            record: SegmentRecord = end.value
            return record
        finally:
            steps.close()
        raise _Stopped

    def _check_fits(self, record: SegmentRecord) -> None:
        """Check that all segments have videos of one size, and the same number."""
        if not isinstance(self._job.target, VideoTarget) or record.size is None:
            return
        number_of = attrgetter("number")
        first = min((each for each in self._folder.records.values() if each.size), key=number_of, default=record)
        facts = [(each.frame, each.count, each.size) for each in sorted((first, record), key=number_of) if each.size]
        try:
            check_alike(facts[0], facts[-1])
        except UsageError as error:
            raise UsageError(
                f"{self._job.source.name}: {error}",
                position=record.frame,
                source=self._job.source.name,
                stage="function",
            ) from error


def _order_error(error: BaseException) -> tuple[int, int]:
    position = getattr(error, "position", None)
    return (0, 0) if position is None else (1, position)


class _Watch:
    """Notices threads that hang: by the board, no step was done for the deadline."""

    def __init__(self, board: IntArray, deadline_seconds: float | None) -> None:
        self._board = board
        self._deadline_seconds = deadline_seconds
        self._last: dict[int, tuple[int, int]] = {}
        self._waited = dict.fromkeys(range(len(board)), 0.0)
        self._stops = StopDetector()
        self._seen = perf_counter()

    def check(self, began: float, threads: dict[int, threading.Thread], make_error: Callable[[int], Exception]) -> None:
        """Raise the error of a worker that has done no step for too long; called after each wait of `_TICK_SECONDS`."""
        if self._deadline_seconds is None:
            return
        now = perf_counter()
        spent, self._seen = now - self._seen, now
        if self._stops.was_stopped(began, _TICK_SECONDS):
            spent = 0.0
        for worker in threads:
            state = int(self._board[worker, BEATS]), int(self._board[worker, FRAME])
            self._waited[worker] = 0.0 if state != self._last.get(worker) else self._waited[worker] + spent
            self._last[worker] = state
            limit = self._deadline_seconds if state[0] else START_UP_SECONDS
            if self._waited[worker] > limit:
                raise make_error(worker)
