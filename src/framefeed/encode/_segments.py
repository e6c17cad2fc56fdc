"""Segments: parts of a video, each a file that also holds the exact times of its frames and the tags of the video.

A segment has two streams: the video, whose packets are numbered, and a text for each frame with its time; a last text
has the time at which the last frame ends. No container of FFmpeg keeps all of this by itself.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, cast

from av.container import InputContainer, OutputContainer
from av.video.stream import VideoStream

from framefeed.encode._muxing import Packet
from framefeed.encode._tags import VideoTags
from framefeed.errors import UnreadableMedia
from framefeed.media import MediaSource, libav_errors, libav_log, open_input

_VERSION = 1
_KEY = "FRAMEFEED"
# libav's muxer otherwise waits for a packet of each stream before it writes any.
SEGMENT_OPTIONS = {"max_interleave_delta": "1"}
# The header says all that libav would otherwise find out by decoding, which takes 50 ms for 720p.
_READ_OPTIONS = {
    "format_whitelist": "nut,matroska",
    "protocol_whitelist": "file",
    "codec_whitelist": "none",
    "fpsprobesize": "0",
    "probesize": "32",
}


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What all segments of a video have in common."""

    time_base: Fraction
    rate: Fraction | None  # frames a second, about; None if the writer was not given it
    tags: VideoTags
    pixel_format: str
    codec_tag: str = ""  # the encoder's own code for its profile; empty if it has none

    def put_into(self, container: OutputContainer) -> None:
        """Add it to the metadata of a segment that is being written."""
        tags = self.tags
        fields = {
            "version": _VERSION,
            "time_base": self.time_base.as_integer_ratio(),
            "rate": self.rate and self.rate.as_integer_ratio(),
            "colors": [tags.primaries, tags.transfer, tags.space, tags.range],
            "pixel_format": self.pixel_format,
            "codec_tag": self.codec_tag,
            "aspect": tags.pixel_aspect_ratio and tags.pixel_aspect_ratio.as_integer_ratio(),
        }
        container.metadata[_KEY] = json.dumps(fields, separators=(",", ":"))

    @classmethod
    def take_from(cls, container: InputContainer) -> SegmentHeader:
        """Read it from the metadata of a segment.

        Raises:
            ValueError: There is none, or another version wrote it.
            TypeError, KeyError, ArithmeticError: It is damaged.
        """
        fields: Any = json.loads(container.metadata.get(_KEY, "{}"))
        if fields["version"] != _VERSION:
            raise ValueError(f"version {fields['version']}")
        primaries, transfer, space, range_ = map(int, fields["colors"])
        aspect = fields["aspect"] and Fraction(*fields["aspect"])
        tags = VideoTags(primaries, transfer, space, range_, aspect)
        rate = fields["rate"] and Fraction(*fields["rate"])
        time_base = Fraction(*fields["time_base"])
        return cls(time_base, rate, tags, str(fields["pixel_format"]), str(fields["codec_tag"]))


def put_time(container: OutputContainer, stream: Any, number: int, pts: int, unit: Fraction) -> None:
    """Write the time of a frame into the text stream of a segment; behind the last frame, the time of its end."""
    packet = Packet(str(pts).encode())
    packet.stream, packet.time_base = stream, unit
    packet.pts = packet.dts = number
    packet.duration = 1
    container.mux_one(packet)


class SegmentReader:
    """Reads a segment.

    Attributes:
        end: Time at which its last frame ends, once ``packets`` has given all.

    Raises:
        UnreadableMedia: It is no segment, or damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fsdecode(path)
        self.end = 0
        MediaSource.of(self.name).stat()
        with libav_log() as lines, libav_errors(self.name, "open", log=lines):
            self._container = open_input(f"file:{os.path.abspath(self.name)}", options=_READ_OPTIONS)
        try:
            try:
                self.header = SegmentHeader.take_from(self._container)
                self.stream: VideoStream = self._container.streams.video[0]
            except (ValueError, TypeError, KeyError, ArithmeticError, IndexError) as error:
                raise self._make_error("is no segment of a video, or another version wrote it") from error
        except BaseException:
            self._container.close()
            raise

    def packets(self) -> Iterator[tuple[Packet, int]]:
        """Read packets with the times of their frames; raise UnreadableMedia if some are missing."""
        videos: deque[Packet] = deque()
        times: deque[int] = deque()
        # PyAV (18.1) never frees the packet of a generator that is dropped before its end without being closed.
        with closing(cast("Generator[Packet, None, None]", self._container.demux())) as demuxed:
            while (packet := self._read(demuxed)) is not None:
                if packet.stream_index == self.stream.index:
                    videos.append(packet)
                else:
                    try:
                        times.append(int(bytes(packet)))
                    except ValueError as error:
                        raise self._make_error("has a damaged time") from error
                if videos and times:
                    yield videos.popleft(), times.popleft()
        if videos or len(times) != 1:
            raise self._make_error("is cut short")
        self.end = times.popleft()

    def _read(self, demuxed: Iterator[Packet]) -> Packet | None:
        # The log is not collected while the caller works: it belongs to the thread.
        with libav_log() as lines, libav_errors(self.name, "open", log=lines):
            return next((packet for packet in demuxed if packet.size), None)

    def _make_error(self, what: str) -> UnreadableMedia:
        return UnreadableMedia(f"{self.name}: {what}: remove it and write it again", source=self.name, stage="open")

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
