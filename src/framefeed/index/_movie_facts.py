"""Compute the MediaInfo and the timing of an MP4 file as libav does."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from operator import itemgetter, mul
from typing import NamedTuple

from framefeed._values import Limits, MediaInfo, PictureFormat, bound_padded_pixels, is_size_allowed, rotate_size
from framefeed.bitstreams import Configuration, H264Sequence
from framefeed.index._upright import convert_display_matrix
from framefeed.mp4 import (
    MAX_DELTA,
    Fragments,
    Movie,
    MovieSegmentIndex,
    OddMovie,
    Track,
    TrackRun,
    read_edit_ticks,
    read_pairs,
    require_box,
)

MP4_FORMAT_NAME = "mov,mp4,m4a,3gp,3g2,mj2"
_MAX_RATE = 2**31 - 1
_COARSE_SCALE, _FAST_RATE = 1000, 1000
"""Below this time scale a tick is a frame for libav; from this clock rate on its frames have no duration."""
_MAX_CLOCK = 2**30
"""libav rounds rates of larger numbers."""


class Timing(NamedTuple):
    """What a header claims of a video's frames; None where it does not say."""

    num_frames: int | None
    seconds: float | None
    average_fps: float | None


def sum_timing(movie: Movie, track: Track) -> Timing:
    """Sum up a track's times as libav does."""
    counts, deltas = read_pairs(movie.data, require_box(track.tables, b"stts"))
    frames = sum(counts)
    ticks = sum(map(mul, counts, deltas))
    if not frames or not ticks or frames > _MAX_RATE or max(deltas) >= MAX_DELTA:
        raise OddMovie("times that libav corrects")
    duration = min(ticks, track.duration)
    if track.edits:
        duration = min(duration, sum(read_edit_ticks(movie, track)[::2]))
    return _make_timing(track, frames, ticks, duration)


def sum_fragment_timing(movie: Movie, track: Track, fragments: Fragments) -> Timing:
    """Sum up the times of a track's fragments that libav reads before it takes a file for open."""
    runs, indexes = fragments.runs, [index for index in fragments.indexes if index.track_id == track.track_id]
    complete = min((index.offset for index in fragments.indexes if index.is_complete), default=movie.layout.size)
    begin = min((index.offset for index in indexes), default=movie.layout.size)
    # libav gives a track without an index the duration of another one.
    if complete < begin or any(index.time_scale != track.time_scale for index in indexes):
        raise OddMovie("a segment index of another track or time scale")
    header_end = max(complete, movie.layout.data[0][0])
    begun = [run for run in runs if run.moof_offset < header_end]
    duration = _find_end_time(track, indexes, begun)
    if duration != _find_end_time(track, indexes, runs):
        raise OddMovie("fragments that last longer than their index says")
    frames, ticks = sum(len(run.duration) for run in begun), sum(int(run.duration.sum()) for run in begun)
    if not ticks:
        raise OddMovie("no fragments in the header")
    return _make_timing(track, frames, ticks, duration)._replace(num_frames=None)


def _find_end_time(track: Track, indexes: Sequence[MovieSegmentIndex], runs: Sequence[TrackRun]) -> int:
    """Follow libav's duration of a stream through the boxes in their order: an index sets it, a run raises it."""
    steps = [(index.offset, index.end_time, True) for index in indexes]
    steps += [(run.moof_offset, int(run.dts[-1] + run.duration[-1]), False) for run in runs]
    time = track.duration
    for _, end_time, is_index in sorted(steps, key=itemgetter(0)):
        time = end_time if is_index else max(time, end_time)
    return time


def _make_timing(track: Track, frames: int, ticks: int, duration: int) -> Timing:
    common = gcd(track.time_scale * frames, ticks)
    rate = track.time_scale * frames // common, ticks // common
    if duration < 1 or max(rate) > _MAX_RATE or track.duration >= 2**32 - 1:
        raise OddMovie("a duration or a rate that libav corrects")
    return Timing(frames, duration / track.time_scale, rate[0] / rate[1])


def find_default_duration(movie: Movie, track: Track, video: Configuration | None) -> int:
    """Compute the duration that libav gives the last sample if the table has none (``ff_compute_frame_duration``)."""
    if video is None or (track.edits and b"ctts" not in track.tables):
        raise OddMovie("a last sample that lasts for nothing")
    counts, deltas = read_pairs(movie.data, track.tables[b"stts"])
    if video.codec == "hevc" and len(counts) == 2:
        return deltas[0]  # the base rate: libav parses no HEVC of this container
    sequence = video.sequence
    if isinstance(sequence, H264Sequence) and not sequence.has_fields and not sequence.has_structures:
        if track.time_scale < _COARSE_SCALE:
            return 1
        rate = sequence.clock_rate
        if rate is not None and rate < _FAST_RATE and max(rate.as_integer_ratio()) <= _MAX_CLOCK:
            return int(track.time_scale / rate)
    raise OddMovie("a last sample that lasts for nothing")


def check_size(picture: PictureFormat, limits: Limits) -> None:
    """Raise OddMovie if pictures are larger than the limits, or their coded sizes than a decoder is allowed."""
    coded_pixels = picture.coded_width * picture.coded_height
    if not is_size_allowed(limits, picture.width, picture.height) or coded_pixels > bound_padded_pixels(limits):
        raise OddMovie("pictures larger than the limits")


def describe_movie(movie: Movie, codec: str, picture: PictureFormat, timing: Timing) -> MediaInfo:
    """Describe a movie's video."""
    size, matrix = movie.layout.size, movie.video.matrix
    return make_media_info(MP4_FORMAT_NAME, codec, picture, matrix, timing, size)


def make_media_info(
    container: str, codec: str, picture: PictureFormat, matrix: tuple[int, ...] | None, timing: Timing, size: int
) -> MediaInfo:
    """Describe a video of ``size`` bytes, whose display matrix turns its pictures."""
    rotation, mirrored = convert_display_matrix(matrix)
    width, height = rotate_size(picture.width, picture.height, rotation)
    return MediaInfo(
        kind="video",
        container=container,
        codec=codec,
        width=width,
        height=height,
        coded_width=picture.coded_width,
        coded_height=picture.coded_height,
        rotation=rotation,
        mirrored=mirrored,
        pixel_format=picture.pixel_format,
        num_frames_from_header=timing.num_frames,
        duration_seconds_from_header=timing.seconds,
        average_fps_from_header=timing.average_fps,
        bytes=size,
    )
