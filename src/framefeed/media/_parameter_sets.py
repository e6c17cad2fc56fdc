"""Ask libav's decoder whether parameter sets are damaged, before a picture is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import av
from av import VideoCodecContext
from av.packet import Packet as AvPacket

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.bitstreams import read_nal_length_size
from framefeed.media._container import Packet, VideoContainer
from framefeed.media._libav_errors import LIBAV_EXCEPTIONS, LogLine, bound_picture_bytes, check_memory, libav_log

_PADDING = 64
"""Zero bytes behind a packet, which FFmpeg's bit readers may read."""


def has_damaged_parameters(container: VideoContainer, inband: Sequence[bytes]) -> bool:
    """Whether a decoder refuses, or reads with an error, one of a stream's parameter sets, those in its packets too.

    Its messages are added to the container's log; the container's own decoder is not used.
    """
    configuration = container.stream.codec_context.extradata
    lines, is_refused = _try_parameter_sets(container.codec_name, configuration, inband, container.limits)
    container.keep_log(lines)
    return is_refused or bool(lines)


@lru_cache(maxsize=256)
def has_damaged_configuration(codec: str, configuration: bytes) -> bool:
    """Whether a decoder refuses, or reads with an error, a parameter set of a configuration of H.264 or HEVC.

    A data set has few different ones, which are remembered.
    """
    lines, is_refused = _try_parameter_sets(codec, configuration, (), DEFAULT_LIMITS)
    return is_refused or bool(lines)


def _try_parameter_sets(
    codec: str, configuration: bytes | None, inband: Sequence[bytes], limits: Limits
) -> tuple[Sequence[LogLine], bool]:
    """Open a decoder and feed it parameter sets; return its log, and whether it refuses them."""
    is_refused = False
    with libav_log() as lines:
        try:
            context = cast("VideoCodecContext", av.CodecContext.create(codec, "r"))
            context.thread_count = 1
            context.extradata = configuration
            # A packet of parameter sets alone is an error to H.264's decoder otherwise.
            context.skip_frame = "NONREF"
            context.open()
            if inband:
                size = read_nal_length_size(codec, configuration)
                prefixes = [len(unit).to_bytes(size, "big") if size else b"\0\0\1" for unit in inband]
                units = [prefix + unit for prefix, unit in zip(prefixes, inband, strict=True)]
                context.decode(make_packet(b"".join(units)))
        except LIBAV_EXCEPTIONS as error:
            check_memory(error, lines, 0, bound_picture_bytes(limits))
            is_refused = True
    if lines:
        check_memory(None, lines, 0, bound_picture_bytes(limits))
    return lines, is_refused


def make_packet(data: bytes) -> Packet:
    buffer = memoryview(data + bytes(_PADDING))
    # PyAV takes any buffer; its stub names bytes only.
    return cast("Packet", AvPacket(cast("bytes", buffer[: len(data)])))
