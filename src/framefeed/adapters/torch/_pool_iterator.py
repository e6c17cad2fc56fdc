"""The iterators of a data loader, which count the batches that they deliver: by threads of a pool, or torch's own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, islice
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import _utils, default_collate
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from framefeed.adapters.torch._collating import RecyclingCollate, make_fetch
from framefeed.adapters.torch._pools import POOLS, BatchTimeout
from framefeed.adapters.torch._resuming import Progress, is_stateful
from framefeed.errors import DeadlineExceeded, FramefeedError, LoadError, UsageError
from framefeed.parallel import Ok, Pool, ordered_outcomes

MOST_BYTES = 2 << 30
"""Bytes of batches that are ready and not yet taken, above which only the next batch is worked on."""

_NOTE = (
    "framefeed's DataLoader loads items in threads: if they share a handle that only one thread may use, set "
    "thread_safe = False in the data set, or kind='processes'"
)
LIGHT_BATCHES = 24
"""Batches ahead without ``prefetch_factor``: one that takes 20 times as long delays no other worker."""
LIGHT_BYTES = 128 << 20
"""Bytes of them that are ready, above which only the next batch is worked on."""
_DENSE = (torch.strided, torch.jagged)


class Fetcher:
    """Loads, collates and pins one batch, for the accelerator ``pinned_on``; called by several threads at once."""

    def __init__(self, loader: TorchDataLoader[Any], collate: Callable[[Any], Any], pinned_on: str | None) -> None:
        self._fetch = make_fetch(loader.dataset, loader._auto_collation, collate)
        self._stateful: Any = loader.dataset if is_stateful(loader.dataset) else None
        self._pinned_on = pinned_on
        self._device = torch.accelerator.current_device_index() if pinned_on is not None else 0

    def __call__(self, index: Any) -> tuple[Any, Any]:
        """Load the batch of these indices, and save the state of the data set if it has one."""
        try:
            batch = self._fetch(index)
        except Exception as error:
            if not isinstance(error, FramefeedError) and _NOTE not in getattr(error, "__notes__", ()):
                error.add_note(_NOTE)
            raise
        state = self._stateful.state_dict() if self._stateful is not None else None
        if self._pinned_on is not None:
            # Of each thread its own; memory that is pinned for another device would start that device.
            torch.accelerator.set_device_index(self._device)
            pin: Any = _utils.pin_memory.pin_memory
            batch = pin(batch, self._pinned_on)
        return batch, state


def measure_bytes(batch: Any) -> int | None:
    """Sum the bytes of tensors, arrays and texts, also in lists and dicts; None if there are other objects."""
    if isinstance(batch, torch.Tensor):
        # A subclass may refuse the question; `nbytes` of a sparse tensor is an error, or that of a dense one.
        with torch._C.DisableTorchFunctionSubclass():
            return int(batch.nbytes) if batch.layout in _DENSE else None
    if isinstance(batch, np.ndarray):
        return int(batch.nbytes)
    if isinstance(batch, (str, bytes)):
        return len(batch)
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        sizes = [measure_bytes(value) for value in batch]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None
    return 0 if batch is None or isinstance(batch, (Number, np.generic)) else None


def weigh_batch(workers: int | None, loaded: tuple[Any, Any]) -> int:
    """Weigh a batch, in bytes; ``workers`` is None with ``prefetch_factor``.

    Without that, `LIGHT_BYTES` of small batches weigh `MOST_BYTES`. Of large batches, and of objects whose bytes are
    not known, as many as there are workers may be ready, unless they are larger than `MOST_BYTES`: one batch weighs no
    more than its share of that.
    """
    nbytes = measure_bytes(loaded[0])
    if workers is None:
        return nbytes or 0
    share = LIGHT_BYTES // workers
    return max(nbytes or 0, min(share if nbytes is None else nbytes, share) * (MOST_BYTES // LIGHT_BYTES))


class CountingIterator(_BaseDataLoaderIter):
    """Iterator of torch that notes in the progress of its loader how far it has come."""

    _progress: Progress
    _is_closed = False

    def __next__(self) -> object:
        if self._is_closed:
            # The epoch is not finished.
            raise StopIteration
        try:
            batch = super().__next__()
        except StopIteration:
            self._progress.is_finished = True
            raise
        self._progress.deliver(self._consumed)
        return batch

    @property
    def _consumed(self) -> int:
        """Number of batches that were delivered or failed."""
        return self._num_yielded

    def close(self) -> None:
        self._is_closed = True


class InlineIterator(CountingIterator, _SingleProcessDataLoaderIter):
    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._progress = loader._progress


class ProcessIterator(CountingIterator, _MultiProcessingDataLoaderIter):
    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        # At the beginning of each epoch.
        self._progress = loader._progress
        if first_iter and self._progress.has_workers:
            loader.find_randomness().load(self._progress.unseeded)
        super()._reset(loader, first_iter)

    @property
    def _consumed(self) -> int:
        is_map = self._dataset_kind == _DatasetKind.Map
        return int(self._rcvd_idx if is_map and self._in_order else self._num_yielded)

    def close(self) -> None:
        super().close()
        self._shutdown_workers()


class PoolIterator(CountingIterator):
    """Iterator over the batches of a loader.

    It draws from the generators in the order in which torch does: a loader with workers begins its sampler twice, and
    draws indices when it starts, and after each batch. With persistent workers, the second and later iterations begin
    it once, and draw no seed for the workers.
    """

    def __init__(self, loader: Any, progress: Progress) -> None:
        super().__init__(loader)
        if progress.has_workers:
            loader.find_randomness().load(progress.unseeded)
        # Until the first batch.
        self._loader = loader
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self._progress, loader = progress, self._loader
        workers = operator.index(loader.num_workers)
        # Torch refuses both too.
        if loader.timeout and not workers:
            raise UsageError("timeout is for workers, and num_workers is 0: use timeout=0, or a larger num_workers")
        if workers and loader.prefetch_factor == 0:
            raise UsageError("prefetch_factor must be greater than 0: use 1 to load one batch ahead for each worker")
        ahead = max(1, workers * (loader.prefetch_factor or 1))
        if workers and not loader._has_prefetch_factor:
            ahead = max(ahead, LIGHT_BATCHES)
        if workers and not progress.has_workers:
            self._sampler_iter = iter(self._index_sampler)
        elif progress.is_resumed:
            # The sampler draws now, while the generators are as they were.
            self._sampler_iter = chain(list(islice(self._sampler_iter, 1)), self._sampler_iter)
        # The loader keeps the threads, and what they have in a `threading.local`, from epoch to epoch.
        self._pool: Pool = POOLS.value.find(workers)
        loader._pool = self._pool
        self._batch = 0
        self._is_late = False
        collate = self._collate_fn
        if collate is default_collate:
            collate = RecyclingCollate(ahead + 2)
        self._outcomes = ordered_outcomes(
            Fetcher(loader, collate, (self._pin_memory_device or "cuda") if self._pin_memory else None),
            self._sampler_iter,
            pool=self._pool,
            max_in_flight=ahead,
            max_bytes=MOST_BYTES,
            size_of=partial(weigh_batch, None if loader._has_prefetch_factor else max(1, workers)),
            deadline_seconds=loader.timeout or None,
        )
        if workers and self._pool.workers:
            self._outcomes.fill()
        self._epochs = loader.find_epochs()

    @property
    def _consumed(self) -> int:
        return self._batch

    def _next_data(self) -> Any:
        if self._loader is not None:
            changed = self._loader.follow_epochs(self._progress, self._epochs)
            if changed is not None:
                self._outcomes.close()
                self._sampler_iter = iter(self._index_sampler)
                self._start(changed)
            self._loader = None
        late = f"DataLoader timed out after {self._timeout} seconds: batch {self._batch}"
        if self._is_late:
            raise BatchTimeout(late)
        try:
            outcome = next(self._outcomes)
        except DeadlineExceeded as error:
            self._is_late = True
            # A thread of the pool may never come back.
            POOLS.value.forget(self._pool)
            raise BatchTimeout(late) from error
        except KeyboardInterrupt:
            self._is_closed = True
            raise
        self._batch += 1
        if self._pool.workers:
            self._outcomes.fill()
        if isinstance(outcome, Ok):
            batch, self._progress.dataset_state = outcome.value
            return batch
        try:
            if isinstance(outcome.error, StopIteration):
                # As it is, it would end the epoch without a word.
                raise LoadError(f"the data set raised StopIteration in batch {self._batch - 1}") from outcome.error
            raise outcome.error
        finally:
            # The traceback refers to this frame, which must not refer to the error.
            del outcome

    def close(self) -> None:
        """End the iteration, and wait until the calls that are running are over."""
        super().close()
        self._outcomes.close()
