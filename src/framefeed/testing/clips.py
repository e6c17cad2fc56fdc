"""Write tiny videos whose frames name themselves, through PyAV alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import av.container
import av.video.reformatter
import av.video.stream
import numpy as np
import numpy.typing as npt

from framefeed.testing.stamps import draw_stamp

# One thread and no version strings or random ids in the file: the same bytes every time, where the codec allows.
_BITEXACT_CONTAINER = {"fflags": "+bitexact"}
_BITEXACT_CODEC = {"flags": "+bitexact"}

# What makes each encoder quick, single-threaded and quiet.
_ENCODER_DEFAULTS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "veryfast"},
    "libx265": {"preset": "ultrafast", "x265-params": "pools=none:frame-threads=1:log-level=none"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
    "libsvtav1": {"preset": "12", "svtav1-params": "lp=1"},
}

Picture = npt.NDArray[np.uint8]
Draw = Callable[[int], Picture]


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """One video stream of self-naming frames.

    Example:
        A phone video: portrait, variable rate::

            ClipSpec(num_frames=3, rotation=90, pts=(0, 33, 71), time_base=Fraction(1, 1000))

    Attributes:
        num_frames: How many frames.
        height: Coded rows.
        width: Coded columns.
        fps: Frames a second; where `pts` is given, what the header claims.
        codec: Name of an encoder of PyAV.
        pixel_format: As FFmpeg names it.
        gop: Largest distance of key frames; None leaves the encoder's own.
        b_frames: Most B-frames in a row; None leaves the encoder's own.
        codec_options: Further encoder options, such as ``{"x264-params": "open-gop=1"}``.
        container_options: Muxer options, such as ``{"movflags": "+faststart"}``.
        container_format: Muxer name, for a file name that does not say it.
        pts: Time of each frame in units of `time_base`; None for a constant rate from 0.
        time_base: Unit of `pts`; None for 1/fps.
        start_seconds: Added to every time.
        rotation: Degrees counter-clockwise by which a player turns the picture (written as a display matrix).
        mirrored: Whether a player mirrors it left to right, after turning.
        first_stamp: Number of the first frame; the others count on from it.
        style: Colour and motion of the background.
        seed: Texture of the background.
        draw: Another source of pictures: ordinal to uint8 RGB [height, width, 3].
    """

    num_frames: int = 100
    height: int = 96
    width: int = 128
    fps: Fraction | int = 25
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    gop: int | None = 25
    b_frames: int | None = 3
    codec_options: Mapping[str, str] = field(default_factory=dict)
    container_options: Mapping[str, str] = field(default_factory=dict)
    container_format: str | None = None
    pts: tuple[int, ...] | None = None
    time_base: Fraction | None = None
    start_seconds: Fraction | float = 0
    rotation: int = 0
    mirrored: bool = False
    first_stamp: int = 0
    style: int = 0
    seed: int = 0
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if self.pts is not None and len(self.pts) != self.num_frames:
            raise ValueError(f"{self.num_frames} frames need as many pts, not {len(self.pts)}")

    @property
    def stamps(self) -> tuple[int, ...]:
        """The numbers of the frames in the order in which they are shown."""
        return tuple(range(self.first_stamp, self.first_stamp + self.num_frames))


def write_clip(path: str | os.PathLike[str], *specs: ClipSpec) -> Path:
    """Write a video file of one stream per spec.

    Args:
        path: Where to; the ending chooses the container unless the first spec names it.
        *specs: The streams; container options are the first one's. Without any, one `ClipSpec()`.

    Returns:
        The path.

    Raises:
        ValueError: If a spec contradicts itself.
        av.FFmpegError: If the encoder or the muxer refuses.
    """
    specs = specs or (ClipSpec(),)
    options = {**_BITEXACT_CONTAINER, **specs[0].container_options}
    with av.open(os.fspath(path), "w", format=specs[0].container_format, options=options) as container:
        streams = [add_stream(container, spec) for spec in specs]
        for number, frame in _interleaved([frames_of(spec) for spec in specs]):
            container.mux(streams[number].encode(frame))
        for stream in streams:
            container.mux(stream.encode(None))
    return Path(path)


def add_stream(container: av.container.OutputContainer, spec: ClipSpec) -> av.video.stream.VideoStream:
    """Add the stream of a spec to a container that is being written."""
    options = {**_BITEXACT_CODEC, **_ENCODER_DEFAULTS.get(spec.codec, {}), **spec.codec_options}
    stream = container.add_stream(spec.codec, rate=spec.fps, options=options)
    assert isinstance(stream, av.video.stream.VideoStream)
    stream.height, stream.width, stream.pix_fmt = spec.height, spec.width, spec.pixel_format
    context = stream.codec_context
    context.thread_count = 1
    context.time_base = time_base_of(spec)
    if spec.gop is not None:
        context.gop_size = spec.gop
    if spec.b_frames is not None:
        context.max_b_frames = spec.b_frames
    if spec.rotation or spec.mirrored:
        stream.set_display_rotation(spec.rotation, hflip=spec.mirrored)
    return stream


def time_base_of(spec: ClipSpec) -> Fraction:
    """Unit of the encoder's times: the spec's own, else one frame."""
    return spec.time_base if spec.time_base is not None else 1 / Fraction(spec.fps)


def frames_of(spec: ClipSpec) -> Iterator[av.VideoFrame]:
    """Yield the frames of a spec as they go to its encoder."""
    unit = time_base_of(spec)
    per_frame = 1 / Fraction(spec.fps) / unit
    offset = round(Fraction(spec.start_seconds) / unit)
    reformatter = av.video.reformatter.VideoReformatter()
    for ordinal in range(spec.num_frames):
        picture = av.VideoFrame.from_ndarray(draw_frame(spec, ordinal), format="rgb24")
        frame = reformatter.reformat(picture, format=spec.pixel_format, threads=1)
        frame.pts = offset + (round(ordinal * per_frame) if spec.pts is None else spec.pts[ordinal])
        frame.time_base = unit
        yield frame


def draw_frame(spec: ClipSpec, ordinal: int) -> Picture:
    """Draw the frame of a spec at an ordinal: uint8 RGB [height, width, 3]."""
    if spec.draw is not None:
        return spec.draw(ordinal)
    return draw_stamp(spec.first_stamp + ordinal, spec.height, spec.width, style=spec.style, seed=spec.seed)


def _interleaved(sources: list[Iterator[av.VideoFrame]]) -> Iterator[tuple[int, av.VideoFrame]]:
    """Yield (stream, frame) by rising time, so that the muxer need not hold a whole stream back."""
    heads = {number: next(source, None) for number, source in enumerate(sources)}
    while waiting := {number: frame for number, frame in heads.items() if frame is not None}:
        number = min(waiting, key=lambda key: _seconds(waiting[key]))
        yield number, waiting[number]
        heads[number] = next(sources[number], None)


def _seconds(frame: av.VideoFrame) -> Fraction:
    assert frame.pts is not None and frame.time_base is not None
    return frame.pts * frame.time_base
