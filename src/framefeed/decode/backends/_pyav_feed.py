"""Where a run's packets come from: straight from the file, or through its container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from av import VideoCodecContext
from av.packet import Packet as AvPacket

from framefeed.decode._decoder import DecodeCounts
from framefeed.errors import StaleSource
from framefeed.index import MISSING_PTS, FrameIndex
from framefeed.media import STREAM_FORMATS, ByteReader, MediaSource, Packet, VideoContainer, numbered_after_seek

_PADDING = 64
"""Zero bytes that must follow every packet: AV_INPUT_BUFFER_PADDING_SIZE of libavcodec/defs.h."""
_PREROLL_SECONDS = (0, 1, 2, 4, 8)
SILENT_CODECS = frozenset({"vp8"})
"""Whose decoders say nothing where damage leaves a part of a picture as the memory was: each run has a new decoder of
one thread, whose memory is blank."""


def let_threads_rest(decoder: VideoCodecContext) -> None:
    """Wait until the decoder's own threads have nothing to do, before the decoder is freed.

    Freeing waits for them while it holds the interpreter's lock, which they need to log what is wrong with a picture.
    Flushing waits for them without it.
    """
    if decoder.thread_count != 1:
        decoder.flush_buffers()


class Feed(Protocol):
    """Packets of one source by number; each packet's pts is its number."""

    def start(self, number: int, *, anew: bool = False) -> VideoCodecContext:
        """Begin a run whose first packet is ``number``; return a flushed decoder.

        Args:
            number: Of the packet.
            anew: Return a decoder that has decoded nothing yet.
        """
        ...

    def packets(self, numbers: Sequence[int]) -> Iterator[Packet]:
        """Yield exactly these packets, ascending."""
        ...

    def drop_decoder(self) -> None:
        """Have the next run begin with another decoder: flushing does not free this one of what it met."""
        ...


class DirectFeed:
    """Reads each packet from its place in the file: no container, no seek, nothing can land in a wrong place.

    Args:
        source: Of the packets.
        index: Its packets' offsets.
        reader: Of its bytes.
        make_decoder: Makes a decoder for its stream.
        counts: Takes what it costs.

    Attributes:
        decoder: The one in use, or None where the next run is to have another.
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
        self._table = index.packets
        self._reader = reader
        self._make_decoder = make_decoder
        self._counts = counts

    def start(self, number: int, *, anew: bool = False) -> VideoCodecContext:
        """Flush the decoder; where to read is known anyway."""
        if anew:
            self.drop_decoder()
        if self.decoder is None:
            self.decoder = self._make_decoder()
            self._counts.contexts_made += 1
        self.decoder.flush_buffers()
        return self.decoder

    def packets(self, numbers: Sequence[int]) -> Iterator[Packet]:
        """Read the packets one by one."""
        offsets, sizes = self._table.offset[numbers].tolist(), self._table.size[numbers].tolist()
        for number, offset, size in zip(numbers, offsets, sizes, strict=True):
            buffer = memoryview(bytearray(size + _PADDING))
            if self._reader.read_into(buffer[:size], offset) != size:
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
        """Have the next run begin with another decoder."""
        if self.decoder is not None:
            let_threads_rest(self.decoder)
        self.decoder = None


class ContainerFeed:
    """Demuxes, seeking only where that pays, and verifies by position and size where each seek landed.

    Args:
        index: Where the packets are.
        container: Of the packets; its decoder is used, but for silent codecs.
        set_up: Called with the container when it was opened again, for its decoder is another one then.
        counts: Takes what it costs.
        seeks: Whether it may seek; else it reads all packets before a run.

    Attributes:
        needs_decoder: Whether the next run is to have another decoder, and so the container opened again. A silent
            codec's decoders are made beside the container, which stays open.
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
        self._container = container
        self._set_up = set_up
        self._counts = counts
        self._is_silent = index.stream.codec in SILENT_CODECS
        self._next = 0
        self._packets: Iterator[Packet] = iter(())
        self._is_fresh = False

    def start(self, number: int, *, anew: bool = False) -> VideoCodecContext:
        """Stand at or before packet ``number``, by going forward or by a verified seek."""
        if not self._is_silent and (self.needs_decoder or anew):
            self._reopen()
        if not self._goes_forward(number) and not self._seek(number):
            self._rewind()
        if self._is_silent:
            self._counts.contexts_made += 1
            return self._container.make_decoder()
        if number:
            self._container.learn_encoder()
        context = self._container.decoder()
        context.flush_buffers()
        return context

    def packets(self, numbers: Sequence[int]) -> Iterator[Packet]:
        """Demux up to the last packet wanted; yield the wanted ones."""
        wanted, last = frozenset(numbers), numbers[-1]
        while self._next <= last:
            packet = next(self._packets, None)
            if packet is None:
                return
            number, self._next = self._next, self._next + 1
            self._counts.bytes_read += packet.size
            if number in wanted:
                packet.pts = number
                yield packet

    def drop_decoder(self) -> None:
        """Have the next run begin with another decoder."""
        self.needs_decoder = not self._is_silent

    def _goes_forward(self, number: int) -> bool:
        return self._is_fresh and self._next <= number < self._next + 64

    def _reopen(self) -> None:
        let_threads_rest(self._container.decoder())
        if self._container.reopen():
            self._counts.opens += 1
            self._counts.contexts_made += 1
            self._set_up(self._container)
        self.needs_decoder = self._is_fresh = False

    def _rewind(self) -> None:
        self._reopen()
        self._stand(0, self._container.packets())

    def _stand(self, number: int, packets: Iterator[Packet]) -> None:
        self._next, self._packets, self._is_fresh = number, packets, True

    def _seek(self, number: int) -> bool:
        table = self._index.packets
        if not self._seeks or (number == 0 and not self._is_silent):
            return False
        if self._container.format_name in STREAM_FORMATS or table.pts[number] == MISSING_PTS:
            return False
        for preroll in _PREROLL_SECONDS:
            target = int(table.pts[number]) - round(preroll / (self._container.stream.time_base or 1))
            found = self._land(target)
            if found is not None and found[0] <= number:
                self._stand(*found)
                return True
            if target < int(table.pts[0]):
                return False
        return False

    def _land(self, target: int) -> tuple[int, Iterator[Packet]] | None:
        if not self._container.try_seek(target):
            return None
        table = self._index.packets
        found = numbered_after_seek(self._container.packets(), table.offset, table.size)
        return None if found is None else (found[0], iter(found[1]))
