"""Join the packets of a stream with the output order of their frames into a FrameIndex."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import MISSING_PTS, MediaInfo, PacketTable, PacketWalk, PictureFormat, StreamColors
from framefeed.bitstreams import Codec
from framefeed.index._frame_index import BuiltFrom, FrameIndex, StreamFacts
from framefeed.index._movie import OpenedMovie
from framefeed.index._times import FrameTimes, read_packet_times
from framefeed.media import SourceIdentity

_LAST = int(np.iinfo(np.int64).max)


def join_packets_and_frames(
    walk: PacketWalk,
    order: IntArray,
    times: FrameTimes,
    built_from: BuiltFrom,
    stream: StreamFacts,
    identity: SourceIdentity | None,
) -> FrameIndex:
    """Join the packets of a stream with its frames.

    ``order``: packet number of each output frame, in output order, int64 [N]; -1 where unknown.
    ``built_from``: source of the order.
    ``identity``: of the file; None for no check.
    """
    packet_is_key = walk.packets.is_key
    is_key = packet_is_key[order] & (order >= 0)
    return FrameIndex(
        pts=times.pts,
        duration=times.duration,
        time_base=times.time_base,
        key_frame_indices=is_key.nonzero()[0],
        built_from=built_from,
        frame_packet=order,
        frame_start=find_frame_starts(order, packet_is_key, walk.packets),
        packets=walk.packets,
        stream=stream,
        identity=identity,
        times_from=times.times_from,
        time_shift=times.time_shift,
    )


def index_movie(opened: OpenedMovie, order: IntArray, built_from: BuiltFrom, identity: SourceIdentity) -> FrameIndex:
    """Index an MP4 file from its header alone, without opening a container or decoding.

    ``opened``: its ``facts`` are not None.
    ``order``: number of the packet of each frame, int64 [N].
    ``built_from``: source of the order.
    """
    info, facts, walk = opened.info, opened.facts, opened.walk
    assert info is not None
    assert facts is not None
    stream = describe_stream(info, facts.format, facts.colors, walk, order, opened.number, facts.extradata)
    times = read_packet_times(walk, order, Fraction(1, opened.movie.video.time_scale))
    return join_packets_and_frames(walk, order, times, built_from, stream, identity)


def describe_stream(
    info: MediaInfo,
    picture: PictureFormat,
    colors: StreamColors,
    walk: PacketWalk,
    order: IntArray,
    stream_index: int,
    extradata: bytes | None,
) -> StreamFacts:
    """Collect the facts of a stream that decoding needs.

    ``picture``: format of the first frame.
    """
    return StreamFacts(
        stream_index=stream_index,
        container=info.container,
        codec=info.codec,
        extradata=extradata,
        width=picture.width,
        height=picture.height,
        pixel_format=picture.pixel_format,
        rotation=info.rotation,
        mirrored=info.mirrored,
        contiguous=walk.is_contiguous,
        skips_exactly=walk.units is not None and _is_one_to_one(walk.packets, order),
        # Packets that were not parsed may carry parameter sets.
        inband_parameters=bool(walk.parameter_sets) or (Codec.of(info.codec).is_direct and walk.units is None),
        color_primaries=colors.primaries,
        color_transfer=colors.transfer,
        color_space=colors.space,
        color_range=colors.range,
    )


def order_shown_packets(packets: PacketTable) -> IntArray:
    """List the numbers of the shown packets by presentation time, int64 [N]."""
    is_discarded = packets.is_discarded
    if not np.count_nonzero(is_discarded):
        return packets.pts.argsort(kind="stable")
    shown = (~is_discarded).nonzero()[0]
    return shown[packets.pts[shown].argsort(kind="stable")]


def _is_one_to_one(packets: PacketTable, order: IntArray) -> bool:
    """Whether each shown packet gives one frame, and no other packet gives any."""
    if len(order) != len(packets) - np.count_nonzero(packets.is_discarded) or np.count_nonzero(order < 0) > 1:
        return False
    frames = np.bincount(order[order >= 0], minlength=1)
    return bool(frames[frames.argmax()] <= 1)


def find_frame_starts(order: IntArray, is_key: BoolArray, packets: PacketTable) -> IntArray:
    """Find the packet from which decoding must start for each frame, int64 [N].

    It is the last key packet at or before the frame's packet in decode order whose own picture is shown at or before
    the frame, because a leading picture refers to pictures before its key frame (M04); 0 if there is none.

    Args:
        order: Packet number of each output frame, in output order.
        is_key: Whether decoding can start at a packet, bool [P].
        packets: Times and flags of the packets.
    """
    shown = np.full(len(is_key), -1, dtype=np.int64)
    known = (order >= 0).nonzero()[0]
    shown[order[known]] = known
    _place_hidden_keys(shown, order, is_key, packets)
    keys = (is_key & (shown >= 0)).nonzero()[0]
    if not len(keys) or not keys[-1]:
        return np.zeros(len(order), dtype=np.int64)
    # In broken files a key picture can be shown later than that of a later key: decoding may not start there.
    shown_keys = shown[keys]
    is_sound = np.maximum.accumulate(shown_keys) == shown_keys
    sound, shown_keys = keys[is_sound], shown_keys[is_sound]
    # Before the first key, decoding starts at packet 0; a frame of an unknown packet counts as before all keys.
    starts = np.concatenate(([0], sound))
    by_packet = sound.searchsorted(order, side="right")
    by_shown = shown_keys.searchsorted(np.arange(len(order)), side="right")
    frame_start: IntArray = starts[np.minimum(by_packet, by_shown)]
    return frame_start


def _place_hidden_keys(shown: IntArray, order: IntArray, is_key: BoolArray, packets: PacketTable) -> None:
    """Place the key pictures with which edits begin, and which they do not show, at the first frame behind them (M06).

    Decoding from before such an edit goes through pictures that do not belong together. Where a later frame has an
    earlier time than the key picture, it may be a leading picture.
    """
    hidden = (is_key & packets.is_discarded).nonzero()[0]
    if not len(hidden) or hidden[-1] == 0:
        return
    # Least time, and first number, of the frames of each packet and of all later ones.
    least, first = np.full(len(is_key), _LAST, np.int64), np.full(len(is_key), _LAST, np.int64)
    frames = (order >= 0).nonzero()[0]
    np.minimum.at(least, order[frames], packets.pts[order[frames]])
    np.minimum.at(first, order[frames], frames)
    least, first = (np.minimum.accumulate(column[::-1])[::-1] for column in (least, first))
    time = packets.pts[hidden]
    is_begin = (time != MISSING_PTS) & (time <= least[hidden]) & (first[hidden] < _LAST)
    begins = hidden[is_begin]
    shown[begins] = first[begins]
