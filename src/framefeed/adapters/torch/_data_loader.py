"""Replace torch's DataLoader: the same batches, by threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from multiprocessing.context import BaseContext
from typing import Any, Literal, TypeVar, cast, get_args

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset, Sampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from framefeed._checks import check_choice, check_integer
from framefeed._live_set import LiveSet
from framefeed.adapters.torch._pool_iterator import CountingIterator, InlineIterator, PoolIterator, ProcessIterator
from framefeed.adapters.torch._randomness import GLOBAL, Randomness
from framefeed.adapters.torch._resuming import Epochs, Progress, SavedState, TrackedSampler, find_epochs, is_stateful
from framefeed.adapters.torch._thread_context import ThreadContext
from framefeed.errors import UsageError
from framefeed.parallel import ClosedByWith, Pool

T_co = TypeVar("T_co", covariant=True)
Kind = Literal["auto", "threads", "processes"]
_MOST_WRAPPERS = 32
"""Data sets within each other, of which the innermost one is asked whether it is safe."""


def is_thread_safe(dataset: Any) -> bool:
    """Whether no data set, nor one that it wraps, says ``thread_safe = False``."""
    waiting, seen = [(dataset, 0)], set()
    while waiting:
        each, depth = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if getattr(each, "thread_safe", True) is False:
            return False
        # Subset and wrappers of users; ConcatDataset and StackDataset, which may have a dict of them.
        inner = getattr(each, "datasets", None)
        inner = list(inner.values()) if isinstance(inner, dict) else inner
        inner = [*(inner if isinstance(inner, (list, tuple)) else []), getattr(each, "dataset", None)]
        # Also those that are not torch's Dataset. An object may have a new one for every name.
        waiting += [
            (item, depth + 1) for item in inner if depth < _MOST_WRAPPERS and hasattr(type(item), "__getitem__")
        ]
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
        prefetch_factor: Batches that each worker loads ahead; together fewer if they are larger than 2 GiB. By default
            2, and up to 24 together as long as they are not larger than 128 MiB.
        persistent_workers: As in torch; threads stay in any case.
        pin_memory_device: As in torch.
        in_order: As in torch.
        snapshot_every_n_steps: Batches from one saved state of a sampler with ``state_dict`` to the next: the sampler
            of a loader that is resumed draws and skips the batches in between.
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
        snapshot_every_n_steps: int | None = 1,
        kind: Kind = "auto",
    ) -> None:
        check_choice("kind", kind, get_args(Kind))
        self.kind = kind
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self._has_prefetch_factor = prefetch_factor is not None
        self._progress: Progress | None = None
        self._has_begun = False
        self._saved: SavedState | None = None
        self._pool: Pool | None = None
        self._running = LiveSet[CountingIterator]()
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
        every = 1 if snapshot_every_n_steps is None else snapshot_every_n_steps
        every = check_integer("snapshot_every_n_steps", every, least=1)
        self._tracked = TrackedSampler(super()._index_sampler, every)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None, "_progress": None, "_pool": None, "_has_begun": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _running=LiveSet[CountingIterator]())

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The context that was given; for threads one that runs them, also in a copy that Accelerate makes."""
        if self.num_workers and self._choose_kind() == "threads":
            return ThreadContext(self.timeout)
        return self._given_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        # Torch's property checks it and keeps it.
        given = None if isinstance(context, ThreadContext) else context
        TorchDataLoader.multiprocessing_context.fset(self, given)  # type: ignore[attr-defined]

    @property
    def _given_context(self) -> BaseContext | None:
        given: BaseContext | None = TorchDataLoader.multiprocessing_context.fget(self)  # type: ignore[attr-defined]
        return given

    def __iter__(self) -> _BaseDataLoaderIter:
        """Begin an iteration, or continue a saved one; several may run at once."""
        saved, self._saved = self._saved, None
        randomness = self.find_randomness()
        if saved is None:
            return self._begin(randomness, Progress(randomness.dump()), None)
        is_stream = isinstance(self.dataset, IterableDataset)
        before = randomness.dump({*saved.randomness, *saved.drawn} & set(GLOBAL))
        if saved.batches is None:
            self._has_begun = True
            self._tracked.finish(saved.sampler)
        owners = self._epoch_owners
        for name, epoch in find_epochs(owners).items():
            if saved.epochs.get(name, epoch) != epoch:
                owners[name].set_epoch(saved.epochs[name])
        randomness.load(saved.randomness)
        skipped = 0 if is_stream else saved.batches or 0
        begun = saved.randomness if skipped else randomness.dump()
        progress = Progress(begun, {} if is_stream else saved.drawn, skipped, is_resumed=True)
        progress.deliver(0)
        if saved.dataset is not None:
            progress.dataset_state = saved.dataset
            self.dataset.load_state_dict(saved.dataset)  # type: ignore[attr-defined]
        iterator = self._begin(randomness, progress, None if saved.batches is None else saved.sampler)
        # The generators of the process are the training loop's.
        randomness.load(before)
        if is_stream and saved.batches:
            next(islice(iterator, saved.batches, saved.batches), None)
        return iterator

    def _begin(
        self, randomness: Randomness, progress: Progress, sampler_state: Sequence[Any] | None
    ) -> _BaseDataLoaderIter:
        self._progress = progress
        progress.has_workers = self._has_begun and self.persistent_workers
        self._has_begun = True
        progress.epochs = self.find_epochs()
        self._tracked.begin(randomness, progress, sampler_state)
        iterator: CountingIterator
        is_stream = isinstance(self.dataset, IterableDataset)
        by_torch = self._choose_kind() == "processes" or not self.in_order
        if is_stream or (self.num_workers and by_torch):
            # Torch's own iterator has the other order too, with threads.
            iterator = cast(CountingIterator, super().__iter__())
        else:
            iterator = PoolIterator(self, progress)
        self._running.add(iterator)
        return iterator

    def find_epochs(self) -> Epochs:
        """Return the epochs of the samplers and the data set."""
        return find_epochs(self._epoch_owners)

    def follow_epochs(self, drawn: Progress, epochs: Epochs) -> Progress | None:
        """Begin anew if an epoch was set since an iteration without a batch yet was made; return its progress.

        Lightning's Trainer makes the iterator of a resumed run before it sets the epoch. Some samplers count their
        epochs themselves: ``epochs`` are those after the iteration was made.
        """
        if drawn is not self._progress or self.find_epochs() == epochs:
            return None
        randomness = self.find_randomness()
        self._progress = Progress(randomness.dump(), epochs=self.find_epochs())
        self._tracked.begin(randomness, self._progress, None)
        return self._progress

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return InlineIterator(self)
        self.check_worker_number_rationality()
        return ProcessIterator(self)

    @property
    def _epoch_owners(self) -> dict[str, Any]:
        sampler = super()._index_sampler
        return {"sampler": sampler, "inner sampler": getattr(sampler, "sampler", None), "dataset": self.dataset}

    @property
    def _index_sampler(self) -> TrackedSampler:
        return self._tracked

    def find_randomness(self) -> Randomness:
        """Return the generators that an iteration may draw from."""
        sampler = super()._index_sampler
        inner = getattr(sampler, "sampler", None)
        owners = {"loader": self, "sampler": sampler, "inner sampler": inner}
        return Randomness({name: getattr(owner, "generator", None) for name, owner in owners.items()})

    def state_dict(self) -> dict[str, Any]:
        """Return how far the latest iteration has come: batches that were delivered, not those that are prefetched.

        Raises:
            UsageError: The loader cannot be resumed: the order of its batches is not fixed, or the data set that has
                the state is in other processes.
        """
        is_stream = isinstance(self.dataset, IterableDataset)
        if is_stream and is_stateful(self.dataset):
            raise UsageError(
                "an IterableDataset with a state_dict of its own is loaded by worker processes, which keep its state: "
                "use torchdata's StatefulDataLoader for it"
            )
        progress = self._progress
        if self._saved is not None:
            # It was loaded, and nothing was delivered since.
            saved = self._saved
        elif progress is None or progress.is_finished:
            batches, dataset = (0, None) if progress is None else (None, progress.dataset_state)
            saved = SavedState(batches, self.find_randomness().dump_own(), self._tracked.dump(progress), dataset)
        elif self.num_workers and not self.in_order:
            raise UsageError("with in_order=False the delivered batches are not the first ones: use in_order=True")
        else:
            sampler, dataset = self._tracked.dump(progress), progress.dataset_state
            states = progress.begun, sampler, dataset, progress.drawn, progress.epochs
            saved = SavedState(progress.delivered, *states)
        return {**vars(saved), **self._form}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration continue where a state was saved; an empty state lets it begin anew.

        Raises:
            UsageError: The state is not of such a loader.
        """
        self._saved = SavedState.load(state_dict, self._form) if state_dict else None
        self._progress = None

    @property
    def _form(self) -> dict[str, Any]:
        sampler = super()._index_sampler
        is_stream = isinstance(self.dataset, IterableDataset)
        num_batches = len(sampler) if hasattr(sampler, "__len__") and not is_stream else None
        # Drawn again by another sampler, the skipped batches would not be those that were delivered.
        samplers = [type(each).__name__ for each in (self.batch_sampler, self.sampler) if each is not None]
        return {"batch_size": self.batch_size, "num_batches": num_batches, "samplers": samplers}

    def check_worker_number_rationality(self) -> None:
        """Warn as torch if there are more worker processes than processors; threads may be more."""
        if self._choose_kind() == "processes":
            super().check_worker_number_rationality()

    def close(self) -> None:
        """End the iterations that are running, and wait for their calls."""
        for iterator in list(self._running):
            iterator.close()
        self._running.clear()
        # With persistent workers, torch keeps it for the next epoch.
        self._iterator = None
        self._has_begun = False

    def _choose_kind(self) -> Literal["threads", "processes"]:
        reasons = {
            "an IterableDataset": isinstance(self.dataset, IterableDataset),
            "worker_init_fn": self.worker_init_fn is not None,
            "multiprocessing_context": self._given_context is not None,
        }
        reason = next((name for name, holds in reasons.items() if holds), None)
        if self.kind == "threads" and reason is not None:
            raise UsageError(f'kind="threads" does not go with {reason}, which needs processes: leave out one of them')
        if self.kind == "auto":
            return "threads" if reason is None and is_thread_safe(self.dataset) else "processes"
        return self.kind
