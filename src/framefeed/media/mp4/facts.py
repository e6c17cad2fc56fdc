"""MediaInfo and colours of an MP4 file, as libav would give them."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from operator import mul

from framefeed.media.decoding import orientation
from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.formats import PictureFormat
from framefeed.media.info import MediaInfo, shown_size
from framefeed.media.limits import Limits, allows, padded_pixels
from framefeed.media.mp4.boxes import OddMovie, need
from framefeed.media.mp4.edits import check_shown, edit_ticks
from framefeed.media.mp4.movie import Movie, Track
from framefeed.media.mp4.samples import two_columns

FORMAT_NAME = "mov,mp4,m4a,3gp,3g2,mj2"
_MAX_RATE = 2**31 - 1
_MAX_DELTA = 2**31


@dataclass(frozen=True, slots=True)
class Timing:
    """What a track's header claims of its frames."""

    num_frames: int
    duration: int
    average_fps: float


def timing_of(movie: Movie, track: Track) -> Timing:
    """Sum up a track's times as libav does.

    Raises:
        OddMovie: The header is silent, or claims what libav corrects.
    """
    counts, deltas = two_columns(movie.data, need(track.tables, b"stts"))
    frames = sum(counts)
    ticks = sum(map(mul, counts, deltas))
    if not frames or not ticks or frames > _MAX_RATE or max(deltas) >= _MAX_DELTA:
        raise OddMovie("times that libav corrects")
    duration = min(ticks, track.duration)
    if track.edits:
        duration = min(duration, sum(edit_ticks(movie, track)[::2]))
    common = gcd(track.time_scale * frames, ticks)
    rate = track.time_scale * frames // common, ticks // common
    if duration < 1 or max(rate) > _MAX_RATE or track.duration >= 2**32 - 1:
        raise OddMovie("a duration or a rate that libav corrects")
    return Timing(frames, duration, rate[0] / rate[1])


def check_size(found: PictureFormat, limits: Limits) -> None:
    """Raise OddMovie if pictures are larger than the limits, or their coded sizes than a decoder is allowed."""
    if not allows(limits, found.width, found.height) or found.coded_width * found.coded_height > padded_pixels(limits):
        raise OddMovie("pictures larger than the limits")


def media_info(movie: Movie, video: Configuration, limits: Limits) -> MediaInfo:
    """Describe a movie's video.

    Raises:
        OddMovie: It claims more than the limits, or what libav corrects.
    """
    track, found = movie.video, video.format
    if movie.extends is not None:
        raise OddMovie("facts of fragments are libav's")
    check_size(found, limits)
    check_shown(movie, track, limits)
    timing = timing_of(movie, track)
    rotation, mirrored = orientation(track.matrix)
    width, height = shown_size(found.width, found.height, rotation)
    return MediaInfo(
        kind="video",
        container=FORMAT_NAME,
        codec=video.codec,
        width=width,
        height=height,
        coded_width=found.coded_width,
        coded_height=found.coded_height,
        rotation=rotation,
        mirrored=mirrored,
        pixel_format=found.pixel_format,
        num_frames_from_header=timing.num_frames,
        duration_seconds_from_header=timing.duration / track.time_scale,
        average_fps_from_header=timing.average_fps,
        bytes=movie.layout.size,
    )
