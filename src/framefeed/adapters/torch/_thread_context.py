"""A context of multiprocessing whose worker "processes" load batches in the threads of a shared pool.

Accelerate rebuilds a loader as torch's own class, and passes ``multiprocessing_context`` on. Torch's iterator then does
what it does with processes: it puts indices into the queue of a worker, and takes batches from the queue of results.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from functools import partial
from inspect import signature
from multiprocessing.context import BaseContext
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import _utils, default_collate

from framefeed.adapters.torch._collating import RecyclingCollate, make_fetch
from framefeed.adapters.torch._pools import POOLS, BatchTimeout
from framefeed.errors import LoadError, UsageError
from framefeed.parallel import Ok, Pool, catch_outcome

_IDLE_BATCHES = 8


class RaisedInThread(ExceptionWrapper):
    """An exception of a worker, which torch's iterator raises: here the exception itself, not a copy of it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def reraise(self) -> None:
        """Raise the exception; StopIteration, which would end the epoch, as a LoadError."""
        if isinstance(self._error, StopIteration):
            raise LoadError("the data set raised StopIteration") from self._error
        raise self._error


class _Flag:
    """Event that nothing waits for, and so without a lock."""

    _is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


class _Results(queue.Queue[Any]):
    """Queue with the methods of multiprocessing's, and the loader's timeout."""

    pool: Pool

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        try:
            return super().get(block, timeout)
        except queue.Empty as error:
            # Not `==`: torch also asks at intervals of its own, which may be as long.
            if not self._timeout or timeout is not self._timeout:
                raise
            # A thread of the pool may never come back.
            POOLS.value.forget(self.pool)
            raise BatchTimeout(f"DataLoader timed out after {self._timeout} seconds") from error

    def cancel_join_thread(self) -> None:
        pass

    def close(self) -> None:
        pass


class _ThreadWorker:
    """Takes the place of a process that runs torch's worker loop; ``collate`` replaces torch's default function."""

    daemon = True

    def __init__(self, arguments: dict[str, Any], collate: Callable[[Any], Any]) -> None:
        self._indices, self._results = arguments["index_queue"], arguments["data_queue"]
        self._done = arguments["done_event"]
        # From torch 2.14 on, a list of which the loop takes the data set, so that the caller's frame does not hold it.
        dataset = arguments["dataset_holder"].pop() if "dataset_holder" in arguments else arguments["dataset"]
        given = collate if arguments["collate_fn"] is default_collate else arguments["collate_fn"]
        self._fetch = make_fetch(dataset, arguments["auto_collation"], given)
        self._pool = self._results.pool = POOLS.value.find(arguments["num_workers"])
        self._is_running = False

    @property
    def pid(self) -> int:
        # No child of this process: torch, which watches its workers by number, sees none that died.
        return os.getpid()

    def start(self) -> None:
        self._is_running = True
        self._indices.worker = self

    def is_alive(self) -> bool:
        return self._is_running

    def join(self, timeout: float | None = None) -> None:
        self._is_running = False

    def terminate(self) -> None:
        self._is_running = False

    def take(self, message: Any) -> None:
        """Do what torch's loop does with a message: None ends it, indices are loaded, all others are answered."""
        if message is None:
            self._is_running = False
        elif isinstance(message, tuple):
            self._pool.submit(partial(_load, message, self._fetch, self._results, self._done))
        else:
            self._results.put((message, None))


def _load(message: tuple[int, Any], fetch: Callable[[Any], Any], results: queue.Queue[Any], done: _Flag) -> None:
    if done.is_set():
        return
    number, index = message
    outcome = catch_outcome(fetch, index)
    results.put((number, outcome.value if isinstance(outcome, Ok) else RaisedInThread(outcome.error)))


class _Indices(_Results):
    """Queue of one worker, which takes each message at once."""

    worker: _ThreadWorker

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if hasattr(self, "worker"):
            self.worker.take(item)
        else:
            super().put(item, block, timeout)


class ThreadContext(BaseContext):
    """Context for ``torch.utils.data.DataLoader(multiprocessing_context=...)`` over a map-style data set."""

    _name = "framefeed-threads"

    def __init__(self, timeout: float = 0) -> None:
        self._timeout = timeout
        self._collate = RecyclingCollate(_IDLE_BATCHES)

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadContext, (self._timeout,)

    def Queue(self, maxsize: int = 0) -> Any:  # noqa: N802 - multiprocessing's names
        return _Indices(self._timeout)

    def Event(self) -> Any:  # noqa: N802
        return _Flag()

    def Process(self, target: Callable[..., Any], args: tuple[Any, ...]) -> _ThreadWorker:  # noqa: N802
        is_loop = target is _utils.worker._worker_loop
        arguments = signature(target).bind(*args).arguments if is_loop else {"dataset_kind": None}
        if arguments["dataset_kind"] != 0 or arguments["init_fn"] is not None:
            raise UsageError(
                "this context has threads for a map-style data set in torch's DataLoader: use another "
                "multiprocessing_context for an IterableDataset, or with worker_init_fn; for torchdata's loader, which "
                'Accelerate makes with use_stateful_dataloader=True, give ff.torch.DataLoader kind="processes"'
            )
        return _ThreadWorker(arguments, self._collate)
