"""Ask for the remote bytes of clips before a worker decodes them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from framefeed._arrays import IntArray
from framefeed._fetched import FetchCounter, counting_fetches
from framefeed._names import is_remote
from framefeed._per_process import PerProcess
from framefeed.decode import BaseDecoder
from framefeed.load._pending import PendingBatch
from framefeed.media import RangesAhead, SentRanges
from framefeed.parallel import Ok, catch_error
from framefeed.plan import Sources, Take


class Task(Protocol):
    """Clips of a batch, by their slots in it."""

    slots: list[int]

    @property
    def batch(self) -> PendingBatch:
        """The batch."""
        ...


class _State:
    """Tasks of this process, by the ids of their objects, which iterations keep; changed under the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = OrderedDict[int, Task]()
        self.fetched = dict[int, list[RangesAhead]]()
        self.nbytes = 0
        self.is_used = False
        """Whether a task was added: of local sources none is, and workers take no lock."""


class ReadAhead:
    """Asks for the bytes of tasks in their order, as many as a budget allows; do not wait for them.

    A task that a worker begins before its bytes were asked for is left to the worker. ``max_bytes`` bounds the bytes
    asked for of tasks that have not ended. A task that is larger is asked for alone.
    """

    def __init__(
        self, sources: Sources, decoder: BaseDecoder, max_bytes: int, counter: FetchCounter | None = None
    ) -> None:
        self._sources = sources
        self._decoder = decoder
        self._max_bytes = max_bytes
        self._counter = counter
        self._state = PerProcess(_State)

    def add(self, task: Task) -> None:
        """Ask for the bytes of a task, now or when there is room."""
        sources = map(task.batch.get_source, task.slots) if self._max_bytes else ()
        if not any(isinstance(source, str) and is_remote(source) for source in sources):
            return
        state = self._state.value
        with state.lock:
            state.is_used = True
            state.waiting[id(task)] = task
            self._ask(state)

    def begin(self, task: Task) -> None:
        """Leave a task to its worker, if its bytes were not asked for."""
        state = self._state.value
        if state.waiting:
            with state.lock:
                state.waiting.pop(id(task), None)

    def send(self, task: Task) -> list[SentRanges]:
        """Wait for the bytes of a task, if they were asked for; return them for another process."""
        state = self._state.value
        if not state.is_used:
            return []
        with state.lock:
            fetched = list(state.fetched.get(id(task), ()))
        with counting_fetches(self._counter):
            return [ahead.send() for ahead in fetched]

    def end(self, task: Task) -> None:
        """Give up the bytes of a task, and ask for those of the next ones."""
        state = self._state.value
        if state.is_used:
            # Under the lock: its bytes may be asked for by another thread just now.
            with state.lock:
                for ahead in state.fetched.pop(id(task), ()):
                    state.nbytes -= ahead.nbytes
                    ahead.drop()
                self._ask(state)

    def close(self) -> None:
        """Give up everything."""
        state = self._state.value
        with state.lock:
            state.waiting.clear()
            for fetched in state.fetched.values():
                for ahead in fetched:
                    ahead.drop()
            state.fetched.clear()
            state.nbytes = 0

    def _ask(self, state: _State) -> None:
        while state.waiting and state.nbytes < self._max_bytes:
            key, task = state.waiting.popitem(last=False)
            # What fails here fails again for the worker, and is its error.
            with counting_fetches(self._counter):
                outcome = catch_error(self._fetch, task)
            if isinstance(outcome, Ok):
                state.fetched[key] = outcome.value
                state.nbytes += sum(ahead.nbytes for ahead in outcome.value)

    def _fetch(self, task: Task) -> list[RangesAhead]:
        takes = task.batch.plan_takes()
        by_row: dict[int, list[Take]] = {}
        for slot in task.slots:
            take = takes[slot]
            if take is not None:
                by_row.setdefault(task.batch.rows[slot], []).append(take)
        fetched = [self._fetch_source(row, of_row) for row, of_row in by_row.items()]
        return [ahead for ahead in fetched if ahead is not None]

    def _fetch_source(self, row: int, takes: Sequence[Take]) -> RangesAhead | None:
        source, index = self._sources.open(row)
        ordinals: IntArray = np.concatenate([take.indices for take in takes])
        ranges = self._decoder.list_ranges(index, ordinals, takes[0].output)
        return source.fetch_ahead(index.identity, ranges) if ranges else None
