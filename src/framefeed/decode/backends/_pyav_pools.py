"""Decoder contexts, open files and open containers, pooled per thread, so that no thread waits for another.

A forked child starts with empty pools: it must not share a parent's file position (L01).

What comes back. Decoders keep state that flushing does not clear, so one comes back only after runs in which nothing
was raised, logged as an error or flagged as corrupt (D01); one with threads of its own never does. What the garbage
collector finalises in the middle of a run is not given back but closed later, by ordinary code: the collector may have
finalised the file before its user, and it may run in the middle of a call of the pool.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from av import CodecContext, VideoCodecContext

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import ContainerFeed, DirectFeed, Feed, let_threads_rest
from framefeed.index import FrameIndex
from framefeed.media import ByteReader, Limits, MediaSource, VideoContainer, padded_pixels, translated
from framefeed.parallel import is_collecting, register_releasable, try_again_in_shortage

MAX_CONTEXTS = 8
"""Idle decoder contexts a thread keeps."""
MAX_CONTAINERS = 2
MAX_IDLE_PIXELS = 2**19
"""Of one picture of each idle decoder, in sum over a thread's: a decoder keeps the memory of up to 17 such pictures, so
this is about 13 MB of 4:2:0. A clip of larger pictures takes far longer than a new decoder."""
MAX_READERS = 8
"""Open files a thread keeps: with two pools of threads well below the usual limit of 1,024, and below 128 (L09)."""
MAX_SOURCES = 256
"""Sources of which a thread remembers where decoding can start."""

T = TypeVar("T")


class _Entry(Generic[T]):
    """One idle thing; compared by identity, so that the list of them is changed in single steps."""

    __slots__ = ("key", "pixels", "thing")

    def __init__(self, key: Hashable, thing: T, pixels: int) -> None:
        self.key = key
        self.thing = thing
        self.pixels = pixels


class Pool(Generic[T]):
    """Idle things by key, the least recently used one closed first; a thing in use is not in the pool.

    For any thread, and for a finaliser in the middle of any call: there is no lock, but single operations on a list.

    Args:
        capacity: Most idle things.
        close: Closes one.
        count_pixels: Gives the size of the pictures that one holds.
    """

    def __init__(
        self, capacity: int, close: Callable[[T], None], count_pixels: Callable[[T], int] = lambda _: 0
    ) -> None:
        self._capacity = capacity
        self._close = close
        self._count_pixels = count_pixels
        self._idle: list[_Entry[T]] = []
        register_releasable(self)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, key: Hashable) -> T | None:
        """Take an idle thing out; where there is none, make room for a new one and return None."""
        for entry in reversed(list(self._idle)):
            if entry.key == key:
                try:
                    self._idle.remove(entry)
                except ValueError:  # taken or closed by another thread just now
                    continue
                return entry.thing
        self._trim(keep=0)
        return None

    def give(self, key: Hashable, thing: T) -> None:
        """Put a thing back for the next user, who most often is the same: it stays, however large it is."""
        self._idle.append(_Entry(key, thing, self._count_pixels(thing)))
        self._trim(keep=1)

    def _trim(self, keep: int) -> None:
        while len(self._idle) > keep and (
            len(self._idle) > self._capacity or sum(entry.pixels for entry in list(self._idle)) > MAX_IDLE_PIXELS
        ):
            self._close_oldest()

    def release_idle(self) -> None:
        """Close all idle things, and what was abandoned."""
        _close_abandoned()
        while self._idle:
            self._close_oldest()

    def _close_oldest(self) -> None:
        try:
            oldest = self._idle.pop(0)
        except IndexError:  # another thread was faster
            return
        self._close(oldest.thing)


@dataclass(frozen=True, slots=True)
class Feeding:
    """How packets reach a decoder.

    Attributes:
        direct: Straight from the file where the index allows it.
        threads: libavcodec's own threads.
        limits: What a file may claim.
        seeks: In a container, where that pays; else all packets before a run are read.
    """

    direct: bool
    threads: int
    limits: Limits
    seeks: bool = True


class ThreadPools:
    """What one thread of one process keeps between calls."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.converter = Converter()
        self._contexts: Pool[VideoCodecContext] = Pool(MAX_CONTEXTS, let_threads_rest, _pixels_of)
        self._containers: Pool[VideoContainer] = Pool(
            MAX_CONTAINERS, VideoContainer.close, lambda opened: _pixels_of(opened.decoder())
        )
        self._readers: Pool[ByteReader] = Pool(MAX_READERS, _close_reader)
        self._starts: OrderedDict[Hashable, dict[int, bool]] = OrderedDict()

    def clear(self) -> None:
        """Release everything idle."""
        for pool in (self._contexts, self._containers, self._readers):
            pool.release_idle()

    def starts_of(self, index: FrameIndex) -> dict[int, bool]:
        """Whether decoding can start at the packets that were asked for it, by number; takes what is found."""
        if index.identity is None:
            return {}
        key = (index.identity, index.stream.stream_index)
        known = self._starts.setdefault(key, {})
        self._starts.move_to_end(key)
        if len(self._starts) > MAX_SOURCES:
            self._starts.popitem(last=False)
        return known

    @contextmanager
    def feed(self, source: MediaSource, index: FrameIndex, how: Feeding, counts: DecodeCounts) -> Iterator[Feed]:
        """Lend what is needed to feed one source's packets to a decoder."""
        _close_abandoned()
        stamp = _check_identity(source, index)
        how.limits.check_picture(index.stream.width, index.stream.height, source.name)
        with translated(source.name, "decode"):
            lend = self._direct if how.direct and index.stream.contiguous else self._contained
            with lend(source, stamp, index, how, counts) as feed:
                yield feed
        # What was read while another file took its place belongs to neither (D09).
        _check_identity(source, index)

    @contextmanager
    def _direct(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, how: Feeding, counts: DecodeCounts
    ) -> Iterator[Feed]:
        stream = index.stream
        # Parameter sets sent among the pictures stay in a context: it then serves only this source.
        context_key = (stream.codec, stream.extradata, how, stamp if stream.inband_parameters else None)
        reader = self._readers.take(stamp)
        if reader is None:
            reader = source.reader()
            counts.opens += 1
        feed = DirectFeed(source, index, reader, lambda: bare_context(index, how), counts)
        feed.decoder = self._contexts.take(context_key)
        is_in_order = False
        try:
            yield feed
            is_in_order = True
        except GeneratorExit:
            is_in_order = True
            raise
        finally:
            if self._can_give_back():
                if is_in_order:
                    self._readers.give(stamp, reader)
                else:
                    reader.close()
                if is_in_order and feed.decoder is not None and how.threads == 1:
                    self._contexts.give(context_key, feed.decoder)
                elif feed.decoder is not None:
                    let_threads_rest(feed.decoder)
            else:
                _ABANDONED.append(_Abandoned(self.pid, reader, feed.decoder))

    @contextmanager
    def _contained(
        self, source: MediaSource, stamp: Hashable, index: FrameIndex, how: Feeding, counts: DecodeCounts
    ) -> Iterator[Feed]:
        key = (stamp, index.stream.stream_index, how)

        def set_up(opened: VideoContainer) -> None:
            set_threads(opened.decoder(), how.threads)

        container = self._containers.take(key)
        if container is None:
            container = VideoContainer(source, index.stream.stream_index, how.limits)
            set_up(container)
            counts.opens += 1
            counts.contexts_made += 1
        feed = ContainerFeed(index, container, set_up, counts, seeks=how.seeks)
        is_in_order = False
        try:
            yield feed
            is_in_order = True
        except GeneratorExit:
            is_in_order = True
            raise
        finally:
            if not self._can_give_back():
                _ABANDONED.append(_Abandoned(self.pid, container, container.decoder()))
            elif is_in_order and not feed.needs_decoder and how.threads == 1:
                self._containers.give(key, container)
            else:
                # After an error it may be closed already.
                let_threads_rest(container.decoder())
                container.close()

    def _can_give_back(self) -> bool:
        """Whether ordinary code of this process is at work, and not a finaliser or a forked child."""
        return not is_collecting() and self.pid == os.getpid()


class _Closable(Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Abandoned:
    """What was in use when the garbage collector, or a fork, came upon its user.

    Attributes:
        pid: The process that used it.
        opened: A reader or a container.
        decoder: Its decoder, if it has one.
    """

    pid: int
    opened: _Closable
    decoder: VideoCodecContext | None


_ABANDONED: deque[_Abandoned] = deque()
"""To be closed by ordinary code; appending and popping are single steps, also in a finaliser."""
_NEVER_FREED: list[object] = []


def _close_abandoned() -> None:
    while _ABANDONED:
        try:
            abandoned = _ABANDONED.popleft()
        except IndexError:  # another thread was faster
            return
        if abandoned.decoder is not None and abandoned.decoder.thread_count != 1:
            if abandoned.pid != os.getpid():
                # Its threads are in the parent: freeing it would wait for them for ever.
                _NEVER_FREED.append(abandoned)
                continue
            let_threads_rest(abandoned.decoder)
        abandoned.opened.close()


def _check_identity(source: MediaSource, index: FrameIndex) -> Hashable:
    # By itself: after the last picture there is nothing that could be decoded once more.
    return try_again_in_shortage(lambda: source.check_identity(index.identity), source.name, "decode")


def _pixels_of(decoder: VideoCodecContext) -> int:
    return decoder.width * decoder.height


def _close_reader(reader: ByteReader) -> None:
    reader.close()


def bare_context(index: FrameIndex, how: Feeding) -> VideoCodecContext:
    """Make a decoder without a container: its configuration from the index, limits enforced."""
    context = CodecContext.create(index.stream.codec, "r")
    assert isinstance(context, VideoCodecContext)
    if index.stream.extradata:
        context.extradata = index.stream.extradata
    set_threads(context, how.threads)
    # strict: where the stream is silent about its reorder depth, hold the maximum instead of dropping late frames.
    # output_corrupt: frames after an unusual start are judged by their number, not by the decoder's suspicion.
    most_pixels = padded_pixels(how.limits, index.stream.codec)
    context.options = {"strict": "1", "max_pixels": str(most_pixels), "flags": "+output_corrupt"}
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
