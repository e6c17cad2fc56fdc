"""Load the clips of a plan with threads: iterate, save, restore."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from framefeed._checks import check_integer
from framefeed._values import Limits
from framefeed.decode import Decoder
from framefeed.errors import UsageError
from framefeed.load._iteration import BatchIterator
from framefeed.load._ledger import Ledger
from framefeed.load._options import (
    LoaderOptions,
    OnError,
    Transform,
    explain_useless_cache,
    find_batch_size,
    refuse_torch_names,
)
from framefeed.load._spec import BatchSpec, describe_batches
from framefeed.load._state import BatchCursor, dump_cursor, load_cursor
from framefeed.load._stats import LoadStats, Meter
from framefeed.load._workers import Workers
from framefeed.parallel import CLOSE_SECONDS, SOON_SECONDS, ClosedByWith
from framefeed.plan import EpochPlan

if TYPE_CHECKING:
    from framefeed.cache import FrameCache


class ClipLoader(ClosedByWith):
    """Iterates over batches of a plan's clips. Threads or processes decode ahead, and keep the order of the plan.

    Each ``iter()`` ends the iteration before it, and starts at the beginning of ``epoch``, or once at a position from
    ``load_state_dict``. ``epoch`` increases when an iteration reaches its end, not when you leave it early.

    When a clip fails, ``on_error="raise"`` raises its error in place of its batch. ``next()`` on the same iterator
    continues with the next batch; a state that was saved before the error resumes at the failed batch. With "skip", the
    clip is zeros in its batch, with ok False, pts_seconds NaN, valid False, and its error in ``errors``. With
    "substitute", another clip of the epoch is in its place; if several of these fail too, it is zeros. With threads, a
    clip that is not ready within ``deadline_seconds`` raises `DeadlineExceeded` with any option, and ends the
    iteration, because native code that hangs cannot be stopped. With processes it is that clip's error: its process is
    killed. A clip whose process dies is tried once more; after the second death, `WorkerLost` is its error.

    Example: ``for batch in ClipLoader(plan, batch_size=16): train(batch.data, batch.columns["label"])``

    Args:
        plan: From ``plan_clips`` or ``plan_requests``.
        batch_size: Number of clips in a batch, B; left out for a plan of ``plan_buckets``, which has it.
        drop_last: Leave out the last batch if it is smaller than B.
        workers: Number of threads or processes that decode; 0 decodes in the thread that iterates, "auto" is the thread
            budget.
        kind: "threads", or "processes" for a transform that holds the interpreter lock, or a decoder that may crash.
            ``transform`` and ``backend`` are then sent to each process, so a module must define them.
        prefetch: Number of batches that are prepared ahead; fewer if they would take more than 2 GiB.
        backend: Name of a decoder, or a Decoder.
        limits: Limits on what a file may claim, such as the size of its pictures; None means ``Limits()``.
        cache: A `FrameCache`: clips in it are read from it, other clips are decoded and stored. Other processes find
            stored frames at the end of an epoch, and after ``close``.
        transform: Called with (clip [T, C, H, W], rng) in a worker; the results are stacked to a batch. ``rng`` depends
            on seed, epoch and global position only: it is the same in every worker and on every machine.
        dtype: "float32", "float16" or "bfloat16": pixels become (x / 255 - mean) / std of this dtype on their way into
            the batch. Batches of bfloat16 are tensors of PyTorch. A transform comes before it, and must return uint8
            [T, C, H, W]. None leaves pixels, or results of the transform, as they are.
        mean: A number, or one for each channel, of x / 255; with ``std``, and float32 if no ``dtype`` is given.
        std: The same. Without mean and std, pixels become x / 255.
        read_ahead: Bytes of remote sources that are asked for before a worker needs them, such as "64MB", of all
            workers together; 0 asks for none. With processes, this process asks, and sends them with the clip.
        on_error: "raise", "skip" or "substitute".
        max_failed: With "skip" or "substitute", number (int) or share (float) of an epoch's clips that may fail. If
            more fail, a LoadError ends the iteration.
        deadline_seconds: Longest wait for one clip, or None; with processes, longest time for the clips of one source
            in a batch. With workers=0 it has no effect, because the caller's own
            thread decodes and cannot be interrupted.

    Raises:
        UsageError: An argument is wrong, or the arguments do not fit together.
    """

    @refuse_torch_names
    def __init__(  # noqa: PLR0913 - public: what its users ask for
        self,
        plan: EpochPlan,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        workers: int | Literal["auto"] = "auto",
        kind: Literal["threads", "processes"] = "threads",
        prefetch: int = 2,
        backend: str | Decoder = "auto",
        limits: Limits | None = None,
        cache: FrameCache | None = None,
        transform: Transform | None = None,
        dtype: Any = None,
        mean: Sequence[float] | float | None = None,
        std: Sequence[float] | float | None = None,
        read_ahead: str | int = "64MB",
        on_error: OnError = "raise",
        max_failed: int | float | None = None,
        deadline_seconds: float | None = 60,
    ) -> None:
        clips = find_batch_size(plan, batch_size, drop_last=drop_last)
        options = LoaderOptions(
            clips, drop_last, workers, kind, prefetch, backend, cache, transform, on_error, deadline_seconds,
            limits, max_failed, dtype, mean, std, read_ahead,
        )  # fmt: skip
        options.decoder_for(plan)
        if (remark := explain_useless_cache(plan, cache)) is not None:
            warnings.warn(remark, UserWarning, stacklevel=3)
        self._plan = plan
        self._options = options
        self._workers = Workers(options)
        self._meter = Meter(self._workers.count)
        self._cursor = BatchCursor(plan)
        self._ledger = Ledger()
        self._iterator: weakref.ref[BatchIterator] | None = None
        self._is_closed = False
        self._last_set_epoch = 0, -1

    def __repr__(self) -> str:
        return (
            f"ClipLoader({len(self)} batches of {self._options.batch_size}, epoch={self.epoch}, "
            f"workers={self._workers.count}, {self._plan!r})"
        )

    @property
    def plan(self) -> EpochPlan:
        """The plan at the loader's epoch, or of the rest of an epoch that began with other ranks."""
        return self._cursor.plan

    @property
    def batch_size(self) -> int:
        """Number of clips in a batch; of a plan of buckets, the largest."""
        return self._options.batch_size

    @property
    def epoch(self) -> int:
        """Number of the epoch that is being iterated, or that the next iteration will use."""
        return self._cursor.plan.epoch

    @property
    def sampler(self) -> Self:
        """What trainers call ``set_epoch`` on, as on the sampler of torch's DataLoader: the loader itself."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; of an iterator that was not asked for a batch yet, too.

        The position is the beginning of that epoch; in the epoch that ``epoch`` is already, it stays where it is. An
        iteration that was left early, also after its last batch, does not increase ``epoch`` itself: trainers that
        count batches call this.
        """
        number = check_integer("epoch", epoch, least=0)
        self._last_set_epoch = self._last_set_epoch[0] + 1, number
        if number == self.epoch:
            return
        self._cursor = BatchCursor(self._plan.with_epoch(epoch))
        iterator = None if self._iterator is None else self._iterator()
        if iterator is not None and not iterator.has_begun:
            iterator.start(self._cursor)

    @property
    def last_set_epoch(self) -> tuple[int, int]:
        """How often `set_epoch` was called, and the number of the last call, for those who read ahead; -1 if never."""
        return self._last_set_epoch

    @property
    def ledger(self) -> Ledger:
        """The clips that were skipped since the loader was made; ``print(loader.ledger)`` lists their files."""
        return self._ledger

    def __len__(self) -> int:
        """Number of batches in the epoch: those before the position, and those that remain."""
        return self._cursor.delivered + len(self._cursor.list_batches(self._options))

    def describe_batches(self, *, unequal: bool = False) -> BatchSpec:
        """Describe the batches of the next iteration, for frameworks that ask for shapes before the first batch.

        With a transform, the first clip is decoded and transformed for that. With ``unequal``, the clips of the plan
        may differ in size, and lengths that differ are None.

        Raises:
            UsageError: The loader is closed, its clips differ in size, or a column is named as another array of a
                batch.
            FramefeedError: What is wrong with the first clips, if their transformed results are needed.
        """
        self._check_open()
        cursor = self._cursor.restart(self._plan)
        return describe_batches(cursor, self._options, is_restored=self._cursor.is_restored, unequal=unequal)

    def __iter__(self) -> BatchIterator:
        """Begin an iteration, and end the one before it."""
        self._check_open()
        self._end_iteration("a later iter(loader) replaced it: use one iterator at a time")
        self._cursor = self._cursor.restart(self._plan)
        iterator = BatchIterator(self._plan, self._options, self._workers, self._meter, self._cursor, self._ledger)
        self._iterator = weakref.ref(iterator)
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last delivered batch, as JSON under 1 KiB; prefetched batches do not count."""
        return dump_cursor(self._cursor, self._options)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Start the next iteration at a saved position, with any number of workers and ranks, and any batch size.

        The clips that remain are those that no rank has delivered. See the reference for what pads count as.

        Args:
            state: The state of one rank, if all ranks are at the same step, or a list of the states of all ranks.

        Raises:
            UsageError: The state is from another plan, or not from a loader, or the list lacks a rank.
        """
        cursor = load_cursor(state, self._plan, self._options)
        self._end_iteration("load_state_dict was called: call iter(loader) again")
        self._cursor = cursor

    def stats(self) -> LoadStats:
        """Return counts and times since the loader was made, and the slowest part."""
        workers = self._workers
        return self._meter.snapshot(workers.process_counts(), workers.fetches.read(), workers.cache_stats())

    def close(self) -> None:
        """End the iteration and the threads, after the clips that are being decoded; batches stay valid."""
        self._is_closed = True
        self._end_iteration("the loader was closed: make a new one")
        self._workers.close()
        if self._options.cache is not None:
            self._options.cache.flush()

    def _close_soon(self) -> None:
        self._is_closed = True
        self._workers.abandon()
        self._end_iteration("the loader was closed: make a new one", SOON_SECONDS)
        if self._options.cache is not None:
            self._options.cache.flush()

    def iterate_run(self, first: int, last: int) -> BatchIterator:
        """Iterate over a part of the epoch of the plan that the loader was given, and end the iteration before it.

        Args:
            first: Position of its first clip, a multiple of the batch size.
            last: Position behind its last clip.
        """
        cursor = BatchCursor(self._plan, first, first // self.batch_size, is_restored=True, end=last)
        self._check_open()
        self._end_iteration("a later iteration replaced it: use one iterator at a time")
        self._cursor = cursor
        return iter(self)

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("this ClipLoader is closed: make a new one")

    def _end_iteration(self, why: str, wait_seconds: float = CLOSE_SECONDS) -> None:
        iterator = None if self._iterator is None else self._iterator()
        if iterator is not None:
            iterator.end(why, wait_seconds)
