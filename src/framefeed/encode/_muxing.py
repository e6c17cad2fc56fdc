"""Write packets into a container: the file appears whole or not at all, and frames keep their times."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import av
from av.container import OutputContainer
from av.packet import Packet as AvPacket
from av.video.stream import VideoStream

from framefeed._files import replacing, write_errors
from framefeed.encode._codecs import ContainerRule
from framefeed.errors import FramefeedError, UsageError
from framefeed.media import LIBAV_EXCEPTIONS, is_memory_there, libav_log

if TYPE_CHECKING:
    Packet = AvPacket[VideoStream]
else:  # PyAV's class takes its stream's type in its stub only.
    Packet = AvPacket

# No dates, random ids or version strings; bytes are written when the buffer is full, not for each packet.
_OPTIONS = {"fflags": "+bitexact", "flush_packets": "0"}
_BUFFER_BYTES = 2**18
_ENCODER_BYTES = 2**28
"""x264 veryfast with one thread takes 155 MB of addresses for 1080p."""
_MOST_TICKS = 2**31 - 1
"""Largest distance of two frames in an MP4 file, in ticks (stts of ISO/IEC 14496-12, as libavformat checks it)."""
_MOST_AVI_RATE = 1000
"""libavformat/avienc.c writes 600 in place of a higher rate."""
_MKV_BASE = Fraction(1, 1000)
"""Ticks of libavformat's Matroska muxer."""


class _ScratchFile:
    """File object for libav that writes all bytes or raises."""

    def __init__(self, path: str) -> None:
        self._file = io.FileIO(path, "wb")
        # libav opens this name again to move the index of an MP4 file to its start.
        self.name = "file:" + os.path.abspath(path)

    def write(self, data: bytes) -> int:
        """Write all of the bytes; libav would take a partial write for a whole one."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    @property
    def closed(self) -> bool:
        """Whether it is closed: PyAV then writes no end of the file."""
        return self._file.closed

    def close_file(self) -> None:
        """Close it; libav never does."""
        self._file.close()


class Output:
    """A container that is being written beside its target, and replaces it at the end."""

    def __init__(self, path: str | os.PathLike[str], file_format: str, options: Mapping[str, str]) -> None:
        self.path = os.fsdecode(path)
        self._replacing = replacing(self.path)
        with write_errors(self.path):
            self._file = _ScratchFile(self._replacing.__enter__())
        try:
            self.container: OutputContainer = av.open(
                self._file,
                "w",
                format=file_format,
                container_options={**_OPTIONS, **options},
                buffer_size=_BUFFER_BYTES,
            )
        except BaseException:
            self._remove()
            raise

    def commit(self) -> None:
        """Write the end of the file, and let it replace the target."""
        try:
            with mux_errors(self.path):
                self.container.close()
                self._file.close_file()
        except BaseException:
            self.discard()
            raise
        with write_errors(self.path):
            self._replacing.__exit__(None, None, None)

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close_file()
        with suppress(*LIBAV_EXCEPTIONS, OSError):
            self.container.close()
        self._remove()

    def _remove(self) -> None:
        self._file.close_file()
        error = _Discarded()
        with suppress(_Discarded):
            self._replacing.__exit__(_Discarded, error, None)


class _Discarded(Exception):
    """The file is not kept."""


@contextmanager
def mux_errors(path: str) -> Iterator[None]:
    """Turn errors of writing a video inside the block into an error with the path, the cause and advice.

    Raises:
        UsageError: The system refused to write, or the encoder or the muxer refused.
        ResourceExhausted: Memory or the like ran out.
    """
    with libav_log() as lines:
        try:
            yield
        except FramefeedError:  # of another file, which may also be an OSError
            raise
        except (*LIBAV_EXCEPTIONS, OSError) as error:
            if isinstance(error, MemoryError):
                raise
            # An encoder that gets no memory tells libavcodec no reason.
            if isinstance(error, av.error.ExternalError) and not is_memory_there(_ENCODER_BYTES):
                raise MemoryError(str(error)) from error
            with write_errors(path):
                if isinstance(error, OSError):
                    raise
            reason = "; ".join(dict.fromkeys(" ".join(line[2].split()) for line in lines)) or str(error)
            raise UsageError(
                f"cannot write {path}: FFmpeg refuses: {reason}: choose another codec, size or container"
            ) from error


def make_muxer_options(container: ContainerRule, time_base: Fraction, audio_rate: int = 1) -> dict[str, str]:
    """Make the options of a muxer with which it keeps times as they are, where it can."""
    options = dict(container.options)
    if container.name in ("mp4", "mov"):
        ticks = time_base.denominator
        # The unit of edit lists, which hold where each track begins and ends: one that both tracks have, if possible.
        both = lcm(ticks, audio_rate)
        unit = both if both <= _MOST_TICKS else ticks * max(1, audio_rate // ticks)
        options |= {"video_track_timescale": str(ticks), "movie_timescale": str(unit)}
    return options


class Timeline:
    """Times of a video's frames in its container; refuses those that the container cannot hold.

    Attributes:
        shift: Ticks that are added to all times, also to those of audio; known after the first frame.
        unit: Unit of the container's times.
    """

    def __init__(self, container: ContainerRule, path: str, time_base: Fraction, rate: Fraction) -> None:
        self._container, self._path = container, path
        self.time_base = time_base
        self._rate = rate
        self._first: int | None = None
        self._last = 0
        self._count = 0
        self.shift = 0
        self.unit = 1 / rate if container.name == "avi" else time_base
        if container.name == "avi" and rate > _MOST_AVI_RATE:
            raise self._refuse(
                f"a .avi file has at most {_MOST_AVI_RATE} frames a second, and these are {float(rate):g}: write .mp4"
            )

    def convert(self, pts: int) -> int:
        """Convert the time of the next frame to the container's; raise UsageError if that cannot hold it."""
        if self._first is None:
            self._first = pts
            self.shift = -pts if pts < 0 or self._container.name == "avi" else 0
        else:
            self._check_gap(pts)
        self._last = pts
        self._count += 1
        return self._count - 1 if self._container.name == "avi" else pts + self.shift

    def _check_gap(self, pts: int) -> None:
        name = self._container.name
        if name == "avi":
            assert self._first is not None
            # Rounding moves a time by less than a tick; a tick may be as long as a frame.
            error = abs((pts - self._first) * self.time_base - self._count / self._rate)
            if error > min(self.time_base, 1 / self._rate / 4):
                seconds = float((pts - self._first) * self.time_base)
                raise self._refuse(
                    f"the frames of a .avi file have equal distances, and frame {self._count} comes {seconds:.6f} s "
                    f"after the first instead of {float(self._count / self._rate):.6f} s: write .mp4 or .mkv, or give "
                    "fps="
                )
        elif name in ("mkv", "webm"):
            if _to_milliseconds(pts * self.time_base) == _to_milliseconds(self._last * self.time_base):
                raise self._refuse(
                    f"frames {self._count - 1} and {self._count} fall in one millisecond, the unit of a .{name} file: "
                    "write .mp4"
                )
        elif pts - self._last > _MOST_TICKS:
            seconds = float((pts - self._last) * self.time_base)
            raise self._refuse(
                f"frame {self._count} comes {seconds:g} s after the one before, more than a .{name} file holds in a "
                f"time base of {self.time_base}: write .mkv"
            )

    def _refuse(self, reason: str) -> UsageError:
        return UsageError(f"cannot write {self._path}: {reason}")


def _to_milliseconds(seconds: Fraction) -> int:
    # As av_rescale_q rounds: to nearest, halves away from zero.
    scaled = seconds / _MKV_BASE
    return int(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)


class PacketQueue:
    """Gives packets their times: each frame lasts until the next one, the last for its own duration.

    A packet is muxed when the time after it is known.
    """

    def __init__(self, output: Output, stream: VideoStream, timeline: Timeline) -> None:
        self._output, self._stream, self._timeline = output, stream, timeline
        self._times: deque[int] = deque()
        self._packets: deque[Packet] = deque()

    def add_time(self, pts: int) -> None:
        """Add the time of the next frame."""
        self._times.append(self._timeline.convert(pts))

    def add_packet(self, packet: Packet) -> None:
        """Add the packet of the next frame."""
        self._packets.append(packet)
        while self._packets and len(self._times) > 1:
            self._mux(self._times[1] - self._times[0])

    def finish(self, duration: int) -> None:
        """Mux the last packets; the duration of the last frame is in ticks of the timeline's time base."""
        while self._packets:
            ticks = 1 if self._timeline.unit != self._timeline.time_base else duration
            self._mux(self._times[1] - self._times[0] if len(self._times) > 1 else ticks)

    def _mux(self, duration: int) -> None:
        packet = self._packets.popleft()
        packet.stream = self._stream
        packet.time_base = self._timeline.unit
        packet.pts = packet.dts = self._times.popleft()
        packet.duration = duration
        self._output.container.mux_one(packet)

    @property
    def is_empty(self) -> bool:
        """Whether every frame's packet has been muxed."""
        return not self._times and not self._packets
