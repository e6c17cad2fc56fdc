"""The PyAV backend: executes decode runs. The default, and the reference that others are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import av
import numpy as np
import numpy.typing as npt
from av import VideoCodecContext
from av.video.frame import VideoFrame

from framefeed.decode.auto import check_kind
from framefeed.decode.backends.pyav_feed import Feed
from framefeed.decode.backends.pyav_pools import Feeding, ThreadPools, thread_pools
from framefeed.decode.convert import Converter, conversion_recipe
from framefeed.decode.decoder import ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode.places import Places, naming
from framefeed.index.damage import DamageLog
from framefeed.index.frame_index import FrameIndex
from framefeed.media.container import Packet
from framefeed.media.foreign import FOREIGN
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.source import MediaSource
from framefeed.plan.request import OutputSpec
from framefeed.plan.runs import DecodeRuns, plan_runs

_MOST_HELD_BACK = 17
"""Pictures: the largest reorder depth of H.264 and HEVC, and the one that is being decoded."""


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
        report = DecodeReport(errors=[None] * len(slots))
        converter = thread_pools().converter
        for accepts, frames in ((False, self.frames), (True, self._frames_as_they_come)):
            chosen = [number for number, slot in enumerate(slots) if slot.accepts_damaged == accepts]
            places = Places(slots, report, source, chosen)
            for ordinal, frame in frames(source, index, places.waiting, report.counts):
                places.fill(ordinal, partial(converter.write, frame, index.stream))
            places.report_missing(index)
        return report

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (ordinal, picture) of some frames as they leave the decoder, each once; missing ones are left out.

        The picture is only valid until the next one is asked for.
        """
        check_kind(self, index, source.name)
        runs = plan_runs(index, ordinals, skip=self._skip)
        counts = counts if counts is not None else DecodeCounts()
        if not len(runs.ordinals):
            return
        with thread_pools().feed(source, index, self._feeding, counts) as feed:
            execution = _Execution(runs, index, feed, counts)
            yield from execution.frames()
        if execution.missing and self._feeding.threads != 1:
            # With several threads an error takes along what was decoded beside it (D02).
            yield from self._single_threaded().frames(source, index, execution.missing, counts)

    def _frames_as_they_come(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], counts: DecodeCounts
    ) -> Iterator[tuple[int, VideoFrame]]:
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
            send = np.arange(start, stop, dtype=np.int64)
            runs = replace(planned, send=send, bounds=np.array([0, len(send)]))
            pools = ThreadPools()
            try:
                with pools.feed(source, index, feeding, counts) as feed:
                    yield from _Execution(runs, index, feed, counts, accepts_damaged=True).frames()
            finally:
                pools.clear()

    def _single_threaded(self) -> PyAVDecoder:
        return PyAVDecoder(skip=self._skip, direct=self._feeding.direct, limits=self._feeding.limits)

    def pictures(
        self, source: MediaSource, index: FrameIndex, stretch: range, output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) for consecutive frames; see ``PictureStream.pictures``."""
        converter = Converter()
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.frames(source, index, stretch):
            out = np.empty(shape, dtype=np.uint8)
            with naming(source):
                converter.write(frame, index.stream, output, out)
            yield ordinal, out

    def recipe(self, index: FrameIndex) -> str:
        """What decides the pixels besides the source; see ``recipe_of``.

        None of the options: frames are the same with any of them.
        """
        numbers = ".".join(map(str, av.library_versions["libavcodec"]))
        return f"pyav {av.__version__}, libavcodec {numbers}, {conversion_recipe()}"

    def close(self) -> None:
        """Release this thread's contexts and files."""
        thread_pools().clear()


class _Execution:
    """Sends what a plan says and sorts out what comes back."""

    def __init__(
        self, runs: DecodeRuns, index: FrameIndex, feed: Feed, counts: DecodeCounts, *, accepts_damaged: bool = False
    ) -> None:
        self._runs = runs
        self._accepts_damaged = accepts_damaged
        self._index = index
        self._feed = feed
        self._counts = counts
        self._waiting = dict(zip(runs.packets.tolist(), runs.ordinals.tolist(), strict=True))
        self._damage = DamageLog(index)

    def frames(self) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (ordinal, picture) of the wanted frames that come out undamaged."""
        send, bounds = self._runs.send.tolist(), self._runs.bounds.tolist()
        for first, stop in pairwise(bounds):
            self._counts.runs += 1
            context = self._feed.start(send[first])
            for packet in self._feed.packets(send[first:stop]):
                self._counts.packets_sent += 1
                yield from self._wanted(self._decoded(context, packet))
            yield from self._wanted(self._decoded(context, None))

    @property
    def missing(self) -> list[int]:
        """Ordinals that did not come, or not undamaged."""
        return list(self._waiting.values())

    def _decoded(self, context: VideoCodecContext, packet: Packet | None) -> list[VideoFrame]:
        try:
            frames = context.decode(packet)
        except FOREIGN:
            if packet is not None:
                self._note_damage(packet.pts)
            return []
        self._counts.frames_decoded += len(frames)
        return frames

    def _wanted(self, frames: list[VideoFrame]) -> Iterator[tuple[int, VideoFrame]]:
        for frame in frames:
            number = -1 if frame.pts is None else frame.pts
            if frame.is_corrupt:
                self._note_damage(number)
            ordinal = self._waiting.get(number)
            if ordinal is not None and (self._accepts_damaged or not self._damage.reaches(ordinal)):
                del self._waiting[number]
                yield ordinal, frame

    def _note_damage(self, number: int | None) -> None:
        # A picture that the index does not promise is damaged for every caller, and was when the index was built.
        for ordinal in np.flatnonzero(self._index.frame_packet == number)[:1].tolist():
            self._damage.note(ordinal)
