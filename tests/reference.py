"""The oracle: what PyAV gives when a file is read once, from the first packet to the last, in one thread.

Nothing of the product takes part: not its way of choosing packets, nor its way of looking at planes.
Use as ``from tests.reference import read_reference``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import av
import numpy as np
from av.codec import CodecContext
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

Planes = str
"""Width, height, pixel format and digest of a picture as it left the decoder."""


@dataclass(frozen=True, slots=True)
class ReferenceFrame:
    """One frame of a sequential decode; ``rgb`` is the digest of its RGB pixels as stored, if asked for."""

    pts: int | None
    planes: Planes
    rgb: bytes = b""


@dataclass(frozen=True, slots=True)
class Reference:
    """All frames of one stream in the decoder's order; ``breaks_off`` where demuxing ends in an error."""

    frames: tuple[ReferenceFrame, ...]
    stream_index: int
    time_base: Fraction
    breaks_off: bool
    packet_errors: int

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def pts(self) -> list[int | None]:
        return [frame.pts for frame in self.frames]

    @property
    def planes(self) -> list[Planes]:
        return [frame.planes for frame in self.frames]


@lru_cache(maxsize=512)
def read_reference(path: str | Path, *, rgb: bool = False) -> Reference:
    """Decode a whole file; kept for the life of the test process, so: no pixels in it."""
    with av.open(os.fspath(path), metadata_errors="replace") as container:
        stream = best_stream(container.streams.video)
        stream.codec_context.thread_count = 1
        stream.codec_context.thread_type = "NONE"
        run = _Run(container.demux(stream), stream.codec_context)
        converter = VideoReformatter()
        frames = []
        for frame in run.frames():
            pts = frame.pts  # Packing may write to it.
            frames.append(ReferenceFrame(pts, planes_of(frame), _rgb_digest(frame, converter) if rgb else b""))
        assert stream.time_base is not None
        return Reference(tuple(frames), stream.index, stream.time_base, run.breaks_off, run.packet_errors)


def best_stream(streams: tuple[VideoStream, ...]) -> VideoStream:
    """The stream that API.md names: no cover picture, then the default, then the largest, then the first."""
    pictures = [stream for stream in streams if not stream.disposition & Disposition.attached_pic]
    default = [stream for stream in pictures if stream.disposition & Disposition.default] or pictures
    largest = max(stream.width * stream.height for stream in default)
    return next(stream for stream in default if stream.width * stream.height == largest)


def planes_of(frame: VideoFrame) -> Planes:
    """Name a picture by its content: the raw video encoder knows which bytes of a plane are padding."""
    packer = _packer(frame.width, frame.height, frame.format.name)
    digest = hashlib.blake2b(digest_size=12)
    for packet in packer.encode(frame):
        digest.update(packet)
    return f"{frame.width}x{frame.height} {frame.format.name} {digest.hexdigest()}"


def rgb_digest(pixels: np.ndarray) -> bytes:
    """Digest of RGB pixels uint8 [H, W, 3]."""
    return hashlib.blake2b(np.ascontiguousarray(pixels), digest_size=12).digest()


class _Run:
    """One pass over a file: empty packets and packets that the decoder refuses give no frame and stop nothing."""

    def __init__(self, packets: Iterator[av.Packet], context: VideoCodecContext) -> None:
        self._packets = packets
        self._context = context
        self.breaks_off = False
        self.packet_errors = 0

    def frames(self) -> Iterator[VideoFrame]:
        for packet in self._until_it_breaks():
            if packet.size:
                yield from self._decode(packet)
        yield from self._decode(None)

    def _until_it_breaks(self) -> Iterator[av.Packet]:
        try:
            yield from self._packets
        except av.FFmpegError:
            self.breaks_off = True

    def _decode(self, packet: av.Packet | None) -> list[VideoFrame]:
        try:
            return self._context.decode(packet)
        except (av.FFmpegError, EOFError):
            self.packet_errors += 1
            return []


@lru_cache(maxsize=256)
def _packer(width: int, height: int, pixel_format: str) -> VideoCodecContext:
    packer = CodecContext.create("rawvideo", "w")
    assert isinstance(packer, VideoCodecContext)
    packer.width, packer.height, packer.pix_fmt = width, height, pixel_format
    packer.time_base = Fraction(1, 1000)
    return packer


def _rgb_digest(frame: VideoFrame, converter: VideoReformatter) -> bytes:
    # PyAV's own default conversion, said aloud: unscaled, bilinear flags, one thread.
    rgb = converter.reformat(frame, format="rgb24", interpolation=Interpolation.BILINEAR, threads=1)
    return rgb_digest(rgb.to_ndarray())
