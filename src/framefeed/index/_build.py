"""Build the FrameIndex of a source: from its packets, from packets and both decoded ends, or by decoding everything."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np

from framefeed._arrays import IntArray
from framefeed._checks import check_choice, expected
from framefeed._values import (
    HEAD_BYTES,
    Limits,
    MediaInfo,
    PacketWalk,
    PictureFormat,
    StreamColors,
    read_bytes,
    resolve_limits,
)
from framefeed.bitstreams import MAX_PARAMETER_SETS
from framefeed.errors import EmptyVideo, UnsupportedCodec
from framefeed.index._comparing import find_frames_with_gaps, find_unsteady_frames
from framefeed.index._damage import find_damaged_frames, keep_promised_frames
from framefeed.index._frame_index import BuiltFrom, FrameIndex, StreamFacts
from framefeed.index._joining import (
    can_carry_parameters,
    index_movie,
    is_one_to_one,
    join_packets_and_frames,
    order_shown_packets,
)
from framefeed.index._movie import OpenedMovie, open_movie
from framefeed.index._pictures import index_sequence, index_still
from framefeed.index._probe import describe_video
from framefeed.index._provers import has_prover, walk_and_prove
from framefeed.index._times import DecodingTimeRecorder, DecodingTimes, assume_rate, find_times, read_packet_times
from framefeed.index._upright import convert_display_matrix
from framefeed.index.proofs._nal import count_missing_pictures, is_in_order_of_times
from framefeed.index.proofs._proving import Proof, Refuted, Unproved
from framefeed.media import (
    DecodedFact,
    MediaSource,
    MisplacedPacket,
    Packet,
    PictureHasher,
    SequenceSource,
    VideoContainer,
    decode_facts,
    demux_from,
    has_damaged_configuration,
    has_damaged_parameters,
    make_empty_error,
    parse_rate,
    read_stream_colors,
    sniff,
    walk_packets,
)
from framefeed.parallel import try_again_in_shortage

Verify = Literal["proof", "ends", "none", "full"]

_RELIABLE_CONTAINERS = ("mov", "matroska", "flv")
"""With these, and codecs that are reliable too, one packet is one frame. The others are decoded: MPEG-TS may hold one
field per packet, bare streams and AVI have no presentation times (M07, M11, M12)."""
_HEAD_PACKETS = 48
"""Packets decoded at the start: more than any reorder depth (16), so that dropped frames are noticed."""
_TAIL_PACKETS = 48
_LOG = logging.getLogger("framefeed.index")


def build_index(
    source: Any,
    verify: Verify = "proof",
    *,
    stream_index: int | None = None,
    assume_fps: float | Fraction | None = None,
    limits: Limits | None = None,
) -> FrameIndex:
    """Find every output frame of a source's video stream.

    Args:
        source: Path, URL, bytes, seekable binary file object, `ImageSequence`, or catalog entry. A still picture gives
            an index of one frame; for an animated GIF, WebP or PNG (APNG) this is the first picture.
        verify: How the frames are found. "proof" reads from the packets' own headers which frames they give, and
            decodes only the first packet; if the headers do not prove it, as "ends". "ends" decodes the first and the
            last packets; if they do not agree with the packets, if packets are known to be wrong, or if the packets do
            not say that frames come in the order of their times, it decodes everything. "none" trusts the packets.
            "full" decodes everything, and so finds the damaged frames. For a URL, "proof" and "none" trust the tables
            of MP4 files; packets are then read only when frames are.
        stream_index: Number of the stream to index; None takes the stream that FFmpeg takes.
        assume_fps: Frames per second for a stream that has no usable times and declares no constant rate. A stream with
            its own times keeps them, with a warning.
        limits: What the file may claim; None for the defaults of `Limits`.

    Returns:
        The index, with one entry per output frame.

    Raises:
        MediaError: As ``probe``; EmptyVideo if there is no frame.
        ResourceExhausted: As ``probe``.
        UsageError: An argument is wrong.
    """
    assumed = None if assume_fps is None else parse_rate(assume_fps, "assume_fps")
    index = index_media(source, verify, stream_index=stream_index, assume_fps=assumed, limits=limits)[1]
    if assume_fps is not None and index.times_from != "assumed":
        name = MediaSource.of(source).name
        warnings.warn(
            f"{name}: assume_fps={assume_fps} was not used: the file has times of its own "
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
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index a video in one opening; see ``build_index``."""
    resolved = resolve_limits(limits)
    check_choice("verify", verify, get_args(Verify))
    if stream_index is not None and not hasattr(stream_index, "__index__"):
        raise expected("stream_index", "an integer or None", stream_index)
    media = MediaSource.of(source)
    work = partial(_index_and_keep_promises, media, verify, stream_index, assume_fps, resolved)
    return try_again_in_shortage(work, media.name, "index")


def _index_and_keep_promises(
    media: MediaSource, verify: Verify, stream_index: int | None, assume_fps: Fraction | None, limits: Limits
) -> tuple[MediaInfo, FrameIndex]:
    info, index = _index_once(media, verify, stream_index, assume_fps, limits)
    is_final = verify == "proof" or index.built_from != "decode" or isinstance(media, SequenceSource)
    if is_final or np.isin(order_shown_packets(index.packets), index.frame_packet).all():
        return info, index
    # Some packets gave no frame. Those of which another verification expects one keep their numbers.
    try:
        promised = _index_once(media, "proof", stream_index, assume_fps, limits, decodes_all=False)[1]
    except Unproved:
        return info, index
    return info, keep_promised_frames(index, promised)


def _index_once(
    media: MediaSource,
    verify: Verify,
    stream_index: int | None,
    assume_fps: Fraction | None,
    limits: Limits,
    *,
    decodes_all: bool = True,
) -> tuple[MediaInfo, FrameIndex]:
    """Index a video; see ``build_index``. Without ``decodes_all``, raise Unproved where all must be decoded."""
    if isinstance(media, SequenceSource):
        media.stat()
        return index_sequence(media, verify, stream_index, limits)
    with media.opened() as reader:
        head = read_bytes(reader, 0, HEAD_BYTES)
        is_image = sniff(head, media.name) == "image"
        # A remote file is not downloaded as a whole to find its frames, unless it was already.
        is_remote = media.kind == "url" and verify in ("none", "proof") and decodes_all
        opened = None if is_image else open_movie(reader, head, media.name, limits, tables_only=is_remote)
        tables_only = is_remote and opened is not None and opened.walk.units is None
        may_suffice = opened is not None and stream_index in (None, opened.number) and verify in ("none", "proof")
        if opened is not None and opened.info is not None and may_suffice:
            order = _order_by_tables(opened) if tables_only else _order_by_proof(opened, verify)
            if order is not None:
                built_from: BuiltFrom = "packets" if tables_only or verify == "none" else "packets+proof"
                return opened.info, index_movie(opened, order, built_from, media.identity_of(reader))
    if is_image:
        return index_still(media, verify, stream_index, limits)
    headers_only = verify == "proof" and not tables_only
    with VideoContainer(media, stream_index, limits, headers_only=headers_only) as container:
        # The loop filter, a fifth of the work, changes pixels only.
        container.set_decoder_options(skip_loop_filter="all")
        table_walk = opened.walk if opened is not None and opened.number == container.stream.index else None
        if tables_only and table_walk is not None:
            return _Builder(container, table_walk, assume_fps).build_from_tables()
        # The proofs of other codecs need the packets' bytes, which the walk of the tables does not read.
        is_enough = container.codec.units is not None or not has_prover(container)
        if verify == "proof":
            return _index_by_proof(container, table_walk if is_enough else None, assume_fps, decodes_all=decodes_all)
        if verify == "ends":
            read = walk_and_prove(container, table_walk if is_enough else None)
            walk, proof = read.walk, read.proof
            is_each = proof is None or (
                # What lies before a proof is decoded with the first packets.
                proof.begin <= _HEAD_PACKETS
                and len(proof.order) == np.count_nonzero(~walk.packets.is_discarded[proof.begin :])
            )
            verify = "ends" if is_each and not read.is_refuted else "full"
        else:
            walk = table_walk or walk_packets(container)
        _check_indexable(walk, container)
        return _Builder(container, walk, assume_fps).build(verify)


def _order_by_tables(opened: OpenedMovie) -> IntArray | None:
    """List the packets of an MP4 file that give frames, in the order of the times in its tables; None if unclear."""
    packets, video = opened.walk.packets, opened.video
    if video is None or not packets.has_unique_times:
        return None
    order = order_shown_packets(packets)
    return order if len(order) and not has_damaged_configuration(video.codec, video.extradata) else None


def _order_by_proof(opened: OpenedMovie, verify: Verify) -> IntArray | None:
    """List the packets of an MP4 file that give frames, in output order; None if the file alone does not prove it.

    Args:
        opened: The file.
        verify: "proof", or "none", with which all packets give frames, in the order of their times.
    """
    try:
        order = opened.prove().order
    except Unproved as reason:
        _LOG.debug("an MP4 file alone does not prove its frames: %s", reason)
        return None
    return order if verify == "proof" or np.array_equal(order, order_shown_packets(opened.walk.packets)) else None


def _index_by_proof(
    container: VideoContainer, table_walk: PacketWalk | None, assume_fps: Fraction | None, *, decodes_all: bool
) -> tuple[MediaInfo, FrameIndex]:
    """Index a video from packets that prove their frames; decode it if they do not.

    Args:
        container: At its beginning.
        table_walk: Its packets, if they need no demuxing.
        assume_fps: As in ``build_index``.
        decodes_all: As for ``_index_once``.
    """
    read = walk_and_prove(container, table_walk)
    _check_indexable(read.walk, container)
    if read.proof is None and container.codec.units is not None and container.open_whole():
        # Now libav knows how many pictures its decoder holds back.
        read = walk_and_prove(container, table_walk)
    is_refuted = read.is_refuted
    if read.proof is not None:
        packets = read.walk.packets.replace_flags(read.proof.is_key)
        builder = _Builder(container, replace(read.walk, packets=packets), assume_fps, read.colors)
        if read.first is not None:
            return builder.assemble(read.proof.order, read.first, "packets+proof")
        try:
            return builder.build_from_partial_proof(read.proof)
        except Refuted as reason:
            _LOG.debug("%s: decoded: %s", container.source.name, reason)
            is_refuted = True
    colors = None if container.open_whole() else read.colors
    builder = _Builder(container, read.walk, assume_fps, colors, decodes_all=decodes_all)
    return builder.build("full" if is_refuted else "ends")


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


class _Builder:
    """Builds the index of one stream, and decodes as much of it as needed."""

    def __init__(
        self,
        container: VideoContainer,
        walk: PacketWalk,
        assume_fps: Fraction | None,
        colors: StreamColors | None = None,
        *,
        decodes_all: bool = True,
    ) -> None:
        self._container = container
        self._decodes_all = decodes_all
        self._walk = walk
        self._assume_fps = assume_fps
        # Read before decoding: a decoder follows every change of the stream, an index describes its beginning.
        self._colors = read_stream_colors(container) if colors is None else colors

    def build_from_tables(self) -> tuple[MediaInfo, FrameIndex]:
        """Trust the container's tables if the first frame agrees with them; decode everything otherwise."""
        self._container.reopen()
        packets = islice(demux_from(self._container, self._walk.packets, 0), _HEAD_PACKETS)
        first = next(decode_facts(self._container, packets), None)
        order = order_shown_packets(self._walk.packets)
        if first is None or first.packet != order[0] or not self._walk.packets.has_unique_times:
            return self._build_from_decoding()
        return self.assemble(order, first.format, "packets")

    def build_from_partial_proof(self, proof: Proof) -> tuple[MediaInfo, FrameIndex]:
        """Decode the beginning, and take the rest from the proof.

        Raises:
            Refuted: They contradict each other, or times do not increase.
        """
        facts = self._decode_from_start(proof.begin + _HEAD_PACKETS)
        decoded = np.array([fact.packet for fact in facts], dtype=np.int64)
        before = decoded[: int((decoded >= proof.begin).argmax())] if len(decoded) else decoded
        after = decoded[len(before) :]
        order = np.concatenate((before, proof.order))
        times = self._walk.packets.pts[order]
        if not len(after) or not np.array_equal(after, proof.order[: len(after)]) or (times[1:] <= times[:-1]).any():
            raise Refuted("what decoding gives of the beginning does not fit")
        return self.assemble(order, facts[0].format, "packets+ends")

    def build(self, verify: Verify) -> tuple[MediaInfo, FrameIndex]:
        if verify == "full" or not self._has_reliable_packets(verify):
            return self._build_from_decoding(is_full=verify == "full")
        if verify == "ends" and not is_in_order_of_times(self._container, self._walk, _HEAD_PACKETS):
            return self._build_from_decoding()
        head = self._decode_from_start(_HEAD_PACKETS)
        if not head or not self._agrees_with_packets(head):
            return self._build_from_decoding()
        if verify == "ends" and len(self._walk) > _HEAD_PACKETS and not self._has_complete_tail():
            return self._build_from_decoding()
        built_from: BuiltFrom = "packets" if verify == "none" else "packets+ends"
        return self.assemble(order_shown_packets(self._walk.packets), head[0].format, built_from)

    def _decode_from_start(
        self,
        count: int,
        refused: list[int] | None = None,
        recorder: DecodingTimeRecorder | None = None,
        logged: list[int] | None = None,
        hasher: PictureHasher | None = None,
    ) -> list[DecodedFact]:
        self._container.reopen()  # Before its decoder is opened, whose findings about the stream are read later.
        packets = demux_from(self._container, self._walk.packets, 0)
        if recorder is not None:
            packets = recorder.record(packets)
        return self._decode(packets, count, refused, logged, hasher)

    def _decode(
        self,
        packets: Iterator[tuple[int, Packet]],
        count: int,
        refused: list[int] | None = None,
        logged: list[int] | None = None,
        hasher: PictureHasher | None = None,
    ) -> list[DecodedFact]:
        """Decode the first ``count`` packets; drain the decoder if these are all packets of the stream."""
        self._container.decoder().flush_buffers()
        drain, some = len(self._walk) <= count, islice(packets, count)
        facts = decode_facts(self._container, some, drain=drain, refused=refused, logged=logged, hasher=hasher)
        return list(facts)

    def _has_reliable_packets(self, verify: Verify) -> bool:
        """Whether each packet is one frame by the rules of container and codec, and no parameter set is damaged."""
        container, parameter_sets = self._container, self._walk.parameter_sets
        if not self._walk.packets.has_unique_times:
            return False
        is_listed = container.format_name.startswith(_RELIABLE_CONTAINERS) and container.codec.is_reliable
        if not is_listed and verify != "none":
            return False
        if container.codec.units is None:
            return True
        return len(parameter_sets) < MAX_PARAMETER_SETS and not has_damaged_parameters(container, parameter_sets)

    def _agrees_with_packets(self, facts: list[DecodedFact]) -> bool:
        """Whether the decoded frames are those of the first shown packets, without a gap, with the same key frames."""
        decoded = np.array([fact.packet for fact in facts], dtype=np.int64)
        shown = order_shown_packets(self._walk.packets)
        if len(self._walk) <= _HEAD_PACKETS and len(decoded) != len(shown):
            return False
        if not np.array_equal(shown[: len(decoded)], decoded) or any(fact.is_corrupt for fact in facts):
            return False
        # The decoder's key frames must be those of the container (M14).
        is_key = self._walk.packets.is_key
        return self._container.codec.units is not None or all(fact.is_key for fact in facts if is_key[fact.packet])

    def _has_complete_tail(self) -> bool:
        """Whether each shown packet of the tail gives a frame; decodes from the last key frame before it.

        Disposable pictures before the tail are not decoded.
        """
        table = self._walk.packets
        first_checked, is_disposable = max(0, len(table) - _TAIL_PACKETS), table.is_disposable
        keys = np.flatnonzero(table.is_key[: first_checked + 1])
        usable = keys[table.pts[keys] <= table.pts[first_checked:].min()]
        packets = (
            (number, packet)
            for number, packet in demux_from(self._container, table, int(usable[-1]) if len(usable) else 0)
            if number >= first_checked or not is_disposable[number]
        )
        try:
            decoded = {fact.packet for fact in self._decode(packets, len(table)) if not fact.is_corrupt}
        except MisplacedPacket:
            return False
        shown = np.flatnonzero(~table.is_discarded[first_checked:]) + first_checked
        return decoded.issuperset(shown.tolist())

    def _build_from_decoding(self, *, is_full: bool = False) -> tuple[MediaInfo, FrameIndex]:
        """Decode everything.

        Args:
            is_full: Also compare the frames of silent decoders with what decoding from their starts gives.
        """
        if not self._decodes_all:
            raise Unproved("only decoding everything tells its frames")
        container, refused, logged = self._container, list[int](), list[int]()
        recorder = DecodingTimeRecorder()
        missing = count_missing_pictures(container, self._walk)
        is_silent = is_full and container.codec.is_silent
        if is_silent:
            # Their damage may be such that only the loop filter shows it.
            container.set_decoder_options()
        hasher = PictureHasher() if is_silent or missing is None else None
        facts = self._decode_from_start(len(self._walk), refused, recorder, logged, hasher)
        if self._container.codec.units is None:
            # A key frame counts if container and decoder agree on it: either alone may be wrong (M14).
            is_decoded_key = np.zeros(len(self._walk), dtype=bool)
            is_decoded_key[[fact.packet for fact in facts if fact.is_key and fact.packet >= 0]] = True
            packets = self._walk.packets
            packets = packets.replace_flags(packets.is_key & is_decoded_key)
            self._walk = replace(self._walk, packets=packets)
        if not facts:
            raise make_empty_error(self._container, "index")
        order = np.array([fact.packet for fact in facts], dtype=np.int64)
        info, index = self.assemble(order, facts[0].format, "decode", recorder.decoding_times(facts))
        is_damaged = index.frame_packet < 0
        if missing is None or missing.any():
            # What a decoder shows in place of a missing picture may depend on any other.
            index = replace(index, stream=replace(index.stream, skips_exactly=False))
        if missing is not None and self._walk.units is not None:
            is_damaged |= find_frames_with_gaps(index, missing, self._walk.units.is_reference)
        flagged = np.flatnonzero([fact.is_corrupt for fact in facts])
        is_damaged[find_damaged_frames(index, flagged, np.array(refused, dtype=np.int64))] = True
        if hasher is not None or logged or refused or is_damaged.any():
            if hasher is None:
                facts = self._decode_from_start(len(self._walk), hasher=PictureHasher())
            digests = [fact.digest for fact in facts]
            is_damaged |= find_unsteady_frames(self._container, index, digests, is_damaged)
        damaged = np.flatnonzero(is_damaged).astype(np.int64)
        return info, replace(index, damaged_frame_indices=damaged) if len(damaged) else index

    def assemble(
        self, order: IntArray, first: PictureFormat, built_from: BuiltFrom, decoding: DecodingTimes | None = None
    ) -> tuple[MediaInfo, FrameIndex]:
        container, walk = self._container, self._walk
        times = find_times(container, read_packet_times(walk, order, container.stream.time_base), walk, decoding)
        rotation, mirrored = convert_display_matrix(container.matrix)
        stream = StreamFacts(
            stream_index=container.stream.index,
            container=container.format_name,
            codec=container.codec_name,
            extradata=container.stream.codec_context.extradata,
            width=first.width,
            height=first.height,
            pixel_format=first.pixel_format,
            rotation=rotation,
            mirrored=mirrored,
            contiguous=walk.is_contiguous and container.codec.units is not None,
            skips_exactly=walk.units is not None and is_one_to_one(walk.packets, order),
            inband_parameters=can_carry_parameters(walk, container.codec_name),
            color_primaries=self._colors.primaries,
            color_transfer=self._colors.transfer,
            color_space=self._colors.space,
            color_range=self._colors.range,
        )
        times = assume_rate(times, self._assume_fps)
        identity = container.source.identity_of(container.reader)
        index = join_packets_and_frames(walk, order, times, built_from, stream, identity)
        return describe_video(container, first), index
