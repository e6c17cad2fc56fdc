"""Iterate over the batches of an epoch: prepared ahead by threads, delivered in order, resumed from a JSON state."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from framefeed._checks import check_integer, describe_value
from framefeed.errors import DeadlineExceeded, FramefeedError, LoadError, ResourceExhausted, UsageError
from framefeed.load._batch import ClipBatch
from framefeed.load._ledger import Ledger, LedgerEntry, make_max_failed_error
from framefeed.load._options import MAX_PREFETCH_BYTES, LoaderOptions
from framefeed.load._pending import PendingBatch, drop_tracebacks
from framefeed.load._stats import Meter, WorkCost
from framefeed.load._work import DecodeTask, split_by_source
from framefeed.load._workers import Workers
from framefeed.media import source_name
from framefeed.parallel import (
    Err,
    Ok,
    OrderedOutcomes,
    ordered_outcomes,
)
from framefeed.plan import EpochPlan

STATE_VERSION = 1


@dataclass(slots=True)
class BatchCursor:
    """The next batch of a loader.

    Attributes:
        epoch: Number of the epoch.
        delivered: Batches of the epoch that were delivered, or replaced by an error; the number of the next batch.
        is_restored: Whether the next iteration begins at this batch, not at the beginning of the epoch.
    """

    epoch: int
    delivered: int = 0
    is_restored: bool = False


def count_batches(plan: EpochPlan, options: LoaderOptions) -> int:
    """Count the batches of an epoch."""
    whole, rest = divmod(len(plan), options.batch_size)
    return whole + (1 if rest and not options.drop_last else 0)


def dump_cursor(cursor: BatchCursor, plan: EpochPlan, options: LoaderOptions) -> dict[str, Any]:
    """Make the state of a loader, for JSON; it can be loaded with another batch size or number of ranks."""
    return {
        "version": STATE_VERSION,
        "plan": plan.with_epoch(cursor.epoch).state_dict(),
        "batch_size": options.batch_size,
        "delivered": cursor.delivered,
    }


def load_cursor(state: Mapping[str, Any], plan: EpochPlan, options: LoaderOptions) -> BatchCursor:
    """Read the state of a loader.

    Raises:
        UsageError: It is no state, it belongs to another plan, or it lies within a batch of this loader.
    """
    if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
        raise UsageError(
            f"state: expected what loader.state_dict() returned (version {STATE_VERSION}), got {describe_value(state)}"
        )
    planned = state.get("plan")
    if not isinstance(planned, Mapping):
        raise UsageError("state: expected what loader.state_dict() returned, got a dict without 'plan'")
    batch_size = check_integer("state['batch_size']", state.get("batch_size"), least=1)
    delivered = check_integer("state['delivered']", state.get("delivered"), least=0)
    restored = plan.with_state(planned)
    world_size = check_integer("state['world_size']", planned.get("world_size"), least=1)
    if (batch_size, world_size) != (options.batch_size, plan.world_size):
        delivered = _convert_delivered(delivered, batch_size, world_size, plan, options)
    return BatchCursor(restored.epoch, min(delivered, count_batches(plan, options)), is_restored=True)


def _convert_delivered(
    delivered: int, batch_size: int, world_size: int, plan: EpochPlan, options: LoaderOptions
) -> int:
    """Convert a number of batches of the state's size and ranks to batches of this loader.

    All ranks together have then delivered the same global positions.
    """
    clips, step = delivered * batch_size * world_size, options.batch_size * plan.world_size
    if clips >= len(plan) * plan.world_size:
        return count_batches(plan, options)
    unit = plan.options.clips_per_video if plan.options.shuffle == "videos" else 1
    regrouped = world_size != plan.world_size and (clips // world_size % unit or clips // plan.world_size % unit)
    if clips % step or regrouped:
        before = f"{delivered} batch{'' if delivered == 1 else 'es'} of {batch_size}"
        now, same = f"batch_size={options.batch_size}", ""
        if (world_size, plan.world_size) != (1, 1):
            before += f" on {'1 rank' if world_size == 1 else f'each of {world_size} ranks'}"
            now += f" and world_size={plan.world_size}"
            same = f" and world_size={world_size}"
        raise UsageError(
            f"state: {clips} clips were delivered ({before}); with {now} no batch begins there: resume with "
            f"batch_size={batch_size}{same}"
        )
    return clips // step


class BatchIterator(Iterator[ClipBatch]):
    """Batches in order. The error of a clip is raised in place of its batch; the next call returns the next batch.

    Args:
        plan: At the epoch of the iteration.
        options: Options of the loader.
        workers: Threads and buffers of the loader.
        meter: Statistics of the loader.
        cursor: First batch; moved when batches are delivered.
        ledger: List of the clips that were skipped.
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
        self._plan, self._options, self._workers = plan, options, workers
        self._meter, self._cursor, self._ledger = meter, cursor, ledger
        self._next = cursor.delivered
        self._total = count_batches(plan, options)
        self._is_exhausted = False
        self._why_ended: str | None = None
        self._hangs = False
        pool = workers.pool
        work, self._apply_transform = workers.begin(plan)
        self._tasks: deque[DecodeTask | None] = deque()
        batch_bytes = options.batch_size * (plan.frames_per_clip or 1) * _mean_picture_bytes(plan)
        # No bound method of this iterator, which would keep it alive: an abandoned iterator must end its work.
        tasks = _generate_tasks(plan, options, workers, meter, cursor.delivered, self._tasks)
        self._outcomes: OrderedOutcomes[DecodeTask | None, WorkCost] = ordered_outcomes(
            work,
            tasks,
            pool=pool,
            max_in_flight=options.batch_size * options.batches_ahead(batch_bytes),
            max_bytes=MAX_PREFETCH_BYTES,
            size_of=attrgetter("nbytes"),
            cost_of=_get_cost,
            deadline_seconds=options.deadline_seconds,
        )
        meter.restart()

    def __next__(self) -> ClipBatch:
        if self._why_ended is not None:
            raise self._ended_error()
        self._meter.begin_wait()
        if self._next >= self._total:
            if not self._is_exhausted:  # the caller may ask again
                self._is_exhausted = True
                self._cursor.epoch += 1
                self._cursor.delivered = 0
                self._workers.flush()
            raise StopIteration
        batch = self._collect_batch().finish(self._apply_transform)
        self._next += 1
        # A shortage says nothing about the clip: to skip it would change the training data.
        failed: list[FramefeedError] = [error for error in batch.errors if error is not None]
        shortage = next((error for error in failed if isinstance(error, ResourceExhausted)), None)
        if shortage is None and (self._options.on_error == "skip" or not failed):
            too_many = self._record_failures(batch) if failed else None
            if too_many is None:
                return self._deliver(batch)
            failed = [too_many]
            del too_many
        error = shortage or failed[0]
        # The traceback reaches this frame, which must not keep the batch, and in it the error, alive.
        del batch, failed, shortage
        try:
            raise error
        finally:
            del error

    def _record_failures(self, batch: ClipBatch) -> LoadError | None:
        """Put skipped clips into the ledger; return the error that ends the iteration if too many failed."""
        epoch = self._plan.epoch
        for error, source, position in zip(batch.errors, batch.sources, batch.positions.tolist(), strict=True):
            if error is not None:
                self._ledger.record(LedgerEntry.of(error, source_name(source), position, epoch))
        too_many = make_max_failed_error(self._ledger, self._options.max_failed, epoch, len(self._plan))
        if too_many is not None:
            self._why_ended = "more clips failed than max_failed allows"
        return too_many

    def end(self, why: str) -> None:
        """End the iteration and wait, for a bounded time, for its running calls; not after a deadline passed."""
        self._why_ended = self._why_ended or why
        self._tasks.clear()
        if self._hangs or self._workers.are_parents:
            self._outcomes.cancel()
        else:
            self._outcomes.close()

    def _collect_batch(self) -> PendingBatch:
        first, last = self._next * self._options.batch_size, len(self._plan)
        costs: list[WorkCost] = []
        batch: PendingBatch | None = None
        try:
            for _ in range(first, min(first + self._options.batch_size, last)):
                task, outcome = self._next_outcome()
                if task is None:
                    continue
                batch = task.batch
                if isinstance(outcome, Ok):
                    costs.append(outcome.value)
                else:
                    task.fail(outcome.error)
        except BaseException:
            self._why_ended = self._why_ended or "an error ended it: call iter(loader) again, or load a state"
            raise
        finally:
            self._meter.end_wait(costs)
        assert batch is not None
        return batch

    def _next_outcome(self) -> tuple[DecodeTask | None, Ok[WorkCost] | Err]:
        try:
            outcome = next(self._outcomes)
        except DeadlineExceeded as error:
            self._workers.discard()
            self._hangs = True
            task = next((task for task in self._tasks if task is not None), None)
            if task is None:
                raise error from error
            # `error` counts items; the user counts clips and positions.
            position, name = task.batch.identify(task.slots[0])
            raise DeadlineExceeded(
                f"{name}: the clip at position {position} was not ready within deadline_seconds (stage: {task.stage}): "
                f"{error}",
                position=position,
                source=name,
                stage=task.stage,
            ) from error
        except StopIteration:
            raise self._ended_error() from None
        try:
            return self._tasks.popleft(), outcome
        except IndexError:  # another thread closed the loader just now
            raise self._ended_error() from None

    def _ended_error(self) -> UsageError:
        return UsageError(f"this iterator has ended: {self._why_ended}")

    def _deliver(self, batch: ClipBatch) -> ClipBatch:
        for failed in batch.errors:
            if failed is not None:
                drop_tracebacks(failed)
        self._cursor.delivered = self._next
        self._meter.count_batch(len(batch), len(batch) - int(batch.ok.sum()))
        return batch


_SAMPLED_PICTURES = 100


def _mean_picture_bytes(plan: EpochPlan) -> int:
    """Compute the bytes of a picture; of unequal pictures, the mean of a sample."""
    if not len(plan):
        return 0
    if not plan.options.unequal:
        return math.prod(plan.picture_shape)
    rows = plan.catalog.usable_rows[:: -(-len(plan.catalog.usable_rows) // _SAMPLED_PICTURES)]
    sizes = zip(plan.catalog.heights[rows].tolist(), plan.catalog.widths[rows].tolist(), strict=True)
    shapes = [plan.options.pictures.shape(*size) for size in sizes]
    return sum(map(math.prod, shapes)) // len(shapes)


def _generate_tasks(
    plan: EpochPlan,
    options: LoaderOptions,
    workers: Workers,
    meter: Meter,
    first_batch: int,
    in_flight: deque[DecodeTask | None],
) -> Iterator[DecodeTask | None]:
    """Yield the tasks of each batch, then None up to the number of its clips: so a bound on items bounds batches.

    Args:
        plan: At the epoch of the iteration.
        options: Options of the loader.
        workers: Threads or processes of the loader.
        meter: Statistics of the loader.
        first_batch: Number of the first batch.
        in_flight: Queue that each item is appended to before it is yielded.
    """
    size, costs = options.batch_size, workers.find_costs(plan)
    for number in range(first_batch, count_batches(plan, options)):
        positions = range(number * size, min((number + 1) * size, len(plan)))
        batch = PendingBatch.begin(plan, positions, workers.buffers)
        # If the consumer waits anyway, its thread plans; otherwise the workers do. A process plans for itself.
        if meter.is_idle and not workers.are_processes:
            batch.make_requests()
        tasks = split_by_source(batch)
        for task in chain(tasks, repeat(None, len(positions) - len(tasks))):
            if task is not None and costs is not None:
                if meter.is_idle and not costs.is_known(task.row):
                    costs.learn(task.row, batch.make_request(task.slots[0]))
                task.cost = costs.predict(task)
            in_flight.append(task)
            yield task


def _get_cost(task: DecodeTask | None) -> float:
    return 0.0 if task is None else task.cost
