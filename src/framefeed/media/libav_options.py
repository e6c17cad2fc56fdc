"""What libav is asked for when it opens a container: which demuxers, which limits, and whether it may decode."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import av
from av.codec.codec import UnknownCodecError

from framefeed.media.foreign import LogLine
from framefeed.media.limits import Limits

FORMATS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,m4v,ogg,flv,ivf,h264,hevc,vvc,obu,av1,asf,mxf,nut,mjpeg,vc1,dv,"
    "yuv4mpegpipe,h263,h261,gif,apng,swf,rm,wtv,nsv,"
    "wav,mp3,aac,flac,amr,ac3,eac3,aiff,caf"
)
"""Demuxers that may open media; none of them opens a second file (S01). Audio ones only tell "no video stream"."""
WITHHELD = frozenset({"vp9", "av1"})
"""Codecs whose first picture libav decodes on opening, which takes longer than all else, and of which our provers read
the same in its header."""


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
        "max_pixels": str(limits.max_pixels),
    }
    return options | ({"codec_whitelist": _names_of_others()} if headers_only else {})


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
