"""What an MP4 file's own tables give of a source, or nothing where libav has to read it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from framefeed.errors import LimitExceeded
from framefeed.media.info import MediaInfo
from framefeed.media.limits import Limits
from framefeed.media.mp4.boxes import OddMovie, TooManyBoxes
from framefeed.media.mp4.codec_facts import Video
from framefeed.media.mp4.description import length_size_of, read_video
from framefeed.media.mp4.facts import check_size, media_info
from framefeed.media.mp4.first_packet import check_first_packet, first_place
from framefeed.media.mp4.layout import COUNTED_KINDS
from framefeed.media.mp4.movie import Movie
from framefeed.media.mp4.nal_scan import NalFacts
from framefeed.media.mp4.picture_order import HEAD_PACKETS, shown_order
from framefeed.media.mp4.reading import read_movie
from framefeed.media.mp4.samples import IntArray, check_counts
from framefeed.media.mp4.walk import MovieWalk, walk_movie
from framefeed.media.packets import PacketWalk
from framefeed.media.source import ByteReader

_BEFORE = np.triu(np.ones((HEAD_PACKETS, HEAD_PACKETS), bool), 1)
"""Whether packet i comes before packet k."""
_REORDER_FOUND = 1
"""Pictures out of order that libav's decoder notices in time where the stream does not say how many there may be.

A picture whose order is further than 2 behind the last one's makes it hold back one, before anything is shown too
early (``h264_select_output_picture``); orders that are all even are that far apart."""
_LOG = logging.getLogger("framefeed.media")


@dataclass(frozen=True, slots=True)
class MovieFacts:
    """What a movie's header says of its video, as libav would.

    Attributes:
        info: Facts of the file; None of fragments, whose rate libav estimates.
        video: Configuration of the codec.
    """

    info: MediaInfo | None
    video: Video


@dataclass(frozen=True, slots=True)
class OpenedMovie:
    """An MP4 file whose sample tables are understood.

    Attributes:
        movie: The moov box.
        walked: The packets.
        facts: None where only libav knows them.
    """

    movie: Movie
    walked: MovieWalk
    facts: MovieFacts | None

    @property
    def number(self) -> int:
        """Libav's index of the stream."""
        return self.movie.video.number

    @property
    def comes_out_whole(self) -> bool:
        """Whether a decoder surely gives a frame for each of the first packets.

        None of them refers to what came before the file, and none is shown later than the header says.
        """
        nal, walk = self.walked.nal, self.walked.walk
        if self.facts is None or nal is None or not nal.is_plain or not walk.has_unique_times or not walk.is_key[0]:
            return False
        return self.facts.video.format.is_progressive and _are_times_right(self.facts.video, nal, walk)


def _are_times_right(video: Video, nal: NalFacts, walk: PacketWalk) -> bool:
    """Whether the first packets' times are in the order of their pictures, and no decoder has to guess it."""
    times, found = walk.pts[:HEAD_PACKETS], video.format
    by_time = times.argsort()
    if by_time[0]:
        return False
    depth = _depth(times)
    if depth > (_REORDER_FOUND if found.reorder is None else found.reorder):
        return False
    if found.reorder == 0:
        return True
    if found.order is None or nal.heads is None:
        return False
    try:
        order, is_even = shown_order(nal.heads, found.order)
    except OddMovie:
        return False
    return bool((order == by_time).all()) and (found.reorder is not None or not depth or is_even)


def _depth(times: IntArray) -> int:
    """Count the most packets that come before one and are shown after it."""
    if (times[1:] > times[:-1]).all():
        return 0
    is_later = np.greater.outer(times, times)
    is_later &= _BEFORE[: len(times), : len(times)]
    # At most HEAD_PACKETS: they fit bytes, which are added up much faster than truth values.
    return int(is_later.view(np.uint8).sum(axis=0, dtype=np.uint8).max())


def movie_info(reader: ByteReader, head: bytes, name: str, limits: Limits) -> MediaInfo | None:
    """Describe a source from its moov box; None where libav has to.

    Args:
        reader: The source.
        head: Its first bytes.
        name: For the log.
        limits: What it may claim.

    Raises:
        LimitExceeded: More boxes than the limits allow.
    """
    if head[4:8] not in COUNTED_KINDS:
        return None
    with _left_to_libav(name), _bounded(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        for track in movie.tracks:
            check_counts(movie, track)
        return _info(reader, movie, read_video(movie, movie.video), limits)
    return None


def open_movie(reader: ByteReader, head: bytes, name: str, limits: Limits) -> OpenedMovie | None:
    """Read facts and packets of a source from its moov box; None where libav has to.

    Args:
        reader: The source.
        head: Its first bytes.
        name: For the log.
        limits: What it may claim.

    Raises:
        LimitExceeded: More boxes than the limits allow.
    """
    if head[4:8] not in COUNTED_KINDS:
        return None
    with _left_to_libav(name), _bounded(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        if movie.extends is None:
            facts = _facts_or_none(reader, movie, name, limits)
            length_size = facts.video.length_size if facts else length_size_of(movie, movie.video)
            return OpenedMovie(movie, walk_movie(reader, movie, length_size, limits), facts)
        walked = walk_movie(reader, movie, length_size_of(movie, movie.video), limits)
        return OpenedMovie(movie, walked, _facts_of_fragments(reader, movie, walked.walk, name, limits))
    return None


def _facts_or_none(reader: ByteReader, movie: Movie, name: str, limits: Limits) -> MovieFacts | None:
    with _left_to_libav(name):
        video = read_video(movie, movie.video)
        return MovieFacts(_info(reader, movie, video, limits), video)
    return None


def _facts_of_fragments(
    reader: ByteReader, movie: Movie, walk: PacketWalk, name: str, limits: Limits
) -> MovieFacts | None:
    with _left_to_libav(name):
        video = read_video(movie, movie.video)
        check_size(video.format, limits)
        check_first_packet(reader, (int(walk.offset[0]), int(walk.size[0])), movie.layout.size, video)
        return MovieFacts(None, video)
    return None


def _info(reader: ByteReader, movie: Movie, video: Video, limits: Limits) -> MediaInfo:
    info = media_info(movie, video, limits)
    check_first_packet(reader, first_place(movie, movie.video), movie.layout.size, video)
    return info


@contextmanager
def _left_to_libav(name: str) -> Iterator[None]:
    """Leave the block where a movie is odd, and say so."""
    try:
        yield
    except OddMovie as odd:
        _LOG.debug("%s: read through libav: %s", name, odd)


@contextmanager
def _bounded(name: str, limits: Limits) -> Iterator[None]:
    try:
        yield
    except TooManyBoxes:
        raise LimitExceeded(
            f"{name}: its header goes on for more boxes than max_header_bytes allows ({limits.max_header_bytes}): it "
            "may be damaged; raise Limits(max_header_bytes=...) if the file is trusted",
            limit="max_header_bytes",
            source=name,
            stage="open",
        ) from None
