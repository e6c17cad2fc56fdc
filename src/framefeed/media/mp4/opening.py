"""What an MP4 file's own tables give of a source, or nothing where libav has to read it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import cast

import numpy as np

from framefeed.errors import LimitExceeded
from framefeed.media.h26x.bits import OddUnits
from framefeed.media.h26x.configuration import Configuration
from framefeed.media.h26x.h264_sets import H264Sequence
from framefeed.media.h26x.order import levels_of
from framefeed.media.info import MediaInfo
from framefeed.media.limits import Limits
from framefeed.media.mp4.boxes import OddMovie, TooManyBoxes
from framefeed.media.mp4.description import codec_of, length_size_of, read_video
from framefeed.media.mp4.edits import check_shown
from framefeed.media.mp4.facts import Timing, check_size, media_info, timing_of, timing_of_fragments
from framefeed.media.mp4.first_packet import check_first_packet, first_place
from framefeed.media.mp4.fragments import Fragments, read_fragments
from framefeed.media.mp4.layout import COUNTED_KINDS
from framefeed.media.mp4.movie import Movie
from framefeed.media.mp4.reading import read_movie
from framefeed.media.mp4.samples import check_counts
from framefeed.media.mp4.walk import read_tables, walk_samples
from framefeed.media.packets import PacketWalk
from framefeed.media.parameter_sets import has_damaged_configuration
from framefeed.media.proof_units import prove_units
from framefeed.media.proving import Proof, Unproved
from framefeed.media.source import ByteReader

_LOG = logging.getLogger("framefeed.media")


@dataclass(frozen=True, slots=True)
class MovieFacts:
    """What a movie's header says of its video, as libav would.

    Attributes:
        info: Facts of the file.
        video: Configuration of the codec.
    """

    info: MediaInfo
    video: Configuration


@dataclass(frozen=True, slots=True)
class OpenedMovie:
    """An MP4 file whose sample tables are understood.

    Attributes:
        movie: The moov box.
        walk: The packets.
        facts: None where only libav knows them.
    """

    movie: Movie
    walk: PacketWalk
    facts: MovieFacts | None

    @property
    def number(self) -> int:
        """Libav's index of the stream."""
        return self.movie.video.number

    def prove(self) -> Proof:
        """Prove which frames come of the packets, with nothing but the header's facts.

        Raises:
            Unproved: They do not say so, or the header does not say all that is needed.
        """
        units = self.walk.units
        if self.facts is None or units is None:
            raise Unproved("facts that only libav knows")
        proof = prove_units(self.facts.video, units, self.walk, self._held(self.facts.video))
        first = int(proof.order[0])
        if proof.begin or np.count_nonzero(units.has_unknown_messages[1 : first + 1]):
            raise Unproved("a first frame that is turned by messages, or not known")
        if has_damaged_configuration(self.facts.video.codec, self.facts.video.extradata):
            raise Unproved("a decoder complains of the parameter sets")
        return proof

    def _held(self, video: Configuration) -> int:
        """Give how many pictures libav's decoder surely holds back from the start.

        Where an H.264 stream does not say it, libav's demuxer counts in the sample tables how far times are reordered
        (``mov_estimate_video_delay``); fragments it has not read by then.
        """
        if video.format.reorder is not None or self.movie.is_fragmented:
            return 0
        return len(levels_of(self.walk.pts)) if b"ctts" in self.movie.video.tables else 0


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
    with _LeftToLibav(name), _Bounded(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        video = read_video(movie, movie.video)
        if movie.is_fragmented:
            fragments = read_fragments(reader, movie, movie.video, limits)
            _check_beginning(reader, movie, fragments, video, limits)
            return media_info(movie, video, timing_of_fragments(movie, movie.video, fragments))
        for track in movie.tracks:
            check_counts(movie, track)
        return _info(reader, movie, video, limits)
    return None


def open_movie(
    reader: ByteReader, head: bytes, name: str, limits: Limits, *, tables_only: bool = False
) -> OpenedMovie | None:
    """Read facts and packets of a source from its moov box; None where libav has to.

    Args:
        reader: The source.
        head: Its first bytes.
        name: For the log.
        limits: What it may claim.
        tables_only: Read no packet but the beginning of the first, where the header says that a packet is a picture.

    Raises:
        LimitExceeded: More boxes than the limits allow.
    """
    if head[4:8] not in COUNTED_KINDS:
        return None
    with _LeftToLibav(name), _Bounded(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        length_size = None if tables_only and not _may_hold_fields(movie) else length_size_of(movie, movie.video)
        if movie.is_fragmented:
            fragments = read_fragments(reader, movie, movie.video, limits)
            timing = timing_of_fragments(movie, movie.video, fragments)
            walk = walk_samples(reader, movie, fragments.samples, length_size)
            return OpenedMovie(movie, walk, _facts_of_fragments(reader, movie, fragments, timing, name, limits))
        facts = _facts_or_none(reader, movie, name, limits)
        samples = read_tables(movie, facts.video if facts else None, limits)
        return OpenedMovie(movie, walk_samples(reader, movie, samples, length_size), facts)
    return None


def _may_hold_fields(movie: Movie) -> bool:
    """Whether two packets of an H.264 track may be one picture, as far as its header tells."""
    if codec_of(movie.video) != "h264":
        return False
    try:
        return cast("H264Sequence", read_video(movie, movie.video).sequence).has_fields
    except (OddMovie, OddUnits):
        return True


def _facts_or_none(reader: ByteReader, movie: Movie, name: str, limits: Limits) -> MovieFacts | None:
    with _LeftToLibav(name):
        video = read_video(movie, movie.video)
        return MovieFacts(_info(reader, movie, video, limits), video)
    return None


def _facts_of_fragments(
    reader: ByteReader, movie: Movie, fragments: Fragments, timing: Timing, name: str, limits: Limits
) -> MovieFacts | None:
    with _LeftToLibav(name):
        video = read_video(movie, movie.video)
        _check_beginning(reader, movie, fragments, video, limits)
        return MovieFacts(media_info(movie, video, timing), video)
    return None


def _check_beginning(
    reader: ByteReader, movie: Movie, fragments: Fragments, video: Configuration, limits: Limits
) -> None:
    """Raise OddMovie unless the first fragment begins as the header says."""
    check_size(video.format, limits)
    first = int(fragments.samples.offset[0]), int(fragments.samples.size[0])
    check_first_packet(reader, first, movie.layout.size, video)


def _info(reader: ByteReader, movie: Movie, video: Configuration, limits: Limits) -> MediaInfo:
    track = movie.video
    check_size(video.format, limits)
    check_shown(movie, track, limits)
    timing = timing_of(movie, track)
    check_first_packet(reader, first_place(movie, track), movie.layout.size, video)
    return media_info(movie, video, timing)


class _LeftToLibav:
    """Leaves the block where a movie is odd, and says so.

    Args:
        name: Of the source.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, (OddMovie, OddUnits)):
            return False
        _LOG.debug("%s: read through libav: %s", self._name, error)
        return True


class _Bounded:
    """Says which limit is too low for the boxes of the block.

    Args:
        name: Of the source.
        limits: That hold.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self._name, self._limits = name, limits

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TooManyBoxes):
            raise LimitExceeded(
                f"{self._name}: its header goes on for more boxes than max_header_bytes allows "
                f"({self._limits.max_header_bytes}): it may be damaged; if you trust the file, give "
                "limits=ff.Limits(max_header_bytes=...) with a larger number",
                limit="max_header_bytes",
                source=self._name,
                stage="open",
            ) from None
