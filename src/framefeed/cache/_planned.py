"""What a plan will have stored: how many frames of which size, and some of them to measure codecs on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import cast

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.cache._demand import scattered
from framefeed.cache._keys import Form
from framefeed.cache.codecs._auto import Sample
from framefeed.cache.codecs._codec import new_memory
from framefeed.decode import (
    ClipSlot,
    Decoder,
    FrameStream,
    PlaneLayout,
    copy_planes,
    gives_frames,
    layout_of,
    output_layout,
)
from framefeed.errors import FrameNotFound, MediaError, TimeUnavailable, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import CenterCrop, DecodeRequest, EpochPlan, FixedCrop, OutputSpec

SAMPLES = 24
"""Frames that codecs are measured on: halves of a mixture are then known to 2 % of its bytes."""
_MAX_BYTES = 48 << 20
_MAX_SECONDS = 5.0
"""Of decoding samples: sources come in an order in which the first few lie far apart."""
_LEAST_SAMPLES = 2
_POSITIONS = 16_384
"""Plans up to here are counted as a whole, in a tenth of a second; of others so many positions are."""
_ROWS = 512
"""Sources whose frame tables are looked at for the size of their pictures."""
_REQUESTS = 64
"""Clips that are planned to know how long they are, where they differ."""
_COMPARED_ROWS, _COMPARED_CLIPS = 32, 16
"""Sources, and clips of each, that are planned to know which frames they have in common: a tenth of a second."""
_NEIGHBOURS = 64
"""Clips of a source that are looked for around one of its clips, in plans that are not counted as a whole."""

FloatArray = npt.NDArray[np.floating]
Lacks = Callable[[MediaSource, FrameIndex, IntArray, OutputSpec], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Demand:
    """How much a plan will have stored.

    Attributes:
        frames: Distinct ones, rather too many than too few where they are estimated.
        raw_bytes: Of these, before they are encoded.
        clips: Of the plan.
    """

    frames: int
    raw_bytes: int
    clips: int


@dataclass(frozen=True, slots=True, eq=False)
class _Pick:
    """One frame of a plan."""

    source: MediaSource
    index: FrameIndex
    ordinal: int
    output: OutputSpec


class PlannedFrames:
    """The frames that a plan will have stored.

    Args:
        plan: At its first epoch.
        inner: Decodes them.
        form: In which they are stored.
        epochs: How many epochs from the plan's on.
    """

    def __init__(self, plan: EpochPlan, inner: Decoder, form: Form, epochs: int = 1) -> None:
        self._plan = plan
        self._inner = inner
        self._form = form
        self._epochs = epochs

    @cached_property
    def _whole(self) -> EpochPlan:
        """The plan's clips of all ranks in the order of the catalog."""
        return replace(self._plan, options=replace(self._plan.options, shuffle=False, rank=0, world_size=1))

    @cached_property
    def _places(self) -> IntArray:
        count = min(len(self._whole), _POSITIONS)
        return np.arange(count, dtype=np.int64) * len(self._whole) // max(1, count)

    @cached_property
    def _rows(self) -> IntArray:
        return np.fromiter(map(self._whole.row_at, self._places.tolist()), np.int64, len(self._places))

    @cached_property
    def _frame_bytes(self) -> IntArray:
        """Bytes of a frame of each place, before it is encoded."""
        if self._form == "output" and not self._plan.options.unequal:
            return np.full(len(self._rows), math.prod(self._plan.picture_shape), dtype=np.int64)
        rows, back = np.unique(self._rows, return_inverse=True)
        step = -(-len(rows) // _ROWS)
        row_bytes = self._planes_bytes if self._form == "planes" else self._output_bytes
        sizes = np.repeat([row_bytes(row) for row in rows[::step].tolist()], step)[: len(rows)]
        return np.asarray(sizes[back], dtype=np.int64)

    def _output_bytes(self, row: int) -> int:
        catalog = self._plan.catalog
        return math.prod(self._plan.options.pictures.shape(int(catalog.heights[row]), int(catalog.widths[row])))

    def _planes_bytes(self, row: int) -> int:
        catalog = self._plan.catalog
        try:
            stream = catalog.frame_index(row).stream
            return PlaneLayout(stream.pixel_format, stream.width, stream.height).nbytes
        except (UsageError, MediaError):
            return max(1, 3 * int(catalog.heights[row]) * int(catalog.widths[row]))

    def _clip_length(self) -> float:
        if self._plan.frames_per_clip is not None:
            return float(self._plan.frames_per_clip)
        lengths = [len(request) for place in self._places[:: -(-len(self._places) // _REQUESTS)].tolist()
                   if (request := self._request(place)) is not None]  # fmt: skip
        return float(np.mean(lengths)) if lengths else 1.0

    def _request(self, place: int, epoch: int = 0) -> DecodeRequest | None:
        try:
            return self._whole.with_epoch(self._whole.epoch + epoch)[place]
        except (FrameNotFound, TimeUnavailable, MediaError):
            return None

    def demand(self) -> Demand:
        """Count the frames of this rank's clips, all epochs together."""
        clips = len(self._plan) * self._epochs
        if not clips:
            return Demand(0, 0, 0)
        length = self._clip_length()
        rows, back, counts = np.unique(self._rows, return_inverse=True, return_counts=True)
        frames = counts * (clips / len(self._places) * length)
        if self._is_counted_whole and self._is_one_form():
            known = self._plan.catalog.num_frames[rows]
            frames = np.where(known > 0, np.minimum(frames, known), frames)
        frames = frames * self._distinct_share(rows, frames, length)
        a_frame = np.bincount(back, self._frame_bytes) / counts
        return Demand(math.ceil(frames.sum()), math.ceil((frames * a_frame).sum()), clips)

    @property
    def _is_counted_whole(self) -> bool:
        return len(self._places) == len(self._whole)

    def _distinct_share(self, rows: IntArray, frames: FloatArray, length: float) -> FloatArray | float:
        """Estimate which share of the frames that were counted are distinct.

        Args:
            rows: Sources, int64 [S].
            frames: How many frames were counted for each, [S].
            length: Frames of a clip.

        Returns:
            The share of each source where all were looked at, else one for all.
        """
        count = min(len(rows), _COMPARED_ROWS)
        shares = []
        for at in (np.arange(count) * len(rows) // count).tolist():
            places = self._places_of(int(rows[at]))
            clips = len(places) * self._epochs / self._plan.world_size
            counted = frames[at] if self._is_counted_whole else clips * length
            known = int(self._plan.catalog.num_frames[rows[at]]) if self._is_one_form() else 0
            distinct = min(self._num_distinct(places, clips), known if known > 0 else math.inf)
            shares.append(min(1.0, distinct / max(1e-9, counted)))
        if count == len(rows):
            return np.array(shares)
        return min(1.0, float(np.mean(shares) + np.std(shares, ddof=1) / count**0.5))

    def _places_of(self, row: int) -> IntArray:
        """Places of a source's clips; where not all places were counted, those around one of them."""
        places: IntArray = self._places[self._rows == row]
        if self._is_counted_whole:
            return places
        first = stop = int(places[0])
        while first > max(0, int(places[0]) - _NEIGHBOURS) and self._whole.row_at(first - 1) == row:
            first -= 1
        while stop < min(len(self._whole), first + _NEIGHBOURS) and self._whole.row_at(stop) == row:
            stop += 1
        return np.arange(first, stop)

    def _num_distinct(self, places: IntArray, clips: float) -> float:
        """Count the distinct frames of so many clips of a source; of many, some tell how it goes on with the others."""
        most = len(places) * self._epochs
        count = min(most, _NEIGHBOURS * _COMPARED_CLIPS)
        seen, growth = set[tuple[int, OutputSpec | None]](), [0]
        for number in scattered(count)[:_COMPARED_CLIPS]:
            epoch, at = divmod(number * most // count, len(places))
            request = self._request(int(places[at]), epoch)
            if request is not None:
                output = None if self._is_one_form() else request.output
                seen.update((ordinal, output) for ordinal in request.storable.tolist())
            growth.append(len(seen))
        last = len(growth) - 1
        if clips <= last:
            return float(np.interp(clips, np.arange(last + 1), growth))
        # The later ones of the clips that were looked at add as much as each of the others, or more.
        return growth[-1] + (clips - last) * (growth[-1] - growth[last // 2]) / (last - last // 2)

    def _is_one_form(self) -> bool:
        """Whether a frame is stored once, however many clips have it."""
        crop = self._plan.options.pictures.crop
        is_plain = self._plan.tables.pictures is self._plan.options.pictures
        return self._form == "planes" or (is_plain and (crop is None or isinstance(crop, (CenterCrop, FixedCrop))))

    # --- samples --------------------------------------------------------------------------------------

    @cached_property
    def _picks(self) -> list[_Pick]:
        """Frames that stand for equal shares of all bytes, in an order in which each few lie far apart."""
        if not len(self._places):
            return []
        bounds = np.cumsum(self._frame_bytes)
        points = [(2 * number + 1) * int(bounds[-1]) // (2 * SAMPLES) for number in scattered(SAMPLES)]
        picks = []
        for at in np.searchsorted(bounds, points, "right").tolist():
            place = int(self._places[at])
            request, row = self._request(place), self._whole.row_at(place)
            if request is None or not len(request):
                continue
            index = self._plan.catalog.frame_index(row)
            # The one that costs least to decode.
            behind = index.frame_packet[request.ordinals] - index.frame_start[request.ordinals]
            ordinal = int(request.ordinals[int(behind.argmin())])
            picks.append(_Pick(MediaSource.of(self._plan.catalog.source(row)), index, ordinal, request.output))
        return picks

    def samples(self) -> list[Sample]:
        """Decode one frame of each of some clips; each stands for the same share of all bytes.

        Raises:
            ResourceExhausted: Something ran out.
        """
        found: list[Sample] = []
        begin = perf_counter()
        for pick in self._picks:
            try:
                sample = self._decoded(pick)
            except MediaError:
                continue
            if sample is not None:
                found.append(sample)
            is_late = perf_counter() - begin > _MAX_SECONDS
            if len(found) >= _LEAST_SAMPLES and (is_late or sum(len(planes) for _, planes in found) > _MAX_BYTES):
                break
        return found

    def _decoded(self, pick: _Pick) -> Sample | None:
        if self._form == "planes":
            if not gives_frames(self._inner, pick.index):
                return None
            stream = cast("FrameStream", self._inner)
            for _, picture in stream.frames(pick.source, pick.index, [pick.ordinal]):
                layout = layout_of(picture)
                planes = new_memory(layout.nbytes)
                copy_planes(picture, planes)
                return layout, planes
            return None
        layout = output_layout(pick.output, *pick.index.stream.displayed)
        shape = pick.output.shape(*pick.index.stream.displayed)
        slot = ClipSlot(np.array([pick.ordinal]), pick.output, np.empty((1, *shape), dtype=np.uint8))
        self._inner.decode(pick.source, pick.index, [slot]).raise_first()
        return layout, slot.out.reshape(-1)

    def lacking_share(self, lacks: Lacks) -> float:
        """Estimate the share of the bytes that a cache lacks, from 0 to 1, rather too much than too little.

        Args:
            lacks: Whether the cache lacks frames; as ``CachingDecoder.lacks``.
        """
        picks = self._picks
        count = sum(bool(lacks(pick.source, pick.index, np.array([pick.ordinal]), pick.output)[0]) for pick in picks)
        return min(1.0, (count + 1) / len(picks)) if picks else 1.0
