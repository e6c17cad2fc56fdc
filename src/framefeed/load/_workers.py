"""The threads or processes of a loader, what they do, and the memory that they write to."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from framefeed._fetched import FetchCounter
from framefeed.decode import adapt_decoder
from framefeed.load._ahead import ReadAhead
from framefeed.load._batch import BufferPools
from framefeed.load._options import LoaderOptions
from framefeed.load._pending import ApplyTransform
from framefeed.load._remote import ClipProcess, FlushRequest, ProcessCalls, ProcessClips
from framefeed.load._work import ClipCosts, ClipWorker
from framefeed.parallel import (
    Pool,
    ProcessCounts,
    ProcessPool,
    RemoteCalls,
    SharedMemory,
    call_each,
    check_sendable,
    open_pool,
)
from framefeed.plan import EpochPlan

if TYPE_CHECKING:
    from framefeed.cache import CacheStats


class Workers:
    """The threads or processes of a loader, which keep their open decoders between epochs, and its buffers.

    They are started when first needed, and again in a forked process, which has no threads of its parent.

    With a ``count`` of 0 the thread that asks for batches does the work. ``keep_clips`` says that a worker needs all
    streams of a clip: to transform them, or to plan them in a process.
    """

    def __init__(self, options: LoaderOptions) -> None:
        self.count = options.num_workers
        self.are_processes = bool(self.count) and options.kind == "processes"
        if self.are_processes:
            # The user's objects, which are sent to the processes.
            check_sendable("transform", options.transform)
            check_sendable("backend", options.backend)
        self.keep_clips = self.are_processes or options.transform is not None
        self._options = options
        self.fetches = FetchCounter()
        self.decoder_name = options.decoder_name
        self._pool: Pool | None = None
        self._buffers: BufferPools | None = None
        self._process = 0
        self._calls: ProcessCalls | None = None
        self._costs: ClipCosts | None = None
        self._caches: dict[int, CacheStats] = {}
        self._process_counts = ProcessCounts()
        self._iterations = 0

    @property
    def pool(self) -> Pool:
        """The pool of threads, opened if there is none."""
        if self._pool is None or self.are_parents:
            self._open()
        assert self._pool is not None
        return self._pool

    @property
    def buffers(self) -> BufferPools:
        """Memory that the workers of `pool` write to."""
        assert self._buffers is not None
        return self._buffers

    def _open(self) -> None:
        options, memory = self._options, None
        if self.are_processes:
            memory = SharedMemory()
            self._pool = ProcessPool(self.count, memory=memory)
        else:
            self._pool = open_pool(self.count)
        self._process = os.getpid()
        at_once = max(options.batch_size, self.count + 1)
        clips = None if options.transform is None else at_once
        # Two more than are prepared ahead: the one being delivered, and the one that the caller still holds.
        self._buffers = BufferPools(options.prefetch + 2, clips, memory, at_once, options.array_dtype)

    def find_costs(self, plan: EpochPlan) -> ClipCosts | None:
        """Return the predicted costs of the plan's clips; None if the order of starts makes no difference."""
        if self._costs is None and self.count > 1:
            self._costs = ClipCosts(plan.clips.sources)
        return self._costs

    def begin(self, plan: EpochPlan) -> tuple[ClipWorker | ProcessClips, ApplyTransform]:
        """Return what does the tasks of an iteration, and what calls the transform."""
        if not self.are_processes:
            worker = ClipWorker.of(plan, self._options, self.fetches)
            return worker, worker.apply_transform
        self._iterations += 1
        # Sent to each process once: the epoch comes with each task, and positions are those of the whole epoch.
        if self._calls is None:
            self._calls = RemoteCalls(ClipProcess(plan, self._options), self._options.deadline_seconds)
        options = self._options
        decoder = adapt_decoder(options.decoder_for(plan))
        ahead = ReadAhead(plan.clips.sources, decoder, options.read_ahead_bytes, self.fetches)
        clips = ProcessClips(
            self._calls, self._iterations, plan.epoch, self._caches, self.fetches, ahead, options.fetch_seconds
        )
        return clips, partial(clips.apply_transform, self.pool)

    def flush(self) -> None:
        """Write the frames that the workers have cached, so that other processes see them."""
        cache, pool = self._options.cache, self._pool
        if cache is None:
            return
        cache.flush()
        if isinstance(pool, ProcessPool) and self._calls is not None and not self.are_parents:
            call_each(pool, self._calls, FlushRequest())

    def cache_stats(self) -> CacheStats | None:
        """Return the counts of the cache in this process and in the workers; None without a cache."""
        cache = self._options.cache
        return None if cache is None else sum(self._caches.copy().values(), cache.stats())

    def process_counts(self) -> ProcessCounts:
        """Return the counts of all worker processes so far; with threads, zeros."""
        pool = self._pool
        return self._process_counts + (pool.counts if isinstance(pool, ProcessPool) else ProcessCounts())

    @property
    def are_parents(self) -> bool:
        """Whether the threads are of the parent process, so that their locks may never be released here."""
        return self._process != os.getpid()

    def abandon(self) -> None:
        """Abandon a pool whose threads may hang, without waiting; the next iteration has another."""
        self._process_counts = self.process_counts()
        pool, self._pool = self._pool, None
        if pool is not None and not self.are_parents:
            pool.abandon()

    def close(self) -> None:
        """Wait, for a bounded time, until all threads have ended; free the memory that no batch has."""
        self._process_counts = self.process_counts()
        pool, self._pool, self._buffers = self._pool, None, None
        if pool is not None and not self.are_parents:
            pool.close()
