"""The packet walk of an MP4 file from its sample tables."""

from __future__ import annotations

import numpy as np

from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.units import UnitFacts
from framefeed.media.limits import Limits
from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.mp4.description import codec_of
from framefeed.media.mp4.edits import apply_edits
from framefeed.media.mp4.facts import default_duration
from framefeed.media.mp4.fragments import TimedSamples
from framefeed.media.mp4.movie import Movie
from framefeed.media.mp4.nal_scan import Places, scan_packets
from framefeed.media.mp4.samples import check_places, read_samples
from framefeed.media.packets import PacketWalk
from framefeed.media.source import ByteReader

_ODD_GROUPS = frozenset({b"rap ", b"sync"})


def walk_samples(reader: ByteReader, movie: Movie, samples: TimedSamples, length_size: int | None) -> PacketWalk:
    """Turn the samples of a movie's video into a packet walk.

    Args:
        reader: The file.
        movie: Its moov box.
        samples: Those of its video.
        length_size: Bytes of the length before each NAL unit; 0 for codecs without them. None has no packet read: which
            of them are key frames is then what the tables say.

    Raises:
        OddMovie: The packets, or what says which of them are key frames, are not understood exactly.
    """
    track = movie.video
    codec = codec_of(track)
    # libav's parser, not the container, says which H.264 packets are key frames; edits ask the container.
    if track.groups & _ODD_GROUPS and (codec != "h264" or track.edits):
        raise OddMovie("key frames in sample groups")
    units: UnitFacts | None = None
    has_units = codec in ("h264", "hevc")
    if has_units and length_size is not None:
        units = scan_packets(reader, codec, length_size, Places(samples.offset, samples.size))
    is_key = samples.is_sync
    if units is not None:
        is_key = units.is_start if codec == "h264" else samples.is_sync & (units.is_start | ~units.has_slice)
    return PacketWalk(
        offset=samples.offset,
        size=samples.size,
        pts=samples.pts,
        duration=samples.duration,
        is_key=is_key,
        is_discarded=samples.is_discarded,
        is_disposable=np.zeros(len(is_key), bool) if units is None else units.is_disposable,
        is_contiguous=has_units,
        is_encrypted=False,
        parameter_sets=() if units is None else units.parameter_sets,
        units=units,
    )


def read_tables(movie: Movie, video: Configuration | None, limits: Limits) -> TimedSamples:
    """Read the samples of a movie's video from its tables.

    Args:
        movie: The moov box.
        video: The codec's configuration, where it is understood.
        limits: What the file may claim.

    Raises:
        OddMovie: The tables or an edit list are not understood exactly.
    """
    track = movie.video
    samples = read_samples(movie, track, limits)
    if not samples.duration[-1]:
        samples.duration[-1] = default_duration(movie, track, video)
    for other in movie.tracks:
        if other is not track:
            check_places(movie, other, limits)
    shown = apply_edits(movie, track, samples)
    kept = slice(shown.first, shown.stop)
    return TimedSamples(
        offset=samples.offset[kept],
        size=samples.size[kept],
        pts=shown.pts,
        duration=samples.duration[kept],
        is_sync=samples.is_sync[kept],
        is_discarded=shown.is_discarded,
    )
