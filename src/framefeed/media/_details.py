"""Read the header facts of one stream: number and rate of frames, bit rate, colour tags, sample aspect ratio."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from framefeed._values import DEFAULT_LIMITS, Limits, MediaInfo, StreamColors
from framefeed.media._container import VideoContainer
from framefeed.media._libav_errors import libav_errors
from framefeed.media._libav_versions import read_rational
from framefeed.media._source import MediaSource


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """Header facts of one stream; None if the header does not say."""

    num_frames: int | None  # frames that the stream holds
    duration_seconds: float | None  # seconds that it takes
    average_fps: float | None  # frames a second
    bit_rate: int | None  # bits a second
    begin_seconds: float | None  # time of the first frame, from the header
    pixel_aspect_ratio: Fraction | None  # width to height of one sample
    colors: StreamColors  # colour tags


def read_stream_colors(container: VideoContainer) -> StreamColors:
    """Read libav's colour tags of an open container; they come from headers alone until a packet is decoded."""
    context = container.stream.codec_context
    return StreamColors(
        int(context.color_primaries), int(context.color_trc), int(context.colorspace), int(context.color_range)
    )


def describe_picture_stream(info: MediaInfo) -> StreamDetails:
    """Describe a picture, or a sequence of pictures, as a stream."""
    return StreamDetails(
        num_frames=info.num_frames_from_header,
        duration_seconds=info.duration_seconds_from_header,
        average_fps=info.average_fps_from_header,
        bit_rate=None,
        begin_seconds=None,
        pixel_aspect_ratio=None,
        colors=StreamColors(),
    )


def read_claimed_duration(container: VideoContainer) -> float | None:
    """Read the seconds that the header of an open container claims for its stream, or None."""
    stream = container.stream
    time_base = read_rational(stream.time_base)
    if stream.duration is None or time_base is None:
        return None
    if container.is_withheld and container.codec_name == "h264" and container.format_name.startswith("matroska"):
        return None  # what libav fills in where it does not know when the stream starts
    return float(stream.duration * time_base)


def read_stream_details(source: MediaSource, stream_index: int, limits: Limits = DEFAULT_LIMITS) -> StreamDetails:
    """Open a source and describe one of its streams; errors as ``probe``."""
    with VideoContainer(source, stream_index, limits) as container, libav_errors(source.name, "open"):
        stream = container.stream
        start, time_base, rate = stream.start_time, read_rational(stream.time_base), read_rational(stream.average_rate)
        return StreamDetails(
            num_frames=stream.frames or None,
            duration_seconds=read_claimed_duration(container),
            average_fps=None if rate is None else float(rate),
            bit_rate=stream.bit_rate or None,
            begin_seconds=None if start is None or time_base is None else float(start * time_base),
            pixel_aspect_ratio=read_rational(stream.sample_aspect_ratio),
            colors=read_stream_colors(container),
        )


# Codes of ITU-T H.273 (07/2024), tables 2, 3 and 4; names of FFmpeg (libavutil/pixdesc.c), which its options take and
# ffprobe prints.
PRIMARIES = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020", 10: "smpte428",
    11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
TRANSFERS = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100", 10: "log316",
    11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084",
    17: "smpte428", 18: "arib-std-b67",
}  # fmt: skip
MATRICES = {
    0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc",
    10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp", 15: "ipt-c2",
    16: "ycgco-re", 17: "ycgco-ro",
}  # fmt: skip
