"""Read facts and packets of an MP4 file from its own tables, if libav is not needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import NamedTuple, cast

import numpy as np

from framefeed._stopping import check_stop
from framefeed._values import (
    ByteReader,
    Limits,
    MediaInfo,
    PacketWalk,
    PictureFormat,
    StreamColors,
    read_bytes,
)
from framefeed.bitstreams import (
    KEY_FRAME,
    PACKET_READERS,
    SHOWN,
    Configuration,
    H264Sequence,
    OddUnits,
    PacketReader,
    UnitTypes,
    find_levels,
    has_turning_message,
)
from framefeed.errors import LimitExceeded
from framefeed.index._movie_facts import (
    check_size,
    describe_movie,
    find_default_duration,
    sum_fragment_timing,
    sum_timing,
)
from framefeed.index.proofs._nal import prove_units
from framefeed.index.proofs._packet_order import PacketOrderProver
from framefeed.index.proofs._proving import Proof, Unproved
from framefeed.media import has_damaged_configuration
from framefeed.mp4 import (
    COUNTED_KINDS,
    Fragments,
    Movie,
    OddMovie,
    TooManyBoxes,
    apply_edits,
    check_counts,
    check_locations,
    check_shown,
    check_stated_size,
    find_codec,
    read_first_size,
    read_fragments,
    read_length_size,
    read_movie,
    read_packet_video,
    read_samples,
    read_video,
    require_box,
    scan_packets,
    unpack,
)

_HEAD_BYTES = 4096
"""Bytes of the first packet in which its first slice must begin."""


class VideoFacts(NamedTuple):
    """Facts of a stream by its header, and by the beginning of its first packet."""

    codec: str
    extradata: bytes | None
    format: PictureFormat
    colors: StreamColors
    configuration: Configuration | None = None  # the same and more, of H.264 and HEVC


def read_facts(reader: ByteReader, movie: Movie, offset: int, size: int, limits: Limits) -> VideoFacts:
    """Read the facts of a movie's video."""
    track, file_size = movie.video, movie.layout.size
    if (make_reader := PACKET_READERS.get(find_codec(track).name)) is None:
        video = read_video(movie, track)
        check_size(video.sequence.format, limits)
        check_first_packet(reader, offset, size, file_size, video)
        return VideoFacts(video.codec, video.extradata, video.sequence.format, video.sequence.colors, video)
    extradata, colors = read_packet_video(movie, track)
    if not 0 < size <= min(limits.max_packet_bytes, file_size - offset):
        raise OddMovie("a first packet beyond the end of the file, or a huge one")
    picture, own = _read_first_headers(reader, offset, size, partial(make_reader, limits))
    if colors.fill(own) != own.fill(colors):
        raise OddMovie("container and codec that differ in colours")
    check_size(picture, limits)
    check_stated_size(movie, track, picture)
    return VideoFacts(find_codec(track).name, extradata, picture, colors.fill(own))


def _read_first_headers(
    reader: ByteReader, offset: int, size: int, make_reader: Callable[[], PacketReader]
) -> tuple[PictureFormat, StreamColors]:
    """Read format and colours in the headers of a first packet that is a key frame."""
    # By URL the rest of a large packet would be one request more. Headers say nothing of the bytes behind them, of
    # which zeros are taken; but a superframe, and tiles of their own sizes, are read as a whole.
    for count in sorted({min(size, _HEAD_BYTES), size}):
        packets, data = make_reader(), read_bytes(reader, offset, count)
        with suppress(OddUnits):
            flags = packets.read(memoryview(data.ljust(size, b"\0")))
            if flags == SHOWN | KEY_FRAME and packets.format is not None and packets.colors is not None:
                return packets.format, packets.colors
    raise OddMovie("a first packet that is no key frame, or with facts that only decoding gives")


def check_first_packet(reader: ByteReader, offset: int, size: int, file_size: int, video: Configuration) -> None:
    """Check the NAL units of the first packet up to its first slice against the header."""
    if size < 1 or offset + size > file_size:
        raise OddMovie("a first packet beyond the end of the file")
    types, data, at = UnitTypes.of(video.codec), read_bytes(reader, offset, min(size, _HEAD_BYTES)), 0
    while at + video.length_size + 2 < len(data):
        length = int.from_bytes(data[at : at + video.length_size], "big")
        at += video.length_size
        if length < 1 or at + length > size:
            raise OddMovie("a first packet of no whole NAL units")
        unit, is_whole = data[at : at + length], at + length <= len(data)
        at += length
        kind = types.find_type(unit)
        if kind in types.slices:
            if kind not in types.starts:
                raise OddMovie("a first packet that is no key frame")
            return
        if not is_whole or (kind == types.sequence_set and unit != video.sequence_unit):
            raise OddMovie("other parameter sets in the first packet")
        if kind in types.messages and has_turning_message(unit, video.codec):
            raise OddMovie("messages that change how pictures are shown")
    raise OddMovie("a first packet without a picture")


_ODD_GROUPS = frozenset({b"rap ", b"sync"})


def read_packets(
    reader: ByteReader,
    movie: Movie,
    walk: PacketWalk,
    length_size: int | None,
    before: Callable[[], object] = lambda: None,
) -> PacketWalk:
    """Complete the walk of a movie's video by what its packets say.

    ``walk``: the packets of its video, as its tables describe them.
    ``length_size``: bytes of the length before each NAL unit; 0 for codecs without NAL units. With None no packet is
    read, and the tables alone say which packets are key frames.
    ``before``: called before all packets are read.
    """
    track, packets = movie.video, walk.packets
    codec = find_codec(track)
    # libav's parsers read key frames in the packets; edits take them from the container.
    if track.groups & _ODD_GROUPS and (not codec.has_parsed_keys or track.edits):
        raise OddMovie("key frames in sample groups")
    if codec.units is None or length_size is None:
        return replace(walk, is_contiguous=codec.is_direct)
    before()
    units = scan_packets(reader, codec.name, length_size, packets.offset, packets.size)
    is_key = units.is_start if codec.has_parsed_keys else packets.is_key & (units.is_start | ~units.has_slice)
    packets = packets.replace_flags(is_key, units.is_disposable)
    return PacketWalk(packets, walk.duration, is_contiguous=True, parameter_sets=units.parameter_sets, units=units)


def read_tables(movie: Movie, facts: VideoFacts | None, limits: Limits) -> PacketWalk:
    """Read the packets of a movie's video from its tables.

    ``facts``: those of the video, if they are understood.
    """
    track = movie.video
    samples = read_samples(movie, track, limits)
    if not samples.duration[-1]:
        samples.duration[-1] = find_default_duration(movie, track, None if facts is None else facts.configuration)
    for other in movie.tracks:
        if other is not track:
            check_locations(movie, other, limits)
    return apply_edits(movie, track, samples)[1]


_LOG = logging.getLogger("framefeed.media")


class OpenedMovie(NamedTuple):
    """An MP4 file whose sample tables are understood."""

    movie: Movie
    walk: PacketWalk
    info: MediaInfo | None = None  # facts of the file, as libav has them; None if only libav knows them
    facts: VideoFacts | None = None  # of the video; None if ``info`` is

    @property
    def number(self) -> int:
        """Libav's index of the stream."""
        return self.movie.video.number

    def prove(self, reader: ByteReader, limits: Limits, *, reads_packets: bool = True) -> tuple[OpenedMovie, Proof]:
        """Prove which frames come of the packets; return the movie with their key frames, and the proof.

        ``reads_packets``: whether packets may be read that were not yet.
        """
        facts, walk = self.facts, self.walk
        if facts is None or facts.configuration is not None or not reads_packets:
            return self, self._prove_units()
        prover = PacketOrderProver(PACKET_READERS[facts.codec](limits))
        for offset, size in zip(walk.packets.offset.tolist(), walk.packets.size.tolist(), strict=True):
            check_stop()
            packet = read_bytes(reader, offset, size)
            if len(packet) < size:
                raise Unproved("a file that got shorter")
            prover.add(memoryview(packet))
        walk = replace(walk, packets=walk.packets.replace_flags(prover.is_parsed_key))
        proof = prover.prove(walk)
        return self._replace(walk=replace(walk, packets=walk.packets.replace_flags(proof.is_key))), proof

    def _prove_units(self) -> Proof:
        units, video = self.walk.units, None if self.facts is None else self.facts.configuration
        if video is None or units is None:
            raise Unproved("facts that only libav knows")
        # Pictures that libav's decoder surely holds back from the start. If an H.264 stream does not declare it,
        # libav's demuxer finds the depth of reordering in the sample tables (mov_estimate_video_delay), but not in
        # fragments, which it has not read by then.
        num_held = 0
        if video.sequence.reorder is None and not self.movie.is_fragmented:
            num_held = len(find_levels(self.walk.packets.pts)) if b"ctts" in self.movie.video.tables else 0
        proof = prove_units(video, units, self.walk, num_held)
        first = int(proof.order[0])
        if proof.begin or np.count_nonzero(units.has_unknown_messages[1 : first + 1]):
            raise Unproved("a first frame that is turned by messages, or not known")
        if has_damaged_configuration(video.codec, video.extradata):
            raise Unproved("a decoder complains of the parameter sets")
        return proof


def movie_info(reader: ByteReader, head: bytes, name: str, limits: Limits) -> MediaInfo | None:
    """Describe a source from its moov box; None if libav has to."""
    if head[4:8] not in COUNTED_KINDS:
        return None
    with _falling_back_to_libav(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        if movie.is_fragmented:
            fragments = read_fragments(reader, movie, movie.video, limits)
            facts = _read_fragment_facts(reader, movie, fragments, limits)
            return describe_movie(movie, facts.codec, facts.format, sum_fragment_timing(movie, movie.video, fragments))
        for track in movie.tracks:
            check_counts(movie, track)
        return _read_info(reader, movie, limits)[0]
    return None


def open_movie(
    reader: ByteReader,
    head: bytes,
    name: str,
    limits: Limits,
    *,
    tables_only: bool = False,
    before: Callable[[], object] = lambda: None,
) -> OpenedMovie | None:
    """Read facts and packets of a source from its moov box; None if libav has to.

    ``tables_only``: read no packet but the beginning of the first, if the header says that each packet is a picture.
    ``before``: called before all packets are read.
    """
    if head[4:8] not in COUNTED_KINDS:
        return None
    with _falling_back_to_libav(name, limits):
        movie = read_movie(reader, reader.stat().bytes, limits, head)
        info: MediaInfo | None = None
        facts: VideoFacts | None = None
        length_size = None if tables_only and not _may_hold_fields(movie) else read_length_size(movie, movie.video)
        if movie.is_fragmented:
            fragments = read_fragments(reader, movie, movie.video, limits)
            timing = sum_fragment_timing(movie, movie.video, fragments)
            walk = read_packets(reader, movie, fragments.walk, length_size, before)
            with _falling_back_to_libav(name, limits):
                video = _read_fragment_facts(reader, movie, fragments, limits)
                info, facts = describe_movie(movie, video.codec, video.format, timing), video
            return OpenedMovie(movie, walk, info, facts)
        with _falling_back_to_libav(name, limits):
            info, facts = _read_info(reader, movie, limits)
        walk = read_tables(movie, facts, limits)
        return OpenedMovie(movie, read_packets(reader, movie, walk, length_size, before), info, facts)
    return None


def _may_hold_fields(movie: Movie) -> bool:
    """Whether two packets of an H.264 track may be one picture, as far as its header tells."""
    if find_codec(movie.video).name != "h264":
        return False
    try:
        return cast("H264Sequence", read_video(movie, movie.video).sequence).has_fields
    except (OddMovie, OddUnits):
        return True


def _read_fragment_facts(reader: ByteReader, movie: Movie, fragments: Fragments, limits: Limits) -> VideoFacts:
    packets = fragments.walk.packets
    return read_facts(reader, movie, int(packets.offset[0]), int(packets.size[0]), limits)


def _read_info(reader: ByteReader, movie: Movie, limits: Limits) -> tuple[MediaInfo, VideoFacts]:
    track = movie.video
    check_shown(movie, track, limits)
    timing = sum_timing(movie, track)
    offsets = track.tables.get(b"co64") or require_box(track.tables, b"stco")
    (first_offset,) = unpack(movie.data, offsets, Struct(">Q" if offsets.kind == b"co64" else ">I"), 8)
    facts = read_facts(reader, movie, first_offset, read_first_size(movie.data, track.tables), limits)
    return describe_movie(movie, facts.codec, facts.format, timing), facts


@contextmanager
def _falling_back_to_libav(name: str, limits: Limits) -> Iterator[None]:
    """Leave the block if a movie is odd, and log it: libav reads the source then."""
    try:
        yield
    except (OddMovie, OddUnits) as error:
        _LOG.debug("%s: read through libav: %s", name, error)
    except TooManyBoxes:
        raise LimitExceeded(
            f"{name}: its header goes on for more boxes than max_header_bytes allows "
            f"({limits.max_header_bytes}): it may be damaged; if you trust the file, give "
            "limits=ff.Limits(max_header_bytes=...) with a larger number",
            limit="max_header_bytes",
            source=name,
            stage="open",
        ) from None
