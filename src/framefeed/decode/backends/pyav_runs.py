"""One run of packets through libavcodec: what is sent, what comes back, and what the decoder says of it."""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import cast

import av
import numpy as np
from av import VideoCodecContext
from av.video.frame import VideoFrame

from framefeed.decode.backends.pyav_feed import SILENT_CODECS, Feed
from framefeed.decode.backends.pyav_pools import Feeding
from framefeed.decode.backends.pyav_proofs import find_disposable
from framefeed.decode.decoder import DecodeCounts
from framefeed.index.damage import packet_start
from framefeed.index.frame_index import DISPOSABLE, FrameIndex
from framefeed.media.container import Packet
from framefeed.media.foreign import FOREIGN, MOST_PIXEL_BYTES, check_memory, largest_picture, libav_log, says_damage
from framefeed.media.limits import allows
from framefeed.media.packets import NAL_CODECS
from framefeed.parallel.stopping import check_stop
from framefeed.plan.runs import DecodeRuns

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
