"""ClipLoader: joins a plan, a decoder and threads; iterates, saves and restores."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Literal

from framefeed._checks import expected
from framefeed.cache.frame_cache import FrameCache
from framefeed.decode.decoder import Decoder
from framefeed.errors import UsageError
from framefeed.load.checkpoint import Cursor, cursor_of, num_batches, state_at
from framefeed.load.drafts import Memory
from framefeed.load.iteration import BatchIterator, Session
from framefeed.load.options import LoaderOptions, OnError, Transform
from framefeed.load.stats import LoadStats, Meter
from framefeed.load.workers import Workers
from framefeed.parallel.closing import ClosedByWith
from framefeed.plan.epoch import EpochPlan


class ClipLoader(ClosedByWith):
    """Batches of the clips of a plan, decoded ahead in threads, delivered in the plan's order whatever their number.

    Each ``iter()`` starts at a restored place once, else at the beginning of ``epoch``, and ends the one before it.
    ``epoch`` rises when an iteration is exhausted, not when it is broken off.

    When a clip fails, ``on_error="raise"`` raises its error in the place of its batch. ``next()`` on the same iterator
    goes on with the batch behind it; a state saved before that leads back to the failed batch. With "skip" the batch
    comes with zeros in that place, ok False, pts NaN, valid False, and the error in ``errors``. A clip that is not
    ready within ``deadline_seconds`` is `DeadlineExceeded` with either, and ends the iteration: what hangs in native
    code cannot be stopped.

    Example: ``for batch in ClipLoader(plan, batch_size=16): train(batch.data, batch.columns["label"])``

    Args:
        plan: From ``plan_clips`` or ``plan_requests``.
        batch_size: B.
        drop_last: Leave out the last batch where it is smaller.
        workers: Threads that decode; 0 decodes in the thread that iterates, "auto" takes the thread budget.
        kind: "threads".
        prefetch: Batches that are made ahead of the one waited for; fewer where they would weigh over 2 GiB.
        backend: Name of a decoder, or a Decoder.
        cache: An `FrameCache`: clips that it has are read from it, the others decoded and stored. What is stored is
            sealed at the end of an epoch and by ``close``.
        transform: Called with (clip [T, C, H, W], rng) in a worker; what it returns is stacked to a batch. ``rng`` is
            the same for a seed, epoch and global position in every worker and on every machine.
        on_error: "raise" or "skip".
        deadline_seconds: Longest wait for one clip, or None; with workers=0 it bounds nothing, for the work is done in
            the caller's own thread, which nothing can interrupt.

    Raises:
        UsageError: The arguments do not fit together.
    """

    def __init__(
        self,
        plan: EpochPlan,
        *,
        batch_size: int,
        drop_last: bool = False,
        workers: int | Literal["auto"] = "auto",
        kind: Literal["threads", "processes"] = "threads",
        prefetch: int = 2,
        backend: str | Decoder = "auto",
        cache: FrameCache | None = None,
        transform: Transform | None = None,
        on_error: OnError = "raise",
        deadline_seconds: float | None = 60,
    ) -> None:
        options = LoaderOptions(
            batch_size, drop_last, workers, kind, prefetch, backend, cache, transform, on_error, deadline_seconds
        )
        if not isinstance(plan, EpochPlan):
            raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
        options.decoder_for(plan)
        self._plan = plan
        self._options = options
        self._workers = Workers(options.num_workers)
        clips = max(options.batch_size, self._workers.count + 1)
        # Besides the batches that are made ahead: the one that is delivered, and the one that the caller still holds.
        self._memory = Memory(options.prefetch + 2, None if transform is None else clips)
        self._meter = Meter(self._workers.count)
        self._cursor = Cursor(plan.epoch)
        self._iterator: weakref.ref[BatchIterator] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"ClipLoader({len(self)} batches of {self._options.batch_size}, epoch={self.epoch}, "
            f"workers={self._workers.count}, {self._plan!r})"
        )

    @property
    def plan(self) -> EpochPlan:
        """The plan, at the loader's epoch."""
        return self._plan.with_epoch(self.epoch)

    @property
    def batch_size(self) -> int:
        """B."""
        return self._options.batch_size

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated, or that the next iteration is of."""
        return self._cursor.epoch

    def __len__(self) -> int:
        """Batches of an epoch."""
        return num_batches(self._plan, self._options)

    def __iter__(self) -> BatchIterator:
        """Begin a pass; the one before it ends."""
        if self._is_closed:
            raise UsageError("this ClipLoader is closed: make another one")
        self._end_iteration("another iteration of this loader was begun")
        start = self._cursor.delivered if self._cursor.is_restored else 0
        self._cursor = Cursor(self._cursor.epoch, start)
        session = Session(
            self._plan.with_epoch(self._cursor.epoch),
            self._options,
            self._workers,
            self._memory,
            self._meter,
            self._cursor,
        )
        iterator = BatchIterator(session)
        self._iterator = weakref.ref(iterator)
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """The place behind the last delivered batch, as JSON under 1 KB; what was only prefetched does not count."""
        return state_at(self._cursor, self._plan, self._options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iteration begin at a saved place, whatever the number of workers was and is.

        Another batch size or number of ranks is fine where the place does not fall within a batch.

        Raises:
            UsageError: The state is of another plan, or of no loader.
        """
        cursor = cursor_of(state, self._plan, self._options)
        self._end_iteration("the loader was restored to another place")
        self._cursor = cursor

    def stats(self) -> LoadStats:
        """What was done since the loader was made, and what limits it."""
        cache = self._options.cache
        return self._meter.snapshot(None if cache is None else cache.stats())

    def close(self) -> None:
        """End the iteration and the threads, waiting for clips that are being decoded; batches stay valid."""
        self._is_closed = True
        self._end_iteration("the loader was closed")
        self._workers.close()
        if self._options.cache is not None:
            self._options.cache.flush()

    def _end_iteration(self, why: str) -> None:
        iterator = None if self._iterator is None else self._iterator()
        if iterator is not None:
            iterator.end(why)
