"""Estimate the size of the frames that a plan will store, and decode samples of them to measure codecs on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.cache._demand import find_neighbours, order_by_catalog, scatter
from framefeed.cache._keys import Form
from framefeed.cache.codecs._auto import Sample
from framefeed.cache.codecs._codec import allocate_memory
from framefeed.decode import (
    ClipSlot,
    Decoder,
    PlaneLayout,
    adapt_decoder,
    copy_planes,
    describe_layout,
    make_output_layout,
)
from framefeed.errors import DeadlineExceeded, FrameNotFound, MediaError, TimeUnavailable, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import EpochPlan
from framefeed.request import CenterCrop, DecodeRequest, FixedCrop, OutputSpec

SAMPLES = 24
"""Frames that codecs are measured on: a mixture of two kinds of frames is then known to 2 % of its bytes."""
_MAX_BYTES = 48 << 20
_MAX_SECONDS = 5.0
"""Of decoding samples; the first few samples lie far apart in the plan."""
_MIN_SAMPLES = 2
_MAX_POSITIONS = 16_384
"""Plans up to this length are counted completely, in 0.1 s; of longer ones, so many positions are counted."""
_MAX_ROWS = 512
"""Sources whose frame tables are read for the size of their pictures."""
_MAX_REQUESTS = 64
"""Clips that are planned to find their mean length, if they differ in length."""
_COMPARED_ROWS, _COMPARED_CLIPS = 32, 16
"""Sources, and clips of each, that are planned to find how many frames they have in common, in 0.1 s."""
_NEIGHBOURS = 64
"""Clips of a source that are counted around one of its clips, in plans that are not counted completely."""

FloatArray = npt.NDArray[np.floating]
FindMissing = Callable[[MediaSource, FrameIndex, IntArray, OutputSpec], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """Size of the frames that a plan will store.

    Attributes:
        frames: Distinct frames; an estimate is rather too large than too small.
        raw_bytes: Their bytes before they are encoded.
        clips: Clips of the plan.
    """

    frames: int
    raw_bytes: int
    clips: int


@dataclass(frozen=True, slots=True, eq=False)
class _SampleRequest:
    """One frame of a plan to decode as a sample."""

    source: MediaSource
    index: FrameIndex
    ordinal: int
    output: OutputSpec


def count_frame_bytes(plan: EpochPlan, form: Form, row: int) -> int:
    """Count the bytes of a frame of a catalog row before it is encoded."""
    height, width = int(plan.catalog.heights[row]), int(plan.catalog.widths[row])
    if form == "output":
        return math.prod(plan.options.pictures.shape(height, width))
    try:
        stream = plan.catalog.frame_index(row).stream
        return PlaneLayout(stream.pixel_format, stream.width, stream.height).nbytes
    except (UsageError, MediaError):
        return max(1, 3 * height * width)


class PlannedFrames:
    """The frames that a plan will store.

    Args:
        plan: The plan at its first epoch.
        inner: Decodes the samples.
        form: Form in which frames are stored.
        epochs: Number of epochs.
    """

    def __init__(self, plan: EpochPlan, inner: Decoder, form: Form, epochs: int = 1) -> None:
        self._plan = plan
        self._inner = adapt_decoder(inner)
        self._form = form
        self._epochs = epochs

    @cached_property
    def _all_clips(self) -> EpochPlan:
        """The plan's clips of all ranks in the order of the catalog."""
        return order_by_catalog(self._plan)

    @cached_property
    def _positions(self) -> IntArray:
        """Positions that are counted, spread over the plan."""
        count = min(len(self._all_clips), _MAX_POSITIONS)
        return np.arange(count, dtype=np.int64) * len(self._all_clips) // max(1, count)

    @cached_property
    def _rows(self) -> IntArray:
        return np.fromiter(map(self._all_clips.row_at, self._positions.tolist()), np.int64, len(self._positions))

    @cached_property
    def _frame_bytes(self) -> IntArray:
        """Bytes of a frame of each position, before it is encoded."""
        if self._form == "output" and not self._plan.options.unequal:
            return np.full(len(self._rows), math.prod(self._plan.picture_shape), dtype=np.int64)
        rows, back = np.unique(self._rows, return_inverse=True)
        step = -(-len(rows) // _MAX_ROWS)
        sizes = np.repeat([count_frame_bytes(self._plan, self._form, row) for row in rows[::step].tolist()], step)[
            : len(rows)
        ]
        return np.asarray(sizes[back], dtype=np.int64)

    def _make_request(self, position: int, epoch: int = 0) -> DecodeRequest | None:
        try:
            return self._all_clips.with_epoch(self._all_clips.epoch + epoch)[position]
        except (FrameNotFound, TimeUnavailable, MediaError):
            return None

    def estimate_size(self) -> PlannedSize:
        """Estimate the frames of this rank's clips, all epochs together."""
        clips = len(self._plan) * self._epochs
        if not clips:
            return PlannedSize(0, 0, 0)
        length: float | None = self._plan.frames_per_clip
        if length is None:
            step = -(-len(self._positions) // _MAX_REQUESTS)
            requests = map(self._make_request, self._positions[::step].tolist())
            lengths = [len(request) for request in requests if request is not None]
            length = float(np.mean(lengths)) if lengths else 1.0
        rows, back, counts = np.unique(self._rows, return_inverse=True, return_counts=True)
        frames = counts * (clips / len(self._positions) * length)
        if self._is_counted_completely and self._has_one_output():
            known = self._plan.catalog.num_frames[rows]
            frames = np.where(known > 0, np.minimum(frames, known), frames)
        frames = frames * self._estimate_distinct_share(rows, frames, length)
        bytes_per_frame = np.bincount(back, self._frame_bytes) / counts
        return PlannedSize(math.ceil(frames.sum()), math.ceil((frames * bytes_per_frame).sum()), clips)

    @property
    def _is_counted_completely(self) -> bool:
        return len(self._positions) == len(self._all_clips)

    def _estimate_distinct_share(self, rows: IntArray, frames: FloatArray, length: float) -> FloatArray | float:
        """Estimate the share of distinct frames among those that were counted.

        Args:
            rows: Sources, int64 [S].
            frames: Counted frames of each source, [S].
            length: Frames of a clip.

        Returns:
            The share of each source if all sources were compared, else one for all.
        """
        count = min(len(rows), _COMPARED_ROWS)
        shares = []
        for i in (np.arange(count) * len(rows) // count).tolist():
            positions = self._positions[self._rows == rows[i]]
            if not self._is_counted_completely:
                around = find_neighbours(self._all_clips, int(positions[0]), _NEIGHBOURS, _NEIGHBOURS)
                positions = np.arange(around.start, around.stop)
            clips = len(positions) * self._epochs / self._plan.world_size
            counted = frames[i] if self._is_counted_completely else clips * length
            known = int(self._plan.catalog.num_frames[rows[i]]) if self._has_one_output() else 0
            distinct = min(self._estimate_distinct(positions, clips), known if known > 0 else math.inf)
            shares.append(min(1.0, distinct / max(1e-9, counted)))
        if count == len(rows):
            return np.array(shares)
        return min(1.0, float(np.mean(shares) + np.std(shares, ddof=1) / count**0.5))

    def _estimate_distinct(self, positions: IntArray, clips: float) -> float:
        """Count the distinct frames of so many clips of a source; of many clips, extrapolate from some."""
        most = len(positions) * self._epochs
        count = min(most, _NEIGHBOURS * _COMPARED_CLIPS)
        seen, growth = set[tuple[int, OutputSpec | None]](), [0]
        for number in scatter(count)[:_COMPARED_CLIPS]:
            epoch, i = divmod(number * most // count, len(positions))
            request = self._make_request(int(positions[i]), epoch)
            if request is not None:
                output = None if self._has_one_output() else request.output
                seen.update((ordinal, output) for ordinal in request.storable.tolist())
            growth.append(len(seen))
        last = len(growth) - 1
        if clips <= last:
            return float(np.interp(clips, np.arange(last + 1), growth))
        # Each remaining clip adds at most as many frames as the later ones of the compared clips do on average.
        return growth[-1] + (clips - last) * (growth[-1] - growth[last // 2]) / (last - last // 2)

    def _has_one_output(self) -> bool:
        """Whether each frame is stored only once, however many clips contain it."""
        crop = self._plan.options.pictures.crop
        is_plain = self._plan.tables.pictures == self._plan.options.pictures
        return self._form == "planes" or (is_plain and (crop is None or isinstance(crop, (CenterCrop, FixedCrop))))

    # --- samples --------------------------------------------------------------------------------------

    @cached_property
    def _sample_requests(self) -> list[_SampleRequest]:
        """Frames that each stand for an equal share of all bytes; any few consecutive ones lie far apart."""
        if not len(self._positions):
            return []
        bounds = np.cumsum(self._frame_bytes)
        points = [(2 * number + 1) * int(bounds[-1]) // (2 * SAMPLES) for number in scatter(SAMPLES)]
        samples = []
        for i in np.searchsorted(bounds, points, "right").tolist():
            position = int(self._positions[i])
            request, row = self._make_request(position), self._all_clips.row_at(position)
            if request is None or not len(request):
                continue
            index = self._plan.catalog.frame_index(row)
            # The frame that is nearest to the start of its GOP costs least to decode.
            distance = index.frame_packet[request.ordinals] - index.frame_start[request.ordinals]
            ordinal = int(request.ordinals[int(distance.argmin())])
            source = MediaSource.of(self._plan.catalog.source(row))
            samples.append(_SampleRequest(source, index, ordinal, request.output))
        return samples

    def decode_samples(self) -> list[Sample]:
        """Decode one frame of each of some clips; each stands for an equal share of all bytes.

        Raises:
            ResourceExhausted: A resource ran out.
        """
        samples: list[Sample] = []
        begin = perf_counter()
        for request in self._sample_requests:
            try:
                sample = self._decode_sample(request)
            except (MediaError, DeadlineExceeded):
                continue
            if sample is not None:
                samples.append(sample)
            is_late = perf_counter() - begin > _MAX_SECONDS
            if len(samples) >= _MIN_SAMPLES and (is_late or sum(len(planes) for _, planes in samples) > _MAX_BYTES):
                break
        return samples

    def _decode_sample(self, request: _SampleRequest) -> Sample | None:
        if self._form == "planes":
            if not self._inner.can_iter_native(request.index):
                return None
            for _, picture in self._inner.iter_native(request.source, request.index, [request.ordinal]):
                layout = describe_layout(picture)
                planes = allocate_memory(layout.nbytes)
                copy_planes(picture, planes)
                return layout, planes
            return None
        layout = make_output_layout(request.output, *request.index.stream.displayed)
        shape = request.output.shape(*request.index.stream.displayed)
        slot = ClipSlot(np.array([request.ordinal]), request.output, np.empty((1, *shape), dtype=np.uint8))
        self._inner.decode(request.source, request.index, [slot]).raise_first()
        return layout, slot.out.reshape(-1)

    def estimate_missing_share(self, find_missing: FindMissing) -> float:
        """Estimate the share of the bytes that a cache lacks, from 0 to 1, rather too large than too small.

        Args:
            find_missing: As ``CachingDecoder.find_missing``.
        """
        requests = self._sample_requests
        missing = [find_missing(each.source, each.index, np.array([each.ordinal]), each.output) for each in requests]
        return min(1.0, (sum(bool(each[0]) for each in missing) + 1) / len(requests)) if requests else 1.0
