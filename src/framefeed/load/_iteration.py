"""Iterate over the batches of an epoch: prepared ahead by threads, delivered in order, resumed from a JSON state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from framefeed.errors import DeadlineExceeded, FramefeedError, LoadError, UsageError
from framefeed.load._ahead import ReadAhead
from framefeed.load._batch import ClipBatch, map_streams
from framefeed.load._ledger import Ledger, LedgerEntry, find_failed_source, make_max_failed_error
from framefeed.load._options import MAX_PREFETCH_BYTES, MAX_SUBSTITUTES, LoaderOptions
from framefeed.load._pending import PendingBatch, begin_batch, drop_tracebacks, is_always_raised, suggest_skipping
from framefeed.load._state import BatchCursor, BatchRanges, StepRanges
from framefeed.load._stats import Meter, WorkCost
from framefeed.load._work import DecodeTask, Grouping, split_batch
from framefeed.load._workers import Workers
from framefeed.parallel import CLOSE_SECONDS, Err, Ok, OrderedOutcomes, ordered_outcomes, run_next
from framefeed.plan import EpochPlan, PlannedClips, mean_clip_bytes

_FOUND_AT_ONCE = 512
"""Positions of this rank whose clips are found together, if batches are no larger."""


class BatchIterator(Iterator[ClipBatch]):
    """Batches in order. The error of a clip is raised in place of its batch; the next call returns the next batch.

    ``cursor`` is the first batch, with the plan at the epoch of the iteration; it moves when batches are delivered.
    ``plan`` is as the loader was given it.
    """

    def __init__(
        self,
        plan: EpochPlan,
        options: LoaderOptions,
        workers: Workers,
        meter: Meter,
        cursor: BatchCursor,
        ledger: Ledger,
    ) -> None:
        self._whole, self._options, self._workers = plan, options, workers
        self._meter, self._ledger = meter, ledger
        self._is_exhausted = False
        self._why_ended: str | None = None
        self._hangs = False
        self.has_begun = False
        self.start(cursor)

    def start(self, cursor: BatchCursor) -> None:
        """Prepare to iterate from a position; again at another, as long as the iteration has not begun."""
        options, workers, meter = self._options, self._workers, self._meter
        self._cursor = cursor
        self._plan = plan = cursor.plan
        self._batches, self._earlier_batches, self._next = cursor.list_batches(options), cursor.delivered, 0
        self._substitutes: list[LedgerEntry] = []
        pool = workers.pool
        self._work, self._apply_transform = workers.begin(plan)
        self._tasks: deque[DecodeTask] = deque()
        self._taken = 0
        self._normaliser = options.normaliser
        itemsize = 1 if self._normaliser is None else self._normaliser.array_dtype.itemsize
        batch_bytes = options.batch_size * mean_clip_bytes(plan) * itemsize
        # No bound method of this iterator, which would keep it alive: an abandoned iterator must end its work.
        clips_ahead = options.batch_size * options.batches_ahead(batch_bytes)
        grouping = Grouping.of(options, clips_ahead)
        self._num_takes = sum(len(form.takes) for form in plan.clips.forms.values())
        self._ahead = self._work.ahead
        at_once = max(1, _FOUND_AT_ONCE // options.batch_size)
        tasks = _generate_tasks(plan, self._batches, workers, meter, grouping, self._tasks, self._ahead, at_once)
        self._outcomes: OrderedOutcomes[DecodeTask, WorkCost] = ordered_outcomes(
            self._work,
            tasks,
            pool=pool,
            max_in_flight=clips_ahead * self._num_takes,
            max_bytes=MAX_PREFETCH_BYTES,
            size_of=attrgetter("nbytes"),
            cost_of=attrgetter("cost"),
            weight_of=attrgetter("num_clips"),
            step_of=attrgetter("slot"),
            deadline_seconds=options.deadline_seconds,
        )
        meter.restart(self._outcomes.gauge)

    def __length_hint__(self) -> int:
        """Number of batches that remain."""
        return len(self._batches) - self._next

    def __next__(self) -> ClipBatch:
        if self._why_ended is not None:
            raise self._ended_error()
        self.has_begun = True
        self._meter.begin_wait()
        if self._next >= len(self._batches):
            if not self._is_exhausted:  # the caller may ask again
                self._is_exhausted = True
                self._outcomes.close()
                self._ahead.close()
                self._cursor.plan = self._whole.with_epoch(self._plan.epoch + 1)
                self._cursor.clips, self._cursor.delivered, self._cursor.end = 0, 0, None
                self._workers.flush()
            raise StopIteration
        batch = self._collect_batch().finish(self._apply_transform)
        self._next += 1
        failed = list(filter(None, batch.errors))
        # It says nothing about the clip: to skip it would change the training data.
        raised = next(filter(is_always_raised, failed), None)
        if raised is None and (self._options.on_error != "raise" or not failed):
            too_many = self._record_failures(batch) if failed or self._substitutes else None
            if too_many is None:
                return self._deliver(batch, failed)
            failed = [too_many]
            del too_many
        error = raised or suggest_skipping(failed[0])
        # The traceback reaches this frame, which must not keep the batch, and in it the error, alive.
        del batch, failed, raised
        try:
            raise error
        finally:
            del error

    def _record_failures(self, batch: ClipBatch) -> LoadError | None:
        """Put skipped clips into the ledger; return the error that ends the iteration if too many failed."""
        epoch = self._plan.epoch
        for slot, (error, position) in enumerate(zip(batch.errors, batch.positions.tolist(), strict=True)):
            if error is not None:
                source = find_failed_source(batch, slot, error)
                self._ledger.record(LedgerEntry.of(error, source, position, epoch))
        for entry in self._substitutes:
            self._ledger.record(entry)
        too_many = make_max_failed_error(self._ledger, self._options.max_failed, epoch, len(self._plan))
        if too_many is not None:
            self._why_ended = "more clips failed than max_failed allows"
        return too_many

    def end(self, why: str, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration and wait, for a bounded time, for its running calls; not after a deadline passed."""
        self._why_ended = self._why_ended or why
        self._tasks.clear()
        self._ahead.close()
        if self._hangs or self._workers.are_parents:
            self._outcomes.cancel()
        else:
            self._outcomes.close(wait_seconds)

    def _collect_batch(self) -> PendingBatch:
        costs: list[WorkCost] = []
        batch: PendingBatch | None = None
        try:
            left = len(self._batches[self._next]) * self._num_takes
            while left:
                for task, outcome in self._take_outcomes(left):
                    batch = task.batch
                    left -= task.num_clips
                    if isinstance(outcome, Ok):
                        costs.append(outcome.value)
                    else:
                        task.fail(outcome.error)
            if batch is not None and self._options.on_error == "substitute":
                self._substitutes = self._substitute_failed(batch, costs)
        except BaseException:
            self._why_ended = self._why_ended or "an error ended it: call iter(loader) again, or load a state"
            raise
        finally:
            self._meter.end_wait(costs)
        assert batch is not None
        return batch

    def _substitute_failed(self, batch: PendingBatch, costs: list[WorkCost]) -> list[LedgerEntry]:
        """Load other clips of the epoch into the slots that failed; return an entry for each that could be loaded."""
        errors = {clip: batch.find_error(clip) for clip in range(batch.count)}
        failed = {clip: error for clip, error in errors.items() if error is not None}
        if any(map(is_always_raised, failed.values())):
            return []
        own = {}
        for clip in failed:
            slot = next(slot for slot in batch.list_slots([clip]) if batch.errors[slot] is not None)
            own[clip] = batch.identify(slot)[0], batch.get_source(slot)
        for number in range(MAX_SUBSTITUTES):
            chosen = {
                clip: self._plan.order.choose_substitute(own[clip][0], number)
                for clip in failed
                if batch.find_error(clip)
            }
            clips = [clip for clip, position in chosen.items() if batch.substitute(clip, position)]
            self._do_at_once(
                [DecodeTask(batch, batch.list_slots([clip]), decoder=self._options.decoder_name) for clip in clips],
                costs,
            )
            # A further substitute would depend on when memory runs out.
            if any(is_always_raised(batch.find_error(clip)) for clip in clips):
                return []
        entries = []
        for clip, error in failed.items():
            position, source = own[clip]
            if batch.find_error(clip) is None:
                entries.append(LedgerEntry.of(error, source, position, self._plan.epoch, batch.positions[clip]))
            else:
                batch.restore(clip, error)
        return entries

    def _do_at_once(self, tasks: list[DecodeTask], costs: list[WorkCost]) -> None:
        """Do tasks that the batch being delivered waits for."""
        if not tasks:
            return
        # A process has a deadline of its own.
        deadline = None if self._workers.are_processes else self._options.deadline_seconds
        with ordered_outcomes(
            self._work, tasks, pool=run_next(self._workers.pool), max_in_flight=len(tasks), deadline_seconds=deadline
        ) as outcomes:
            for task in tasks:
                try:
                    outcome = next(outcomes)
                except DeadlineExceeded as error:
                    raise self._name_late(task, error) from error
                if isinstance(outcome, Ok):
                    costs.append(outcome.value)
                else:
                    task.fail(outcome.error)
        self._meter.count_others(outcomes.gauge)

    def _take_outcomes(self, clips: int) -> list[tuple[DecodeTask, Ok[WorkCost] | Err]]:
        try:
            outcomes = self._outcomes.take(clips)
        except DeadlineExceeded as error:
            assert error.position is not None
            waiting = list(self._tasks)[error.position - self._taken :]
            raise self._name_late(waiting[0] if waiting else None, error) from error
        except StopIteration:
            raise self._ended_error() from None
        self._taken += len(outcomes)
        try:
            pairs = [(self._tasks.popleft(), outcome) for outcome in outcomes]
        except IndexError:  # another thread closed the loader just now
            raise self._ended_error() from None
        if self._workers.count:
            self._outcomes.fill()
        return pairs

    def _name_late(self, task: DecodeTask | None, error: DeadlineExceeded) -> DeadlineExceeded:
        """Abandon the workers, one of which hangs; name the clip, because the error counts items."""
        self._workers.abandon()
        self._hangs = True
        if task is None:
            return error
        position, name = task.batch.identify(task.slot)
        return DeadlineExceeded(
            f"{name}: the clip at position {position} was not ready within deadline_seconds (stage: {task.stage}): "
            f"{error}",
            position=position,
            source=name,
            stage=task.stage,
        )

    def _ended_error(self) -> UsageError:
        return UsageError(f"this iterator has ended: {self._why_ended}")

    def _deliver(self, batch: ClipBatch, failed: list[FramefeedError]) -> ClipBatch:
        for error in failed:
            drop_tracebacks(error)
        self._cursor.clips = self._batches[self._next - 1].stop
        self._cursor.delivered = self._earlier_batches + self._next
        self._meter.count_batch(len(batch), len(failed))
        if self._normaliser is not None:
            batch.data = map_streams(self._normaliser.deliver, batch.data)
        return batch


def _generate_tasks(
    plan: EpochPlan,
    batches: BatchRanges | StepRanges,
    workers: Workers,
    meter: Meter,
    grouping: Grouping,
    in_flight: deque[DecodeTask],
    ahead: ReadAhead,
    at_once: int,
) -> Iterator[DecodeTask]:
    """Yield the tasks of each batch, and append each to ``in_flight`` before."""
    costs, whole = workers.find_costs(plan), plan.whole
    for found in _find_batches(plan, batches, at_once):
        batch = begin_batch(whole, found, workers.buffers)
        # If the consumer waits anyway, its thread plans; otherwise the workers do. A process plans for itself.
        if meter.is_idle and not workers.are_processes:
            batch.plan_takes()
        for task in split_batch(batch, workers.decoder_name, grouping, keep_clips=workers.keep_clips):
            if costs is not None:
                row = batch.rows[task.slot]
                if meter.is_idle and not costs.is_known(row):
                    costs.learn(row, batch.plan_take(task.slot))
                task.cost = costs.predict(task)
            in_flight.append(task)
            ahead.add(task)
            yield task


def _find_batches(plan: EpochPlan, batches: BatchRanges | StepRanges, at_once: int) -> Iterator[PlannedClips]:
    """Find the clips of each batch, of ``at_once`` batches together."""
    # NumPy takes as long for one as Python does, and more from cold caches.
    whole = plan.whole
    for first in range(0, len(batches), at_once):
        ranges = [batches[number] for number in range(first, min(first + at_once, len(batches)))]
        start = ranges[0].start
        found = whole.clips_at(plan.global_position(np.arange(start, ranges[-1].stop, dtype=np.int64)))
        for own in ranges:
            yield found[own.start - start : own.stop - start]
