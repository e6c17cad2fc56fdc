"""The oracle: what PyAV gives when a file is read once, from the first packet to the last, in one thread.

Nothing of the product takes part: not its way of choosing packets, nor its way of looking at planes.
Use as ``from tests.reference import read_reference``.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from pathlib import Path

import av
import numpy as np
import xxhash
from av.codec import CodecContext
from av.codec.context import Flags
from av.container import InputContainer
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream
from PIL import Image, ImageOps

Planes = str
"""Width, height, pixel format and digest of a picture as it left the decoder."""


@dataclass(frozen=True, slots=True)
class ReferenceFrame:
    """One frame of a sequential decode.

    Attributes:
        pts: In the stream's time base.
        planes: The picture.
        rgb: Digest of its RGB pixels as stored; empty where not asked for.
        is_suspect: The decoder met damage between the frame's key frame and the frame.
    """

    pts: int | None
    planes: Planes
    rgb: bytes = b""
    is_suspect: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """All frames of one stream in the decoder's order; ``breaks_off`` where demuxing ends in an error."""

    frames: tuple[ReferenceFrame, ...]
    stream_index: int
    time_base: Fraction
    breaks_off: bool

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def pts(self) -> list[int | None]:
        return [frame.pts for frame in self.frames]

    @property
    def planes(self) -> list[Planes]:
        return [frame.planes for frame in self.frames]


def open_media(path: str | Path) -> InputContainer:
    """Open a file with PyAV, whatever bytes its titles have: version 18 must be told to take them."""
    options = {"metadata_errors": "replace"} if hasattr(InputContainer, "metadata_errors") else {}
    return av.open(os.fspath(path), **options)


def read_reference(
    path: str | Path,
    *,
    rgb: bool = False,
    limit: int | None = None,
    on_frame: Callable[[VideoFrame], object] | None = None,
) -> Reference:
    """Decode a whole file, or its first ``limit`` frames, and show each to a function."""
    with open_media(path) as container:
        stream = best_stream(container)
        stream.codec_context.thread_count = 1
        stream.codec_context.thread_type = "NONE"
        run = _Run(container.demux(stream), stream.codec_context)
        converter = VideoReformatter()
        frames = []
        for frame in islice(run.frames(), limit):
            pts = frame.pts  # Packing may write to it.
            if on_frame is not None:
                on_frame(frame)
            frames.append(ReferenceFrame(pts, planes_of(frame), _rgb_digest(frame, converter) if rgb else b""))
        judged = tuple(replace(frame, is_suspect=bad) for frame, bad in zip(frames, run.suspects(), strict=True))
        time_base = Fraction(stream.time_base.numerator, stream.time_base.denominator)
        return Reference(judged, stream.index, time_base, run.breaks_off)


@lru_cache(maxsize=512)
def kept_reference(path: Path) -> Reference:
    """Decode a generated file once a test process: digests, no pixels."""
    return read_reference(path, rgb=True)


def best_stream(container: InputContainer) -> VideoStream:
    """The stream that libav takes, but no cover picture."""
    pictures = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    best = container.streams.best("video")
    return next((stream for stream in pictures if best is not None and stream.index == best.index), pictures[0])


def planes_of(frame: VideoFrame) -> Planes:
    """Name a picture by its content."""
    digest = xxhash.xxh3_128()  # a picture of 1080p: 0.1 ms, where BLAKE2 takes 4
    for packet in _packer(frame.width, frame.height, frame.format.name).encode(frame):
        digest.update(packet)
    return f"{frame.width}x{frame.height} {frame.format.name} {digest.hexdigest()}"


def packed_planes(frame: VideoFrame) -> bytes:
    """A picture's planes without padding: the raw video encoder knows which bytes of a plane are padding."""
    packer = _packer(frame.width, frame.height, frame.format.name)
    return b"".join(bytes(packet) for packet in packer.encode(frame))


def rgb_digest(pixels: np.ndarray) -> bytes:
    """Digest of RGB pixels uint8 [H, W, 3]."""
    return xxhash.xxh3_128_digest(np.ascontiguousarray(pixels))


WARNED = {"hopper_bad_exif.jpg", "pixel-motion-photo-shortened.jpg", "bad_huffman.jpg"}
"""Real pictures of which libjpeg warns, and Pillow shows stripes and grey."""


def read_picture(path: Path) -> np.ndarray | None:
    """Decode a picture by Pillow to upright RGB; None where it cannot, or where framefeed has a rule of its own."""
    if path.name in WARNED:
        return None
    Image.init()
    formats = [name for name in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF") if name in Image.OPEN]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(path, formats=formats) as image:
                image.load()
                if image.mode.startswith("I;16"):
                    return None
                upright = ImageOps.exif_transpose(image)
                upright.info.pop("transparency", None)
                return np.asarray(upright.convert("RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            return None


class _Run:
    """One pass over a file: empty packets and packets that the decoder refuses give no frame and stop nothing."""

    def __init__(self, packets: Iterator[av.Packet], context: VideoCodecContext) -> None:
        self._packets = packets
        self._context = context
        # Packets are numbered, and every frame carries its packet's number: times may be missing or doubled.
        context.flags |= Flags.copy_opaque
        self._numbers: list[int | None] = []
        self._keys: list[int] = []
        self._damage: list[int] = []
        self.breaks_off = False

    def frames(self) -> Iterator[VideoFrame]:
        number = 0
        for packet in self._until_it_breaks():
            if packet.size:
                packet.opaque = number
                yield from self._decode(packet)
                number += 1
        yield from self._decode(None)

    def suspects(self) -> list[bool]:
        """Whether damage lies between each frame's last undamaged key frame and the frame itself."""
        keys = sorted(set(self._keys) - set(self._damage))
        return [self._is_suspect(number, keys) for number in self._numbers]

    def _is_suspect(self, number: int | None, keys: list[int]) -> bool:
        if number is None:
            return bool(self._damage)
        start = max((key for key in keys if key <= number), default=0)
        return any(start <= damage <= number for damage in self._damage)

    def _until_it_breaks(self) -> Iterator[av.Packet]:
        try:
            yield from self._packets
        except av.FFmpegError:
            self.breaks_off = True

    def _decode(self, packet: av.Packet | None) -> Iterator[VideoFrame]:
        try:
            frames = self._context.decode(packet)
        except (av.FFmpegError, EOFError):
            if packet is not None:
                self._damage.append(packet.opaque)
            return
        for frame in frames:
            number = frame.opaque
            self._numbers.append(number)
            if number is not None and frame.key_frame:
                self._keys.append(number)
            if number is not None and frame.is_corrupt:
                self._damage.append(number)
            yield frame


_local = threading.local()


def _packer(width: int, height: int, pixel_format: str) -> VideoCodecContext:
    """An encoder of raw video; one a thread, for it has a state."""
    packers = _local.__dict__.setdefault("packers", {})
    key = (width, height, pixel_format)
    if key not in packers:
        packers[key] = _new_packer(*key)
    packer: VideoCodecContext = packers[key]
    return packer


def _new_packer(width: int, height: int, pixel_format: str) -> VideoCodecContext:
    packer = CodecContext.create("rawvideo", "w")
    assert isinstance(packer, VideoCodecContext)
    packer.width, packer.height, packer.pix_fmt = width, height, pixel_format
    packer.time_base = Fraction(1, 1000)
    return packer


def _rgb_digest(frame: VideoFrame, converter: VideoReformatter) -> bytes:
    # PyAV's own default conversion, said aloud: unscaled, bilinear flags, one thread.
    rgb = converter.reformat(frame, format="rgb24", interpolation=Interpolation.BILINEAR, threads=1)
    return rgb_digest(rgb.to_ndarray())
