"""What a stream's header says beyond MediaInfo: bit rate, colour tags, sample aspect ratio."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from framefeed.media.container import VideoContainer
from framefeed.media.foreign import translated
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.source import MediaSource


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """Header facts of one stream; None where the header is silent.

    Attributes:
        bit_rate: Bits a second.
        begin_seconds: Time of the first frame, as the header has it.
        pixel_aspect_ratio: Width to height of one sample.
        color_primaries: ITU-T H.273 code.
        color_space: ITU-T H.273 matrix code.
        color_transfer_characteristic: ITU-T H.273 code.
    """

    bit_rate: int | None
    begin_seconds: float | None
    pixel_aspect_ratio: Fraction | None
    color_primaries: int
    color_space: int
    color_transfer_characteristic: int


def stream_details(source: MediaSource, stream_index: int, limits: Limits = DEFAULT_LIMITS) -> StreamDetails:
    """Open a source and read them; errors as ``probe``."""
    with VideoContainer(source, stream_index, limits) as container, translated(source.name, "open"):
        stream, context = container.stream, container.stream.codec_context
        starts = stream.start_time is not None and stream.time_base is not None
        return StreamDetails(
            bit_rate=stream.bit_rate or None,
            begin_seconds=float((stream.start_time or 0) * (stream.time_base or 0)) if starts else None,
            pixel_aspect_ratio=stream.sample_aspect_ratio or None,
            color_primaries=context.color_primaries,
            color_space=context.colorspace,
            color_transfer_characteristic=context.color_trc,
        )
