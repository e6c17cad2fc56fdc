"""Decode runs of packets with libavcodec, so that pixels do not depend on the other frames of a call.

An index built from a file's tables trusts their key frames. Decoding from a false key frame can give wrong pictures
without any error, so packets at which runs start are checked when they are first read.
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
from framefeed._stopping import check_stop
from framefeed._values import DISPOSABLE, KEY, is_size_allowed
from framefeed.bitstreams import BLOCK_PADDING, Codec, UnitWalk, read_nal_length_size, read_picture_facts
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import Feed
from framefeed.decode.backends._pyav_pools import FeedOptions, get_thread_pools
from framefeed.index import DecodeRuns, FrameIndex, StreamFacts, find_frame_starts, find_packet_start
from framefeed.media import (
    LIBAV_EXCEPTIONS,
    MOST_PIXEL_BYTES,
    MediaSource,
    MisplacedPacket,
    Packet,
    bound_picture_bytes,
    check_memory,
    is_damage_logged,
    is_harmless,
    libav_log,
)

# Finds whether decoding can start at each of some packets.
StartCheck = Callable[[Iterable[int]], dict[int, bool]]


def find_true_starts(
    source: MediaSource, index: FrameIndex, ordinals: IntArray, options: FeedOptions, counts: DecodeCounts
) -> FrameIndex:
    """Correct the starts of some frames in an index built from tables; other frames and indexes stay as they are.

    Args:
        source: Source of the packets.
        index: Index of the source.
        ordinals: The frames to decode, int64 [T].
        options: How packets reach the decoder.
        counts: Receives the costs.
    """
    if index.built_from != "packets":
        return index
    return move_false_starts(
        index,
        ordinals,
        get_thread_pools().get_starts(index),
        lambda packets: _check_starts(packets, source, index, options, counts),
    )


def move_false_starts(index: FrameIndex, ordinals: IntArray, known: dict[int, bool], check: StartCheck) -> FrameIndex:
    """Move the starts of some frames to packets at which decoding can start, at last to packet 0.

    Args:
        index: Index built from tables.
        ordinals: Frames, int64 [T].
        known: Results of earlier checks by packet; receives new ones.
        check: Checks packets.
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


def find_disposable(feed: Feed, stream: StreamFacts, numbers: range) -> BoolArray:
    """Find the packets of H.264 or HEVC whose pictures no other picture refers to, bool [len(numbers)]."""
    feed.start(numbers.start)
    walk, disposable = (
        UnitWalk(stream.codec, read_nal_length_size(stream.codec, stream.extradata)),
        np.zeros(len(numbers), bool),
    )
    for packet in feed.packets(numbers):
        data = np.frombuffer(bytes(packet) + bytes(BLOCK_PADDING), np.uint8)
        walk.block(data, np.array([0]), np.array([packet.size]))
    is_disposable = walk.facts().is_disposable
    disposable[: len(is_disposable)] = is_disposable
    return disposable


def _check_starts(
    packets: Iterable[int], source: MediaSource, index: FrameIndex, options: FeedOptions, counts: DecodeCounts
) -> dict[int, bool]:
    try:
        with get_thread_pools().opening_feed(source, index, options, counts) as feed:
            return {number: _is_start(feed, index.stream, number) for number in packets}
    except MisplacedPacket:
        if not options.seeks:
            raise
    return _check_starts(packets, source, index, replace(options, seeks=False), counts)


def _is_start(feed: Feed, stream: StreamFacts, number: int) -> bool:
    """Decide as full verification does: H.264 and HEVC by their NAL units, other codecs by the decoder's flag."""
    context = feed.start(number)
    packet = next(iter(feed.packets([number])), None)
    if packet is None:
        return False
    if Codec.of(stream.codec).units is not None:
        facts = read_picture_facts(bytes(packet), stream.codec, read_nal_length_size(stream.codec, stream.extradata))
        return facts is not None and facts.is_random_access
    with libav_log() as messages:
        try:
            frames = context.decode(packet) + context.decode(None)
        except LIBAV_EXCEPTIONS:
            frames = []
    if messages or not frames:
        feed.drop_decoder()
    return any(frame.pts == number and frame.key_frame and not frame.is_corrupt for frame in frames)


# Ordinal and picture.
NumberedFrame = tuple[int, VideoFrame]

# Pictures that a decoder holds back: the largest reorder depth of H.264 and HEVC, and the picture being decoded.
MOST_HELD_BACK = 17
# Pictures that may come out before a picture that they refer to.
_MAX_REORDERED = 16


class _Event(enum.Enum):
    """A decoder's report about a picture: a message in its log, or damage."""

    LOGGED = 1
    DAMAGE = 2


@dataclass(slots=True)
class _Attempt:
    """State of a run of frames that have one start.

    Attributes:
        is_whole: Whether all packets are sent, and not only those that frames may refer to.
        limit: Frames of this packet and of later ones are dropped.
        is_over: Whether no more packets are sent.
        failed_packet: The packet whose event ended the run, if another attempt may give the frames after it.
        damaged_packets: Packets whose frames are dropped.
    """

    is_whole: bool
    limit: int
    is_over: bool = False
    failed_packet: int | None = None
    damaged_packets: set[int] = field(default_factory=set)

    def stop_before(self, number: int) -> None:
        """Send no more packets, and drop the frames of this packet and of later ones."""
        self.limit, self.is_over = min(self.limit, number), True


class RunDecoder:
    """Sends the packets of planned runs and keeps the undamaged frames.

    Pixels do not depend on the other frames of a call. A run goes on as long as the decoder reports nothing. After any
    report, the frames that have not come yet are decoded again: from their own start, by a new decoder, and each after
    the same packets, whichever other frames are requested.

    Args:
        missing: Ordinals by the number of the packet that gives each; frames that come out are removed.
        index: Index of the source.
        feed: Packets of the source, and a decoder.
        counts: Receives the costs.
        options: How packets reach the decoder. With several threads of libavcodec, nothing is decoded again here: an
            error also loses frames that other threads were decoding (D02), and its message does not name the picture.

    Attributes:
        missing: The frames that have not come yet.
    """

    def __init__(
        self, missing: dict[int, int], index: FrameIndex, feed: Feed, counts: DecodeCounts, options: FeedOptions
    ) -> None:
        self.missing = missing
        self._index = index
        self._codec = Codec.of(index.stream.codec)
        self._feed = feed
        self._counts = counts
        self._threads = options.threads
        self._limits = options.limits
        self._most_bytes = bound_picture_bytes(options.limits)
        self._picture_bytes = index.stream.width * index.stream.height * MOST_PIXEL_BYTES
        self._flags = index.packets.flags if index.stream.skips_exactly else None

    def decode_runs(self, runs: DecodeRuns) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of the missing frames that come out undamaged."""
        send, bounds = runs.send.tolist(), runs.bounds.tolist()
        for first, stop in pairwise(bounds):
            numbers = send[first:stop]
            if not self._codec.is_silent:
                yield from self._run(numbers)
            if self._threads == 1:
                begin, end = np.searchsorted(runs.packets, [numbers[0], numbers[-1] + 1]).tolist()
                by_start: dict[int, list[int]] = {}
                for packet in runs.packets[begin:end].tolist():
                    if packet in self.missing:
                        by_start.setdefault(int(self._index.frame_start[self.missing[packet]]), []).append(packet)
                for start, packets in by_start.items():
                    yield from self._decode_again(start, packets)

    def decode_with_damage(self, numbers: range) -> Iterator[NumberedFrame]:
        """Decode a run with a new decoder; yield (ordinal, picture) of the missing frames, damaged or not."""
        self._counts.runs += 1
        context = self._feed.start(numbers[0], with_new_decoder=True)
        for packet in chain(self._feed.packets(numbers), [None]):
            frames, event = self._decode(context, packet)
            if event is not None or any(frame.is_corrupt for frame in frames):
                self._feed.drop_decoder()
            for frame in frames:
                if frame.pts in self.missing:
                    yield self.missing.pop(frame.pts), frame

    def decode_shared_packets(
        self, start: int, missing: dict[tuple[int, int], int], *, with_damage: bool
    ) -> Iterator[NumberedFrame]:
        """Decode every packet from a start on with a new decoder; yield (ordinal, picture).

        Args:
            start: The first packet.
            missing: Ordinals by (packet, number of frames that it gives before); frames that come out are removed.
            with_damage: Go on after damage.
        """
        self._counts.runs += 1
        context, came = self._feed.start(start, with_new_decoder=True), Counter[int | None]()
        for packet in chain(self._feed.packets(range(start, max(missing)[0] + 1)), [None]):
            frames, event = self._decode(context, packet)
            is_damaged = event == _Event.DAMAGE or any(frame.is_corrupt for frame in frames)
            if event is not None or is_damaged:
                self._feed.drop_decoder()
            if is_damaged and not with_damage:
                return
            for frame in frames:
                ordinal = missing.pop((cast("int", frame.pts), came[frame.pts]), None)
                came[frame.pts] += 1
                if ordinal is not None:
                    yield ordinal, frame

    def _run(self, numbers: list[int]) -> Iterator[NumberedFrame]:
        """Decode a run until the decoder reports something about one of its frames."""
        self._counts.runs += 1
        context = self._feed.start(numbers[0])
        num_errors = _count_logged_errors()
        # A damaged picture is flagged when it comes out, which may be after pictures that refer to it. Decoders with
        # threads of their own do not flag those either.
        most_held = _MAX_REORDERED if self._threads != 1 else self._reorder_depth(numbers[0], numbers[-1])
        held: deque[VideoFrame] = deque()
        for packet in chain(self._feed.packets(numbers), [None]):
            number = None if packet is None else packet.pts
            frames, event = self._decode(context, packet)
            if self._threads != 1 and _count_logged_errors() != num_errors:
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
                # A decoder may give the picture of a packet twice.
                ordinal = self.missing.pop(cast("int", picture.pts), None)
                if ordinal is not None:
                    yield ordinal, picture
                del picture

    def _ends_run(self, number: int | None, run_start: int) -> bool:
        """Drop the decoder; find whether frames of the run may depend on the reported picture."""
        self._feed.drop_decoder()
        return not self._is_leading(number, run_start)

    def _decode_again(self, start: int, packets: list[int]) -> Iterator[NumberedFrame]:
        """Decode the frames of some packets that have one start; frames that come out damaged stay missing.

        A disposable picture (no other refers to it) is sent only if it is requested, and not again after the decoder
        reported anything about it: later frames come out as if it had not been requested. After a report about another
        picture, the decoder hides damage with the picture decoded last: later frames are decoded after all packets
        from the start on.
        """
        while packets:
            attempt = yield from self._attempt(start, packets, is_whole=False)
            failed_packet = attempt.failed_packet
            if failed_packet is None:
                return
            if not self._is_disposable(failed_packet):
                behind = [packet for packet in packets if packet in self.missing and packet >= failed_packet]
                if behind:
                    yield from self._attempt(start, behind, is_whole=True)
                return
            packets = [packet for packet in packets if packet in self.missing and packet > failed_packet]

    def _attempt(
        self, start: int, packets: list[int], *, is_whole: bool
    ) -> Generator[tuple[int, VideoFrame], None, _Attempt]:
        """Decode some frames with a new decoder, up to an event that needs another attempt."""
        self._counts.runs += 1
        stops = self._index.frame_stop
        stop = max(packets) + 1 if stops is None else max(int(stops[self.missing[packet]]) for packet in packets)
        if self._index.built_from == "packets" and self._codec.units is not None:
            self._learn_disposable(range(start, stop))
        context = self._feed.start(start, with_new_decoder=True)
        attempt, requested = _Attempt(is_whole, stop), set(packets)
        numbers = [number for number in range(start, stop)
                   if is_whole or number in requested or not self._is_disposable(number)]  # fmt: skip
        sent = self._feed.packets(numbers)
        # A damaged picture is flagged when it comes out, which may be after pictures that refer to it. Silent codecs
        # show old memory in damaged pictures: none is held, because that memory would depend on it.
        most_held = 0
        if not self._codec.is_silent:
            most_held = _MAX_REORDERED if is_whole else self._reorder_depth(start, stop - 1)
        held: deque[tuple[int, VideoFrame]] = deque()
        while True:
            packet = None if attempt.is_over else next(sent, None)
            number = None if packet is None else packet.pts
            frames, event = self._decode(context, packet)
            if event is not None:
                self._record_event(attempt, start, number, event)
            for frame in frames:
                if frame.is_corrupt:
                    self._record_event(attempt, start, frame.pts, _Event.DAMAGE)
                elif frame.pts is not None and frame.pts in requested:
                    requested.discard(frame.pts)
                    held.append((frame.pts, frame))
            while held and (packet is None or len(held) > most_held):
                number, picture = held.popleft()
                if number < attempt.limit and number not in attempt.damaged_packets:
                    yield self.missing.pop(number), picture
                del picture
            if packet is None:
                return attempt

    def _learn_disposable(self, numbers: range) -> None:
        """Add the flag of disposable pictures, which tables do not have, to some packets."""
        flags = self._index.packets.flags.copy()
        flags[numbers.start : numbers.stop] |= find_disposable(self._feed, self._index.stream, numbers) * np.uint8(
            DISPOSABLE
        )
        self._flags = flags

    def _record_event(self, attempt: _Attempt, start: int, number: int | None, event: _Event) -> None:
        self._feed.drop_decoder()
        if number is None or self._is_leading(number, start):
            return
        if event == _Event.DAMAGE:
            attempt.damaged_packets.add(number)
        if self._is_disposable(number):
            if not attempt.is_whole and attempt.failed_packet is None:
                attempt.failed_packet = number
                attempt.stop_before(number + 1)
        elif event == _Event.DAMAGE and (self._index.frame_packet == number).any():
            # Later frames may refer to the damage (D01). A packet without a frame in the index failed when the index
            # was built too: the index then marks the frames that may refer to it.
            attempt.stop_before(number)
        elif not attempt.is_whole and attempt.failed_packet is None:
            attempt.failed_packet = number
            attempt.stop_before(number)

    def _decode(self, context: VideoCodecContext, packet: Packet | None) -> tuple[list[VideoFrame], _Event | None]:
        """Decode a packet; return the frames that come out, and the decoder's report about the packet."""
        check_stop()
        self._counts.packets_sent += packet is not None
        with libav_log() as messages:
            try:
                frames = context.decode(packet)
            except LIBAV_EXCEPTIONS as error:
                # libavcodec refuses larger pictures itself, and may report that as a lack of memory.
                if is_size_allowed(self._limits, context.width, context.height):
                    check_memory(error, messages, self._picture_bytes, self._most_bytes)
                return [], _Event.DAMAGE
        self._counts.frames_decoded += len(frames)
        if is_harmless(messages):
            return frames, None
        check_memory(None, messages, self._picture_bytes, self._most_bytes)
        return frames, _Event.DAMAGE if is_damage_logged(self._codec, messages) else _Event.LOGGED

    def _reorder_depth(self, first: int, last: int) -> int:
        """Count the most pictures that come out before one that they may refer to, among some missing frames."""
        ordinals = [ordinal for packet, ordinal in self.missing.items() if first <= packet <= last]
        if not ordinals:
            return 0
        packets = self._index.frame_packet[min(ordinals) : max(ordinals) + _MAX_REORDERED + 1]
        rank = packets.argsort(kind="stable")
        return int((np.maximum.accumulate(rank) - rank).max())

    def _is_leading(self, number: int | None, run_start: int) -> bool:
        """Whether decoding a picture must start before the run: a leading picture of the first key frame (M04)."""
        return number is not None and find_packet_start(self._index, number) < run_start

    def _is_disposable(self, number: int) -> bool:
        return self._flags is not None and bool(self._flags[number] & DISPOSABLE)


def _count_logged_errors() -> int:
    """Count the errors that libavcodec has logged in this process, in any thread."""
    return int(av.logging.get_last_error()[0])
