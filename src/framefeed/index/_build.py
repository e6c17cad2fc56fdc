"""Source -> FrameIndex: from the packets, from the packets and the decoded ends, or by decoding everything.

Which frames damage reaches: the rule by which an index marks them (D01).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np

from framefeed._arrays import IntArray
from framefeed._checks import expected
from framefeed.errors import EmptyVideo, UnsupportedCodec
from framefeed.index._frame_index import DISPOSABLE, MISSING_PTS, BuiltFrom, FrameIndex, StreamFacts
from framefeed.index._joining import Table, index_movie, is_one_to_one, kept_in_order, may_carry_parameters
from framefeed.index._pictures import index_sequence, index_still
from framefeed.index._times import DecodingTimes, SentPackets, assume_rate, find_times, own_times
from framefeed.media import (
    DEFAULT_LIMITS,
    HEAD_BYTES,
    MAX_PARAMETER_SETS,
    NAL_CODECS,
    DecodedFact,
    Limits,
    MediaInfo,
    MediaSource,
    MisplacedPacket,
    OpenedMovie,
    Packet,
    PacketWalk,
    Proof,
    Refuted,
    SequenceSource,
    StreamColors,
    Unproved,
    VideoContainer,
    comes_in_order_of_times,
    decode_facts,
    exact_rate,
    has_damaged_configuration,
    has_damaged_parameters,
    has_prover,
    limits_or_default,
    no_frame,
    open_movie,
    orientation,
    packets_from,
    read_bytes,
    sniff,
    stream_colors,
    video_info,
    walk_and_prove,
    walk_packets,
)
from framefeed.parallel import try_again_in_shortage


def packet_start(index: FrameIndex, packet: int) -> int:
    """Find the packet from which decoding must start for the picture of a packet, whether or not it gives a frame.

    One that gives none belongs to the last start before it; but a leading picture of that start, by its time, to the
    one before (M04). -1 where there is no such start.
    """
    frames = np.flatnonzero(index.frame_packet == packet)
    if len(frames):
        return int(index.frame_start[frames].min())
    starts = np.unique(index.frame_start)
    number = int(np.searchsorted(starts, packet, side="right")) - 1
    pts = index.packets.pts
    if number >= 0 and MISSING_PTS != pts[packet] < pts[starts[number]]:
        number -= 1
    return int(starts[number]) if number >= 0 else -1


def find_damaged_frames(index: FrameIndex, flagged: IntArray, raised: IntArray) -> IntArray:
    """List the frames that never come undamaged, int64 [D], ascending.

    A frame is reached by its own damage, and by that of a picture that is sent before it and from the frame's start
    on, even one that never comes. What decodes from an earlier start is a leading picture, to which no frame after its
    key frame refers (M04), and to a disposable picture no frame refers at all. So the answer does not depend on what
    else is decoded with it.

    Args:
        index: Made of a decode of the whole stream, so that each of its frames came out.
        flagged: Frames whose picture the decoder flagged, int64 [F].
        raised: Packets that the decoder refused, int64 [E].
    """
    damaged = np.union1d(index.frame_packet[flagged], raised)
    if not len(damaged):
        return np.empty(0, dtype=np.int64)
    is_damaged = np.isin(index.frame_packet, damaged[damaged >= 0])
    is_damaged[flagged] = True
    if index.stream.skips_exactly:
        damaged = damaged[(damaged < 0) | ((index.packets.flags[damaged] & DISPOSABLE) == 0)]
    # The first damaged packet of each start.
    first: dict[int, int] = {}
    for packet in damaged[damaged >= 0].tolist():
        first.setdefault(packet_start(index, packet), packet)
    for start, packet in first.items():
        is_damaged |= (index.frame_start <= start) & (index.frame_packet >= packet)
    return np.flatnonzero(is_damaged).astype(np.int64)


Verify = Literal["proof", "ends", "none", "full"]
_VERIFY = get_args(Verify)

_HONEST_CONTAINERS = ("mov", "matroska", "flv")
_HONEST_CODECS = frozenset({"h264", "hevc", "av1", "mjpeg", "prores", "ffv1", "mpeg4", "h263", "dnxhd", "png"})
"""Where one packet is one frame, by the container's rules. VP8 and VP9 hide frames, MPEG-TS may hold a field a
packet, bare streams and AVI have no presentation times: these are decoded to facts (M01, M07, M11, M12). So is VVC:
the order of its pictures is not read."""
_HEAD_PACKETS = 48
"""Packets decoded at the start: more than any reorder depth (16), so that what is dropped there shows."""
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
            an index of one frame; for an animated GIF or WebP this is the first picture.
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
    assumed = None if assume_fps is None else exact_rate(assume_fps, "assume_fps")
    options = IndexOptions(verify, stream_index, assumed, limits_or_default(limits))
    index = _indexed(source, options)[1]
    if assume_fps is not None and index.times_from != "assumed":
        name = MediaSource.of(source).name
        warnings.warn(
            f"{name}: assume_fps={assume_fps} was not used: the file has times of its own "
            f"(times_from={index.times_from!r})",
            UserWarning,
            stacklevel=2,
        )
    return index


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How to index a source; see ``build_index``."""

    verify: Verify = "proof"
    stream_index: int | None = None
    assume_fps: Fraction | None = None
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if self.verify not in _VERIFY:
            raise expected("verify", "'proof', 'ends', 'none' or 'full'", self.verify)
        if self.stream_index is not None and not hasattr(self.stream_index, "__index__"):
            raise expected("stream_index", "an integer or None", self.stream_index)


def index_media(
    source: Any,
    verify: Verify = "proof",
    *,
    stream_index: int | None = None,
    assume_fps: Fraction | None = None,
    limits: Limits | None = None,
) -> tuple[MediaInfo, FrameIndex]:
    """Describe and index a video in one opening; see ``build_index``."""
    return _indexed(source, IndexOptions(verify, stream_index, assume_fps, limits_or_default(limits)))


def _indexed(source: Any, options: IndexOptions) -> tuple[MediaInfo, FrameIndex]:
    media = MediaSource.of(source)
    call = partial(_index_once, media, options)
    return try_again_in_shortage(call, media.name, "index")


def _index_once(media: MediaSource, options: IndexOptions) -> tuple[MediaInfo, FrameIndex]:
    verify, stream_index, limits = options.verify, options.stream_index, options.limits
    if isinstance(media, SequenceSource):
        media.stat()
        return index_sequence(media, verify, stream_index, limits)
    with media.opened() as reader:
        head = read_bytes(reader, 0, HEAD_BYTES)
        is_image = sniff(head, media.name) == "image"
        # What is far away is not read as a whole to know which frames it gives.
        is_remote = media.kind == "url" and verify in ("none", "proof")
        opened = None if is_image else open_movie(reader, head, media.name, limits, tables_only=is_remote)
        tables_only = is_remote and opened is not None and opened.walk.units is None
        is_asked = opened is not None and stream_index in (None, opened.number) and verify in ("none", "proof")
        if opened is not None and opened.facts is not None and is_asked:
            order = _order_of_tables(opened) if tables_only else _proved_order(opened, verify)
            if order is not None:
                built_from: BuiltFrom = "packets" if tables_only or verify == "none" else "packets+proof"
                return opened.facts.info, index_movie(opened, order, built_from, media.identity_of(reader))
    if is_image:
        return index_still(media, verify, stream_index, limits)
    headers_only = verify == "proof" and not tables_only
    with VideoContainer(media, stream_index, limits, headers_only=headers_only) as container:
        # Facts are not pixels: the loop filter, a fifth of the work, changes none of them.
        container.decoder().options |= {"skip_loop_filter": "all"}
        known = opened.walk if opened is not None and opened.number == container.stream.index else None
        if tables_only and known is not None:
            return _Builder(container, known, options.assume_fps).believe_tables()
        if verify == "proof":
            # What packets of most codecs say is in their bytes, of which the tables' walk reads none.
            is_enough = container.codec_name in NAL_CODECS or not has_prover(container)
            return _proved(container, known if is_enough else None, options.assume_fps)
        walk = known or walk_packets(container)
        _refuse_hopeless(walk, container)
        return _Builder(container, walk, options.assume_fps).build(verify)


def _order_of_tables(opened: OpenedMovie) -> IntArray | None:
    """Number the packets that an MP4 file's tables have shown, by time; None where they do not say enough."""
    if opened.facts is None or not opened.walk.has_unique_times:
        return None
    video, order = opened.facts.video, kept_in_order(opened.walk)
    return order if len(order) and not has_damaged_configuration(video.codec, video.extradata) else None


def _proved_order(opened: OpenedMovie, verify: Verify) -> IntArray | None:
    """Number the packets that give frames, in order, as an MP4 file alone proves; None where it does not."""
    try:
        order = opened.prove().order
    except Unproved as reason:
        _LOG.debug("an MP4 file alone does not prove its frames: %s", reason)
        return None
    # Packets that give no frame are left out by proof only.
    return order if verify == "proof" or np.array_equal(order, kept_in_order(opened.walk)) else None


def _proved(
    container: VideoContainer, known: PacketWalk | None, assume_fps: Fraction | None
) -> tuple[MediaInfo, FrameIndex]:
    """Index a video by what its packets prove, and where they do not, by decoding.

    Args:
        container: Stands at its beginning.
        known: Its packets, where they need no demuxing.
        assume_fps: As ``build_index``.
    """
    colors = stream_colors(container)
    read = walk_and_prove(container, known)
    _refuse_hopeless(read.walk, container)
    if read.proven is None and container.codec_name in NAL_CODECS and container.open_whole():
        # Now libav knows how many pictures its decoder holds back.
        colors = stream_colors(container)
        read = walk_and_prove(container, known)
    proven, is_refuted = read.proven, read.is_refuted
    if proven is not None:
        builder = _Builder(container, read.walk, assume_fps, proven.colors)
        if proven.first is not None:
            return builder.believe(proven.proof, proven.first)
        try:
            return builder.believe_from(proven.proof)
        except Refuted as reason:
            _LOG.debug("%s: decoded: %s", container.source.name, reason)
            is_refuted = True
    builder = _Builder(container, read.walk, assume_fps, None if container.open_whole() else colors)
    return builder.build("full" if is_refuted else "ends")


def _refuse_hopeless(walk: PacketWalk, container: VideoContainer) -> None:
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
    """Decides how much to decode, and decodes it."""

    def __init__(
        self,
        container: VideoContainer,
        walk: PacketWalk,
        assume_fps: Fraction | None,
        colors: StreamColors | None = None,
    ) -> None:
        self._container = container
        self._walk = walk
        self._assume_fps = assume_fps
        # Before a packet is decoded: a decoder follows every change of the stream, an index tells of its beginning.
        self._colors = stream_colors(container) if colors is None else colors

    def believe(self, proof: Proof, first: DecodedFact) -> tuple[MediaInfo, FrameIndex]:
        """Index what the packets prove."""
        self._walk = replace(self._walk, is_key=proof.is_key)
        return self._assembled(proof.order, first, "packets+proof")

    def believe_tables(self) -> tuple[MediaInfo, FrameIndex]:
        """Index what the container's tables say, if the first frame comes as they do; its packets alone are decoded."""
        self._container.reopen()
        packets = islice(packets_from(self._container, self._walk, 0), _HEAD_PACKETS)
        first = next(decode_facts(self._container, packets), None)
        order = self._kept_in_order()
        if first is None or first.packet != order[0] or not self._walk.has_unique_times:
            return self._from_decoding()
        return self._assembled(order, first, "packets")

    def believe_from(self, proof: Proof) -> tuple[MediaInfo, FrameIndex]:
        """Index what decoding gives of the beginning, and what packets prove of the rest.

        Raises:
            Refuted: They contradict each other, or times do not go on.
        """
        self._walk = replace(self._walk, is_key=proof.is_key)
        facts = self._decoded_from_start(proof.begin + _HEAD_PACKETS)
        came = np.array([fact.packet for fact in facts], dtype=np.int64)
        before = came[: int((came >= proof.begin).argmax())] if len(came) else came
        after = came[len(before) :]
        order = np.concatenate((before, proof.order))
        times = self._walk.pts[order]
        if not len(after) or not np.array_equal(after, proof.order[: len(after)]) or (times[1:] <= times[:-1]).any():
            raise Refuted("what decoding gives of the beginning does not fit")
        return self._assembled(order, facts[0], "packets+ends")

    def build(self, verify: Verify) -> tuple[MediaInfo, FrameIndex]:
        if verify == "full" or not self._is_honest(verify) or self._has_damaged_parameters():
            return self._from_decoding()
        if verify == "ends" and not comes_in_order_of_times(self._container, self._walk, _HEAD_PACKETS):
            return self._from_decoding()
        head = self._decoded_from_start(_HEAD_PACKETS)
        if not head or not self._is_complete(head) or not self._agrees_on_keys(head):
            return self._from_decoding()
        if verify == "ends" and len(self._walk) > _HEAD_PACKETS and not self._tail_is_complete():
            return self._from_decoding()
        return self._assembled(self._kept_in_order(), head[0], "packets" if verify == "none" else "packets+ends")

    def _decoded_from_start(
        self, count: int, refused: list[int] | None = None, sent: SentPackets | None = None
    ) -> list[DecodedFact]:
        self._container.reopen()  # before its decoder is asked for: what that learns of the stream is read later
        packets = packets_from(self._container, self._walk, 0)
        return self._decoded(packets if sent is None else sent.pass_on(packets), count, refused)

    def _decoded(
        self, packets: Iterator[tuple[int, Packet]], count: int, refused: list[int] | None = None
    ) -> list[DecodedFact]:
        """Decode the first ``count`` of some packets; what the decoder holds back is only asked for at the end."""
        self._container.decoder().flush_buffers()
        some, drain = islice(packets, count), len(self._walk) <= count
        return list(decode_facts(self._container, some, drain=drain, refused=refused))

    def _is_honest(self, verify: Verify) -> bool:
        if not self._walk.has_unique_times:
            return False
        container = self._container
        known = container.format_name.startswith(_HONEST_CONTAINERS) and container.codec_name in _HONEST_CODECS
        return known or verify == "none"

    def _has_damaged_parameters(self) -> bool:
        container, found = self._container, self._walk.parameter_sets
        if container.codec_name not in NAL_CODECS:
            return False
        return len(found) >= MAX_PARAMETER_SETS or has_damaged_parameters(container, found)

    def _is_complete(self, facts: list[DecodedFact]) -> bool:
        """Whether the frames that came out are the first of the kept packets, none left out before the last."""
        came = np.array([fact.packet for fact in facts], dtype=np.int64)
        kept = self._kept_in_order()
        if len(self._walk) <= _HEAD_PACKETS and len(came) != len(kept):
            return False
        return bool(np.array_equal(kept[: len(came)], came)) and not any(fact.is_corrupt for fact in facts)

    def _agrees_on_keys(self, facts: list[DecodedFact]) -> bool:
        """Whether the decoder found key frames where the container has them (M14)."""
        if self._container.codec_name in NAL_CODECS:
            return True
        return all(fact.is_key for fact in facts if self._walk.is_key[fact.packet])

    def _tail_is_complete(self) -> bool:
        """Decode the last packets from the last key frame on; all of them that are kept must come out.

        Pictures before the last ones to which no other refers are left out: only whether the end comes out is asked.
        """
        walk = self._walk
        first_checked = max(0, len(walk) - _TAIL_PACKETS)
        sent = (
            (number, packet)
            for number, packet in packets_from(self._container, walk, self._start_before(first_checked))
            if number >= first_checked or not walk.is_disposable[number]
        )
        try:
            came = {fact.packet for fact in self._decoded(sent, len(walk)) if not fact.is_corrupt}
        except MisplacedPacket:
            return False
        expected = np.flatnonzero(~walk.is_discarded[first_checked:]) + first_checked
        return came.issuperset(expected.tolist())

    def _start_before(self, number: int) -> int:
        keys = np.flatnonzero(self._walk.is_key[: number + 1])
        earliest = self._walk.pts[number:].min()
        usable = keys[self._walk.pts[keys] <= earliest]
        return int(usable[-1]) if len(usable) else 0

    def _kept_in_order(self) -> IntArray:
        return kept_in_order(self._walk)

    def _from_decoding(self) -> tuple[MediaInfo, FrameIndex]:
        refused: list[int] = []
        sent = SentPackets()
        facts = self._decoded_from_start(len(self._walk), refused, sent)
        if self._container.codec_name not in NAL_CODECS:
            self._believe_decoder(facts)
        if not facts:
            raise no_frame(self._container, "index")
        order = np.array([fact.packet for fact in facts], dtype=np.int64)
        info, index = self._assembled(order, facts[0], "decode", sent.decoding_times(facts))
        flagged = np.flatnonzero([fact.is_corrupt for fact in facts])
        damaged = find_damaged_frames(index, flagged, np.array(refused, dtype=np.int64))
        return info, replace(index, damaged_frame_indices=damaged) if len(damaged) else index

    def _believe_decoder(self, facts: list[DecodedFact]) -> None:
        """Keep the key frames that both container and decoder call so: either alone may be wrong (M14)."""
        found = np.zeros(len(self._walk), dtype=bool)
        found[[fact.packet for fact in facts if fact.is_key and fact.packet >= 0]] = True
        self._walk = replace(self._walk, is_key=self._walk.is_key & found)

    def _assembled(
        self, order: IntArray, first: DecodedFact, built_from: BuiltFrom, decoding: DecodingTimes | None = None
    ) -> tuple[MediaInfo, FrameIndex]:
        container, walk = self._container, self._walk
        times = find_times(container, own_times(walk, order, container.stream.time_base), walk, decoding)
        table = Table(walk, order, assume_rate(times, self._assume_fps), built_from)
        identity = container.source.identity_of(container.reader)
        return video_info(container, first), table.index(self._stream_facts(order, first), identity)

    def _stream_facts(self, order: IntArray, first: DecodedFact) -> StreamFacts:
        container = self._container
        rotation, mirrored = orientation(container.matrix)
        nal = container.codec_name in NAL_CODECS
        return StreamFacts(
            stream_index=container.stream.index,
            container=container.format_name,
            codec=container.codec_name,
            extradata=container.stream.codec_context.extradata,
            width=first.width,
            height=first.height,
            pixel_format=first.pixel_format,
            rotation=rotation,
            mirrored=mirrored,
            contiguous=self._walk.is_contiguous and nal,
            skips_exactly=self._walk.units is not None and is_one_to_one(self._walk, order),
            inband_parameters=may_carry_parameters(self._walk, container.codec_name),
            color_primaries=self._colors.primaries,
            color_transfer=self._colors.transfer,
            color_space=self._colors.space,
            color_range=self._colors.range,
        )
