"""What libav is asked for when it opens a container: which demuxers, which limits, and whether it may decode."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import av
from av.codec.codec import UnknownCodecError
from av.container import InputContainer

from framefeed.media.foreign import LogLine
from framefeed.media.limits import Limits, padded_pixels

FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,ogg,flv,ivf,h264,hevc,vvc,obu,av1,asf,mxf,nut,mjpeg,vc1,dv,"
    "yuv4mpegpipe,h263,h261,gif,apng,swf,rm,wtv,nsv,"
    "wav,mp3,aac,flac,amr,ac3,eac3,aiff,caf"
)
"""Demuxers that may open media; none of them opens a second file (S01). Audio ones only tell "no video stream"."""
WITHHELD = frozenset({"vp9", "av1", "h264", "hevc"})
"""Codecs whose first picture libav decodes on opening, which takes longer than all else, and of which our provers read
the same in its header."""
_WITH_TIMES = ("mov", "matroska", "flv")
"""Containers that have the times of each packet."""


HEAD_BYTES = 64
"""Of a file, by which ``known_format`` tells its format."""


def known_format(head: bytes) -> str | None:
    """Name the demuxer that libav would find for a file: probing all of them takes half of an opening.

    As ``ivf_probe`` and ``matroska_probe``, which are as sure as any can be. None where that takes more than a look.
    """
    if head.startswith(b"DKIF\0\0\x20\0"):
        return "ivf"
    if head.startswith(b"\x1a\x45\xdf\xa3") and (b"\x42\x82\x84webm" in head or b"\x42\x82\x88matroska" in head):
        return "matroska"
    return None


def libav_options(limits: Limits, headers_only: bool) -> dict[str, str]:
    """Make the options of one opening.

    Args:
        limits: What the file may claim.
        headers_only: Keep libav from decoding pictures of the codecs in ``WITHHELD``; it says so in its log.
    """
    options = {
        "format_whitelist": FORMATS,
        "protocol_whitelist": "file",
        "max_streams": str(limits.max_streams + 1),
        # Reaches the decoders that probing runs, in containers that know their streams before it.
        "max_pixels": str(padded_pixels(limits)),
    }
    return options | ({"codec_whitelist": _names_of_others()} if headers_only else {})


def needs_decoders(container: InputContainer) -> bool:
    """Whether libav has to decode what it opened without: to choose a stream, or for times of packets."""
    contexts = [stream.codec_context for stream in container.streams.video]
    codecs = {"" if context is None else context.codec.canonical_name for context in contexts}
    if len(contexts) > 1:
        return not codecs.isdisjoint({"", *WITHHELD})
    # Packets that a parser cuts have no times of their own.
    return not codecs.isdisjoint({"h264", "hevc"}) and not str(container.format.name).startswith(_WITH_TIMES)


def without_withheld(lines: Sequence[LogLine]) -> list[LogLine]:
    """Leave out of a log what libav says of decoders that it was kept from."""
    return [line for line in lines if "not on whitelist" not in line[2]]


@cache
def _names_of_others() -> str:
    """List the decoders of all other codecs, as libav takes lists."""
    names = []
    for name in sorted(av.codecs_available):
        with suppress(UnknownCodecError):  # an encoder
            if av.Codec(name, "r").canonical_name not in WITHHELD:
                names.append(name)
    return ",".join(names)
