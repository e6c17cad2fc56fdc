"""Make segments in worker processes, step by step, so that a frame that hangs or kills its process is named."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed.errors import DeadlineExceeded, WorkerLost
from framefeed.parallel import (
    CallLate,
    Err,
    Ok,
    ProcessDied,
    ProcessEnded,
    ProcessHung,
    RemoteCalls,
    SharedBlock,
    SharedRange,
    catch_outcome,
)
from framefeed.transcode._segments import Segment
from framefeed.transcode._targets import SegmentRecord
from framefeed.transcode._working import ATTEMPT, FRAME, NUM_COLUMNS, MapJob, SegmentWorker

STEP_SECONDS = 0.5
"""A process answers after this time, so that it is heard from between frames."""
_MOST_LOST = 3
"""Processes that a segment may cost. One frame may cost two: the first may have died of something else."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """Asks a process to work on a segment."""

    number: int
    attempt: int  # number of the attempt to make a segment; never 0
    is_first: bool  # whether it begins; else the process has begun it
    board: SharedRange
    worker: int

    def __repr__(self) -> str:
        return f"segment {self.number}"


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """What a process says after a step."""

    record: SegmentRecord | None = None
    is_lost: bool = False  # whether another process, which this one replaced, has begun the attempt


class SegmentProcess:
    """Makes segments in the worker process that unpickles it: then ``setup`` runs."""

    def __init__(self, job: MapJob) -> None:
        self._job = job
        self._outcome: Ok[SegmentWorker] | Err | None = None
        self._steps: Generator[None, None, SegmentRecord] | None = None
        self._attempt = 0

    def __reduce__(self) -> tuple[Callable[[MapJob], SegmentProcess], tuple[MapJob]]:
        return _begin_process, (self._job,)

    def set_up(self) -> SegmentProcess:
        """Run ``setup``, and keep its error for the first call."""
        self._outcome = catch_outcome(lambda _: SegmentWorker(self._job, np.zeros(NUM_COLUMNS, np.int64)), None)
        return self

    def __repr__(self) -> str:
        return repr(self._job)

    def __call__(self, request: StepRequest) -> StepAnswer:
        """Work on a segment for about `STEP_SECONDS`."""
        if isinstance(self._outcome, Err):
            raise self._outcome.error
        assert self._outcome is not None
        worker = self._outcome.value
        row = view_board(request.board.open())[request.worker]
        # The pool repeats a call whose process died: the worker is to know at which frame that was.
        if request.is_first and row[ATTEMPT] != request.attempt:
            if self._steps is not None:
                self._steps.close()
            worker.row, row[ATTEMPT], self._attempt = row, request.attempt, request.attempt
            self._steps = worker.work(self._job.segments[request.number])
        if self._steps is None or self._attempt != request.attempt:
            return StepAnswer(is_lost=True)
        until = monotonic() + STEP_SECONDS
        try:
            while monotonic() < until:
                next(self._steps)
        except StopIteration as end:
            self._steps = None
            return StepAnswer(end.value)
        return StepAnswer()


# Parameters of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 256 << 20
_MOST_IN_HEAP_BYTES = 32 << 20
"""The largest that glibc takes."""


def _begin_process(job: MapJob) -> SegmentProcess:
    """Have glibc keep the memory of pictures for the next ones, in this worker process, and run ``setup``.

    By default, it returns 2.8 MB to the kernel for each frame of 720p and gets them back: 600 page faults, 1.9 ms.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MOST_IN_HEAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    return SegmentProcess(job).set_up()


def view_board(memory: Any) -> IntArray:
    """View shared memory as the board, int64 [workers, 4]."""
    numbers: IntArray = np.frombuffer(memory, dtype=np.int64)
    return numbers[: len(numbers) // NUM_COLUMNS * NUM_COLUMNS].reshape(-1, NUM_COLUMNS)


class RemoteSegments:
    """Makes segments in the processes of the calling threads; the board is in shared memory."""

    def __init__(self, job: MapJob, block: SharedBlock, deadline_seconds: float | None) -> None:
        self._job = job
        self._block = block
        self._board = view_board(block.data)
        limit = None if deadline_seconds is None else deadline_seconds + STEP_SECONDS
        self._deadline_seconds = deadline_seconds
        self._calls: RemoteCalls[StepRequest, StepAnswer] = RemoteCalls(SegmentProcess(job), limit)
        self._attempts = itertools.count(1)

    def make(self, segment: Segment, worker: int) -> SegmentRecord:
        """Make a segment in the process of this thread; errors are those of the worker, or name its frame."""
        lost: list[int] = []
        attempt, is_first = next(self._attempts), True
        while True:
            request = StepRequest(segment.number, attempt, is_first, self._block.shared, worker)
            try:
                answer = self._calls(request)
            except ProcessEnded:
                raise
            except CallLate as late:
                raise make_late_error(self._job, self._board[worker], self._deadline_seconds) from late
            except ProcessHung as hang:
                frame, name = self._job.name_frame_in_work(self._board[worker])
                source = self._job.source.name
                raise DeadlineExceeded(
                    f"{source}: {name}: {hang}", position=frame, source=source, stage="function"
                ) from hang
            except ProcessDied as death:
                raise self._make_lost_error(str(death), worker) from death
            if answer.record is not None:
                return answer.record
            is_first = answer.is_lost
            if answer.is_lost:
                frame = int(self._board[worker, FRAME])
                if frame in lost or len(lost) == _MOST_LOST:
                    raise self._make_lost_error(f"{len(lost) + 1} worker processes died", worker)
                lost.append(frame)
                attempt = next(self._attempts)

    def _make_lost_error(self, reason: str, worker: int) -> WorkerLost:
        frame, name = self._job.name_frame_in_work(self._board[worker])
        source = self._job.source.name
        return WorkerLost(
            f"{source}: {name}: {reason} while it was in work: the function may crash or need too much memory; "
            "finished segments are kept",
            position=frame,
            source=source,
            stage="function",
        )


def make_late_error(job: MapJob, row: IntArray, deadline_seconds: float | None) -> DeadlineExceeded:
    """Build the error for the frame in work, which takes too long, by the worker's row of the board, int64 [4]."""
    source = job.source.name
    frame, name = job.name_frame_in_work(row)
    return DeadlineExceeded(
        f"{source}: {name} was still in work after {deadline_seconds:g} s; raise deadline_seconds if a frame may take "
        "longer; finished segments are kept",
        position=frame,
        source=source,
        stage="function",
    )
