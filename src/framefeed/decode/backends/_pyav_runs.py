"""Decode runs of packets with libavcodec, so that pixels do not depend on the other frames of a call.

A run goes on as long as the decoder reports nothing. After any report, the frames that have not come yet are decoded
again: from their own start, by a new decoder, and each after the same packets, whichever other frames are requested.

    RunDecoder.decode     frames, run after run, attempt after attempt
    RunDecoder._attempt   sends packets, yields frames: the only loop over packets
    RunDecoder._report    what an attempt does after a report
    RunDecoder._repeat    which attempts follow
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import av
import numpy as np
from av import VideoCodecContext
from av.video.frame import VideoFrame

from framefeed._stopping import check_stop
from framefeed._values import DISPOSABLE, is_size_allowed
from framefeed.bitstreams import Codec
from framefeed.decode._decoder import DecodeCounts
from framefeed.decode.backends._pyav_feed import Feed
from framefeed.decode.backends._pyav_pools import FeedOptions
from framefeed.decode.backends._pyav_starts import find_disposable
from framefeed.index import DecodeRun, DecodeRuns, FrameIndex, RunKind, find_packet_start
from framefeed.media import (
    LIBAV_EXCEPTIONS,
    MOST_PIXEL_BYTES,
    bound_picture_bytes,
    check_memory,
    is_damage_logged,
    is_harmless,
    libav_log,
    send_packet,
)

# Ordinal and picture.
NumberedFrame = tuple[int, VideoFrame]
# Packet, and number of frames that it gave before.
FrameKey = tuple[int, int]

# Pictures that may come out before a picture that they refer to.
_MAX_REORDERED = 16


@dataclass(slots=True)
class _Attempt:
    """One decoding of frames that have one start."""

    kind: RunKind
    start: int  # the first packet
    missing: dict[FrameKey, int]  # ordinals; frames that come out are removed
    send: Sequence[int] | None = None  # packets; None: they are chosen for these frames alone, because the run failed
    is_whole: bool = False  # all packets from the start on are chosen, and not only those that frames may refer to
    limit: int = sys.maxsize  # frames of this packet and of later ones are dropped
    is_over: bool = False  # no more packets are sent
    is_lost: bool = False  # no more frames are delivered
    failed_packet: int | None = None  # whose report ended it, if another attempt may give the frames after it
    damaged_packets: set[int] = field(default_factory=set)  # whose frames are dropped

    def stop_before(self, number: int) -> None:
        """Send no more packets, and drop the frames of this packet and of later ones."""
        self.limit, self.is_over = min(self.limit, number), True


class RunDecoder:
    """Sends the packets of planned runs and keeps the frames that are asked for.

    With several threads of libavcodec, nothing is decoded again here: an error also loses frames that other threads
    were decoding (D02), and its message does not name the picture.
    """

    def __init__(self, index: FrameIndex, feed: Feed, counts: DecodeCounts, options: FeedOptions) -> None:
        self._index = index
        self._codec = Codec.of(index.stream.codec)
        self._feed = feed
        self._counts = counts
        self._has_threads = options.threads != 1
        self._skips = options.skips
        self._lacks_flags = index.built_from == "packets" and self._codec.units is not None
        self._expects_one = index.built_from == "packets" and self._codec.mp4_box != b""
        self._limits = options.limits
        self._flags = index.packets.flags if index.stream.skips_exactly else None

    def decode(self, runs: DecodeRuns) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of the frames that come out; those of damaged pictures only in damaged runs."""
        self._feed.announce(runs)
        for run in runs.runs:
            attempts = self._begin(run)
            while attempts:
                attempt = attempts.pop(0)
                yield from self._attempt(attempt)
                attempts = self._repeat(attempt) + attempts

    def _begin(self, run: DecodeRun) -> list[_Attempt]:
        keys = zip(run.packets.tolist(), run.before.tolist(), strict=True)
        missing: dict[FrameKey, int] = dict(zip(keys, run.ordinals.tolist(), strict=True))
        if run.kind is RunKind.UNDAMAGED and self._codec.is_silent:
            return self._split_by_start(missing)
        send = run.send.tolist()
        if run.kind is RunKind.UNDAMAGED and self._skips and self._lacks_flags:
            self._find_flags(send)
            requested = {key[0] for key in missing}
            send = [number for number in send if number in requested or not self._is_disposable(number)]
        return [_Attempt(run.kind, send[0], missing, send)]

    def _find_flags(self, numbers: Sequence[int]) -> None:
        """Find which packets are disposable, as tables do not say."""
        self._flags = self._index.packets.flags.copy()
        self._flags[numbers] |= find_disposable(self._feed, self._index.stream, numbers) * np.uint8(DISPOSABLE)

    def _repeat(self, attempt: _Attempt) -> list[_Attempt]:
        """Plan what follows an attempt; frames that come out damaged twice stay missing.

        A disposable picture (no other refers to it) is sent only if it is requested, and not again after the decoder
        reported anything about it: later frames come out as if it had not been requested. After a report about another
        picture, the decoder hides damage with the picture decoded last: later frames are decoded after all packets
        from the start on.
        """
        if attempt.kind is not RunKind.UNDAMAGED or not attempt.missing or self._has_threads:
            return []
        if attempt.send is not None:
            return self._split_by_start(attempt.missing)
        failed = attempt.failed_packet
        if failed is None or attempt.is_whole:
            return []
        is_whole = not self._is_disposable(failed)
        first = failed if is_whole else failed + 1
        behind = {key: ordinal for key, ordinal in attempt.missing.items() if key[0] >= first}
        return [_Attempt(attempt.kind, attempt.start, behind, is_whole=is_whole)] if behind else []

    def _split_by_start(self, missing: dict[FrameKey, int]) -> list[_Attempt]:
        by_start: dict[int, dict[FrameKey, int]] = {}
        for key, ordinal in missing.items():
            by_start.setdefault(int(self._index.frame_start[ordinal]), {})[key] = ordinal
        return [_Attempt(RunKind.UNDAMAGED, start, frames) for start, frames in by_start.items()]

    def _attempt(self, attempt: _Attempt) -> Iterator[NumberedFrame]:
        """Send the packets of an attempt; yield its frames up to a report that ends it."""
        counts, missing = self._counts, attempt.missing
        counts.runs += 1
        send = self._choose_packets(attempt) if attempt.send is None else attempt.send
        is_pooled = attempt.send is not None and attempt.kind is RunKind.UNDAMAGED
        context = self._feed.start(attempt.start, with_new_decoder=not is_pooled)
        num_errors = _count_logged_errors()
        most_held = self._count_held(attempt)
        packets, came = self._feed.packets(send), dict[int, int]()
        held: deque[tuple[FrameKey, VideoFrame]] = deque()
        while True:
            check_stop()
            packet = None if attempt.is_over else next(packets, None)
            is_damage: bool | None = None  # None: the decoder reports nothing
            with libav_log() as messages:
                try:
                    frames = send_packet(context, packet)
                except LIBAV_EXCEPTIONS as error:
                    self._check_memory(context, messages, error)
                    frames, is_damage = [], True
            if packet is not None:
                counts.packets_sent += 1
            counts.frames_decoded += len(frames)
            if is_damage is None and messages and not is_harmless(messages):
                self._check_memory(context, messages, None)
                is_damage = is_damage_logged(self._codec, messages)
            if self._has_threads and _count_logged_errors() != num_errors:
                self._report(attempt, None, is_damage=False)
            elif is_damage is not None:
                self._report(attempt, None if packet is None else packet.pts, is_damage=is_damage)
            for frame in frames:
                if frame.is_corrupt:
                    self._report(attempt, frame.pts, is_damage=True)
                    if attempt.kind is not RunKind.DAMAGED:
                        continue
                # A decoder may give the picture of a packet twice.
                number = cast("int", frame.pts)
                key = number, came.get(number, 0)
                came[number] = key[1] + 1
                if key[1] and self._expects_one:
                    attempt.damaged_packets.add(number)  # which of them is the frame of the table is not known
                if key in missing:
                    held.append((key, frame))
            del frames
            if attempt.is_lost:
                return
            while held and (packet is None or len(held) > most_held):
                key, picture = held.popleft()
                if key[0] < attempt.limit and key[0] not in attempt.damaged_packets:
                    yield missing.pop(key), picture
                del picture
            if packet is None:
                return

    def _choose_packets(self, attempt: _Attempt) -> list[int]:
        """Choose the packets that the frames of an attempt need, whichever other frames are requested."""
        requested = {key[0] for key in attempt.missing}
        ordinals, stops = list(attempt.missing.values()), self._index.frame_stop
        stops = self._index.frame_packet[ordinals] + 1 if stops is None else stops[ordinals]
        numbers = range(attempt.start, int(stops.max()))
        if self._lacks_flags:
            self._find_flags(numbers)
        if attempt.is_whole:
            return list(numbers)
        return [number for number in numbers if number in requested or not self._is_disposable(number)]

    def _count_held(self, attempt: _Attempt) -> int:
        """Count the pictures to hold back.

        A damaged picture is flagged when it comes out, which may be after pictures that refer to it. Decoders with
        threads of their own do not flag those either. Silent codecs show old memory in damaged pictures: none is held,
        because that memory would depend on it.
        """
        if attempt.kind is not RunKind.UNDAMAGED or self._codec.is_silent or not attempt.missing:
            return 0
        if self._has_threads or attempt.is_whole:
            return _MAX_REORDERED
        # The most pictures that come out before one that they may refer to.
        ordinals = attempt.missing.values()
        rank = self._index.frame_packet[min(ordinals) : max(ordinals) + _MAX_REORDERED + 1].argsort(kind="stable")
        # A second frame of a packet may come with the next packet.
        return max(int((np.maximum.accumulate(rank) - rank).max()), self._expects_one)

    def _report(self, attempt: _Attempt, number: int | None, *, is_damage: bool) -> None:
        """Note damage or a message about the picture of a packet; decide what the attempt still sends and delivers."""
        self._feed.drop_decoder()
        if attempt.kind is RunKind.DAMAGED:
            return
        if attempt.kind is RunKind.SHARED:
            attempt.is_lost |= is_damage
            return
        # Decoding of a leading picture of the first key frame must start before it (M04).
        if number is not None and find_packet_start(self._index, number) < attempt.start:
            return
        if attempt.send is not None:
            attempt.is_lost = True
            return
        if number is None:
            return
        if is_damage:
            attempt.damaged_packets.add(number)
        may_repeat = not attempt.is_whole and attempt.failed_packet is None
        if self._is_disposable(number):
            if may_repeat:
                attempt.failed_packet = number
                attempt.stop_before(number + 1)
        elif is_damage and (self._index.frame_packet == number).any():
            # Later frames may refer to the damage (D01). A packet without a frame in the index failed when the index
            # was built too: the index then marks the frames that may refer to it.
            attempt.stop_before(number)
        elif may_repeat:
            attempt.failed_packet = number
            attempt.stop_before(number)

    def _check_memory(
        self, context: VideoCodecContext, messages: Sequence[tuple[int, str, str]], error: BaseException | None
    ) -> None:
        """Raise if apparent damage may be a lack of memory."""
        # libavcodec refuses larger pictures itself, and may report that as a lack of memory.
        if error is None or is_size_allowed(self._limits, context.width, context.height):
            picture_bytes = self._index.stream.width * self._index.stream.height * MOST_PIXEL_BYTES
            check_memory(error, messages, picture_bytes, bound_picture_bytes(self._limits))

    def _is_disposable(self, number: int) -> bool:
        return self._flags is not None and bool(self._flags[number] & DISPOSABLE)


def _count_logged_errors() -> int:
    """Count the errors that libavcodec has logged in this process, in any thread."""
    return int(av.logging.get_last_error()[0])
