"""One run of packets through libavcodec: what is sent, what comes back, and what the decoder says of it.

What an index of tables alone does not know of packets: told by themselves, when they are first fetched.

Such an index believes the key frames of the tables. A picture that is decoded from one that is none may come out of
other pictures than its own, and no decoder need say so.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import cast

import av
import numpy as np
from av import VideoCodecContext
from av.video.frame import VideoFrame

from framefeed._arrays import BoolArray, IntArray
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import SILENT_CODECS, Feed
from framefeed.decode.backends._pyav_pools import Feeding, thread_pools
from framefeed.index import DISPOSABLE, KEY, FrameIndex, StreamFacts, frame_starts, packet_start
from framefeed.media import (
    BLOCK_PADDING,
    FOREIGN,
    MOST_PIXEL_BYTES,
    NAL_CODECS,
    MediaSource,
    MisplacedPacket,
    Packet,
    UnitWalk,
    allows,
    check_memory,
    h264_facts,
    hevc_facts,
    largest_picture,
    libav_log,
    nal_length_size,
    says_damage,
)
from framefeed.parallel import check_stop
from framefeed.plan import DecodeRuns

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


NumberedFrame = tuple[int, VideoFrame]
"""Ordinal and picture."""

MOST_HELD_BACK = 17
"""Pictures: the largest reorder depth of H.264 and HEVC, and the one that is being decoded."""
_MOST_REORDERED = 16
"""Pictures that may come out before one that they refer to."""
_NO_EVENT = "mmco: unref short failure"
"""What H.264 says where a picture that is to be forgotten is not there: so it is behind every open-GOP start."""


class _Event(enum.Enum):
    """What a decoder said of a picture."""

    LOGGED = 1
    DAMAGE = 2


@dataclass(slots=True)
class _Attempt:
    """A run of frames that have one start, and what its events mean for them.

    Attributes:
        is_whole: Whether all packets are sent, and not only those that frames may refer to.
        limit: Frames of this packet and of later ones do not count.
        is_over: Whether nothing more is sent.
        culprit: The packet whose event ended it, where another attempt may give the frames behind.
        spoilt: Packets whose frames do not count.
    """

    is_whole: bool
    limit: int
    is_over: bool = False
    culprit: int | None = None
    spoilt: set[int] = field(default_factory=set)

    def cut(self, number: int) -> None:
        """Send nothing more, and take the frames of earlier packets only."""
        self.limit, self.is_over = min(self.limit, number), True


class Execution:
    """Sends what a plan says and sorts out what comes back.

    Pixels do not depend on what else is asked for. A run goes on as long as the decoder says nothing. Where it says
    anything, the frames that have not come yet are decoded again: from their own start, by a decoder that has decoded
    nothing yet, and each after the same packets, whichever other frames are wanted.

    Args:
        wanted: Ordinals by the number of the packet that gives each.
        index: Of the source.
        feed: Its packets, and a decoder.
        counts: Takes what it costs.
        how: The packets reach the decoder. With several threads of libavcodec's own nothing is decoded again here: an
            error takes along what was decoded beside it (D02), and is logged where it cannot be known which picture it
            is about.

    Attributes:
        missing: As ``wanted``, without what came out undamaged.
    """

    def __init__(
        self, wanted: dict[int, int], index: FrameIndex, feed: Feed, counts: DecodeCounts, how: Feeding
    ) -> None:
        self.missing = wanted
        self._index = index
        self._feed = feed
        self._counts = counts
        self._threads = how.threads
        self._limits = how.limits
        self._most_bytes = largest_picture(how.limits)
        self._picture_bytes = index.stream.width * index.stream.height * MOST_PIXEL_BYTES
        self._flags = index.packets.flags if index.stream.skips_exactly else None

    def frames(self, runs: DecodeRuns) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of the wanted frames that come out undamaged."""
        send, bounds = runs.send.tolist(), runs.bounds.tolist()
        for first, stop in pairwise(bounds):
            numbers = send[first:stop]
            if self._index.stream.codec not in SILENT_CODECS:
                yield from self._run(numbers)
            if self._threads == 1:
                begin, end = np.searchsorted(runs.packets, [numbers[0], numbers[-1] + 1]).tolist()
                for start, packets in self._waiting(runs.packets[begin:end].tolist()).items():
                    yield from self._decode_alone(start, packets)

    def frames_as_they_come(self, numbers: range) -> Iterator[NumberedFrame]:
        """Decode a run by a new decoder; yield (ordinal, picture) of the wanted frames, damaged or not."""
        self._counts.runs += 1
        context = self._feed.start(numbers[0], anew=True)
        for packet in chain(self._feed.packets(numbers), [None]):
            frames, event = self._decoded(context, packet)
            if event is not None or any(frame.is_corrupt for frame in frames):
                self._feed.drop_decoder()
            for frame in frames:
                if frame.pts in self.missing:
                    yield self.missing.pop(frame.pts), frame

    def frames_of_shared_packets(self, start: int, wanted: dict[tuple[int, int], int]) -> Iterator[NumberedFrame]:
        """Decode every packet from a start on until the decoder says something; yield (ordinal, picture).

        Args:
            start: The first packet.
            wanted: Ordinals by packet, and by how many frames it gives before. Those that do not come stay in it.
        """
        self._counts.runs += 1
        context, came = self._feed.start(start, anew=True), Counter[int | None]()
        for packet in chain(self._feed.packets(range(start, max(wanted)[0] + 1)), [None]):
            frames, event = self._decoded(context, packet)
            if event is not None or any(frame.is_corrupt for frame in frames):
                self._feed.drop_decoder()
                return
            for frame in frames:
                ordinal = wanted.pop((cast("int", frame.pts), came[frame.pts]), None)
                came[frame.pts] += 1
                if ordinal is not None:
                    yield ordinal, frame

    def _run(self, numbers: list[int]) -> Iterator[NumberedFrame]:
        """Decode a run until the decoder says something."""
        self._counts.runs += 1
        context = self._feed.start(numbers[0])
        num_errors = _num_errors()
        # A picture that others refer to is flagged as it comes out, which may be after those. Decoders with threads of
        # their own do not flag what refers to damage, which may come out after it.
        most_held = _MOST_REORDERED if self._threads != 1 else self._reorder_depth(numbers[0], numbers[-1])
        held: deque[VideoFrame] = deque()
        for packet in chain(self._feed.packets(numbers), [None]):
            number = None if packet is None else packet.pts
            frames, event = self._decoded(context, packet)
            if self._threads != 1 and _num_errors() != num_errors:
                event, number = _Event.LOGGED, None
            if event is not None and self._ends_run(number, numbers[0]):
                return
            for frame in frames:
                if frame.is_corrupt:
                    if self._ends_run(frame.pts, numbers[0]):
                        return
                elif frame.pts in self.missing:
                    held.append(frame)
            del frames
            while held and (packet is None or len(held) > most_held):
                picture = held.popleft()
                yield self.missing.pop(cast("int", picture.pts)), picture
                del picture

    def _ends_run(self, number: int | None, run_start: int) -> bool:
        """Have the decoder dropped; tell whether the picture it spoke of may matter to the frames of the run."""
        self._feed.drop_decoder()
        return not self._is_leading(number, run_start)

    def _waiting(self, packets: list[int]) -> dict[int, list[int]]:
        """Those of some packets whose frames are missing, by the packet that each is decoded from."""
        waiting: dict[int, list[int]] = {}
        for packet in packets:
            if packet in self.missing:
                waiting.setdefault(int(self._index.frame_start[self.missing[packet]]), []).append(packet)
        return waiting

    def _decode_alone(self, start: int, packets: list[int]) -> Iterator[NumberedFrame]:
        """Decode the frames of some packets that have one start; what does not come undamaged stays missing.

        A picture that no other refers to is sent only where it is wanted, and not again once the decoder said anything
        about it: the frames behind it come out as if it had not been asked for. Behind a picture that others may refer
        to, damage is hidden with what was decoded last: those frames are decoded after all packets from the start on.
        """
        while packets:
            attempt = yield from self._attempt(start, packets, is_whole=False)
            culprit = attempt.culprit
            if culprit is None:
                return
            if not self._is_disposable(culprit):
                behind = [packet for packet in packets if packet in self.missing and packet >= culprit]
                if behind:
                    yield from self._attempt(start, behind, is_whole=True)
                return
            packets = [packet for packet in packets if packet in self.missing and packet > culprit]

    def _attempt(
        self, start: int, packets: list[int], *, is_whole: bool
    ) -> Generator[tuple[int, VideoFrame], None, _Attempt]:
        """Decode some frames by a new decoder, up to an event that asks for another attempt."""
        self._counts.runs += 1
        stop = max(map(self._stop_of, packets))
        if self._index.built_from == "packets" and self._index.stream.codec in NAL_CODECS:
            self._learn_disposable(range(start, stop))
        context = self._feed.start(start, anew=True)
        attempt, wanted = _Attempt(is_whole, stop), set(packets)
        numbers = [number for number in range(start, stop)
                   if is_whole or number in wanted or not self._is_disposable(number)]  # fmt: skip
        sent = self._feed.packets(numbers)
        # A picture that others refer to is flagged as it comes out, which may be after those. Where memory shows in
        # pictures, none is held: what shows would depend on it.
        most_held = 0
        if self._index.stream.codec not in SILENT_CODECS:
            most_held = _MOST_REORDERED if is_whole else self._reorder_depth(start, stop - 1)
        held: deque[tuple[int, VideoFrame]] = deque()
        while True:
            packet = None if attempt.is_over else next(sent, None)
            number = None if packet is None else packet.pts
            frames, event = self._decoded(context, packet)
            if event is not None:
                self._judge(attempt, start, number, event)
            for frame in frames:
                if frame.is_corrupt:
                    self._judge(attempt, start, frame.pts, _Event.DAMAGE)
                elif frame.pts is not None and frame.pts in wanted:
                    wanted.discard(frame.pts)
                    held.append((frame.pts, frame))
            while held and (packet is None or len(held) > most_held):
                number, picture = held.popleft()
                if number < attempt.limit and number not in attempt.spoilt:
                    yield self.missing.pop(number), picture
                del picture
            if packet is None:
                return attempt

    def _learn_disposable(self, numbers: range) -> None:
        """Have the flags of some packets say what tables do not: to which pictures of theirs no other refers."""
        flags = self._index.packets.flags.copy()
        flags[numbers.start : numbers.stop] |= find_disposable(self._feed, self._index.stream, numbers) * np.uint8(
            DISPOSABLE
        )
        self._flags = flags

    def _judge(self, attempt: _Attempt, start: int, number: int | None, event: _Event) -> None:
        self._feed.drop_decoder()
        if number is None or self._is_leading(number, start):
            return
        if event == _Event.DAMAGE:
            attempt.spoilt.add(number)
        if self._is_disposable(number):
            if not attempt.is_whole and attempt.culprit is None:
                attempt.culprit = number
                attempt.cut(number + 1)
        elif event == _Event.DAMAGE and (self._index.frame_packet == number).any():
            # What is behind it may refer to the damage (D01). A picture that the index does not promise was refused
            # when the index was built too, which then marks what may refer to it, or it is none.
            attempt.cut(number)
        elif not attempt.is_whole and attempt.culprit is None:
            attempt.culprit = number
            attempt.cut(number)

    def _decoded(self, context: VideoCodecContext, packet: Packet | None) -> tuple[list[VideoFrame], _Event | None]:
        """Give the frames that come out, and what the decoder says of the packet."""
        check_stop()
        self._counts.packets_sent += packet is not None
        with libav_log() as said:
            try:
                frames = context.decode(packet)
            except FOREIGN as error:
                # A larger picture is refused by libavcodec's own limit, which it may report as a lack of memory.
                if allows(self._limits, context.width, context.height):
                    check_memory(error, said, self._picture_bytes, self._most_bytes)
                return [], _Event.DAMAGE
        self._counts.frames_decoded += len(frames)
        if all(message.startswith(_NO_EVENT) for _, _, message in said):
            return frames, None
        check_memory(None, said, self._picture_bytes, self._most_bytes)
        return frames, _Event.DAMAGE if says_damage(self._index.stream.codec, said) else _Event.LOGGED

    def _reorder_depth(self, first: int, last: int) -> int:
        """Count the most pictures that come before one that they may refer to, among missing ones of some packets."""
        ordinals = [ordinal for packet, ordinal in self.missing.items() if first <= packet <= last]
        if not ordinals:
            return 0
        packets = self._index.frame_packet[min(ordinals) : max(ordinals) + _MOST_REORDERED + 1]
        rank = packets.argsort(kind="stable")
        return int((np.maximum.accumulate(rank) - rank).max())

    def _is_leading(self, number: int | None, run_start: int) -> bool:
        """Whether a picture must be decoded from before a run: a leading picture of its first key frame (M04)."""
        return number is not None and packet_start(self._index, number) < run_start

    def _is_disposable(self, number: int) -> bool:
        return self._flags is not None and bool(self._flags[number] & DISPOSABLE)

    def _stop_of(self, packet: int) -> int:
        stops = self._index.frame_stop
        return packet + 1 if stops is None else int(stops[self.missing[packet]])


def _num_errors() -> int:
    """How many errors libavcodec has logged in this process, in whichever thread."""
    return int(av.logging.get_last_error()[0])
