"""Encode pictures as packets with FFmpeg's encoders: one stream of an open container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av
from av.container import OutputContainer
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from framefeed._arrays import ByteArray
from framefeed.encode._codecs import ContainerRule, VideoOptions
from framefeed.encode._muxing import Packet
from framefeed.encode._tags import VideoTags

# Of swscale's ways from RGB to 4:2:0 the fastest and the nearest: averaged chroma of all pixels. 720p: 1.5 ms, and
# 45.8 dB after RGB -> YUV -> RGB of frames that were 4:2:0 before; bilinear 2.7 ms and 42.4 dB, bicubic 3.1 and 44.6.
_FLAGS = Interpolation.AREA | Interpolation.FULL_CHR_H_INP
# AV_CODEC_FLAG_GLOBAL_HEADER of libavcodec/avcodec.h: parameter sets in the header of the container.
_GLOBAL_HEADER = 1 << 22
_PROGRESSIVE = 1
"""AV_FIELD_PROGRESSIVE of libavcodec/defs.h."""
_MOST_TICKS = 65535
"""Largest numerator of a rate in MPEG-4 part 2 (vop_time_increment_resolution)."""


def limit_rate(rate: Fraction) -> Fraction:
    """Return the nearest rate whose denominator is that of television, 1001, or smaller."""
    return max(rate.limit_denominator(1001), Fraction(1, 1001))


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides a written file but its pictures, of one size (height, width); the tags fit the options."""

    path: str
    options: VideoOptions
    tags: VideoTags
    time_base: Fraction
    rate: Fraction
    size: tuple[int, int]
    threads: int


class Encoder:
    """Adds a video stream to a container, and encodes pictures for it.

    The encoder sees frame numbers at a constant rate, so that its output does not depend on times, which its packets
    do not have.
    """

    def __init__(self, container: OutputContainer, recipe: Recipe) -> None:
        options, rate = recipe.options, recipe.rate
        if options.rule.name == "mpeg4" and rate.numerator > _MOST_TICKS:
            rate = Fraction(round(rate))
        self._options, self._tags, self._rate = options, recipe.tags, rate
        self._reformatter = VideoReformatter()
        self._count = 0
        stream = cast("VideoStream", container.add_stream(options.rule.encoder, rate=rate))
        self.stream = stream
        stream.height, stream.width = recipe.size
        stream.pix_fmt = options.coded_format
        context = stream.codec_context
        context.options = options.encoder_options(recipe.threads)
        context.flags |= _GLOBAL_HEADER
        context.time_base = 1 / rate
        context.thread_count = recipe.threads
        tag_context(context, recipe.tags)

    def open(self) -> None:
        """Open the encoder, so that its parameter sets are known."""
        with restoring_scheduling():
            self.stream.codec_context.open()

    def encode(self, picture: ByteArray | av.VideoFrame) -> list[Packet]:
        """Encode a picture; packets come in order, each perhaps many pictures later.

        A frame of libav must have the coded format; the encoder keeps it, so it must not be changed.
        """
        frame = picture if isinstance(picture, av.VideoFrame) else self._convert(picture)
        frame.pts, frame.time_base = self._count, 1 / self._rate
        self._count += 1
        return self.stream.encode(frame)

    def flush(self) -> list[Packet]:
        """End the encoding, and return the last packets."""
        return self.stream.encode(None)

    def _convert(self, picture: ByteArray) -> av.VideoFrame:
        width = picture.shape[1]
        # libav takes rows of any distance, but not pixels that are apart, or rows from bottom to top.
        if picture.strides[1:] != (3, 1) or picture.strides[0] < 3 * width:
            picture = picture.copy()
        frame = av.VideoFrame.from_numpy_buffer(picture, "rgb24")
        tags = self._tags
        coded = self._reformatter.reformat(
            frame,
            format=self._options.coded_format,
            dst_colorspace=tags.matrix,
            dst_color_range=tags.swscale_range,
            interpolation=_FLAGS,
            threads=1,
        )
        if coded is frame:  # The encoder may read it after the caller has changed the picture.
            coded = av.VideoFrame.from_ndarray(picture, "rgb24")
        coded.colorspace, coded.color_range = tags.space, tags.range
        coded.color_primaries, coded.color_trc = tags.primaries, tags.transfer
        return coded


def tag_context(context: av.VideoCodecContext, tags: VideoTags) -> None:
    """Set the tags of a stream that is not open yet; its pictures are progressive."""
    context.field_order = _PROGRESSIVE
    context.color_primaries, context.color_trc = tags.primaries, tags.transfer
    context.colorspace, context.color_range = tags.space, tags.range
    if tags.pixel_aspect_ratio:
        context.sample_aspect_ratio = tags.pixel_aspect_ratio


def code_stream(context: av.VideoCodecContext, codec: str, container: ContainerRule) -> None:
    """Set the code by which players of a container recognise a codec."""
    if codec in container.codes:
        context.codec_tag = container.codes[codec]


# SVT-AV1 leaves the thread that opens it, if that is root's, on real-time scheduling, which its later threads and
# processes inherit: on one core no other process runs then.
@contextmanager
def restoring_scheduling() -> Iterator[None]:
    """Restore the scheduling of the calling thread at the end of the block, in which an encoder is opened."""
    has_policy = hasattr(os, "sched_getscheduler")  # Linux and some other systems
    policy, parameter = (os.sched_getscheduler(0), os.sched_getparam(0)) if has_policy else (0, None)
    try:
        yield
    finally:
        if parameter is not None and os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, parameter)
