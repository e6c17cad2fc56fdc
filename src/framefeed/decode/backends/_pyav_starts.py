"""Check the packets at which decoding starts, in an index built from a file's tables.

Such an index trusts the tables' key frames. Decoding from a false key frame can give wrong pictures without any error,
so packets at which runs start are checked when they are first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import DEFAULT_LIMITS, KEY, UnitFacts
from framefeed.bitstreams import (
    BLOCK_PADDING,
    KEY_FRAME,
    PACKET_READERS,
    SHOWN,
    Codec,
    OddUnits,
    UnitWalk,
    read_nal_length_size,
)
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import Feed
from framefeed.decode.backends._pyav_pools import FeedOptions, get_thread_pools
from framefeed.index import DecodeRuns, FrameIndex, StreamFacts, find_frame_starts
from framefeed.media import LIBAV_EXCEPTIONS, MediaSource, Packet, libav_log


def find_true_starts(
    source: MediaSource,
    index: FrameIndex,
    ordinals: IntArray,
    runs: DecodeRuns,
    options: FeedOptions,
    counts: DecodeCounts,
) -> FrameIndex:
    """Correct the starts of some frames in an index built from tables; other frames and indexes stay as they are.

    ``runs`` say how the frames, int64 [T], are decoded if these starts are true.
    """
    if index.built_from != "packets":
        return index
    pools = get_thread_pools()

    def check(packets: Iterable[int]) -> dict[int, bool]:
        with pools.opening_feed(source, index, options, counts) as feed:
            feed.announce(runs)
            return {number: _is_start(feed, index.stream, number) for number in packets}

    return move_false_starts(index, ordinals, pools.get_starts(index), check)


def move_false_starts(
    index: FrameIndex,
    ordinals: IntArray,
    known: dict[int, bool],
    check: Callable[[Iterable[int]], dict[int, bool]],
) -> FrameIndex:
    """Move the starts of some frames, int64 [T], to packets at which decoding can start, at last to packet 0.

    ``check`` finds whether decoding can start at each of some packets; ``known`` has its results, and receives more.
    """
    keys, reach = np.flatnonzero(index.packets.flags & KEY), 1
    while True:
        proved, false = index, [number for number, is_start in known.items() if not is_start]
        if false:
            is_key = (index.packets.flags & KEY) != 0
            is_key[false] = False
            proved = replace(index, frame_start=find_frame_starts(index.frame_packet, is_key, index.packets))
        starts = [start for start in np.unique(proved.frame_start[ordinals]).tolist() if start and start not in known]
        if not starts:
            return proved
        # Wrong tables are often wrong for long: each round checks twice as many packets at once.
        last = np.searchsorted(keys, starts).tolist()
        unchecked = {int(key) for number in last for key in keys[max(0, number + 1 - reach) : number + 1]}
        known.update(check(sorted(unchecked - known.keys())))
        reach *= 2


def find_disposable(feed: Feed, stream: StreamFacts, numbers: Sequence[int]) -> BoolArray:
    """Find the packets of H.264 or HEVC whose pictures no other picture refers to, bool [len(numbers)]."""
    feed.start(numbers[0])
    is_disposable = _read_units(stream, feed.packets(numbers)).is_disposable
    disposable = np.zeros(len(numbers), bool)
    disposable[: len(is_disposable)] = is_disposable
    return disposable


def _read_units(stream: StreamFacts, packets: Iterable[Packet]) -> UnitFacts:
    walk = UnitWalk(stream.codec, read_nal_length_size(stream.codec, stream.extradata))
    for packet in packets:
        data = np.frombuffer(bytes(packet) + bytes(BLOCK_PADDING), np.uint8)
        walk.block(data, np.array([0]), np.array([packet.size]))
    return walk.facts()


def _is_start(feed: Feed, stream: StreamFacts, number: int) -> bool:
    """Decide as full verification does: by headers of the packet, or by the decoder's flag."""
    context = feed.start(number)
    packet = next(iter(feed.packets([number])), None)
    if packet is None:
        return False
    if Codec.of(stream.codec).units is not None:
        return bool(_read_units(stream, [packet]).is_start[0])
    if (make_reader := PACKET_READERS.get(stream.codec)) is not None:
        with suppress(OddUnits):  # a key frame of AV1 without a sequence header of its own
            return make_reader(DEFAULT_LIMITS).read(memoryview(packet)) == SHOWN | KEY_FRAME
    with libav_log() as messages:
        try:
            frames = context.decode(packet) + context.decode(None)
        except LIBAV_EXCEPTIONS:
            frames = []
    if messages or not frames:
        feed.drop_decoder()
    return any(frame.pts == number and frame.key_frame and not frame.is_corrupt for frame in frames)
