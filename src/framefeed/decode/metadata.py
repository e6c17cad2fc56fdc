"""VideoMetadata: facts of a stream, under the names that TorchCodec has, and more."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from framefeed.index.frame_index import FrameIndex
from framefeed.media.details import StreamDetails


@dataclass(frozen=True, slots=True)
class VideoMetadata:
    """Facts of one video stream. Names that end in ``_from_header`` are claims of the header, which may be wrong.

    Attributes:
        num_frames: Frames that the decoder gives.
        duration_seconds: From the begin of the first frame to the end of the last; None without timestamps.
        begin_stream_seconds: Time of the first frame on the stream's timeline; None without timestamps.
        end_stream_seconds: End of the last frame; None without timestamps.
        average_fps: (frames - 1) / (last time - first time); None without timestamps, or with fewer than two frames.
        width: Columns as displayed.
        height: Rows as displayed.
        codec: Codec name.
        stream_index: Number of the stream in its container.
        pixel_format: FFmpeg's name of the pixel format.
        rotation: Degrees counter-clockwise by which frames are turned for display.
        mirrored: Whether frames are flipped left to right after that.
        container: FFmpeg's name of the container format.
        time_base: Seconds of one tick of the stream's timestamps.
        is_variable_frame_rate: Whether the times between frames differ.
        num_key_frames: Frames at which decoding can start.
        built_from: How the frames were found: "packets", "packets+proof", "packets+ends" or "decode".
        times_from: Where their times come from: "pts", "dts", "rate", "assumed" or "none".
        bit_rate: Bits per second, from the header, or None.
        pixel_aspect_ratio: Width of one pixel divided by its height, or None.
        color_primaries: ITU-T H.273 code. From ``ff.torch``: its name, as in TorchCodec, or None if unspecified.
        color_space: ITU-T H.273 matrix code; from ``ff.torch`` its name or None.
        color_transfer_characteristic: ITU-T H.273 code; from ``ff.torch`` its name or None.
        num_frames_from_header: The header's claim, or None.
        num_frames_from_content: As ``num_frames``.
        duration_seconds_from_header: The header's claim, or None.
        average_fps_from_header: The header's claim, or None.
        begin_stream_seconds_from_header: The header's claim, or None.
        begin_stream_seconds_from_content: As ``begin_stream_seconds``.
        end_stream_seconds_from_content: As ``end_stream_seconds``.
    """

    num_frames: int
    duration_seconds: float | None
    begin_stream_seconds: float | None
    end_stream_seconds: float | None
    average_fps: float | None
    width: int
    height: int
    codec: str
    stream_index: int
    pixel_format: str
    rotation: int
    mirrored: bool
    container: str
    time_base: Fraction
    is_variable_frame_rate: bool
    num_key_frames: int
    built_from: str
    times_from: str
    bit_rate: int | None
    pixel_aspect_ratio: Fraction | None
    color_primaries: int | str | None
    color_space: int | str | None
    color_transfer_characteristic: int | str | None
    num_frames_from_header: int | None
    num_frames_from_content: int
    duration_seconds_from_header: float | None
    average_fps_from_header: float | None
    begin_stream_seconds_from_header: float | None
    begin_stream_seconds_from_content: float | None
    end_stream_seconds_from_content: float | None


def describe(index: FrameIndex, details: StreamDetails) -> VideoMetadata:
    """Join the claims of the header and the facts found by indexing."""
    timed = index.has_timestamps
    begin = float(int(index.pts[0]) * index.time_base) if timed else None
    end = float(index.end_pts * index.time_base) if timed else None
    height, width = index.stream.displayed
    return VideoMetadata(
        num_frames=len(index),
        duration_seconds=end - begin if begin is not None and end is not None else None,
        begin_stream_seconds=begin,
        end_stream_seconds=end,
        average_fps=index.average_fps,
        width=width,
        height=height,
        codec=index.stream.codec,
        stream_index=index.stream.stream_index,
        pixel_format=index.stream.pixel_format,
        rotation=index.stream.rotation,
        mirrored=index.stream.mirrored,
        container=index.stream.container,
        time_base=index.time_base,
        is_variable_frame_rate=index.is_variable_frame_rate,
        num_key_frames=len(index.key_frame_indices),
        built_from=index.built_from,
        times_from=index.times_from,
        bit_rate=details.bit_rate,
        pixel_aspect_ratio=details.pixel_aspect_ratio,
        color_primaries=details.color_primaries,
        color_space=details.color_space,
        color_transfer_characteristic=details.color_transfer_characteristic,
        num_frames_from_header=details.num_frames,
        num_frames_from_content=len(index),
        duration_seconds_from_header=details.duration_seconds,
        average_fps_from_header=details.average_fps,
        begin_stream_seconds_from_header=details.begin_seconds,
        begin_stream_seconds_from_content=begin,
        end_stream_seconds_from_content=end,
    )
