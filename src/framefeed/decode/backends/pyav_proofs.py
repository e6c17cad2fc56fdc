"""What an index of tables alone does not know of packets: told by themselves, when they are first fetched.

Such an index believes the key frames of the tables. A picture that is decoded from one that is none may come out of
other pictures than its own, and no decoder need say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from framefeed.decode.backends.pyav_feed import Feed
from framefeed.decode.backends.pyav_pools import Feeding, thread_pools
from framefeed.decode.decoder import DecodeCounts
from framefeed.index.frame_index import KEY, FrameIndex, IntArray, StreamFacts
from framefeed.index.joining import frame_starts
from framefeed.media.container import Packet
from framefeed.media.foreign import FOREIGN, libav_log
from framefeed.media.h26x.units import BLOCK_PADDING, BoolArray, UnitWalk
from framefeed.media.landing import MisplacedPacket
from framefeed.media.nal import h264_facts, hevc_facts, nal_length_size
from framefeed.media.packets import NAL_CODECS
from framefeed.media.source import MediaSource

Ask = Callable[[Iterable[int]], dict[int, bool]]
"""Tells of some packets whether decoding can start at each."""


def with_proved_starts(
    source: MediaSource, index: FrameIndex, ordinals: IntArray, how: Feeding, counts: DecodeCounts
) -> FrameIndex:
    """Have some frames of an index that tables gave decoded from where decoding can start; others stay as they are.

    Args:
        source: Where the packets are.
        index: Its frames.
        ordinals: Those that are wanted, int64 [T].
        how: Packets are fetched.
        counts: Takes what that costs.
    """
    if index.built_from != "packets":
        return index
    return prove_starts(
        index,
        ordinals,
        thread_pools().starts_of(index),
        lambda packets: _ask(packets, source, index, how, counts),
    )


def prove_starts(index: FrameIndex, ordinals: IntArray, known: dict[int, bool], ask: Ask) -> FrameIndex:
    """Move the starts of some frames to packets at which decoding can start: to packet 0, where there is no other.

    Args:
        index: What tables say.
        ordinals: Frames, int64 [T].
        known: Whether decoding can start at a packet; takes what is found.
        ask: Finds it.
    """
    keys, reach = np.flatnonzero(index.packets.flags & KEY), 1
    while True:
        proved = _without_false_starts(index, known)
        starts = [start for start in np.unique(proved.frame_start[ordinals]).tolist() if start and start not in known]
        if not starts:
            return proved
        # Tables that are wrong once may be wrong for long: each time twice as many are asked at once.
        last = np.searchsorted(keys, starts).tolist()
        asked = {int(key) for at in last for key in keys[max(0, at + 1 - reach) : at + 1]}
        known.update(ask(sorted(asked - known.keys())))
        reach *= 2


def _without_false_starts(index: FrameIndex, known: dict[int, bool]) -> FrameIndex:
    false = [number for number, is_start in known.items() if not is_start]
    if not false:
        return index
    is_key = (index.packets.flags & KEY) != 0
    is_key[false] = False
    return replace(index, frame_start=frame_starts(index.frame_packet, is_key))


def find_disposable(feed: Feed, stream: StreamFacts, numbers: range) -> BoolArray:
    """Find the packets among some of H.264 or HEVC to whose pictures none of the others refers, bool [len(numbers)]."""
    feed.start(numbers.start)
    walk, found = UnitWalk(stream.codec, nal_length_size(stream.codec, stream.extradata)), np.zeros(len(numbers), bool)
    for packet in feed.packets(numbers):
        data = np.frombuffer(bytes(packet) + bytes(BLOCK_PADDING), np.uint8)
        walk.block(data, np.array([0]), np.array([packet.size]))
    is_disposable = walk.facts().is_disposable
    found[: len(is_disposable)] = is_disposable
    return found


def _ask(
    packets: Iterable[int], source: MediaSource, index: FrameIndex, how: Feeding, counts: DecodeCounts
) -> dict[int, bool]:
    try:
        with thread_pools().feed(source, index, how, counts) as feed:
            return {number: _is_start(feed, index.stream, number) for number in packets}
    except MisplacedPacket:
        if not how.seeks:
            raise
    return _ask(packets, source, index, replace(how, seeks=False), counts)


def _is_start(feed: Feed, stream: StreamFacts, number: int) -> bool:
    """Tell it as full verification would: of H.264 and HEVC by their NAL units, of others by the decoder's flag."""
    context = feed.start(number)
    packet = next(iter(feed.packets([number])), None)
    if packet is None:
        return False
    if stream.codec in NAL_CODECS:
        return _begins_sequence(packet, stream)
    with libav_log() as said:
        try:
            frames = context.decode(packet) + context.decode(None)
        except FOREIGN:
            frames = []
    if said or not frames:
        feed.drop_decoder()
    return any(frame.pts == number and frame.key_frame and not frame.is_corrupt for frame in frames)


def _begins_sequence(packet: Packet, stream: StreamFacts) -> bool:
    read = h264_facts if stream.codec == "h264" else hevc_facts
    facts = read(bytes(packet), nal_length_size(stream.codec, stream.extradata))
    return facts is not None and facts.is_random_access
