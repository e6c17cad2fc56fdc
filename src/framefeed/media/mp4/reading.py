"""From a file to its moov box."""

from __future__ import annotations

from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.mp4.boxes import OddMovie, check_number
from framefeed.media.mp4.layout import read_layout
from framefeed.media.mp4.movie import Movie, parse_movie
from framefeed.media.source import ByteReader, read_bytes


def read_movie(reader: ByteReader, size: int, limits: Limits = DEFAULT_LIMITS, head: bytes = b"") -> Movie:
    """Find and read the moov box, wherever it lies; nothing else but box headers is read.

    Args:
        reader: The file.
        size: Its bytes.
        limits: What it may claim.
        head: Its first bytes, where they are known.

    Raises:
        OddMovie: No MP4 file, or something in it is not understood exactly: libav reads it then.
        TooManyBoxes: It holds more boxes than the limits allow, also for libav.
    """
    layout = read_layout(reader, size, limits, head)
    start, end = layout.movie
    data = head[start:end] if end <= len(head) else read_bytes(reader, start, end - start)
    if len(data) < end - start:
        raise OddMovie("a file that got shorter")
    check_number(data, limits.max_header_bytes)
    return parse_movie(data, layout, limits)
