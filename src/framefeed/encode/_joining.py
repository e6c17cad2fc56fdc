"""Join segments into one video: packets are copied, not encoded again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

from av.video.stream import VideoStream

from framefeed.encode._codecs import ContainerRule, check_audio, find_container
from framefeed.encode._encoder import code_stream, limit_rate, tag_context
from framefeed.encode._muxing import Output, PacketQueue, Timeline, make_muxer_options, mux_errors
from framefeed.encode._segments import SegmentReader
from framefeed.errors import UsageError
from framefeed.media import MediaSource, VideoContainer, read_rational

_Path = str | os.PathLike[str]


def join_segments(segments: Sequence[_Path], path: _Path, *, audio_from: MediaSource | _Path | None = None) -> None:
    """Join segments, one after the other, into a video that appears whole or not at all.

    Args:
        segments: Files that `VideoWriter` wrote with ``container=SEGMENT_CONTAINER`` and the same options, at least
            one, in the order of their times.
        path: The video; its ending chooses the container.
        audio_from: A file whose first audio stream is copied packet by packet, with its times; none if it has no
            audio. Where the video is shifted to start at 0, the audio is shifted with it.

    Raises:
        UsageError: The segments do not fit together, the container does not hold their codec or the audio, or the file
            cannot be written.
        UnreadableMedia: A segment is damaged.
    """
    if not segments:
        raise UsageError("segments: expected at least one")
    name = os.fsdecode(path)
    container = find_container(name)
    with ExitStack() as stack:
        audio = None
        if audio_from is not None:
            source = stack.enter_context(VideoContainer(MediaSource.of(audio_from)))
            stream = source.first_audio
            if stream is not None:
                check_audio(name, stream.codec_context.codec.canonical_name)
                audio = _Audio(source, stream)
        with SegmentReader(segments[0]) as first, mux_errors(name):
            rate = first.header.rate
            if rate is None:  # its writer was given none
                with SegmentReader(segments[0]) as reader:
                    times = [pts for _, pts in reader.packets()]
                    rate = limit_rate(len(times) / ((reader.end - times[0]) * reader.header.time_base))
            joined = _JoinedVideo(name, container, first, rate, audio)
            try:
                for segment in segments:
                    joined.add(segment)
                joined.finish()
            except BaseException:
                joined.output.discard()
                raise


class _Audio:
    """Packets of an audio stream, which are muxed between those of the video."""

    def __init__(self, container: VideoContainer, stream: Any) -> None:
        self.template = stream
        self._packets = container.audio_packets(stream)
        self._next = next(self._packets, None)

    def mux_until(self, seconds: Fraction | None, output: Output, stream: Any, shift: Fraction) -> None:
        """Mux the packets that begin by a time; all that are left if it is None."""
        while (packet := self._next) is not None:
            unit = read_rational(packet.time_base) or Fraction(1)
            ticks = round(shift / unit)
            begin = packet.pts if packet.dts is None else packet.dts
            if seconds is not None and begin is not None and (begin + ticks) * unit > seconds:
                return
            packet.stream = stream
            if ticks:
                packet.pts = None if packet.pts is None else packet.pts + ticks
                packet.dts = None if packet.dts is None else packet.dts + ticks
            output.container.mux_one(packet)
            self._next = next(self._packets, None)


class _JoinedVideo:
    """The video that segments are joined to."""

    def __init__(
        self, name: str, container: ContainerRule, first: SegmentReader, rate: Fraction, audio: _Audio | None
    ) -> None:
        self._name, self._first, self._audio = name, first, audio
        time_base = first.header.time_base
        codec = first.stream.codec_context.codec.canonical_name
        if codec not in container.codecs:
            raise UsageError(f"{name}: a .{container.name} file does not hold {codec}")
        self._timeline = Timeline(container, name, time_base, rate)
        rate_of_samples = 1 if audio is None else audio.template.codec_context.sample_rate
        options = make_muxer_options(container, time_base, max(1, rate_of_samples))
        self.output = Output(name, container.format, options)
        try:
            target = self.output.container
            self._stream: VideoStream = target.add_stream_from_template(first.stream, opaque=True)
            context = self._stream.codec_context
            tag_context(context, first.header.tags)
            context.framerate, context.pix_fmt = rate, first.header.pixel_format
            code_stream(context, codec, container)
            if codec == "prores":  # Matroska has the tag in place of parameter sets.
                context.extradata, context.codec_tag = None, first.header.codec_tag
            self._stream.time_base = self._timeline.unit
            self._sound = None if audio is None else target.add_stream_from_template(audio.template, opaque=True)
            target.start_encoding()
        except BaseException:
            self.output.discard()
            raise
        self._queue = PacketQueue(self.output, self._stream, self._timeline)
        self._last: tuple[str, int] | None = None
        self._duration = 1

    def add(self, segment: _Path) -> None:
        """Copy the packets of a segment."""
        with SegmentReader(segment) as reader:
            self._check(reader)
            pts = 0
            for packet, pts in reader.packets():
                if self._last is not None and pts <= self._last[1]:
                    raise UsageError(
                        f"{reader.name}: begins before {self._last[0]} ends: give the segments in the order of their "
                        "times"
                    )
                self._last = reader.name, pts
                self._queue.add_time(pts)
                self._mux_audio((pts + self._timeline.shift) * self._timeline.time_base)
                self._queue.add_packet(packet)
            self._duration = max(1, reader.end - pts)

    def _check(self, reader: SegmentReader) -> None:
        first = self._first
        facts, others = (
            {
                "header": each.header,
                "codec": each.stream.codec_context.codec.canonical_name,
                "size": (each.stream.codec_context.width, each.stream.codec_context.height),
                "parameter sets": each.stream.codec_context.extradata,
            }
            for each in (first, reader)
        )
        differing = [name for name, fact in facts.items() if others[name] != fact]
        if differing:
            raise UsageError(
                f"{reader.name}: was written with other settings than {first.name} (another {differing[0]}): remove "
                "the segments and write them again with the same options"
            )

    def _mux_audio(self, seconds: Fraction | None) -> None:
        if self._audio is not None:
            shift = self._timeline.shift * self._timeline.time_base
            self._audio.mux_until(seconds, self.output, self._sound, shift)

    def finish(self) -> None:
        """Write the end of the file, which then appears."""
        self._queue.finish(self._duration)
        self._mux_audio(None)
        self.output.commit()
