"""Packets of one source by number, read directly from the file or demuxed from its container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
from av import VideoCodecContext
from av.packet import Packet as AvPacket

from framefeed._values import MISSING_PTS, ByteReader, announce_reads
from framefeed.bitstreams import STREAM_FORMATS, Codec
from framefeed.decode._decoder import DecodeCounts
from framefeed.errors import StaleSource
from framefeed.index import DecodeRuns, FrameIndex
from framefeed.media import MediaSource, Packet, VideoContainer, number_after_seek, read_rational

# Zero bytes that must follow every packet: AV_INPUT_BUFFER_PADDING_SIZE of libavcodec/defs.h.
_PADDING = 64
# A run this many packets ahead is reached by demuxing on, without a seek.
_MAX_PACKETS_AHEAD = 64
_PREROLL_SECONDS = (0, 1, 2, 4, 8)


def wait_for_threads(decoder: VideoCodecContext) -> None:
    """Wait until the decoder's own threads are idle; call this before the decoder is freed.

    Freeing waits for the threads too, but holds the interpreter's lock, which they need to log an error: a deadlock.
    Flushing waits without the lock.
    """
    if decoder.thread_count != 1:
        decoder.flush_buffers()


def find_ranges(index: FrameIndex, runs: DecodeRuns) -> list[tuple[int, int]]:
    """Find the bytes of the packets of some runs: first of each, and behind the last one."""
    numbers = np.concatenate([run.send for run in runs.runs])
    start = index.packets.offset[numbers]
    return list(zip(start.tolist(), (start + index.packets.size[numbers]).tolist(), strict=True))


class DirectFeed:
    """Reads each packet at its offset in the file, without a container and without seeks that could fail.

    ``decoder`` is the one in use; None if the next run needs another. ``opened`` is the reader.
    """

    def __init__(
        self,
        source: MediaSource,
        index: FrameIndex,
        reader: ByteReader,
        make_decoder: Callable[[], VideoCodecContext],
        counts: DecodeCounts,
    ) -> None:
        self.decoder: VideoCodecContext | None = None
        self._source = source
        self._index = index
        self._table = index.packets
        self.opened = reader
        self._make_decoder = make_decoder
        self._counts = counts

    def start(self, number: int, *, with_new_decoder: bool = False) -> VideoCodecContext:
        """Begin a run at packet ``number``; return a flushed decoder, or one that has decoded nothing yet."""
        if with_new_decoder:
            self.drop_decoder()
        if self.decoder is None:
            self.decoder = self._make_decoder()
            self._counts.contexts_made += 1
        self.decoder.flush_buffers()
        return self.decoder

    def announce(self, runs: DecodeRuns) -> None:
        """Let a reader of remote bytes ask for all packets of the runs at once."""
        announce_reads(self.opened, partial(find_ranges, self._index, runs))

    def packets(self, numbers: Sequence[int]) -> Iterator[Packet]:
        """Yield exactly these packets, ascending."""
        rows = np.asarray(numbers, dtype=np.int64)
        offsets, sizes = self._table.offset[rows].tolist(), self._table.size[rows].tolist()
        for number, offset, size in zip(numbers, offsets, sizes, strict=True):
            buffer = memoryview(bytearray(size + _PADDING))
            if self.opened.read_into(buffer[:size], offset) != size:
                raise StaleSource(
                    f"{self._source.name}: the file ends before packet {number} of the frame index: it was cut or "
                    "replaced since it was indexed; index it again with ff.scan or ff.build_index",
                    source=self._source.name,
                    stage="decode",
                )
            self._counts.bytes_read += size
            # PyAV takes any buffer; its stub names bytes only.
            packet = cast("Packet", AvPacket(cast("bytes", buffer[:size])))
            packet.pts = number
            yield packet

    def drop_decoder(self) -> None:
        """Begin the next run with another decoder: flushing does not clear all state of this one."""
        if self.decoder is not None:
            wait_for_threads(self.decoder)
        self.decoder = None


class ContainerFeed:
    """Demuxes packets; seeks only where that is faster, and verifies each seek by offset and size of the next packets.

    ``set_up`` is called with the container after it was opened again, because it has another decoder then: that
    happens where the next run ``needs_decoder``. For a silent codec, decoders are made apart from the container, which
    stays open.
    """

    def __init__(
        self,
        index: FrameIndex,
        container: VideoContainer,
        set_up: Callable[[VideoContainer], None],
        counts: DecodeCounts,
        *,
        seeks: bool = True,
    ) -> None:
        self.needs_decoder = False
        self._seeks = seeks
        self._index = index
        self.opened = container
        self._set_up = set_up
        self._counts = counts
        self._is_silent = Codec.of(index.stream.codec).is_silent
        self._next = 0
        self._packets: Iterator[Packet] = iter(())
        self._is_at_next = False

    @property
    def decoder(self) -> VideoCodecContext:
        """The container's own decoder."""
        return self.opened.decoder()

    def start(self, number: int, *, with_new_decoder: bool = False) -> VideoCodecContext:
        """Go to packet ``number`` or one before it: forward, or by a verified seek; see ``DirectFeed.start``."""
        if not self._is_silent and (self.needs_decoder or with_new_decoder):
            self._reopen()
        can_go_forward = self._is_at_next and self._next <= number < self._next + _MAX_PACKETS_AHEAD
        if not can_go_forward and not self._seek(number):
            self._reopen()
            self._set_packets(0, self.opened.packets())
        if self._is_silent:
            self._counts.contexts_made += 1
            return self.opened.make_decoder()
        if number:
            self.opened.learn_encoder()
        context = self.decoder
        context.flush_buffers()
        return context

    def announce(self, runs: DecodeRuns) -> None:
        """Do nothing: libav decides what it reads."""

    def packets(self, numbers: Sequence[int]) -> Iterator[Packet]:
        """Yield exactly these packets, ascending."""
        requested, last = frozenset(numbers), numbers[-1]
        while self._next <= last:
            packet = next(self._packets, None)
            if packet is None:
                return
            number, self._next = self._next, self._next + 1
            self._counts.bytes_read += packet.size
            if number in requested:
                packet.pts = number
                yield packet

    def drop_decoder(self) -> None:
        """Begin the next run with another decoder."""
        self.needs_decoder = not self._is_silent

    def _reopen(self) -> None:
        wait_for_threads(self.decoder)
        if self.opened.reopen():
            self._counts.opens += 1
            self._counts.contexts_made += 1
            self._set_up(self.opened)
        self.needs_decoder = self._is_at_next = False

    def _set_packets(self, number: int, packets: Iterator[Packet]) -> None:
        self._next, self._packets, self._is_at_next = number, packets, True

    def _seek(self, number: int) -> bool:
        table = self._index.packets
        if not self._seeks or (number == 0 and not self._is_silent):
            return False
        if self.opened.format_name in STREAM_FORMATS or table.pts[number] == MISSING_PTS:
            return False
        for preroll in _PREROLL_SECONDS:
            target = int(table.pts[number]) - round(preroll / (read_rational(self.opened.stream.time_base) or 1))
            if self.opened.try_seek(target):
                numbered = number_after_seek(self.opened.packets(), table.offset, table.size)
                if numbered is not None and numbered[0] <= number:
                    self._set_packets(numbered[0], iter(numbered[1]))
                    return True
            if target < int(table.pts[0]):
                return False
        return False


Feed = DirectFeed | ContainerFeed
"""Packets of one source by number; each packet's pts is its number."""
