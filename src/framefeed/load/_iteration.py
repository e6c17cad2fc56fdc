"""BatchIterator: one pass over the batches of an epoch, worked on ahead, delivered in order.

Workers: the threads of one loader, which live as long as it does and keep their open decoders between epochs.

The state of a loader: which batch of which epoch comes next, as plain JSON.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from framefeed._checks import shown
from framefeed.errors import DeadlineExceeded, FramefeedError, LoadError, ResourceExhausted, UsageError
from framefeed.load._batch import ClipBatch
from framefeed.load._drafts import Draft, Memory, common_clip_length, drop_tracebacks
from framefeed.load._ledger import Ledger, LedgerEntry, too_many_failed
from framefeed.load._options import MAX_PREFETCH_BYTES, LoaderOptions
from framefeed.load._stats import Meter, WorkCost
from framefeed.load._work import ClipWorker, Unit, units_of
from framefeed.media import source_name
from framefeed.parallel import Err, Ok, OrderedOutcomes, Pool, open_pool, ordered_outcomes
from framefeed.plan import EpochPlan

STATE_VERSION = 1


@dataclass(slots=True)
class Cursor:
    """A place in the sequence of batches.

    Attributes:
        epoch: Number of the epoch.
        delivered: Batches of it that were delivered, or passed over because of an error; the next one's number.
        is_restored: Whether the next iteration begins here rather than at the beginning of the epoch.
    """

    epoch: int
    delivered: int = 0
    is_restored: bool = False


def num_batches(plan: EpochPlan, options: LoaderOptions) -> int:
    """Batches of an epoch."""
    whole, rest = divmod(len(plan), options.batch_size)
    return whole + (1 if rest and not options.drop_last else 0)


def state_at(cursor: Cursor, plan: EpochPlan, options: LoaderOptions) -> dict[str, Any]:
    """Write down a place, with what is needed to find it again with another batch size or number of ranks."""
    return {
        "version": STATE_VERSION,
        "plan": plan.with_epoch(cursor.epoch).state_dict(),
        "batch_size": options.batch_size,
        "delivered": cursor.delivered,
    }


def cursor_of(state: Mapping[str, Any], plan: EpochPlan, options: LoaderOptions) -> Cursor:
    """Find the place of a state that this loader, or one like it, wrote.

    Raises:
        UsageError: It is no such state, it belongs to another plan, or it lies within a batch of this loader.
    """
    if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
        raise UsageError(
            f"state: expected what loader.state_dict() returned (version {STATE_VERSION}), got {shown(state)}"
        )
    planned = state.get("plan")
    if not isinstance(planned, Mapping):
        raise UsageError("state: expected what loader.state_dict() returned, got a dict without 'plan'")
    batch_size, delivered = _number(state, "batch_size", 1), _number(state, "delivered", 0)
    restored = plan.with_state(planned)
    world_size = _number(planned, "world_size", 1)
    if (batch_size, world_size) != (options.batch_size, plan.world_size):
        delivered = _converted(delivered, (batch_size, world_size), plan, options)
    return Cursor(restored.epoch, min(delivered, num_batches(plan, options)), is_restored=True)


def _number(state: Mapping[str, Any], name: str, least: int) -> int:
    number = state.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UsageError(f"state[{name!r}]: expected an integer of at least {least}, got {shown(number)}")
    return number


def _converted(delivered: int, shape: tuple[int, int], plan: EpochPlan, options: LoaderOptions) -> int:
    """Count the batches of all ranks in batches of this loader: both cover the same global positions."""
    batch_size, world_size = shape
    clips, step = delivered * batch_size * world_size, options.batch_size * plan.world_size
    if clips >= len(plan) * plan.world_size:
        return num_batches(plan, options)
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


class Workers:
    """Makes a pool when it is first needed, and again in a forked process, where threads do not go along.

    Args:
        count: Threads; 0 works in the thread that asks for batches.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: Pool | None = None
        self._process = 0

    @property
    def pool(self) -> Pool:
        """The pool."""
        if self._pool is None or self.are_elsewhere:
            self._pool, self._process = open_pool(self.count), os.getpid()
        return self._pool

    @property
    def are_elsewhere(self) -> bool:
        """Whether the threads are in the process that this one was forked from; so may be the locks they held."""
        return self._process != os.getpid()

    def discard(self) -> None:
        """Leave a pool behind whose threads may hang, without waiting; the next pass has another."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.abandon()

    def close(self) -> None:
        """Wait, for a bounded time, until no thread is left."""
        pool, self._pool = self._pool, None
        if pool is not None and not self.are_elsewhere:
            pool.close()


_PICTURES = 100
"""Whose sizes are averaged."""


@dataclass(frozen=True, slots=True)
class Session:
    """What one pass works with.

    Attributes:
        plan: At the epoch of the pass.
        options: Of the loader.
        workers: Threads.
        memory: Buffers.
        meter: Takes the time.
        cursor: Moved as batches are delivered.
        ledger: Takes the clips that are skipped.
    """

    plan: EpochPlan
    options: LoaderOptions
    workers: Workers
    memory: Memory
    meter: Meter
    cursor: Cursor
    ledger: Ledger


class BatchIterator(Iterator[ClipBatch]):
    """Batches in order. The error of a clip is raised in place of its batch; the next call returns the next batch."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._next = session.cursor.delivered
        self._total = num_batches(session.plan, session.options)
        self._is_exhausted = False
        self._why_ended: str | None = None
        self._hangs = False
        self._worker = ClipWorker(session.plan, session.options.decoder_for(session.plan), session.options.transform)
        self._units: deque[Unit | None] = deque()
        self._outcomes = _started(session, self._worker, self._units)
        session.meter.begin()

    def __next__(self) -> ClipBatch:
        if self._why_ended is not None:
            raise self._ended()
        self._session.meter.came_back()
        if self._next >= self._total:
            self._exhaust()
            raise StopIteration
        batch = self._collected().finish(self._worker.transformed)
        self._next += 1
        # That something ran out says nothing about the clip: skipping it would change what is learnt from.
        failed: list[FramefeedError] = [error for error in batch.errors if error is not None]
        shortage = next((error for error in failed if isinstance(error, ResourceExhausted)), None)
        if shortage is None and (self._session.options.on_error == "skip" or not failed):
            too_many = self._recorded(batch) if failed else None
            if too_many is None:
                return self._delivered(batch)
            failed = [too_many]
            del too_many
        error = shortage or failed[0]
        # The traceback reaches this frame, which must not keep the batch, and in it the error, alive.
        del batch, failed, shortage
        try:
            raise error
        finally:
            del error

    def _recorded(self, batch: ClipBatch) -> LoadError | None:
        """Put skipped clips into the ledger; give the error that ends the pass where too many failed."""
        session, epoch = self._session, self._session.plan.epoch
        for error, source, position in zip(batch.errors, batch.sources, batch.positions.tolist(), strict=True):
            if error is not None:
                session.ledger.record(LedgerEntry.of(error, source_name(source), position, epoch))
        too_many = too_many_failed(session.ledger, session.options.max_failed, epoch, len(session.plan))
        if too_many is not None:
            self._why_ended = "more clips failed than max_failed allows"
        return too_many

    def end(self, why: str) -> None:
        """End the pass and wait, for a bounded time, until no call of it is running; for none behind a deadline."""
        self._why_ended = self._why_ended or why
        self._units.clear()
        if self._hangs or self._session.workers.are_elsewhere:
            self._outcomes.cancel()
        else:
            self._outcomes.close()

    def _collected(self) -> Draft:
        first, last = self._next * self._session.options.batch_size, len(self._session.plan)
        costs: list[WorkCost] = []
        draft: Draft | None = None
        try:
            for _ in range(first, min(first + self._session.options.batch_size, last)):
                unit, outcome = self._outcome()
                if unit is None:
                    continue
                draft = unit.draft
                if isinstance(outcome, Ok):
                    costs.append(outcome.value)
                else:
                    unit.fail(outcome.error)
        except BaseException:
            self._why_ended = self._why_ended or "an error ended it: call iter(loader) again, or load a state"
            raise
        finally:
            self._session.meter.waited(costs)
        assert draft is not None
        return draft

    def _outcome(self) -> tuple[Unit | None, Ok[WorkCost] | Err]:
        try:
            outcome = next(self._outcomes)
        except DeadlineExceeded as error:
            self._session.workers.discard()
            self._hangs = True
            unit = next((unit for unit in self._units if unit is not None), None)
            raise error if unit is None else _too_late(error, unit) from error
        except StopIteration:
            raise self._ended() from None
        try:
            return self._units.popleft(), outcome
        except IndexError:  # another thread closed the loader just now
            raise self._ended() from None

    def _ended(self) -> UsageError:
        return UsageError(f"this iterator has ended: {self._why_ended}")

    def _delivered(self, batch: ClipBatch) -> ClipBatch:
        for failed in batch.errors:
            if failed is not None:
                drop_tracebacks(failed)
        self._session.cursor.delivered = self._next
        self._session.meter.delivered(len(batch), len(batch) - int(batch.ok.sum()))
        return batch

    def _exhaust(self) -> None:
        # Once, however often the caller asks again.
        if not self._is_exhausted:
            self._is_exhausted = True
            self._session.cursor.epoch += 1
            self._session.cursor.delivered = 0
            if self._session.options.cache is not None:
                self._session.options.cache.flush()


def _started(session: Session, worker: ClipWorker, units: deque[Unit | None]) -> OrderedOutcomes[Unit | None, WorkCost]:
    options, plan = session.options, session.plan
    batch_bytes = options.batch_size * (common_clip_length(plan) or 1) * _picture_bytes(plan)
    return ordered_outcomes(
        worker,
        _handed_out(session, units),
        pool=session.workers.pool,
        max_in_flight=options.batch_size * options.batches_ahead(batch_bytes),
        max_bytes=MAX_PREFETCH_BYTES,
        size_of=attrgetter("nbytes"),
        deadline_seconds=options.deadline_seconds,
    )


def _picture_bytes(plan: EpochPlan) -> int:
    """Bytes of a picture; of unequal ones the mean of some."""
    if not len(plan):
        return 0
    if not plan.options.unequal:
        return math.prod(plan.picture_shape)
    rows = plan.catalog.usable_rows[:: -(-len(plan.catalog.usable_rows) // _PICTURES)]
    sizes = zip(plan.catalog.heights[rows].tolist(), plan.catalog.widths[rows].tolist(), strict=True)
    shapes = [plan.options.pictures.shape(*size) for size in sizes]
    return sum(map(math.prod, shapes)) // len(shapes)


def _handed_out(session: Session, units: deque[Unit | None]) -> Iterator[Unit | None]:
    """Yield as many items as a batch has clips, however few units it has: so a bound on items bounds batches."""
    size, total = session.options.batch_size, len(session.plan)
    for number in range(session.cursor.delivered, num_batches(session.plan, session.options)):
        positions = range(number * size, min((number + 1) * size, total))
        draft = Draft(session.plan, positions, session.memory)
        if session.meter.is_idle:
            # Where the consumer waits anyway, this thread has the time; the workers would make what is not made here.
            draft.requests()
        found: list[Unit | None] = [*units_of(draft)]
        for unit in chain(found, repeat(None, len(positions) - len(found))):
            units.append(unit)
            yield unit


def _too_late(error: DeadlineExceeded, unit: Unit) -> DeadlineExceeded:
    """Say in the plan's words what ``parallel`` says in numbers of items."""
    position, name = unit.draft.name_of(unit.places[0])
    return DeadlineExceeded(
        f"{name}: the clip at position {position} was not ready within deadline_seconds (stage: {unit.stage}): {error}",
        position=position,
        source=name,
        stage=unit.stage,
    )
