"""A few clips of a plan, decoded for real, their frames stored and read with each codec: what an estimate rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any, Self, cast

import numpy as np

from framefeed._arrays import IntArray
from framefeed.cache._caching import without_planes
from framefeed.cache._demand import scattered
from framefeed.cache._keys import Form
from framefeed.cache.codecs._auto import CodecFigures, measure_codec
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.decode import (
    ClipSlot,
    DecodeCounts,
    Decoder,
    FrameStream,
    Pixels,
    PlaneLayout,
    copy_planes,
    gives_frames,
    layout_of,
    output_layout,
    picture_name,
    picture_of,
    writer_of,
)
from framefeed.errors import CorruptMedia, FrameNotFound, MediaError, TimeUnavailable
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import DecodeRequest, EpochPlan, OutputSpec

MAX_FRAMES = 512
"""Frames that are decoded about at most."""
MAX_SECONDS = 5.0
"""Of decoding; of what is left out then, there is some everywhere in the plan."""
MAX_BYTES = 48 << 20
"""Weight of the frames that every codec stores and reads; all of them together take a few seconds."""
_NEIGHBOURS = 16
"""Clips of one frame each that follow each other are decoded together, as in a batch."""
_LEAST_BLOCKS = 4
_ROUNDS = 2


@dataclass(frozen=True, slots=True, eq=False)
class SampledFrame:
    """One frame as it would be stored.

    Attributes:
        layout: Of its bytes.
        planes: The bytes, uint8 [layout.nbytes].
        write: Makes its pixels from planes that were read; None where they are the pixels.
    """

    layout: PlaneLayout
    planes: Pixels
    write: Callable[[Pixels], None] | None


@dataclass(slots=True)
class Decoded:
    """What decoding the sample took, in one thread.

    Attributes:
        clips: That could be decoded.
        failed: That could not.
        error: The first reason why not.
        clip_frames: Frames of the decoded clips, repeats included.
        decode_seconds: To the pixels that the plan wants, as a loader does it.
        fill_seconds: To what is stored.
        pictures: That came out of the decoder while ``fill_seconds`` passed.
        fill_cpu_seconds: Of the processor, by this thread, while ``fill_seconds`` passed.
        convert_seconds: To make the plan's pixels of one frame that is stored as planes.
    """

    clips: int = 0
    failed: int = 0
    error: str | None = None
    clip_frames: int = 0
    decode_seconds: float = 0.0
    fill_seconds: float = 0.0
    pictures: int = 0
    fill_cpu_seconds: float = 0.0
    convert_seconds: float = 0.0

    def __iadd__(self, other: Decoded) -> Self:
        self.clips += other.clips
        self.clip_frames += other.clip_frames
        self.decode_seconds += other.decode_seconds
        self.fill_seconds += other.fill_seconds
        self.pictures += other.pictures
        self.fill_cpu_seconds += other.fill_cpu_seconds
        return self

    def fail(self, clips: int, error: Exception) -> None:
        """Note that clips cannot be decoded."""
        self.failed += clips
        self.error = self.error or f"{type(error).__name__}: {error}"


class Sampler:
    """Decodes a few clips of a plan.

    Args:
        plan: Which clips.
        decoder: That decodes.
        form: In which frames would be stored.

    Attributes:
        decoded: What that took.
        frames: Some of the frames.
    """

    def __init__(self, plan: EpochPlan, decoder: Decoder, form: Form) -> None:
        self._plan = plan
        self._decoder = decoder
        self._form = form
        self.decoded = Decoded()
        self.frames: list[SampledFrame] = []
        self._seen = 0
        self._step = 1

    def take(self, clips: int) -> None:
        """Decode about so many clips, or groups of neighbours, from all over the plan."""
        for positions in _blocks(self._plan, clips):
            for row, requests in self._requests(positions).items():
                try:
                    self._take(row, requests)
                except (MediaError, OSError) as error:
                    self.decoded.fail(len(requests), error)
            if self.decoded.decode_seconds > MAX_SECONDS:
                break

    def _requests(self, positions: range) -> dict[int, list[DecodeRequest]]:
        found: dict[int, list[DecodeRequest]] = {}
        for position in positions:
            try:
                request = self._plan[position]
            except (FrameNotFound, TimeUnavailable) as error:
                self.decoded.fail(1, error)
            else:
                found.setdefault(self._plan.row_at(position), []).append(request)
        return found

    def _keep(self, frame: SampledFrame) -> None:
        """Keep one of so many frames that all that are kept are bounded, and from everywhere."""
        self._seen += 1
        if self._seen % self._step:
            return
        self.frames.append(frame)
        if sum(frame.layout.nbytes for frame in self.frames) > MAX_BYTES and len(self.frames) > 1:
            self._step *= 2
            self.frames = self.frames[1::2]

    def _take(self, row: int, requests: Sequence[DecodeRequest]) -> None:
        catalog = self._plan.catalog
        source, index = MediaSource.of(catalog.source(row)), catalog.frame_index(row)
        requests = [request for request in requests if len(request.storable)]
        if self._form == "output":
            self._take_outputs(source, index, [_slot(request, index) for request in requests])
        elif gives_frames(self._decoder, index):
            self._take_planes(source, index, requests)
        else:
            raise without_planes(self._decoder)

    def _take_outputs(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> None:
        begin, cpu_begin = perf_counter(), thread_time()
        report = self._decoder.decode(source, index, slots)
        seconds, cpu_seconds = perf_counter() - begin, thread_time() - cpu_begin
        good = [slot for slot, error in zip(slots, report.errors, strict=True) if error is None]
        for error in filter(None, report.errors):
            self.decoded.fail(1, error)
        for slot in good:
            layout = output_layout(slot.output, *index.stream.displayed)
            for frame in slot.out:
                self._keep(SampledFrame(layout, frame.reshape(-1).copy(), None))
        if good:
            frames = sum(len(slot.indices) for slot in good)
            self.decoded += Decoded(
                len(good), 0, None, frames, seconds, seconds, report.counts.frames_decoded, cpu_seconds
            )

    def _take_planes(self, source: MediaSource, index: FrameIndex, requests: Sequence[DecodeRequest]) -> None:
        clips = [_shortened(request.storable) for request in requests]
        forms = {
            ordinal: request.output for request, clip in zip(requests, clips, strict=True) for ordinal in clip.tolist()
        }
        counts, came = DecodeCounts(), set[int]()
        begin, cpu_begin, converting, cpu_converting = perf_counter(), thread_time(), 0.0, 0.0
        for ordinal, picture in cast("FrameStream", self._decoder).frames(source, index, sorted(forms), counts):
            came.add(ordinal)
            layout = layout_of(picture)
            planes = np.empty(layout.nbytes, dtype=np.uint8)
            copy_planes(picture, planes)
            between, cpu_between = perf_counter(), thread_time()
            write = _converter(layout, (index, picture_name(source, int(index.frame_packet[ordinal]))), forms[ordinal])
            write(planes)
            self._keep(SampledFrame(layout, planes, write))
            converting += perf_counter() - between
            cpu_converting += thread_time() - cpu_between
        seconds, cpu_seconds = perf_counter() - begin, thread_time() - cpu_begin - cpu_converting
        good = [clip for clip in clips if came.issuperset(clip.tolist())]
        if len(good) < len(clips):
            message = f"{source.name}: the decoder gives no frames of this clip"
            self.decoded.fail(len(clips) - len(good), CorruptMedia(message))
        if good:
            frames = sum(map(len, good))
            self.decoded += Decoded(
                len(good), 0, None, frames, seconds, seconds - converting, counts.frames_decoded, cpu_seconds
            )


def measured(codec: FrameCodec, frames: Sequence[SampledFrame]) -> CodecFigures:
    """Store frames with one codec and read them, as it is done where a cache chooses for itself."""
    return measure_codec(codec, [(frame.layout, frame.planes) for frame in frames])


def converting_seconds(frames: Sequence[SampledFrame]) -> float:
    """Measure what it takes, whatever the codec, to make the plan's pixels of one frame that was read."""
    rounds = []
    for _ in range(_ROUNDS):
        begin = thread_time()
        for frame in frames:
            if frame.write is not None:
                frame.write(frame.planes)
        rounds.append(thread_time() - begin)
    return min(rounds) / len(frames)


def _blocks(plan: EpochPlan, clips: int) -> list[range]:
    """Choose ranges of neighbours all over the plan, in an order in which each few of them lie apart."""
    frames = plan.frames_per_clip or 1
    together = _NEIGHBOURS if frames == 1 else plan.options.clips_per_video
    length = max(1, min(together, len(plan), MAX_FRAMES // (_LEAST_BLOCKS * frames)))
    most = max(_LEAST_BLOCKS, MAX_FRAMES // (length * frames))
    count = max(1, min(clips, most, len(plan) // length))
    firsts = [number * (len(plan) - length) // max(1, count - 1) for number in scattered(count)]
    return [range(first, first + length) for first in firsts]


def _slot(request: DecodeRequest, index: FrameIndex) -> ClipSlot:
    ordinals = _shortened(request.storable)
    shape = request.output.shape(*index.stream.displayed)
    return ClipSlot(ordinals, request.output, np.empty((len(ordinals), *shape), dtype=np.uint8))


def _shortened(ordinals: IntArray) -> IntArray:
    return ordinals[: MAX_FRAMES // _LEAST_BLOCKS]


def _converter(layout: PlaneLayout, of: tuple[FrameIndex, str], output: OutputSpec) -> Callable[[Pixels], None]:
    index, name = of

    def write(planes: Pixels) -> None:
        out: Any = np.empty(output.shape(*index.stream.displayed), dtype=np.uint8)
        writer_of(picture_of(layout, planes), index, name)(output, out)

    return write
