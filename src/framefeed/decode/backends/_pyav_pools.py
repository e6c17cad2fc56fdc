"""Pools of decoder contexts, open files and open containers, one set per thread, so that no thread waits for another.

- A forked child starts with empty pools: it must not share a file position with its parent (L01).
- Flushing does not clear all state of a decoder. So a decoder returns to its pool only after runs in which nothing was
  raised, logged as an error or flagged as corrupt (D01). A decoder with threads of its own never returns.
- If the garbage collector finalises a run, its file and decoder are closed later, by ordinary code, and do not return:
  the collector may have finalised the file first, and it may run in the middle of a call of the pool.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from av import CodecContext, VideoCodecContext, codecs_available

from framefeed._lru import Lru
from framefeed._per_process import keep_forever
from framefeed._shortage import register_releasable
from framefeed._values import ByteReader, Limits, bound_padded_pixels, count_kept_bytes
from framefeed.bitstreams import Codec
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import ContainerFeed, DirectFeed, Feed, wait_for_threads
from framefeed.index import FrameIndex
from framefeed.media import MediaSource, VideoContainer, libav_errors

# Idle decoder contexts of a thread.
MAX_CONTEXTS = 8
# Idle containers of a thread.
MAX_CONTAINERS = 2
# Pixels of one picture of each idle decoder of a thread, summed. A decoder keeps the memory of up to 17 pictures, so
# this is about 13 MB of 4:2:0. For larger pictures, decoding a clip takes far longer than making a decoder.
MAX_IDLE_PIXELS = 2**19
# Idle open files of a thread: with two pools of threads well below the usual limit of 1,024, and below 128 (L09).
MAX_READERS = 8
# Bytes that the idle readers of a thread keep of remote files, for frames near those that were read.
MAX_IDLE_BYTES = 2**25
# Sources of which a thread remembers the packets at which decoding can start.
MAX_SOURCES = 256

T = TypeVar("T")
# Ends the use of a feed; with True, what it used is kept for the next one.
_Close = Callable[[bool], None]


# The one place of the package that asks the collector. A generator that is closed in order gives its file and decoder
# back at once, and one that the collector finalises must not, because it may have finalised the file first: both end
# with GeneratorExit. Were all put aside, a closed reader would keep its file open until the next call.
# The collector calls these, one after the other, with ("start" or "stop", info), the same dictionary for all three.
# Each is a C function: an interrupt that arrives during a collection is raised by the first Python code that runs, and
# in a callback it would be lost.
_LATEST: dict[str, object] = {}
"""The dictionary of the last collection that started, and of the last that stopped, in any thread."""
_OWN = threading.local()
"""The same of the calling thread, as attributes."""
_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""The last phase comes last: any dictionary with content is a true `last` of `OrderedDict.move_to_end`."""
gc.callbacks.extend(cast("Any", [_LATEST.__setitem__, partial(setattr, _OWN), _PHASES.move_to_end]))


def is_collecting() -> bool:
    """Whether the calling thread runs the cyclic garbage collector, for example in a finaliser."""
    # One call of C reads the order: between two, a collection of another thread may change it.
    return list(_PHASES)[-1] == "start" and getattr(_OWN, "start", None) is _LATEST["start"]


class _IdleItem(Generic[T]):
    """One idle object; compared by identity, so that removing it from a list is a single step."""

    __slots__ = ("item", "key", "weight")

    def __init__(self, key: Hashable, item: T, weight: int) -> None:
        self.key = key
        self.item = item
        self.weight = weight


class IdlePool(Generic[T]):
    """Idle objects by key; the least recently used one is closed first. An object in use is not in the pool.

    Any thread may use it, also a finaliser in the middle of any call: it has no lock, only single operations on a list.
    ``weigh`` gives the pixels of the pictures that an object decodes, or its bytes; the sum for all idle objects but
    one is at most ``max_weight``.
    """

    def __init__(
        self,
        capacity: int,
        close: Callable[[T], None],
        weigh: Callable[[T], int] = lambda _: 0,
        max_weight: int = MAX_IDLE_PIXELS,
    ) -> None:
        self._capacity = capacity
        self._close = close
        self._weigh = weigh
        self._max_weight = max_weight
        self._idle: list[_IdleItem[T]] = []
        register_releasable(self)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: Hashable) -> T | None:
        """Take an idle object; if there is none, make room for a new one and return None."""
        for entry in reversed(list(self._idle)):
            if entry.key == key:
                try:
                    self._idle.remove(entry)
                except ValueError:  # taken or closed by another thread just now
                    continue
                return entry.item
        self._trim(keep=0)
        return None

    def give(self, key: Hashable, item: T) -> None:
        """Return an object for the next use. It stays however large it is: the next use is most often the same."""
        self._idle.append(_IdleItem(key, item, self._weigh(item)))
        self._trim(keep=1)

    def _trim(self, keep: int) -> None:
        while len(self._idle) > keep and (
            len(self._idle) > self._capacity or sum(entry.weight for entry in list(self._idle)) > self._max_weight
        ):
            self._close_oldest()

    def release_idle(self) -> None:
        """Close all idle objects, and the abandoned ones."""
        _close_abandoned()
        while self._idle:
            self._close_oldest()

    def _close_oldest(self) -> None:
        try:
            oldest = self._idle.pop(0)
        except IndexError:  # another thread was faster
            return
        self._close(oldest.item)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How packets reach a decoder."""

    direct: bool  # read packets directly from the file where the index allows it
    threads: int  # of libavcodec itself
    limits: Limits
    seeks: bool = True  # in a container, where that is faster; else all packets before a run are read
    skips: bool = True  # leave out pictures that no other refers to


class ThreadPools:
    """Decoders, files and containers that one thread of one process keeps between calls."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._contexts: IdlePool[VideoCodecContext] = IdlePool(MAX_CONTEXTS, wait_for_threads, _count_pixels)
        self._containers: IdlePool[VideoContainer] = IdlePool(
            MAX_CONTAINERS, VideoContainer.close, lambda opened: _count_pixels(opened.decoder())
        )
        self._readers: IdlePool[ByteReader] = IdlePool(
            MAX_READERS, lambda reader: reader.close(), count_kept_bytes, MAX_IDLE_BYTES
        )
        self._starts = Lru[Hashable, dict[int, bool]](MAX_SOURCES)

    def clear(self) -> None:
        """Close everything idle."""
        for pool in (self._contexts, self._containers, self._readers):
            pool.release_idle()

    def get_starts(self, index: FrameIndex) -> dict[int, bool]:
        """Find the dictionary of a source: by packet number, whether decoding can start there; callers add to it."""
        if index.identity is None:
            return {}
        key = (index.identity, index.stream.stream_index)
        known = self._starts.get(key)
        if known is None:
            known = {}
            self._starts.put(key, known)
        return known

    @contextmanager
    def opening_feed(
        self, source: MediaSource, index: FrameIndex, options: FeedOptions, counts: DecodeCounts
    ) -> Iterator[Feed]:
        """Open the packets of one source, with a decoder for them."""
        _close_abandoned()
        source = source.with_limits(options.limits)
        stamp = source.check_identity(index.identity)
        options.limits.check_picture(index.stream.width, index.stream.height, source.name)
        with libav_errors(source.name, "decode"):
            opening = self._open_direct if options.direct and index.stream.contiguous else self._open_container
            feed, close = opening(source, stamp, index, options, counts)
            is_reusable = False
            try:
                yield feed
                is_reusable = True
            except GeneratorExit:
                is_reusable = True
                raise
            finally:
                if is_collecting() or self.pid != os.getpid():
                    _ABANDONED.append(_Abandoned(self.pid, feed.opened, feed.decoder))
                else:
                    close(is_reusable)
        # If the file was replaced while it was read, the data belong to neither file (D09).
        source.check_identity(index.identity)

    def _open_direct(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, options: FeedOptions, counts: DecodeCounts
    ) -> tuple[DirectFeed, _Close]:
        stream = index.stream
        # Parameter sets among the pictures stay in a decoder, which can then be used for this source alone.
        context_key = (stream.codec, stream.extradata, options, stamp if stream.inband_parameters else None)
        reader = self._readers.take(stamp)
        if reader is None:
            reader = source.reader(index.identity)
            counts.opens += 1
        feed = DirectFeed(source, index, reader, lambda: make_decoder(index, options), counts)
        feed.decoder = self._contexts.take(context_key)

        def close(is_reusable: bool) -> None:
            if is_reusable:
                self._readers.give(stamp, reader)
            else:
                reader.close()
            if is_reusable and feed.decoder is not None and options.threads == 1:
                self._contexts.give(context_key, feed.decoder)
            elif feed.decoder is not None:
                wait_for_threads(feed.decoder)

        return feed, close

    def _open_container(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, options: FeedOptions, counts: DecodeCounts
    ) -> tuple[ContainerFeed, _Close]:
        key = (stamp, index.stream.stream_index, options)

        def set_up(opened: VideoContainer) -> None:
            set_threads(opened.decoder(), options.threads)

        container = self._containers.take(key)
        if container is None:
            stream_index = index.stream.stream_index
            container = VideoContainer(source, stream_index, options.limits, indexed=index.identity)
            set_up(container)
            counts.opens += 1
            counts.contexts_made += 1
        feed = ContainerFeed(index, container, set_up, counts, seeks=options.seeks)

        def close(is_reusable: bool) -> None:
            if is_reusable and not feed.needs_decoder and options.threads == 1:
                self._containers.give(key, container)
            else:
                # After an error, the container may be closed already.
                wait_for_threads(container.decoder())
                container.close()

        return feed, close


@dataclass(frozen=True, slots=True, eq=False)
class _Abandoned:
    """A reader or container that process ``pid`` used when its run was garbage-collected, or when it forked."""

    pid: int
    opened: ByteReader | VideoContainer
    decoder: VideoCodecContext | None


# Ordinary code closes these; appending and popping are single steps, also in a finaliser.
_ABANDONED: deque[_Abandoned] = deque()


def _close_abandoned() -> None:
    while _ABANDONED:
        try:
            abandoned = _ABANDONED.popleft()
        except IndexError:  # another thread was faster
            return
        if abandoned.decoder is not None and abandoned.decoder.thread_count != 1:
            if abandoned.pid != os.getpid():
                keep_forever(abandoned)  # its threads are in the parent
                continue
            wait_for_threads(abandoned.decoder)
        abandoned.opened.close()


def _count_pixels(decoder: VideoCodecContext) -> int:
    return decoder.width * decoder.height


def make_decoder(index: FrameIndex, options: FeedOptions) -> VideoCodecContext:
    """Make a decoder without a container: its configuration from the index, limits enforced."""
    codec = Codec.of(index.stream.codec)
    context = CodecContext.create(codec.decoder if codec.decoder in codecs_available else codec.name, "r")
    assert isinstance(context, VideoCodecContext)
    if index.stream.extradata:
        context.extradata = index.stream.extradata
    set_threads(context, options.threads)
    context.options = {"max_pixels": str(bound_padded_pixels(options.limits, codec.size_factor))}
    if codec.units is not None:
        # strict: if the stream does not state its reorder depth, hold the maximum instead of dropping late frames.
        # output_corrupt: the decoder would drop frames after an unusual start; here their packet number decides.
        context.options |= {"strict": "1", "flags": "+output_corrupt"}
    return context


def set_threads(context: VideoCodecContext, threads: int) -> None:
    """Set libavcodec's own threads; 0 leaves the number to it."""
    context.thread_count = threads
    context.thread_type = "NONE" if threads == 1 else "AUTO"


_local = threading.local()


def get_thread_pools() -> ThreadPools:
    """Get the pools of this thread in this process."""
    pools: ThreadPools | None = getattr(_local, "pools", None)
    if pools is None or pools.pid != os.getpid():
        pools = _local.pools = ThreadPools()
    return pools
