"""The PyAV backend: executes decode runs. The default, and the reference that others are compared with."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import cast

import av
import numpy as np
import numpy.typing as npt
from av import VideoCodecContext
from av.video.frame import VideoFrame

from framefeed.decode.auto import check_kind
from framefeed.decode.backends.pyav_feed import SILENT_CODECS, Feed
from framefeed.decode.backends.pyav_pools import Feeding, thread_pools
from framefeed.decode.convert import Converter, conversion_recipe
from framefeed.decode.decoder import ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode.places import Places, Write, converted
from framefeed.index.damage import packet_start
from framefeed.index.frame_index import DISPOSABLE, FrameIndex
from framefeed.media.container import Packet
from framefeed.media.foreign import FOREIGN, MOST_PIXEL_BYTES, check_memory, largest_picture, libav_log, says_damage
from framefeed.media.landing import MisplacedPacket
from framefeed.media.limits import DEFAULT_LIMITS, Limits, allows, too_large
from framefeed.media.source import MediaSource
from framefeed.parallel.shortage import try_again_in_shortage
from framefeed.parallel.stopping import check_stop
from framefeed.plan.request import OutputSpec
from framefeed.plan.runs import DecodeRuns, plan_runs

NumberedFrame = tuple[int, VideoFrame]
"""Ordinal and picture."""

_MOST_HELD_BACK = 17
"""Pictures: the largest reorder depth of H.264 and HEVC, and the one that is being decoded."""
_MOST_REORDERED = 16
"""Pictures that may come out before one that they refer to."""
_NO_EVENT = "mmco: unref short failure"
"""What H.264 says where a picture that is to be forgotten is not there: so it is behind every open-GOP start."""


class PyAVDecoder:
    """Decodes with libavcodec through PyAV, one thread a call; contexts and files are pooled per thread.

    Args:
        skip: Leave out pictures that no other refers to, where that is proven exact.
        direct: Read packets straight from the file where the index allows it, instead of through the container.
        threads: Threads of libavcodec itself; 0 leaves the number to it. One decoder a thread is cheaper than many
            threads in one decoder.
        limits: What a file may claim.
    """

    name = "pyav"

    def __init__(
        self, *, skip: bool = True, direct: bool = True, threads: int = 1, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._skip = skip
        self._feeding = Feeding(direct, threads, limits)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        check_kind(self, index, source.name)
        report = DecodeReport(errors=[None] * len(slots))
        converter = thread_pools().converter
        for accepts, frames in ((False, self._frames), (True, self._frames_as_they_come)):
            chosen = [number for number, slot in enumerate(slots) if slot.accepts_damaged == accepts]
            places = Places(slots, report, source, chosen)
            some = partial(frames, source, index, counts=report.counts)
            for ordinal, frame in _in_spite_of_shortages(some, places.waiting, source.name):
                write: Write = partial(converter.write, frame, index.stream)
                if not self._allows(frame):
                    write = partial(self._refuse, (frame.width, frame.height), source.name)
                places.fill(ordinal, write)
                del frame, write
            places.report_missing(index)
        return report

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of some frames as they leave the decoder, each once; missing ones are left out.

        The picture is only valid until the next one is asked for.

        Raises:
            ResourceExhausted: Memory, descriptors or the like ran out, also after what was idle had been released.
        """
        check_kind(self, index, source.name)
        counts = counts if counts is not None else DecodeCounts()
        frames = partial(self._frames, source, index, counts=counts)
        return self._within_limits(_in_spite_of_shortages(frames, ordinals, source.name))

    def _within_limits(self, frames: Iterator[NumberedFrame]) -> Iterator[NumberedFrame]:
        for ordinal, frame in frames:
            if self._allows(frame):
                yield ordinal, frame
            del frame

    def _allows(self, frame: VideoFrame) -> bool:
        return allows(self._feeding.limits, frame.width, frame.height)

    def _refuse(self, size: tuple[int, int], name: str, *_: object) -> None:
        raise too_large(self._feeding.limits, size, name, "decode")

    def _frames(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], counts: DecodeCounts
    ) -> Iterator[NumberedFrame]:
        numbers = np.asarray(ordinals, dtype=np.int64)
        if index.num_damaged_frames:
            numbers = numbers[~index.is_damaged(numbers)]
        runs = plan_runs(index, numbers, skip=self._skip)
        if not len(runs.ordinals):
            return
        wanted = dict(zip(runs.packets.tolist(), runs.ordinals.tolist(), strict=True))
        is_silent = index.stream.codec in SILENT_CODECS
        how = replace(self._feeding, threads=1) if is_silent else self._feeding

        def send(execution: _Execution) -> Iterator[NumberedFrame]:
            is_first = len(wanted) == len(runs.ordinals)
            return execution.frames(runs if is_first else plan_runs(index, list(wanted.values()), skip=self._skip))

        yield from _execute(wanted, source, index, how, counts, send)
        if wanted and how.threads != 1:
            single = PyAVDecoder(skip=self._skip, direct=self._feeding.direct, limits=self._feeding.limits)
            yield from single._frames(source, index, list(wanted.values()), counts)

    def _frames_as_they_come(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], counts: DecodeCounts
    ) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of some frames, damaged or not.

        What a decoder puts in place of damage comes from what it decoded before, and changes until the picture is
        output. So that a picture does not depend on what else is asked for, each start is a run of its own, with a new
        decoder, one thread, every packet, and so many after the last that none of the pictures is held back.
        """
        numbers, feeding = np.array(ordinals, dtype=np.int64), replace(self._feeding, threads=1)
        starts = index.frame_start[numbers]
        for start in np.unique(starts).tolist():
            planned = plan_runs(index, numbers[starts == start], skip=False)
            stop = min(start + len(planned.send) + _MOST_HELD_BACK, len(index.packets))
            wanted = dict(zip(planned.packets.tolist(), planned.ordinals.tolist(), strict=True))
            send = partial(_Execution.frames_as_they_come, numbers=range(start, stop))
            yield from _execute(wanted, source, index, feeding, counts, send)

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) for consecutive frames; see ``PictureStream.pictures``."""
        converter = Converter()
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.frames(source, index, stretch):
            pixels = converted(partial(converter.write, frame, index.stream), output, shape, source)
            del frame
            yield ordinal, pixels

    def recipe(self, index: FrameIndex) -> str:
        """What decides the pixels besides the source; see ``recipe_of``.

        None of the options: frames are the same with any of them.
        """
        numbers = ".".join(map(str, av.library_versions["libavcodec"]))
        return f"pyav {av.__version__}, libavcodec {numbers}, {conversion_recipe()}"

    def close(self) -> None:
        """Release this thread's contexts and files."""
        thread_pools().clear()


def _in_spite_of_shortages(
    frames: Callable[[Sequence[int]], Iterator[NumberedFrame]], ordinals: npt.ArrayLike | range, name: str
) -> Iterator[NumberedFrame]:
    """Yield (ordinal, picture) of some frames; where something runs out, begin again with those that have not come."""
    waiting = dict.fromkeys(np.asarray(ordinals, dtype=np.int64).tolist())
    stream: Iterator[NumberedFrame] | None = None

    def next_frame() -> NumberedFrame | None:
        nonlocal stream
        # An error ends a stream, which is then not kept: the next call begins another.
        coming, stream = stream or frames(list(waiting)), None
        numbered = next(coming, None)
        stream = coming
        return numbered

    while (numbered := try_again_in_shortage(next_frame, name, "decode")) is not None:
        del waiting[numbered[0]]
        yield numbered
        del numbered  # Its memory goes back to the decoder at once.


def _execute(
    wanted: dict[int, int],
    source: MediaSource,
    index: FrameIndex,
    how: Feeding,
    counts: DecodeCounts,
    send: Callable[[_Execution], Iterator[NumberedFrame]],
) -> Iterator[NumberedFrame]:
    """Yield what an execution sends and gets; where a seek cannot be used, execute what is still wanted without any."""
    try:
        with thread_pools().feed(source, index, how, counts) as feed:
            yield from send(_Execution(wanted, index, feed, counts, how))
        return
    except MisplacedPacket:
        if not how.seeks:
            raise
    yield from _execute(wanted, source, index, replace(how, seeks=False), counts, send)


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


class _Execution:
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
        context = self._feed.start(start, anew=True)
        stop = max(map(self._stop_of, packets))
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
