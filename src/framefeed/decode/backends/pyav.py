"""The PyAV backend, which decodes videos by default; other backends are compared with it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import av
import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._shortage import try_again_in_shortage
from framefeed._values import DEFAULT_LIMITS, Limits, is_size_allowed, make_size_error
from framefeed.bitstreams import Codec
from framefeed.decode._auto import check_kind
from framefeed.decode._convert import Converter, describe_conversion
from framefeed.decode._decoder import BaseDecoder, ClipSlot, DecodeCounts, DecodeReport, Pixels
from framefeed.decode._slots import PendingFrames, Write, convert_picture
from framefeed.decode.backends._pyav_pools import FeedOptions, get_thread_pools
from framefeed.decode.backends._pyav_runs import MOST_HELD_BACK, NumberedFrame, RunDecoder, find_true_starts
from framefeed.index import FrameIndex, plan_runs
from framefeed.media import MediaSource, MisplacedPacket
from framefeed.request import OutputSpec

__all__ = ["PyAVDecoder", "get_thread_pools"]


class PyAVDecoder(BaseDecoder):
    """Decode with libavcodec through PyAV, in the calling thread; each thread reuses its decoders and open files.

    Args:
        skip: Do not decode pictures that no requested picture refers to, where this gives exactly the same pixels.
        direct: Read packets directly from the file where the index allows it, without FFmpeg's demuxer.
        threads: Threads of libavcodec itself; 0 lets libavcodec choose. One decoder per thread is cheaper than many
            threads in one decoder.
        limits: Largest sizes that a file may have.
        is_accurate: Convert to RGB with accurate rounding, for pictures that are encoded again; it takes longer.
    """

    name = "pyav"

    def __init__(
        self,
        *,
        skip: bool = True,
        direct: bool = True,
        threads: int = 1,
        limits: Limits = DEFAULT_LIMITS,
        is_accurate: bool = False,
    ) -> None:
        self._skip = skip
        self._is_accurate = is_accurate
        self._options = FeedOptions(direct, threads, limits)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        check_kind(self, index, source.name)
        report = DecodeReport(errors=[None] * len(slots))
        converter = Converter(is_accurate=True) if self._is_accurate else get_thread_pools().converter
        for accepts, frames in ((False, self._decode_frames), (True, self._decode_with_damage)):
            slot_numbers = [number for number, slot in enumerate(slots) if slot.accepts_damaged == accepts]
            pending = PendingFrames(slots, report, source, slot_numbers)
            some = partial(frames, source, index, counts=report.counts)
            for ordinal, frame in _retry_in_shortage(some, pending.waiting, source.name):
                write: Write = partial(converter.write, frame, index.stream)
                if not is_size_allowed(self._options.limits, frame.width, frame.height):
                    write = partial(self._refuse, (frame.width, frame.height), source.name)
                pending.fill(ordinal, write)
                del frame, write
            pending.report_missing(index)
        return report

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of some frames before conversion; see ``BaseDecoder.iter_native``.

        Raises:
            ResourceExhausted: Memory or file descriptors ran out, also after idle ones were released.
        """
        check_kind(self, index, source.name)
        counts = counts if counts is not None else DecodeCounts()
        frames = partial(self._decode_frames, source, index, counts=counts)
        return self._drop_too_large(_retry_in_shortage(frames, ordinals, source.name))

    def _drop_too_large(self, frames: Iterator[NumberedFrame]) -> Iterator[NumberedFrame]:
        for ordinal, frame in frames:
            if is_size_allowed(self._options.limits, frame.width, frame.height):
                yield ordinal, frame
            del frame

    def _refuse(self, size: tuple[int, int], name: str, *_: object) -> None:
        raise make_size_error(self._options.limits, size, name, "decode")

    def _decode_frames(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], counts: DecodeCounts
    ) -> Iterator[NumberedFrame]:
        numbers = np.asarray(ordinals, dtype=np.int64)
        if index.num_damaged_frames:
            numbers = numbers[~index.is_damaged(numbers)]
        numbers = yield from self._decode_shared_packets(source, index, numbers, counts, with_damage=False)
        index = find_true_starts(source, index, numbers, self._options, counts)
        runs = plan_runs(index, numbers, skip=self._skip)
        if not len(runs.ordinals):
            return
        missing = dict(zip(runs.packets.tolist(), runs.ordinals.tolist(), strict=True))
        is_silent = Codec.of(index.stream.codec).is_silent
        options = replace(self._options, threads=1) if is_silent else self._options

        def send(decoder: RunDecoder) -> Iterator[NumberedFrame]:
            is_first = len(missing) == len(runs.ordinals)
            return decoder.decode_runs(runs if is_first else plan_runs(index, list(missing.values()), skip=self._skip))

        yield from _run(missing, source, index, options, counts, send)
        if missing and options.threads != 1:
            single = PyAVDecoder(skip=self._skip, direct=self._options.direct, limits=self._options.limits)
            yield from single._decode_frames(source, index, list(missing.values()), counts)

    def _decode_with_damage(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], counts: DecodeCounts
    ) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of some frames, damaged or not.

        A decoder replaces damage with parts of earlier pictures, and may change them until the picture is output. So
        that a picture does not depend on the other frames of a call, each start is a run of its own: a new decoder of
        one thread gets every packet, and enough packets after the last one that no picture is held back.
        """
        numbers, options = np.array(ordinals, dtype=np.int64), replace(self._options, threads=1)
        numbers = yield from self._decode_shared_packets(source, index, numbers, counts, with_damage=True)
        index = find_true_starts(source, index, numbers, options, counts)
        starts = index.frame_start[numbers]
        for start in np.unique(starts).tolist():
            planned = plan_runs(index, numbers[starts == start], skip=False)
            stop = min(start + len(planned.send) + MOST_HELD_BACK, len(index.packets))
            missing = dict(zip(planned.packets.tolist(), planned.ordinals.tolist(), strict=True))
            send = partial(RunDecoder.decode_with_damage, numbers=range(start, stop))
            yield from _run(missing, source, index, options, counts, send)

    def _decode_shared_packets(
        self, source: MediaSource, index: FrameIndex, ordinals: IntArray, counts: DecodeCounts, *, with_damage: bool
    ) -> Generator[NumberedFrame, None, IntArray]:
        """Yield (ordinal, picture) of the frames whose packets give several; return the other ordinals.

        Each start is a run of its own.
        """
        # `plan_runs` refuses ordinals outside the index.
        if index.shares_packet is None or not len(ordinals) or not 0 <= ordinals.min() <= ordinals.max() < len(index):
            return ordinals
        is_shared = index.shares_packet[ordinals]
        by_start: dict[int, dict[tuple[int, int], int]] = {}
        for ordinal in ordinals[is_shared].tolist():
            packet = int(index.frame_packet[ordinal])
            frames = np.flatnonzero(index.frame_packet == packet)
            before = int(np.searchsorted(frames, ordinal))
            by_start.setdefault(int(index.frame_start[frames].min()), {})[packet, before] = ordinal
        options = replace(self._options, threads=1)
        for start, missing in by_start.items():
            send = partial(RunDecoder.decode_shared_packets, start=start, missing=missing, with_damage=with_damage)
            yield from _run({}, source, index, options, counts, send)
        return ordinals[~is_shared]

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, RGB pixels) of some frames, each in new memory; see ``BaseDecoder.iter_rgb``."""
        converter = Converter(is_accurate=self._is_accurate)
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.iter_native(source, index, ordinals):
            pixels = convert_picture(partial(converter.write, frame, index.stream), output, shape, source)
            del frame
            yield ordinal, pixels

    def recipe(self, index: FrameIndex) -> str:
        """Name the libraries and versions that decide the pixels; see ``BaseDecoder.recipe``.

        Of the options, only ``is_accurate`` changes frames.
        """
        numbers = ".".join(map(str, av.library_versions["libavcodec"]))
        return f"pyav {av.__version__}, libavcodec {numbers}, {describe_conversion(is_accurate=self._is_accurate)}"

    def close(self) -> None:
        """Release this thread's contexts and files."""
        get_thread_pools().clear()


def _retry_in_shortage(
    frames: Callable[[Sequence[int]], Iterator[NumberedFrame]], ordinals: npt.ArrayLike | range, name: str
) -> Iterator[NumberedFrame]:
    """Yield (ordinal, picture) of some frames; in a shortage, start again with the frames that have not come yet."""
    waiting = dict.fromkeys(np.asarray(ordinals, dtype=np.int64).tolist())
    stream: Iterator[NumberedFrame] | None = None

    def next_frame() -> NumberedFrame | None:
        nonlocal stream
        # An error ends a stream, so it is not kept then: the next call starts another.
        current, stream = stream or frames(list(waiting)), None
        numbered = next(current, None)
        stream = current
        return numbered

    while (numbered := try_again_in_shortage(next_frame, name, "decode")) is not None:
        del waiting[numbered[0]]
        yield numbered
        del numbered  # returns its memory to the decoder at once


def _run(
    missing: dict[int, int],
    source: MediaSource,
    index: FrameIndex,
    options: FeedOptions,
    counts: DecodeCounts,
    send: Callable[[RunDecoder], Iterator[NumberedFrame]],
) -> Iterator[NumberedFrame]:
    """Yield the frames of one run decoder; if a seek fails, decode the missing frames without seeks."""
    try:
        with get_thread_pools().opening_feed(source, index, options, counts) as feed:
            yield from send(RunDecoder(missing, index, feed, counts, options))
        return
    except MisplacedPacket:
        if not options.seeks:
            raise
    yield from _run(missing, source, index, replace(options, seeks=False), counts, send)
