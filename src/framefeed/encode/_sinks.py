"""Where a writer's pictures go: a final file, or a segment of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction

from av.container import OutputContainer
from av.video.frame import VideoFrame

from framefeed._arrays import ByteArray
from framefeed.encode._codecs import ContainerRule
from framefeed.encode._encoder import Encoder, Recipe, code_stream
from framefeed.encode._muxing import Output, Packet, PacketQueue, Timeline, make_muxer_options
from framefeed.encode._segments import SEGMENT_OPTIONS, SegmentHeader, put_time
from framefeed.errors import FramefeedError


class Sink:
    """Encodes pictures into a file, which appears when it is finished, or not at all."""

    def __init__(self, recipe: Recipe, file_format: str, options: Mapping[str, str], unit: Fraction) -> None:
        self._recipe, self._unit = recipe, unit
        self._output = Output(recipe.path, file_format, options)
        container = self._output.container
        try:
            self._encoder = Encoder(container, recipe)
            self._encoder.stream.time_base = unit
            self._encoder.open()
            self._prepare(container)
            container.start_encoding()
        except BaseException:
            self._output.discard()
            raise

    def write(self, picture: ByteArray | VideoFrame, pts: int, duration: int) -> None:
        """Encode the next picture."""
        self._add_time(pts, duration)
        self._mux(self._encoder.encode(picture))

    def finish(self) -> None:
        """Write the end of the file, which then appears."""
        self._mux(self._encoder.flush())
        if not self._end():
            raise FramefeedError(
                f"cannot write {self._recipe.path}: the encoder {self._recipe.options.rule.encoder} gave another "
                "number of packets than of pictures: choose another codec"
            )
        self._output.commit()

    def discard(self) -> None:
        """Remove the file."""
        self._output.discard()

    def _prepare(self, container: OutputContainer) -> None:
        """Set what the header of the file needs."""
        raise NotImplementedError

    def _add_time(self, pts: int, duration: int) -> None:
        raise NotImplementedError

    def _mux(self, packets: Sequence[Packet]) -> None:
        raise NotImplementedError

    def _end(self) -> bool:
        """Mux what is left; return whether there was a packet for each picture."""
        raise NotImplementedError


class FinalSink(Sink):
    """A video in its final container."""

    def __init__(self, recipe: Recipe, container: ContainerRule) -> None:
        self._rule = container
        timeline = Timeline(container, recipe.path, recipe.time_base, recipe.rate)
        super().__init__(recipe, container.format, make_muxer_options(container, recipe.time_base), timeline.unit)
        self._queue = PacketQueue(self._output, self._encoder.stream, timeline)
        self._duration = 1

    def _prepare(self, container: OutputContainer) -> None:
        code_stream(self._encoder.stream.codec_context, self._recipe.options.rule.name, self._rule)

    def _add_time(self, pts: int, duration: int) -> None:
        self._queue.add_time(pts)
        self._duration = duration

    def _mux(self, packets: Sequence[Packet]) -> None:
        for packet in packets:
            self._queue.add_packet(packet)

    def _end(self) -> bool:
        self._queue.finish(self._duration)
        return self._queue.is_empty


class SegmentSink(Sink):
    """A segment: numbered packets, and a text with the time of each."""

    def __init__(self, recipe: Recipe, rate: Fraction | None) -> None:
        self._rate = rate
        self._times: deque[int] = deque()
        self._num_packets = 0
        self._last = 0
        super().__init__(recipe, recipe.options.rule.segment_format, SEGMENT_OPTIONS, 1 / recipe.rate)

    def _prepare(self, container: OutputContainer) -> None:
        recipe, tag = self._recipe, self._encoder.stream.codec_context.codec_tag.rstrip(chr(0))
        SegmentHeader(recipe.time_base, self._rate, recipe.tags, recipe.options.coded_format, tag).put_into(container)
        self._text = container.add_mux_stream("text")
        self._text.time_base = self._unit

    def _add_time(self, pts: int, duration: int) -> None:
        self._times.append(pts)
        self._last = pts + duration

    def _mux(self, packets: Sequence[Packet]) -> None:
        container = self._output.container
        for packet in packets:
            put_time(container, self._text, self._num_packets, self._times.popleft(), self._unit)
            packet.time_base = self._unit
            packet.pts = packet.dts = self._num_packets
            packet.duration = 1
            self._num_packets += 1
            container.mux_one(packet)

    def _end(self) -> bool:
        put_time(self._output.container, self._text, self._num_packets, self._last, self._unit)
        return not self._times
