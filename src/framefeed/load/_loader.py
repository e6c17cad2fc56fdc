"""Load the clips of a plan with threads: iterate, save, restore."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Literal

from framefeed._checks import expected
from framefeed.cache import FrameCache
from framefeed.decode import Decoder
from framefeed.errors import UsageError
from framefeed.load._iteration import BatchCursor, BatchIterator, count_batches, dump_cursor, load_cursor
from framefeed.load._ledger import Ledger
from framefeed.load._options import LoaderOptions, OnError, Transform, refuse_torch_names
from framefeed.load._stats import LoadStats, Meter
from framefeed.load._workers import Workers
from framefeed.media import Limits
from framefeed.parallel import ClosedByWith
from framefeed.plan import EpochPlan


class ClipLoader(ClosedByWith):
    """Iterates over batches of a plan's clips. Threads decode ahead, and keep the order of the plan.

    Each ``iter()`` ends the iteration before it, and starts at the beginning of ``epoch``, or once at a position from
    ``load_state_dict``. ``epoch`` increases when an iteration reaches its end, not when you leave it early.

    When a clip fails, ``on_error="raise"`` raises its error in place of its batch. ``next()`` on the same iterator
    continues with the next batch; a state that was saved before the error resumes at the failed batch. With "skip", the
    clip is zeros in its batch, with ok False, pts_seconds NaN, valid False, and its error in ``errors``. A clip that is
    not ready within ``deadline_seconds`` raises `DeadlineExceeded` with either option, and ends the iteration, because
    native code that hangs cannot be stopped.

    Example: ``for batch in ClipLoader(plan, batch_size=16): train(batch.data, batch.columns["label"])``

    Args:
        plan: From ``plan_clips`` or ``plan_requests``.
        batch_size: Number of clips in a batch, B.
        drop_last: Leave out the last batch if it is smaller than B.
        workers: Number of threads or processes that decode; 0 decodes in the thread that iterates, "auto" is the thread
            budget.
        kind: "threads", or "processes" for a transform that holds the interpreter lock.
        prefetch: Number of batches that are prepared ahead; fewer if they would take more than 2 GiB.
        backend: Name of a decoder, or a Decoder.
        limits: Limits on what a file may claim, such as the size of its pictures; None means ``Limits()``.
        cache: A `FrameCache`: clips in it are read from it, other clips are decoded and stored. Other processes find
            stored frames at the end of an epoch, and after ``close``.
        transform: Called with (clip [T, C, H, W], rng) in a worker; the results are stacked to a batch. ``rng`` depends
            on seed, epoch and global position only: it is the same in every worker and on every machine.
        on_error: "raise" or "skip".
        max_failed: With "skip", number (int) or share (float) of an epoch's clips that may fail. If more fail, a
            LoadError ends the iteration.
        deadline_seconds: Longest wait for one clip, or None. With workers=0 it has no effect, because the caller's own
            thread decodes and cannot be interrupted.

    Raises:
        UsageError: An argument is wrong, or the arguments do not fit together.
    """

    @refuse_torch_names
    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        plan: EpochPlan,
        *,
        batch_size: int,
        drop_last: bool = False,
        workers: int | Literal["auto"] = "auto",
        kind: Literal["threads", "processes"] = "threads",
        prefetch: int = 2,
        backend: str | Decoder = "auto",
        limits: Limits | None = None,
        cache: FrameCache | None = None,
        transform: Transform | None = None,
        on_error: OnError = "raise",
        max_failed: int | float | None = None,
        deadline_seconds: float | None = 60,
    ) -> None:
        options = LoaderOptions(
            batch_size, drop_last, workers, kind, prefetch, backend, cache, transform, on_error, deadline_seconds,
            limits, max_failed,
        )  # fmt: skip
        if not isinstance(plan, EpochPlan):
            raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
        options.decoder_for(plan)
        self._plan = plan
        self._options = options
        self._workers = Workers(options)
        self._meter = Meter(self._workers.count)
        self._cursor = BatchCursor(plan.epoch)
        self._ledger = Ledger()
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
        """Number of clips in a batch."""
        return self._options.batch_size

    @property
    def epoch(self) -> int:
        """Number of the epoch that is being iterated, or that the next iteration will use."""
        return self._cursor.epoch

    @property
    def ledger(self) -> Ledger:
        """The clips that were skipped since the loader was made; ``print(loader.ledger)`` lists their files."""
        return self._ledger

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return count_batches(self._plan, self._options)

    def __iter__(self) -> BatchIterator:
        """Begin an iteration, and end the one before it."""
        if self._is_closed:
            raise UsageError("this ClipLoader is closed: make a new one")
        self._end_iteration("a later iter(loader) replaced it: use one iterator at a time")
        start = self._cursor.delivered if self._cursor.is_restored else 0
        self._cursor = BatchCursor(self._cursor.epoch, start)
        iterator = BatchIterator(
            self._plan.with_epoch(self._cursor.epoch),
            self._options,
            self._workers,
            self._meter,
            self._cursor,
            self._ledger,
        )
        self._iterator = weakref.ref(iterator)
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last delivered batch, as JSON under 1 KiB; prefetched batches do not count."""
        return dump_cursor(self._cursor, self._plan, self._options)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start the next iteration at a saved position; the number of workers may differ.

        Another batch size or number of ranks works if the position is not inside a batch.

        Raises:
            UsageError: The state is from another plan, or not from a loader.
        """
        cursor = load_cursor(state, self._plan, self._options)
        self._end_iteration("load_state_dict was called: call iter(loader) again")
        self._cursor = cursor

    def stats(self) -> LoadStats:
        """Return counts and times since the loader was made, and the slowest part."""
        return self._meter.snapshot(self._workers.cache_stats())

    def close(self) -> None:
        """End the iteration and the threads, after the clips that are being decoded; batches stay valid."""
        self._is_closed = True
        self._end_iteration("the loader was closed: make a new one")
        self._workers.close()
        if self._options.cache is not None:
            self._options.cache.flush()

    def _end_iteration(self, why: str) -> None:
        iterator = None if self._iterator is None else self._iterator()
        if iterator is not None:
            iterator.end(why)
