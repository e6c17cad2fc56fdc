"""Decode a sample of a plan's clips for an estimate, and measure the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed.cache._caching import make_planes_error
from framefeed.cache._demand import scatter
from framefeed.cache._keys import Form
from framefeed.cache.codecs._auto import Sample
from framefeed.decode import (
    ClipSlot,
    DecodeCounts,
    Decoder,
    Pixels,
    PlaneLayout,
    adapt_decoder,
    copy_planes,
    describe_layout,
    make_output_layout,
    make_writer,
    name_picture,
    rebuild_picture,
)
from framefeed.errors import CorruptMedia, FrameNotFound, MediaError, TimeUnavailable
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import DecodeRequest, EpochPlan, OutputSpec

MAX_FRAMES = 512
"""Most frames that are decoded, about."""
MAX_SECONDS = 5.0
"""Of decoding; the clips decoded until then are spread over the plan."""
MAX_BYTES = 48 << 20
"""Of the frames that every codec stores and reads; all codecs together take a few seconds."""
_NEIGHBOURS = 16
"""So many neighbouring clips of one frame are decoded together, as in a batch."""
_MIN_BLOCKS = 4
_ROUNDS = 2


@dataclass(slots=True)
class SampleCounts:
    """Counts and times of decoding the sample, in one thread.

    Attributes:
        clips: Decoded clips.
        failed: Clips that could not be decoded.
        error: The first reason why not.
        clip_frames: Frames of the decoded clips, repeats included.
        decode_seconds: Time to decode the requested pixels, as a loader does.
        fill_seconds: Time to decode the frames as they are stored.
        pictures: Pictures decoded in ``fill_seconds``.
        fill_cpu_seconds: CPU time of this thread in ``fill_seconds``.
        convert_seconds: Time to convert one frame that is stored as planes to the requested pixels.
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

    def add_clips(self, clips: Sequence[IntArray], pictures: int) -> None:
        """Count clips, given by their frames, and the pictures that were decoded for them."""
        self.clips += len(clips)
        self.clip_frames += sum(map(len, clips))
        self.pictures += pictures

    def add_seconds(self, decode: float, fill: float, fill_cpu: float) -> None:
        """Add times; see the attributes."""
        self.decode_seconds += decode
        self.fill_seconds += fill
        self.fill_cpu_seconds += fill_cpu

    def add_failure(self, clips: int, error: Exception) -> None:
        """Count clips that cannot be decoded."""
        self.failed += clips
        self.error = self.error or f"{type(error).__name__}: {error}"


class Sampler:
    """Decodes a few clips of a plan.

    Args:
        plan: The plan.
        decoder: Decodes the clips.
        form: Form in which frames would be stored.

    Attributes:
        counts: Counts and times.
        samples: Some of the frames as they would be stored.
    """

    def __init__(self, plan: EpochPlan, decoder: Decoder, form: Form) -> None:
        self._plan = plan
        self._decoder = adapt_decoder(decoder)
        self._form = form
        self.counts = SampleCounts()
        self.samples: list[Sample] = []
        # Of planes: one for each sample, which converts it to the requested pixels.
        self._converters: list[Callable[[Pixels], None]] = []
        self._seen = 0
        self._step = 1

    def decode_clips(self, clips: int) -> None:
        """Decode about so many clips, or groups of neighbours, spread over the plan."""
        for positions in _choose_blocks(self._plan, clips):
            by_row: dict[int, list[DecodeRequest]] = {}
            for position in positions:
                try:
                    request = self._plan[position]
                except (FrameNotFound, TimeUnavailable) as error:
                    self.counts.add_failure(1, error)
                else:
                    by_row.setdefault(self._plan.row_at(position), []).append(request)
            for row, requests in by_row.items():
                try:
                    self._decode(row, requests)
                except (MediaError, OSError) as error:
                    self.counts.add_failure(len(requests), error)
            if self.counts.decode_seconds > MAX_SECONDS:
                break

    def measure_conversion(self) -> float:
        """Measure the seconds to convert one sample to the requested pixels; 0 if samples are these pixels."""
        rounds = []
        for _ in range(_ROUNDS):
            begin = thread_time()
            for (_, planes), convert in zip(self.samples, self._converters, strict=False):
                convert(planes)
            rounds.append(thread_time() - begin)
        return min(rounds) / len(self.samples)

    def _keep(self, layout: PlaneLayout, planes: Pixels, convert: Callable[[Pixels], None] | None = None) -> None:
        """Keep every n-th frame, and double n when the kept frames become too large."""
        self._seen += 1
        if self._seen % self._step:
            return
        self.samples.append((layout, planes))
        self._converters += [] if convert is None else [convert]
        if sum(kept.nbytes for kept, _ in self.samples) > MAX_BYTES and len(self.samples) > 1:
            self._step *= 2
            self.samples, self._converters = self.samples[1::2], self._converters[1::2]

    def _decode(self, row: int, requests: Sequence[DecodeRequest]) -> None:
        catalog = self._plan.catalog
        source, index = MediaSource.of(catalog.source(row)), catalog.frame_index(row)
        requests = [request for request in requests if len(request.storable)]
        if self._form == "output":
            self._decode_outputs(source, index, requests)
        elif self._decoder.can_iter_native(index):
            self._decode_planes(source, index, requests)
        else:
            raise make_planes_error(self._decoder)

    def _decode_outputs(self, source: MediaSource, index: FrameIndex, requests: Sequence[DecodeRequest]) -> None:
        slots = []
        for request in requests:
            ordinals, shape = _limit_length(request.storable), request.output.shape(*index.stream.displayed)
            slots.append(ClipSlot(ordinals, request.output, np.empty((len(ordinals), *shape), dtype=np.uint8)))
        begin, cpu_begin = perf_counter(), thread_time()
        report = self._decoder.decode(source, index, slots)
        seconds, cpu_seconds = perf_counter() - begin, thread_time() - cpu_begin
        good = [slot for slot, error in zip(slots, report.errors, strict=True) if error is None]
        for error in filter(None, report.errors):
            self.counts.add_failure(1, error)
        for slot in good:
            layout = make_output_layout(slot.output, *index.stream.displayed)
            for frame in slot.out:
                self._keep(layout, frame.reshape(-1).copy())
        if good:
            self.counts.add_clips([slot.indices for slot in good], report.counts.frames_decoded)
            self.counts.add_seconds(seconds, seconds, cpu_seconds)

    def _decode_planes(self, source: MediaSource, index: FrameIndex, requests: Sequence[DecodeRequest]) -> None:
        clips = [_limit_length(request.storable) for request in requests]
        outputs = {
            ordinal: request.output for request, clip in zip(requests, clips, strict=True) for ordinal in clip.tolist()
        }
        counts, decoded = DecodeCounts(), set[int]()
        begin, cpu_begin, convert_seconds, cpu_convert_seconds = perf_counter(), thread_time(), 0.0, 0.0
        for ordinal, picture in self._decoder.iter_native(source, index, sorted(outputs), counts):
            decoded.add(ordinal)
            layout = describe_layout(picture)
            planes = np.empty(layout.nbytes, dtype=np.uint8)
            copy_planes(picture, planes)
            convert_begin, cpu_convert_begin = perf_counter(), thread_time()
            name = name_picture(source, int(index.frame_packet[ordinal]))
            convert = _make_converter(layout, index, name, outputs[ordinal])
            convert(planes)
            self._keep(layout, planes, convert)
            convert_seconds += perf_counter() - convert_begin
            cpu_convert_seconds += thread_time() - cpu_convert_begin
        seconds, cpu_seconds = perf_counter() - begin, thread_time() - cpu_begin - cpu_convert_seconds
        good = [clip for clip in clips if decoded.issuperset(clip.tolist())]
        if len(good) < len(clips):
            message = f"{source.name}: the decoder gives no frames of this clip"
            self.counts.add_failure(len(clips) - len(good), CorruptMedia(message))
        if good:
            self.counts.add_clips(good, counts.frames_decoded)
            self.counts.add_seconds(seconds, seconds - convert_seconds, cpu_seconds)


def _choose_blocks(plan: EpochPlan, clips: int) -> list[range]:
    """Choose ranges of neighbours in the whole plan; any few consecutive ones lie far apart."""
    frames = plan.frames_per_clip or 1
    together = _NEIGHBOURS if frames == 1 else plan.options.clips_per_video
    length = max(1, min(together, len(plan), MAX_FRAMES // (_MIN_BLOCKS * frames)))
    most = max(_MIN_BLOCKS, MAX_FRAMES // (length * frames))
    count = max(1, min(clips, most, len(plan) // length))
    firsts = [number * (len(plan) - length) // max(1, count - 1) for number in scatter(count)]
    return [range(first, first + length) for first in firsts]


def _limit_length(ordinals: IntArray) -> IntArray:
    return ordinals[: MAX_FRAMES // _MIN_BLOCKS]


def _make_converter(layout: PlaneLayout, index: FrameIndex, name: str, output: OutputSpec) -> Callable[[Pixels], None]:
    def convert(planes: Pixels) -> None:
        out: Any = np.empty(output.shape(*index.stream.displayed), dtype=np.uint8)
        make_writer(rebuild_picture(layout, planes), index, name)(output, out)

    return convert
