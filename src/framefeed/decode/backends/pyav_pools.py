"""Decoder contexts, open files and open containers, pooled per thread, so that nobody waits for another.

A forked child starts with empty pools: it must not share a parent's file position (L01).
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from av import CodecContext, VideoCodecContext

from framefeed.decode.backends.pyav_feed import ContainerFeed, DirectFeed, Feed
from framefeed.decode.convert import Converter
from framefeed.decode.decoder import DecodeCounts
from framefeed.index.frame_index import FrameIndex
from framefeed.media.container import VideoContainer
from framefeed.media.foreign import translated
from framefeed.media.limits import Limits
from framefeed.media.source import MediaSource

MAX_CONTEXTS = 8
"""Idle decoder contexts a thread keeps; one holds up to 17 pictures."""
MAX_CONTAINERS = 2
MAX_READERS = 8
"""Open files a thread keeps: with two pools of threads well below the usual limit of 1,024, and below 128 (L09)."""

T = TypeVar("T")


class Pool(Generic[T]):
    """Idle things by key, the least recently used one closed first; a thing in use is not in the pool."""

    def __init__(self, capacity: int, close: Callable[[T], None]) -> None:
        self._capacity = capacity
        self._close = close
        self._idle: OrderedDict[tuple[Hashable, int], T] = OrderedDict()
        self._serial = 0
        # A half-read stream of pictures may be closed by another thread than the one that lent to it.
        self._lock = threading.Lock()

    def take(self, key: Hashable) -> T | None:
        """Take an idle thing out, or None."""
        with self._lock:
            found = next((place for place in reversed(self._idle) if place[0] == key), None)
            return None if found is None else self._idle.pop(found)

    def give(self, key: Hashable, thing: T) -> None:
        """Put a thing back for the next user."""
        with self._lock:
            self._serial += 1
            self._idle[key, self._serial] = thing
            surplus = self._idle.popitem(last=False)[1] if len(self._idle) > self._capacity else None
        if surplus is not None:
            self._close(surplus)

    def clear(self) -> None:
        """Close all idle things."""
        while self._idle:
            self._close(self._idle.popitem()[1])


@dataclass(frozen=True, slots=True)
class Feeding:
    """How packets reach a decoder.

    Attributes:
        direct: Straight from the file where the index allows it.
        threads: libavcodec's own threads.
        limits: What a file may claim.
    """

    direct: bool
    threads: int
    limits: Limits


class ThreadPools:
    """What one thread of one process keeps between calls."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.converter = Converter()
        self._contexts: Pool[VideoCodecContext] = Pool(MAX_CONTEXTS, lambda context: None)
        self._containers: Pool[VideoContainer] = Pool(MAX_CONTAINERS, VideoContainer.close)
        self._readers: Pool[Any] = Pool(MAX_READERS, lambda reader: reader.close())

    def clear(self) -> None:
        """Release everything idle."""
        for pool in (self._contexts, self._containers, self._readers):
            pool.clear()

    @contextmanager
    def feed(self, source: MediaSource, index: FrameIndex, how: Feeding, counts: DecodeCounts) -> Iterator[Feed]:
        """Lend what is needed to feed one source's packets to a decoder."""
        stamp = source.check_identity(index.identity)
        how.limits.check_picture(index.stream.width, index.stream.height, source.name)
        with translated(source.name, "decode"):
            lend = self._direct if how.direct and index.stream.contiguous else self._contained
            with lend(source, stamp, index, how, counts) as feed:
                yield feed
        # What was read while another file took its place is nobody's picture (D09).
        source.check_identity(index.identity)

    @contextmanager
    def _direct(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, how: Feeding, counts: DecodeCounts
    ) -> Iterator[Feed]:
        stream = index.stream
        # Parameter sets sent among the pictures stay in a context: it then serves only this source.
        context_key = (stream.codec, stream.extradata, how, stamp if stream.inband_parameters else None)
        context = self._contexts.take(context_key)
        if context is None:
            context = bare_context(index, how)
            counts.contexts_made += 1
        reader = self._readers.take(stamp)
        if reader is None:
            reader = source.reader()
            counts.opens += 1
        try:
            yield DirectFeed(source, index, reader, context, counts)
        finally:
            self._readers.give(stamp, reader)
            self._contexts.give(context_key, context)

    @contextmanager
    def _contained(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, how: Feeding, counts: DecodeCounts
    ) -> Iterator[Feed]:
        key = (stamp, index.stream.stream_index, how)
        container = self._containers.take(key)
        if container is None:
            container = VideoContainer(source, index.stream.stream_index, how.limits)
            set_threads(container.decoder(), how.threads)
            counts.opens += 1
            counts.contexts_made += 1
        try:
            yield ContainerFeed(index, container, counts)
        finally:
            self._containers.give(key, container)


def bare_context(index: FrameIndex, how: Feeding) -> VideoCodecContext:
    """Make a decoder without a container: its configuration from the index, limits enforced."""
    context = CodecContext.create(index.stream.codec, "r")
    assert isinstance(context, VideoCodecContext)
    if index.stream.extradata:
        context.extradata = index.stream.extradata
    set_threads(context, how.threads)
    # strict: where the stream is silent about its reorder depth, hold the maximum instead of dropping late frames.
    # output_corrupt: frames after an unusual start are judged by their number, not by the decoder's suspicion.
    context.options = {"strict": "1", "max_pixels": str(how.limits.max_pixels), "flags": "+output_corrupt"}
    return context


def set_threads(context: VideoCodecContext, threads: int) -> None:
    """Set libavcodec's own threads; 0 leaves the number to it."""
    context.thread_count = threads
    context.thread_type = "NONE" if threads == 1 else "AUTO"


_local = threading.local()


def thread_pools() -> ThreadPools:
    """The pools of this thread in this process."""
    pools: ThreadPools | None = getattr(_local, "pools", None)
    if pools is None or pools.pid != os.getpid():
        pools = _local.pools = ThreadPools()
    return pools
