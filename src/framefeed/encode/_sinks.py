"""Where a writer's pictures go: a final file, or a segment of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from framefeed._arrays import ByteArray
from framefeed.encode._codecs import ContainerRule, VideoOptions
from framefeed.encode._encoder import Encoder, code_stream
from framefeed.encode._muxing import Output, Packet, PacketQueue, Timeline, make_muxer_options
from framefeed.encode._segments import SEGMENT_OPTIONS, SegmentHeader, put_time
from framefeed.encode._tags import VideoTags
from framefeed.errors import FramefeedError


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides a written file but its pictures.

    Attributes:
        path: Of the file.
        options: Codec, quality, pixel format and distance of key frames.
        tags: Tags that fit these options.
        time_base: Seconds in one tick.
        rate: Frames a second for the encoder.
        size: (height, width) of all pictures.
        threads: Threads of the encoder.
    """

    path: str
    options: VideoOptions
    tags: VideoTags
    time_base: Fraction
    rate: Fraction
    size: tuple[int, int]
    threads: int


class Sink(Protocol):
    """Takes pictures, and gives a file or nothing."""

    def write(self, picture: ByteArray, pts: int, duration: int) -> None:
        """Encode the next picture."""
        ...

    def finish(self) -> None:
        """Write the end of the file, which then appears."""
        ...

    def discard(self) -> None:
        """Remove the file."""
        ...


class FinalSink:
    """A video in its final container."""

    def __init__(self, recipe: Recipe, container: ContainerRule) -> None:
        self._recipe = recipe
        self._timeline = Timeline(container, recipe.path, recipe.time_base, recipe.rate)
        self._output = Output(recipe.path, container.format, make_muxer_options(container, recipe.time_base))
        try:
            self._encoder = _add_encoder(self._output, recipe, self._timeline.unit)
            code_stream(self._encoder.stream.codec_context, recipe.options.rule.name, container)
            self._output.container.start_encoding()
        except BaseException:
            self._output.discard()
            raise
        self._queue = PacketQueue(self._output, self._encoder.stream, self._timeline)
        self._duration = 1

    def write(self, picture: ByteArray, pts: int, duration: int) -> None:
        """Encode the next picture."""
        self._queue.add_time(pts)
        self._duration = duration
        for packet in self._encoder.encode(picture):
            self._queue.add_packet(packet)

    def finish(self) -> None:
        """Write the end of the file, which then appears."""
        for packet in self._encoder.flush():
            self._queue.add_packet(packet)
        self._queue.finish(self._duration)
        if not self._queue.is_empty:
            raise _make_count_error(self._recipe)
        self._output.commit()

    def discard(self) -> None:
        """Remove the file."""
        self._output.discard()


class SegmentSink:
    """A segment: numbered packets, and a text with the time of each."""

    def __init__(self, recipe: Recipe, rate: Fraction | None) -> None:
        self._recipe = recipe
        self._unit = 1 / recipe.rate
        self._output = Output(recipe.path, recipe.options.rule.segment_format, SEGMENT_OPTIONS)
        container = self._output.container
        try:
            self._encoder = _add_encoder(self._output, recipe, self._unit)
            tag = self._encoder.stream.codec_context.codec_tag
            header = SegmentHeader(recipe.time_base, rate, recipe.tags, recipe.options.coded_format, tag.rstrip(chr(0)))
            header.put_into(container)
            self._text = container.add_mux_stream("text")
            self._text.time_base = self._unit
            container.start_encoding()
        except BaseException:
            self._output.discard()
            raise
        self._times: deque[int] = deque()
        self._num_packets = 0
        self._end = 0

    def write(self, picture: ByteArray, pts: int, duration: int) -> None:
        """Encode the next picture."""
        self._times.append(pts)
        self._end = pts + duration
        self._mux(self._encoder.encode(picture))

    def _mux(self, packets: Iterable[Packet]) -> None:
        container = self._output.container
        for packet in packets:
            put_time(container, self._text, self._num_packets, self._times.popleft(), self._unit)
            packet.time_base = self._unit
            packet.pts = packet.dts = self._num_packets
            packet.duration = 1
            self._num_packets += 1
            container.mux_one(packet)

    def finish(self) -> None:
        """Write the end of the file, which then appears."""
        self._mux(self._encoder.flush())
        if self._times:
            raise _make_count_error(self._recipe)
        put_time(self._output.container, self._text, self._num_packets, self._end, self._unit)
        self._output.commit()

    def discard(self) -> None:
        """Remove the file."""
        self._output.discard()


def _add_encoder(output: Output, recipe: Recipe, unit: Fraction) -> Encoder:
    encoder = Encoder(output.container, recipe.options, recipe.tags, recipe.size, recipe.rate, recipe.threads)
    encoder.stream.time_base = unit
    encoder.open()
    return encoder


def _make_count_error(recipe: Recipe) -> FramefeedError:
    return FramefeedError(
        f"cannot write {recipe.path}: the encoder {recipe.options.rule.encoder} gave another number of packets than of "
        "pictures: choose another codec"
    )
