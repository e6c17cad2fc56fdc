"""From a file to its moov box."""

from __future__ import annotations

from dataclasses import replace

from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.mp4.boxes import OddMovie, check_number
from framefeed.media.mp4.layout import read_layout
from framefeed.media.mp4.movie import Movie, Track, parse_movie
from framefeed.media.mp4.samples import number_of_samples
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
    movie = parse_movie(data, layout, limits)
    return replace(movie, chosen=_best_video(movie))


def _best_video(movie: Movie) -> Track | None:
    """Choose the video track as ``av_find_best_stream`` does; None where that takes more than the header.

    Enabled tracks count before others, and then those of which libav read more packets while it opened the file: it
    reads at least one of each that has any. All else depends on how the tracks lie beside each other.
    """
    videos = [track for track in movie.tracks if track.kind == b"vide"]
    enabled = [track for track in videos if track.is_enabled] or videos
    filled = [track for track in enabled if len(enabled) == 1 or number_of_samples(movie, track)]
    return filled[0] if len(filled) == 1 and not movie.is_fragmented else None
