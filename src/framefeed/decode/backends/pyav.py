"""The PyAV backend, which decodes videos by default; other backends are compared with it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import av
import numpy as np

from framefeed._arrays import IntArray
from framefeed._at_exit import close_at_exit
from framefeed._shortage import MAY_BE_SHORTAGES, collect_and_release, find_shortage, raise_shortage
from framefeed._values import DEFAULT_LIMITS, Limits, is_size_allowed, make_size_error
from framefeed.bitstreams import Codec
from framefeed.decode._convert import Converter, describe_conversion
from framefeed.decode._decoder import BaseDecoder, ClipSlot, DecodeCounts, DecodeReport, Ordinals, Pixels
from framefeed.decode._registry import check_kind
from framefeed.decode._slots import PendingFrames, Write, convert_picture, get_thread_converter, make_missing_error
from framefeed.decode.backends._pyav_feed import find_ranges
from framefeed.decode.backends._pyav_pools import FeedOptions, get_thread_pools
from framefeed.decode.backends._pyav_runs import NumberedFrame, RunDecoder
from framefeed.decode.backends._pyav_starts import find_true_starts
from framefeed.errors import ResourceExhausted, StaleSource
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
        self._options = FeedOptions(direct, threads, limits, skips=skip)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        check_kind(self, index, source.name)
        report = DecodeReport(errors=[None] * len(slots))
        limits, size = self._options.limits, (index.stream.width, index.stream.height)
        converter = Converter(is_accurate=True) if self._is_accurate else get_thread_converter()
        for with_damage in sorted({slot.accepts_damaged for slot in slots}):
            numbers = [number for number, slot in enumerate(slots) if slot.accepts_damaged == with_damage]
            pending = PendingFrames(slots, report, source, numbers)
            frames = close_at_exit(
                self._decode_frames(source, index, pending.waiting, report.counts, with_damage=with_damage)
            )
            for ordinal, frame in frames:
                write: Write = partial(converter.write, frame, index.stream)
                # Of the stream's own size, it is known since the source was opened.
                if (frame.width, frame.height) != size and not is_size_allowed(limits, frame.width, frame.height):
                    write = partial(self._refuse, (frame.width, frame.height), source.name)
                pending.fill(ordinal, write)
                del frame, write
            for slot, ordinals in pending.slots_waiting().items():
                report.errors[slot] = make_missing_error(source, index, ordinals)
        return report

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[NumberedFrame]:
        """Yield (ordinal, picture) of some frames before conversion; see ``BaseDecoder.iter_native``."""
        check_kind(self, index, source.name)
        counts = counts if counts is not None else DecodeCounts()
        return self._drop_too_large(close_at_exit(self._decode_frames(source, index, ordinals, counts)))

    def _drop_too_large(self, frames: Iterator[NumberedFrame]) -> Iterator[NumberedFrame]:
        for ordinal, frame in frames:
            if is_size_allowed(self._options.limits, frame.width, frame.height):
                yield ordinal, frame
            del frame

    def _refuse(self, size: tuple[int, int], name: str, *_: object) -> None:
        raise make_size_error(self._options.limits, size, name, "decode")

    def _decode_frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: Ordinals,
        counts: DecodeCounts,
        *,
        with_damage: bool = False,
    ) -> Generator[NumberedFrame, None, None]:
        """Yield (ordinal, picture) of some frames, each once.

        After a seek that failed, in a shortage, and after an error in several threads of libavcodec, the frames that
        have not come yet are decoded again; so are all, if a source was replaced since another call opened it: the
        next open file decides whether its bytes are the same.
        """
        missing = dict.fromkeys(np.asarray(ordinals, dtype=np.int64).tolist())
        count, num_opened, is_renewed = len(missing), counts.opens, False
        options, is_second_try, feed = self._options, False, None
        if with_damage or Codec.of(index.stream.codec).is_silent or index.shares_packet is not None:
            options = replace(options, threads=1)
        while True:
            try:
                numbers = np.array(list(missing), dtype=np.int64)
                if index.num_damaged_frames and not with_damage:
                    numbers = numbers[~index.is_damaged(numbers)]
                runs = plan_runs(index, numbers, skip=self._skip, with_damage=with_damage)
                proved = find_true_starts(source, index, numbers, runs, options, counts)
                if proved is not index:
                    index, runs = proved, plan_runs(proved, numbers, skip=self._skip, with_damage=with_damage)
                if not runs:
                    return
                with get_thread_pools().opening_feed(source, index, options, counts) as feed:
                    for ordinal, frame in RunDecoder(index, feed, counts, options).decode(runs):
                        del missing[ordinal]
                        is_second_try = False
                        yield ordinal, frame
                        del frame  # returns its memory to the decoder at once
                if options.threads == 1 or not missing:
                    return
                options = replace(options, threads=1)
                continue
            except MisplacedPacket:
                if not options.seeks:
                    raise
                options = replace(options, seeks=False)
                continue
            except StaleSource:
                # What this call opened is not opened again, and a clip is of one version.
                if is_renewed or not source.is_remote or counts.opens > num_opened or len(missing) < count:
                    raise
                is_renewed = True
                get_thread_pools().clear()
                continue
            except MAY_BE_SHORTAGES as error:
                if is_second_try:
                    raise_shortage(error, source.name, "decode")
                # Of what raises ResourceExhausted, idle resources were released already.
                if is_second_try or isinstance(error, ResourceExhausted) or find_shortage(error) is None:
                    raise
                is_second_try = True
            # Outside the handler: the traceback of the error, which refers to decoders and files, is freed.
            feed = None
            collect_and_release()

    def list_ranges(self, index: FrameIndex, ordinals: IntArray, output: OutputSpec) -> list[tuple[int, int]]:
        """List the packets of the runs that decode frames; see ``BaseDecoder.list_ranges``."""
        if not (self._options.direct and index.stream.contiguous):
            return []
        runs = plan_runs(index, ordinals, skip=self._skip)
        return find_ranges(index, runs) if runs else []

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, RGB pixels) of some frames, each in new memory; see ``BaseDecoder.iter_rgb``."""
        converter = Converter(is_accurate=self._is_accurate)
        shape = output.shape(*index.stream.displayed)
        for ordinal, frame in self.iter_native(source, index, ordinals):
            write = partial(converter.write, frame, index.stream)
            convert = partial(converter.convert, frame, index.stream)
            pixels = convert_picture(write, output, shape, source, convert)
            del frame, write, convert
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
