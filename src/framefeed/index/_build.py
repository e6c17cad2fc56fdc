"""Build the FrameIndex of a source: a table of strategies, of which the first that applies and suffices is taken."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Self, cast, get_args

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._callers import find_callers_level
from framefeed._checks import check_choice, expected
from framefeed._shortage import try_again_in_shortage
from framefeed._units import format_bytes
from framefeed._values import HEAD_BYTES, ByteReader, Limits, MediaInfo, PacketWalk, read_bytes, resolve_limits
from framefeed.bitstreams import OddUnits
from framefeed.errors import EmptyVideo, UnsupportedCodec, UsageError
from framefeed.index._damage import keep_promised_frames
from framefeed.index._frame_index import BuiltFrom, FrameIndex
from framefeed.index._joining import index_movie, order_shown_packets
from framefeed.index._movie import OpenedMovie, open_movie
from framefeed.index._pictures import index_sequence, index_still
from framefeed.index._probe import describe_libav_picture, is_libav_picture
from framefeed.index._provers import DemuxedStream, has_prover, walk_and_prove
from framefeed.index._stream import HEAD_PACKETS, Built, Stream, Verify
from framefeed.index.proofs._proving import Refuted, Unproved
from framefeed.media import (
    PROXY,
    MediaSource,
    SequenceSource,
    StorageOptions,
    VideoContainer,
    check_storage_options,
    has_damaged_configuration,
    parse_rate,
    read_stream_colors,
    sniff,
    walk_packets,
)

_LOG = logging.getLogger("framefeed.index")


def build_index(
    source: Any,
    verify: Verify = "proof",
    *,
    stream_index: int | None = None,
    assume_fps: float | Fraction | None = None,
    limits: Limits | None = None,
    storage_options: StorageOptions | None = None,
) -> FrameIndex:
    """Find every output frame of a source's video stream.

    Args:
        source: Path, URL, bytes, seekable binary file object, `ImageSequence`, or catalog entry. A still picture gives
            an index of one frame; for an animated GIF, WebP or PNG (APNG) this is the first picture. An entry that
            reads a proxy gives the index that it has.
        verify: How the frames are found. "proof" reads from the packets' own headers which frames they give, and
            decodes only the first packet; if the headers do not prove it, as "ends". "ends" decodes the first and the
            last packets; if they do not agree with the packets, if packets are known to be wrong, or if the packets do
            not say that frames come in the order of their times, it decodes everything. "none" trusts the packets.
            "full" decodes everything, and so finds the damaged frames. For a URL, "proof" and "none" trust the tables
            of MP4 files; packets are then read only when frames are. Where tables do not suffice, all of the object is
            read, and a UserWarning says so before.
        stream_index: Number of the stream to index; None takes the stream that FFmpeg takes.
        assume_fps: Frames per second for a stream that has no usable times and declares no constant rate. A stream with
            its own times keeps them, with a warning.
        limits: What the file may claim; None for the defaults of `Limits`.
        storage_options: What servers need, by URL prefix, such as keys or headers: see "Remote sources".

    Returns:
        The index, with one entry per output frame.

    Raises:
        MediaError: As ``probe``; EmptyVideo if there is no frame.
        ResourceExhausted: As ``probe``.
        UsageError: An argument is wrong.
    """
    assumed = None if assume_fps is None else parse_rate(assume_fps, "assume_fps")
    check_storage_options(storage_options)
    given = getattr(source, "frame_index", None)
    if isinstance(given, FrameIndex) and given.stream.is_proxy:
        return given  # the file itself knows neither its frames' times nor the size of the original
    media = MediaSource.of(source, storage_options, limits=limits)
    index = index_media(media, verify, stream_index=stream_index, assume_fps=assumed, limits=limits, warns=True)[1]
    if assume_fps is not None and index.times_from != "assumed":
        warnings.warn(
            f"{media.name}: assume_fps={assume_fps} was not used: the file has times of its own "
            f"(times_from={index.times_from!r})",
            UserWarning,
            stacklevel=2,
        )
    return index


def index_media(
    source: Any,
    verify: Verify = "proof",
    *,
    stream_index: int | None = None,
    assume_fps: Fraction | None = None,
    limits: Limits | None = None,
    warns: bool = False,
) -> Built:
    """Describe and index a video in one opening; see ``build_index``.

    With ``warns``, it warns before it reads all of an object by URL.
    """
    resolved = resolve_limits(limits)
    check_choice("verify", verify, get_args(Verify))
    if stream_index is not None and not hasattr(stream_index, "__index__"):
        raise expected("stream_index", "an integer or None", stream_index)
    media = MediaSource.of(source, limits=resolved)
    if media.version == PROXY:
        raise UsageError(
            f"{media.name}: is a proxy, whose times are those of its original: give the entry of the catalog, or its "
            "frame_index",
            source=media.name,
        )
    job = partial(_Job, media, stream_index=stream_index, assume_fps=assume_fps, limits=resolved, warns=warns)
    return try_again_in_shortage(partial(_index_and_keep_promises, job, verify), media.name, "index")


def _index_and_keep_promises(make_job: Callable[[Verify], _Job], verify: Verify) -> Built:
    with make_job(verify) as job:
        info, index = cast("Built", job.index_by(STRATEGIES))
        if job.is_picture and not job.is_still:
            # One frame at 0 s of unknown duration, as of every picture.
            return describe_libav_picture(info), replace(index, duration=np.zeros_like(index.duration))
        # A sequence promises nothing, and a proof has what packets promise.
        is_final = verify == "proof" or index.built_from != "decode" or isinstance(job.media, SequenceSource)
    if is_final or np.isin(order_shown_packets(index.packets), index.frame_packet).all():
        return info, index
    # Some packets gave no frame. Those of which another verification expects one keep their numbers.
    with make_job("proof") as job:
        job.is_remote = job.warns = False  # it was downloaded as a whole
        promised = job.index_by(STRATEGIES[:-1])
    return info, index if promised is None else keep_promised_frames(index, promised[1])


class _Job:
    """A source that is being indexed, and what strategies have read of it.

    Attributes:
        is_remote: It is not downloaded as a whole to find its frames.
        is_contradicted: What was decoded contradicts a proof.
        warns: As in ``index_media``, until it has warned.
    """

    def __init__(
        self,
        media: MediaSource,
        verify: Verify,
        *,
        stream_index: int | None,
        assume_fps: Fraction | None,
        limits: Limits,
        warns: bool = False,
    ) -> None:
        self.media, self.verify, self.stream_index = media, verify, stream_index
        self.warns = warns
        self.assume_fps, self.limits = assume_fps, limits
        self.is_remote = media.is_remote and verify in ("none", "proof")
        self.is_contradicted = False
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def index_by(self, strategies: tuple[Strategy, ...]) -> Built | None:
        """Index the source by the first strategy that applies and suffices; None if there is none."""
        for strategy in strategies:
            if not strategy.applies(self):
                continue
            if strategy.reads_all:
                self.warn_of_download()
            if (built := strategy.build(self)) is not None:
                _LOG.debug("%s: indexed: %s", self.media.name, strategy.name)
                return built
        return None

    def warn_of_download(self) -> None:
        """Warn once, if it was asked for, that an object by URL is read as a whole though no one asked for that."""
        if self.warns and self.is_remote and not self.is_picture:
            self.warns = False
            warnings.warn(
                f"{self.media.name}: all of its {format_bytes(self.num_bytes)} are read to index it: scan it once with "
                "ff.scan, and open it from the catalog, or give an index that was built before (frame_index=)",
                UserWarning,
                stacklevel=find_callers_level(),
            )

    @cached_property
    def reader(self) -> ByteReader:
        """Reader of its bytes, until the container is opened."""
        return self._open.enter_context(self.media.opened())

    @cached_property
    def head(self) -> bytes:
        """Its first bytes."""
        return read_bytes(self.reader, 0, HEAD_BYTES)

    @cached_property
    def num_bytes(self) -> int:
        """Its size."""
        _ = self.head  # a reader by URL knows the size of what it has read
        return self.reader.stat().bytes

    @cached_property
    def is_picture(self) -> bool:
        """Whether it is a picture file, by its first bytes."""
        return not isinstance(self.media, SequenceSource) and sniff(self.head, self.media.name) == "image"

    @cached_property
    def is_still(self) -> bool:
        """Whether it is a picture that libav does not decode."""
        return self.is_picture and not is_libav_picture(self.media, self.head, self.limits)

    @cached_property
    def movie(self) -> OpenedMovie | None:
        """What its own tables say, if it is an MP4 file whose tables are understood."""
        if self.is_picture:
            return None
        return open_movie(
            self.reader,
            self.head,
            self.media.name,
            self.limits,
            tables_only=self.is_remote,
            before=self.warn_of_download,
        )

    @property
    def has_facts(self) -> bool:
        """Whether these tables have all facts of the stream, so that no container is opened."""
        movie = self.movie
        return movie is not None and movie.info is not None and self.stream_index in (None, movie.number)

    @property
    def trusts_tables(self) -> bool:
        """Whether no packet is read to find frames."""
        return self.is_remote and self.movie is not None and self.movie.walk.units is None

    @cached_property
    def container(self) -> VideoContainer:
        """The source opened by libav, at its first packet."""
        _ = self.movie, self.warns and self.num_bytes  # are read before the reader is closed
        headers_only = self.verify == "proof" and not self.trusts_tables
        self._open.close()
        container = VideoContainer(self.media, self.stream_index, self.limits, headers_only=headers_only)
        self._open.enter_context(container)
        # The loop filter, a fifth of the work, changes pixels only.
        container.set_decoder_options(skip_loop_filter="all")
        return container

    @property
    def table_walk(self) -> PacketWalk | None:
        """The packets of the chosen stream by the tables of an MP4 file."""
        movie = self.movie
        return movie.walk if movie is not None and movie.number == self.container.stream.index else None

    @cached_property
    def demuxed(self) -> DemuxedStream:
        """The packets of the chosen stream; with a proof, if verification asks for one and they give one."""
        read, table = self._demux(), self.table_walk
        # libav's parser of VP9 gives each packet the duration of a constant rate, or none.
        if table is None or self.container.codec_name != "vp9":
            return read
        own, stated = read.walk.packets, table.packets
        if not all(np.array_equal(getattr(own, name), getattr(stated, name)) for name in ("offset", "size", "pts")):
            return read
        return read._replace(walk=replace(read.walk, duration=table.duration))

    def _demux(self) -> DemuxedStream:
        container, known, trusts = self.container, self.table_walk, self.trusts_tables
        has_units = container.codec.units is not None
        if container.codec.has_parsed_keys and not has_units and not trusts:
            known = None  # the tables' key frames are not libav's
        if self.verify in ("none", "full") or (trusts and known is not None):
            read = DemuxedStream(known or walk_packets(container), read_stream_colors(container))
            _check_indexable(read.walk, container)
            return read
        if not has_units and has_prover(container):
            known = None  # its proof needs the packets' bytes, which the walk of the tables does not read
        read = walk_and_prove(container, known)
        _check_indexable(read.walk, container)
        if self.verify == "proof" and read.proof is None and has_units and container.open_whole():
            # Now libav knows how many pictures its decoder holds back.
            read = walk_and_prove(container, known)
        return read

    @property
    def is_refuted(self) -> bool:
        """Whether packets deny, or leave open, that each gives a frame, in the order of their times."""
        if self.verify in ("none", "full"):
            return self.verify == "full"
        read = self.demuxed
        return self.is_contradicted or read.is_refuted or (self.verify == "ends" and not _proves_each_packet(read))

    @cached_property
    def stream(self) -> Stream:
        """The stream, to be decoded as far as needed."""
        read, colors = self.demuxed, None
        if self.verify == "proof" and not self.container.open_whole():
            colors = read.colors
        return Stream(self.container, read.walk, self.assume_fps, colors)


def _check_indexable(walk: PacketWalk, container: VideoContainer) -> None:
    name = container.source.name
    if walk.is_encrypted:
        raise UnsupportedCodec(f"{name}: its video is encrypted: decrypt the file first", source=name, stage="index")
    if not len(walk):
        raise EmptyVideo(
            f"{name}: its video stream has no packets: the file may be cut short, copy it again",
            source=name,
            stage="index",
        )


def _proves_each_packet(read: DemuxedStream) -> bool:
    """Whether a proof, if there is one, has a frame for each shown packet; decoding its first packets tells others."""
    proof = read.proof
    if proof is None:
        return True
    shown = np.count_nonzero(~read.walk.packets.is_discarded[proof.begin :])
    return proof.begin <= HEAD_PACKETS and len(proof.order) == shown


class Strategy(NamedTuple):
    """One way to find the frames of a source."""

    name: str
    applies: Callable[[_Job], bool]  # whether it is tried; nothing is read for it that a later strategy does not need
    build: Callable[[_Job], Built | None]  # describes and indexes the source; None if what it reads does not suffice
    reads_all: bool = False  # it reads the whole source


def _prove_movie(job: _Job) -> Built | None:
    """Index an MP4 file whose own tables and packets prove its frames; with "none", all packets are believed."""
    movie = cast("OpenedMovie", job.movie)
    try:
        movie, proof = movie.prove(job.reader, job.limits, reads_packets=job.verify == "proof")
        order = proof.order
    except (Unproved, OddUnits) as reason:
        _LOG.debug("an MP4 file alone does not prove its frames: %s", reason)
        return None
    if job.verify == "none" and not np.array_equal(order, order_shown_packets(movie.walk.packets)):
        return None
    info, index = _index_movie(job, movie, order, "packets" if job.verify == "none" else "packets+proof")
    return info, replace(index, changes_size=proof.changes_size)


def _believe_tables(job: _Job) -> Built | None:
    """Index an MP4 file by its tables; if these lack facts, its first frame must agree with them."""
    movie = cast("OpenedMovie", job.movie)
    if job.has_facts and movie.facts is not None and movie.walk.packets.has_unique_times:
        order, video = order_shown_packets(movie.walk.packets), movie.facts.configuration
        if len(order) and not (video and has_damaged_configuration(video.codec, video.extradata)):
            return _index_movie(job, movie, order, "packets")
    return None if job.table_walk is None else job.stream.build_from_first_frame()


def _index_movie(job: _Job, movie: OpenedMovie, order: IntArray, built_from: BuiltFrom) -> Built:
    identity = job.media.identity_of(job.reader)
    return cast("MediaInfo", movie.info), index_movie(movie, order, built_from, identity)


def _prove_packets(job: _Job) -> Built | None:
    read = job.demuxed
    if read.proof is None:
        return None
    packets = read.walk.packets.replace_flags(read.proof.is_key)
    stream = Stream(job.container, replace(read.walk, packets=packets), job.assume_fps, read.colors)
    if read.first is not None:
        info, index = stream.assemble(read.proof.order, read.first, "packets+proof")
        return info, replace(index, changes_size=read.proof.changes_size)
    try:
        return stream.build_from_partial_proof(read.proof)
    except Refuted as reason:
        _LOG.debug("%s: decoded: %s", job.media.name, reason)
        job.is_contradicted = True
        return None


def _has_tables_alone(job: _Job) -> bool:
    return job.trusts_tables and job.table_walk is not None


STRATEGIES = (
    Strategy(
        "sequence",
        lambda job: isinstance(job.media, SequenceSource),
        lambda job: index_sequence(cast("SequenceSource", job.media), job.verify, job.stream_index, job.limits),
    ),
    Strategy(
        "still picture",
        lambda job: job.is_still,
        lambda job: index_still(job.media, job.verify, job.stream_index, job.limits),
    ),
    Strategy(
        "MP4, proved by its tables and packets",
        lambda job: job.verify in ("none", "proof") and job.has_facts and not job.trusts_tables,
        _prove_movie,
    ),
    Strategy("MP4, by its tables alone", lambda job: job.trusts_tables, _believe_tables),
    Strategy(
        "demuxed and proved",
        lambda job: job.verify == "proof" and not _has_tables_alone(job),
        _prove_packets,
        reads_all=True,
    ),
    Strategy(
        "ends",
        lambda job: job.verify != "full" and not _has_tables_alone(job),
        lambda job: None if job.is_refuted else job.stream.build_from_ends(job.verify),
        reads_all=True,
    ),
    Strategy(
        "decoded",
        lambda _: True,
        lambda job: job.stream.build_from_decoding(compares_silent=job.is_refuted),
        reads_all=True,
    ),
)
"""In this order."""
