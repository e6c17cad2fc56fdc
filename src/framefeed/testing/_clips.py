"""Write small videos whose frames show their own numbers, with PyAV alone."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import av.container
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.stream import Disposition
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from framefeed._checks import expand_home
from framefeed.encode import restoring_scheduling
from framefeed.media import read_rational
from framefeed.testing._stamps import COLOURS, draw_stamp

# One thread and no version strings or random ids in the file: the same bytes every time, where the codec allows.
_BITEXACT_CONTAINER = {"fflags": "+bitexact"}
_BITEXACT_CODEC = {"flags": "+bitexact"}
_AUDIO_RATE = 48000

# Options that make each encoder fast, single-threaded, silent and repeatable. x264's macroblock tree reads past the
# edge of small pictures: with it, the same frames give other bytes from one run to the next.
_ENCODER_DEFAULTS: dict[str, dict[str, str]] = {
    "libx264": {"preset": "veryfast", "mbtree": "0"},
    "libx264rgb": {"preset": "veryfast", "mbtree": "0"},
    "libx265": {"preset": "ultrafast", "x265-params": "pools=none:frame-threads=1:log-level=none"},
    # Not "realtime": libvpx then chooses its effort by the clock.
    "libvpx": {"deadline": "good", "cpu-used": "5"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
    "libsvtav1": {"preset": "8", "crf": "20", "svtav1-params": "lp=1"},
}

# Separators of options that are lists: a spec adds to these instead of replacing them.
_SEPARATORS = {"flags": "", "svtav1-params": ":", "x265-params": ":"}

Picture = npt.NDArray[np.uint8]
Draw = Callable[[int], Picture]


@dataclass(frozen=True, slots=True)
class ClipSpec:
    """Description of one video stream whose frames show their own numbers.

    Example:
        A phone video: portrait, variable rate::

            ClipSpec(num_frames=3, rotation=90, pts=(0, 33, 71), time_base=Fraction(1, 1000))

    Attributes:
        num_frames: Number of frames.
        height: Coded rows.
        width: Coded columns.
        fps: Frames per second; if `pts` is given, only the rate in the header.
        codec: Name of an encoder of PyAV.
        pixel_format: FFmpeg's name of the pixel format.
        gop: Largest distance of key frames; None uses the encoder's default.
        b_frames: Largest number of B-frames in a row; None uses the encoder's default.
        codec_options: Further encoder options, such as ``{"x264-params": "open-gop=1"}``.
        container_options: Muxer options, such as ``{"movflags": "+faststart"}``.
        container_format: Name of the muxer, if the ending of the file name does not decide it.
        pts: Time of each frame in units of `time_base`; None for a constant rate from 0.
        time_base: Unit of `pts`; None for 1/fps.
        start_seconds: Added to every time.
        rotation: Degrees counter-clockwise, a multiple of 90, by which a player turns the coded picture (written as
            a display matrix); frames are drawn so that they stand upright after it.
        mirrored: Whether a player flips it left to right, after turning.
        disposition: Disposition of the stream in the container, such as ``"attached_pic"``; None uses the muxer's
            default.
        first_stamp: Number of the first frame; the others count on from it.
        style: Colour and motion of the background.
        seed: Texture of the background.
        draw: Function that draws the pictures instead: ordinal to uint8 RGB [height, width, 3] as displayed.
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
    disposition: str | None = None
    first_stamp: int = 0
    style: int = 0
    seed: int = 0
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if self.pts is not None and len(self.pts) != self.num_frames:
            raise ValueError(f"pts: expected one for each of num_frames={self.num_frames} frames, got {len(self.pts)}")
        if self.rotation % 90:
            raise ValueError(f"rotation: expected a multiple of 90 degrees, got {self.rotation}")

    @property
    def displayed_size(self) -> tuple[int, int]:
        """(height, width) after turning."""
        return (self.width, self.height) if self.rotation % 180 else (self.height, self.width)

    @property
    def stamps(self) -> tuple[int, ...]:
        """The numbers of the frames in the order in which they are shown."""
        return tuple(range(self.first_stamp, self.first_stamp + self.num_frames))


@dataclass(frozen=True, slots=True)
class AudioSpec:
    """Description of one silent audio stream.

    Attributes:
        seconds: Length of the stream, rounded to 1024 samples.
        codec: Name of an audio encoder of PyAV.
    """

    seconds: float = 2.0
    codec: str = "aac"


def write_clip(path: str | os.PathLike[str], *specs: ClipSpec | AudioSpec) -> Path:
    """Write a media file with one stream per spec.

    Args:
        path: File to write; its ending chooses the container, unless the first clip has a ``container_format``.
        *specs: The streams; the container options of the first clip are used. Without any spec, one `ClipSpec()`.

    Returns:
        The path.

    Raises:
        ValueError: Two values of a spec contradict each other.
        av.FFmpegError: The encoder or the muxer does not accept the spec.
    """
    specs = specs or (ClipSpec(),)
    first = next((spec for spec in specs if isinstance(spec, ClipSpec)), ClipSpec())
    path = expand_home(os.fspath(path))
    with open_output(path, first.container_format, first.container_options) as container:
        _write_streams(container, specs)
    return Path(path)


def make_folder(
    path: str | os.PathLike[str],
    classes: int = 2,
    videos_per_class: int = 4,
    seconds: float = 10.0,
    fps: Fraction | int = 30,
    size: tuple[int, int] = (120, 160),
) -> list[Path]:
    """Write videos whose frames show their own numbers, in one sub-folder per class.

    Classes differ in the colour of the picture and the direction in which it moves; videos of a class in texture
    and speed. In every video frame k reads as stamp k.

    Args:
        path: Folder to write to; created if missing.
        classes: Number of classes.
        videos_per_class: Number of videos of each class.
        seconds: Length of each video.
        fps: Frames per second.
        size: (height, width) of the picture.

    Returns:
        The files, sorted.
    """
    files = []
    for number in range(classes):
        colour, repeat = COLOURS[number % len(COLOURS)][0], number // len(COLOURS)
        folder = Path(path).expanduser() / (f"{colour}_{repeat + 1}" if repeat else colour)
        folder.mkdir(parents=True, exist_ok=True)
        for video in range(videos_per_class):
            spec = ClipSpec(
                num_frames=round(Fraction(seconds) * fps),
                height=size[0],
                width=size[1],
                fps=fps,
                gop=60,
                b_frames=2,
                codec_options={"preset": "ultrafast"},
                style=number,
                seed=video,
            )
            files.append(write_clip(folder / f"video_{video:03d}.mp4", spec))
    return sorted(files)


def clip_bytes(spec: ClipSpec, container_format: str) -> bytes:
    """Write a clip to memory and return its bytes."""
    buffer = io.BytesIO()
    with open_output(buffer, container_format, spec.container_options) as container:
        _write_streams(container, (spec,))
    return buffer.getvalue()


def open_output(
    target: str | io.BytesIO, container_format: str | None = None, options: Mapping[str, str] | None = None
) -> av.container.OutputContainer:
    """Open a container for writing that holds no random ids and no version strings."""
    return av.open(target, "w", format=container_format, options={**_BITEXACT_CONTAINER, **(options or {})})


def _write_streams(container: av.container.OutputContainer, specs: Sequence[ClipSpec | AudioSpec]) -> None:
    streams: list[VideoStream | AudioStream] = []
    sources: list[Iterator[av.VideoFrame | av.AudioFrame]] = []
    for spec in specs:
        if isinstance(spec, ClipSpec):
            streams.append(add_stream(container, spec))
            sources.append(frames_of(spec))
        else:
            stream = container.add_stream(spec.codec, rate=_AUDIO_RATE, options=_BITEXACT_CODEC)
            assert isinstance(stream, AudioStream)
            stream.layout = "mono"
            streams.append(stream)
            sources.append(_make_silence(spec))
    with _silencing_svt(), restoring_scheduling():
        # Without this, an empty video would have no header.
        container.start_encoding()
    unfinished = set()
    for number, frame in _interleave(sources):
        container.mux(streams[number].encode(frame))  # type: ignore[arg-type]  # a stream's own kind of frame
        unfinished.add(number)
    for number in sorted(unfinished):
        container.mux(streams[number].encode(None))


@contextmanager
def _silencing_svt() -> Iterator[None]:
    """Set the variable without which SVT-AV1 prints to stderr when it is opened."""
    before = os.environ.get("SVT_LOG")
    os.environ["SVT_LOG"] = "0"  # as framefeed.encode, because it is read once in a process
    try:
        yield
    finally:
        if before is None:
            del os.environ["SVT_LOG"]
        else:
            os.environ["SVT_LOG"] = before


def _make_silence(spec: AudioSpec) -> Iterator[av.AudioFrame]:
    for start in range(0, round(spec.seconds * _AUDIO_RATE), 1024):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = _AUDIO_RATE, start, Fraction(1, _AUDIO_RATE)
        yield frame


def add_stream(container: av.container.OutputContainer, spec: ClipSpec) -> VideoStream:
    """Add the stream of a spec to a container that is being written."""
    options = {**_BITEXACT_CODEC, **_ENCODER_DEFAULTS.get(spec.codec, {})}
    for name, value in spec.codec_options.items():
        is_list = name in _SEPARATORS and name in options
        options[name] = options[name] + _SEPARATORS[name] + value if is_list else value
    stream = container.add_stream(spec.codec, rate=Fraction(spec.fps), options=options)
    assert isinstance(stream, VideoStream)
    stream.height, stream.width, stream.pix_fmt = spec.height, spec.width, spec.pixel_format
    context = stream.codec_context
    context.thread_count = 1
    context.time_base = get_time_base(spec)
    if spec.gop is not None:
        context.gop_size = spec.gop
    if spec.b_frames is not None:
        context.max_b_frames = spec.b_frames
    if spec.rotation or spec.mirrored:
        stream.set_display_rotation(spec.rotation, hflip=spec.mirrored)
    if spec.disposition is not None:
        stream.disposition = Disposition[spec.disposition]
    return stream


def get_time_base(spec: ClipSpec) -> Fraction:
    """Get the unit of the encoder's times: that of the spec, else one frame."""
    return spec.time_base if spec.time_base is not None else 1 / Fraction(spec.fps)


def frames_of(spec: ClipSpec) -> Iterator[av.VideoFrame]:
    """Yield the frames of a spec, as its encoder gets them."""
    unit = get_time_base(spec)
    per_frame = 1 / Fraction(spec.fps) / unit
    offset = round(Fraction(spec.start_seconds) / unit)
    reformatter = VideoReformatter()
    for ordinal in range(spec.num_frames):
        frame = _draw_coded(spec, ordinal, reformatter)
        frame.pts = offset + (round(ordinal * per_frame) if spec.pts is None else spec.pts[ordinal])
        frame.time_base = unit
        yield frame


def _draw_coded(spec: ClipSpec, ordinal: int, reformatter: VideoReformatter) -> av.VideoFrame:
    picture = draw_frame(spec, ordinal)
    if spec.pixel_format != "pal8":
        return reformatter.reformat(av.VideoFrame.from_ndarray(picture, "rgb24"), format=spec.pixel_format, threads=1)
    # Rounded to 6 x 6 x 6 colours: libav itself converts from palettes, not to them.
    indices = (picture // 43).astype(np.uint8) @ np.array([36, 6, 1], np.uint8)
    levels = np.arange(6, dtype=np.uint8) * 51
    palette = np.full((256, 4), 255, np.uint8)
    palette[:216, 1:] = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(216, 3)
    # PyAV's stubs leave the pair out.
    return av.VideoFrame.from_ndarray((indices, palette), "pal8")  # type: ignore[arg-type]


def draw_frame(spec: ClipSpec, ordinal: int) -> Picture:
    """Draw the frame of a spec at an ordinal, as coded: uint8 RGB [height, width, 3]."""
    if spec.draw is not None:
        displayed = spec.draw(ordinal)
    else:
        displayed = draw_stamp(spec.first_stamp + ordinal, *spec.displayed_size, style=spec.style, seed=spec.seed)
    unmirrored = displayed[:, ::-1] if spec.mirrored else displayed
    return np.ascontiguousarray(np.rot90(unmirrored, -spec.rotation // 90))


def _interleave(
    sources: list[Iterator[av.VideoFrame | av.AudioFrame]],
) -> Iterator[tuple[int, av.VideoFrame | av.AudioFrame]]:
    """Yield (stream, frame) by rising time, so that the muxer need not buffer a whole stream."""

    def compute_seconds(number: int) -> Fraction:
        frame = waiting[number]
        time_base = read_rational(frame.time_base)
        assert frame.pts is not None and time_base is not None
        return frame.pts * time_base

    heads = {number: next(source, None) for number, source in enumerate(sources)}
    while waiting := {number: frame for number, frame in heads.items() if frame is not None}:
        number = min(waiting, key=compute_seconds)
        yield number, waiting[number]
        heads[number] = next(sources[number], None)


@dataclass(frozen=True, slots=True)
class Coded:
    """One packet.

    Attributes:
        data: Bytes of the packet.
        pts: Presentation time, in the time base of the muxer; None where unknown.
        dts: Decoding time, in the same unit; None where unknown.
        is_key: Whether the container flags it as a key frame.
        duration: Duration in the same unit; 0 where unknown.
    """

    data: bytes
    pts: int | None
    dts: int | None
    is_key: bool = False
    duration: int = 0


def take_packets(media: bytes) -> tuple[list[Coded], Fraction]:
    """Read the packets of the first video stream and their time base."""
    with av.open(io.BytesIO(media), "r") as container:
        stream = container.streams.video[0]
        packets = [
            Coded(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, packet.duration or 0)
            for packet in container.demux(stream)
            if packet.size
        ]
        time_base = read_rational(stream.time_base)
        assert time_base is not None
        return packets, time_base


def put_packets(
    path: str | os.PathLike[str],
    template: bytes,
    packets: Iterable[Coded],
    time_base: Fraction,
    options: Mapping[str, str] | None = None,
) -> None:
    """Write packets into a container.

    Args:
        path: Path of the file; the ending chooses the container.
        template: A file whose first video stream has the codec parameters (size, extradata) of the packets.
        packets: Packets in decode order.
        time_base: Unit of their times.
        options: Muxer options.
    """
    with av.open(io.BytesIO(template), "r") as source, open_output(os.fspath(path), None, options) as target:
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        target.start_encoding()
        for coded in packets:
            packet = av.Packet(coded.data)
            packet.pts, packet.dts, packet.duration = coded.pts, coded.dts, coded.duration
            packet.time_base, packet.is_keyframe = time_base, coded.is_key
            packet.stream = stream
            target.mux(packet)
