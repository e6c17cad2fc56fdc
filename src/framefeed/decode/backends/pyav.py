"""The PyAV backend, which decodes videos by default; other backends are compared with it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from framefeed._arrays import IntArray
from framefeed.decode._auto import check_kind
from framefeed.decode._convert import Converter, conversion_recipe
from framefeed.decode._decoder import ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode._slots import Places, Write, converted
from framefeed.decode.backends._pyav_feed import SILENT_CODECS
from framefeed.decode.backends._pyav_pools import Feeding, thread_pools
from framefeed.decode.backends._pyav_runs import MOST_HELD_BACK, Execution, NumberedFrame, with_proved_starts
from framefeed.index import FrameIndex
from framefeed.media import DEFAULT_LIMITS, Limits, MediaSource, MisplacedPacket, allows, too_large
from framefeed.parallel import try_again_in_shortage
from framefeed.plan import OutputSpec, plan_runs

__all__ = ["PyAVDecoder", "thread_pools"]


class PyAVDecoder:
    """Decode with libavcodec through PyAV, in the calling thread; each thread reuses its decoders and open files.

    Args:
        skip: Do not decode pictures that no wanted picture refers to, where this gives exactly the same pixels.
        direct: Read packets directly from the file where the index allows it, without FFmpeg's demuxer.
        threads: Threads of libavcodec itself; 0 lets libavcodec choose. One decoder per thread is cheaper than many
            threads in one decoder.
        limits: Largest sizes that a file may have.
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
        """Yield (ordinal, picture) of some frames before conversion, each once; undecodable ones are left out.

        A picture is valid until the next one is requested.

        Raises:
            ResourceExhausted: Memory or file descriptors ran out, also after idle ones were released.
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
        numbers = yield from self._frames_of_shared_packets(source, index, numbers, counts)
        index = with_proved_starts(source, index, numbers, self._feeding, counts)
        runs = plan_runs(index, numbers, skip=self._skip)
        if not len(runs.ordinals):
            return
        wanted = dict(zip(runs.packets.tolist(), runs.ordinals.tolist(), strict=True))
        is_silent = index.stream.codec in SILENT_CODECS
        how = replace(self._feeding, threads=1) if is_silent else self._feeding

        def send(execution: Execution) -> Iterator[NumberedFrame]:
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
        numbers = yield from self._frames_of_shared_packets(source, index, numbers, counts)
        index = with_proved_starts(source, index, numbers, feeding, counts)
        starts = index.frame_start[numbers]
        for start in np.unique(starts).tolist():
            planned = plan_runs(index, numbers[starts == start], skip=False)
            stop = min(start + len(planned.send) + MOST_HELD_BACK, len(index.packets))
            wanted = dict(zip(planned.packets.tolist(), planned.ordinals.tolist(), strict=True))
            send = partial(Execution.frames_as_they_come, numbers=range(start, stop))
            yield from _execute(wanted, source, index, feeding, counts, send)

    def _frames_of_shared_packets(
        self, source: MediaSource, index: FrameIndex, ordinals: IntArray, counts: DecodeCounts
    ) -> Generator[NumberedFrame, None, IntArray]:
        """Yield (ordinal, picture) of the frames whose packets give several; return the other ordinals.

        Each start is a run of its own.
        """
        is_shared = _shares_packet(index, ordinals)
        shared = ordinals[is_shared]
        how, starts = replace(self._feeding, threads=1), index.frame_start[shared]
        for start in np.unique(starts).tolist():
            wanted = {_number_in_packet(index, ordinal): ordinal for ordinal in shared[starts == start].tolist()}
            send = partial(Execution.frames_of_shared_packets, start=start, wanted=wanted)
            yield from _execute({}, source, index, how, counts, send)
        return ordinals[~is_shared]

    def pictures(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) of some frames, each in new memory; frames that cannot be decoded are left out."""
        converter = Converter()
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.frames(source, index, ordinals):
            pixels = converted(partial(converter.write, frame, index.stream), output, shape, source)
            del frame
            yield ordinal, pixels

    def recipe(self, index: FrameIndex) -> str:
        """Name the libraries and versions that decide the pixels; see ``recipe_of``.

        The options are not part of it: frames are the same with all of them.
        """
        numbers = ".".join(map(str, av.library_versions["libavcodec"]))
        return f"pyav {av.__version__}, libavcodec {numbers}, {conversion_recipe()}"

    def close(self) -> None:
        """Release this thread's contexts and files."""
        thread_pools().clear()


def _shares_packet(index: FrameIndex, ordinals: IntArray) -> npt.NDArray[np.bool_]:
    """Whether the packet of each frame gives several, which then follow each other, bool [T]."""
    packets, last = index.frame_packet, len(index) - 1
    before, own, behind = (packets[np.clip(ordinals + step, 0, last)] for step in (-1, 0, 1))
    shares = ((own == before) & (ordinals > 0)) | ((own == behind) & (ordinals < last))
    # Ordinals that are not there are refused where runs are planned.
    return np.asarray(shares & (ordinals >= 0) & (ordinals <= last))


def _number_in_packet(index: FrameIndex, ordinal: int) -> tuple[int, int]:
    """Give the packet of a frame, and how many frames it gives before that one."""
    packet, before = int(index.frame_packet[ordinal]), 0
    while ordinal > before and index.frame_packet[ordinal - before - 1] == packet:
        before += 1
    return packet, before


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
    send: Callable[[Execution], Iterator[NumberedFrame]],
) -> Iterator[NumberedFrame]:
    """Yield what an execution sends and gets; where a seek cannot be used, execute what is still wanted without any."""
    try:
        with thread_pools().feed(source, index, how, counts) as feed:
            yield from send(Execution(wanted, index, feed, counts, how))
        return
    except MisplacedPacket:
        if not how.seeks:
            raise
    yield from _execute(wanted, source, index, replace(how, seeks=False), counts, send)
