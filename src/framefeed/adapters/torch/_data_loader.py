"""Replace torch's DataLoader: the same batches, by threads of this process."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, get_args

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset, Sampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from framefeed._checks import check_choice
from framefeed.adapters.torch._pool_iterator import PoolIterator
from framefeed.adapters.torch._thread_context import ThreadContext
from framefeed.errors import UsageError
from framefeed.parallel import ClosedByWith

T_co = TypeVar("T_co", covariant=True)
Kind = Literal["auto", "threads", "processes"]


def is_thread_safe(dataset: Any) -> bool:
    """Whether no data set, nor one that it wraps, says ``thread_safe = False``."""
    waiting, seen = [dataset], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if getattr(each, "thread_safe", True) is False:
            return False
        # Subset and wrappers of users; ConcatDataset and StackDataset, which may have a dict of them.
        waiting += [each.dataset] if isinstance(getattr(each, "dataset", None), Dataset) else []
        inner = getattr(each, "datasets", None)
        inner = list(inner.values()) if isinstance(inner, dict) else inner
        waiting += [item for item in inner if isinstance(item, Dataset)] if isinstance(inner, (list, tuple)) else []
    return True


class DataLoader(TorchDataLoader[T_co], ClosedByWith):
    """``torch.utils.data.DataLoader`` whose workers are threads of one pool of this process.

    Batches, their order, and the meaning of all arguments are torch's; docs/dataloader.md lists the differences.
    Worker processes of torch are used for an IterableDataset, with ``worker_init_fn`` or ``multiprocessing_context``,
    for ``kind="processes"``, and for a data set with the attribute ``thread_safe = False``.

    Args:
        dataset: A map-style or iterable-style data set.
        batch_size: As in torch, like all arguments that are not listed here.
        shuffle: As in torch.
        sampler: As in torch.
        batch_sampler: As in torch.
        num_workers: Number of batches that are loaded at once; 0 loads in the thread that iterates.
        collate_fn: As in torch; called in a worker.
        pin_memory: As in torch; done by the workers.
        drop_last: As in torch.
        timeout: Longest wait for a batch in seconds; 0 for no limit.
        worker_init_fn: As in torch; makes the workers processes.
        multiprocessing_context: As in torch; makes the workers processes.
        generator: As in torch.
        prefetch_factor: Batches that each worker loads ahead; together fewer if they are larger than 2 GiB.
        persistent_workers: As in torch; threads stay in any case.
        pin_memory_device: As in torch.
        in_order: As in torch.
        kind: "auto", "threads" or "processes".

    Raises:
        ValueError: As torch.
        UsageError: ``kind="threads"`` does not fit the other arguments.
    """

    def __init__(  # noqa: PLR0913 - torch's arguments
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        kind: Kind = "auto",
    ) -> None:
        check_choice("kind", kind, get_args(Kind))
        self.kind = kind
        self._running: weakref.WeakSet[PoolIterator] = weakref.WeakSet()
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        self._choose_kind()

    @property
    def multiprocessing_context(self) -> Any:
        """The context that was given; for threads one that runs them, also in a copy that Accelerate makes."""
        return ThreadContext() if self.num_workers and self._choose_kind() == "threads" else self._given_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        # Torch's property checks it and keeps it.
        given = None if isinstance(context, ThreadContext) else context
        TorchDataLoader.multiprocessing_context.fset(self, given)  # type: ignore[attr-defined]

    @property
    def _given_context(self) -> Any:
        return TorchDataLoader.multiprocessing_context.fget(self)  # type: ignore[attr-defined]

    def __iter__(self) -> _BaseDataLoaderIter:
        """Begin an iteration; several may run at once."""
        # Torch's own iterator has the other order, here with threads.
        if self._choose_kind() == "processes" or (self.num_workers and not self.in_order):
            return super().__iter__()
        iterator = PoolIterator(self)
        self._running.add(iterator)
        return iterator

    def check_worker_number_rationality(self) -> None:
        """Warn as torch if there are more worker processes than processors; threads may be more."""
        if self._choose_kind() == "processes":
            super().check_worker_number_rationality()

    def close(self) -> None:
        """End the iterations that are running, and wait for their calls."""
        for iterator in list(self._running):
            iterator.close()

    def _choose_kind(self) -> Literal["threads", "processes"]:
        reasons = {
            "an IterableDataset": isinstance(self.dataset, IterableDataset),
            "worker_init_fn": self.worker_init_fn is not None,
            "multiprocessing_context": self._given_context is not None,
        }
        reason = next((name for name, holds in reasons.items() if holds), None)
        if self.kind == "threads" and reason is not None:
            raise UsageError(f'kind="threads" does not go with {reason}, which needs processes: leave out one of them')
        if self.kind == "threads":
            return "threads"
        if self.kind == "processes" or reason is not None or not is_thread_safe(self.dataset):
            return "processes"
        return "threads"
