"""Choose the codec of a cache with codec="auto".

Codecs are measured on the first frames, or on samples of the whole plan if its frames do not fit the budget
uncompressed. In the second case the choice is revised while the cache is filled: if the frames stored so far took more
bytes than expected, so that the others would not fit, the next frames are stored with a smaller codec.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import thread_time

import numpy as np

from framefeed.cache._planned import PlannedSize
from framefeed.cache.codecs._auto import (
    CodecFigures,
    Conditions,
    Sample,
    choose_auto_codec,
    choose_codec,
    measure_codec,
)
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import find_codec_for, find_exact_codecs, find_labelled_codec
from framefeed.cache.store._format import Kind
from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import MissingDependency, UsageError


class BudgetedCodec:
    """A codec with which the frames of a plan fit a budget; it is revised as frames are stored. Pure.

    Args:
        figures: Measurements of each codec; their ratios are expected of all frames, rather too large than too small.
        conditions: With the uncompressed bytes of all frames to store, and their budget.
        overhead: Bytes that a stored frame takes besides its data, divided by its uncompressed bytes.
        stored_with: Label of the codec of the frames in the cache, which is kept if all fit, or None.

    Attributes:
        codec: Label of the codec for the next frames.
    """

    def __init__(
        self,
        figures: Sequence[CodecFigures],
        conditions: Conditions,
        overhead: float = 0.0,
        stored_with: str | None = None,
    ) -> None:
        self._figures = [
            replace(each, stored_bytes=math.ceil(each.stored_bytes + overhead * each.raw_bytes)) for each in figures
        ]
        self._conditions = conditions
        self._overhead = overhead
        self._raw_bytes_left = conditions.expected_raw_bytes or 0
        self._bytes_left = float(conditions.max_bytes or 0)
        self.codec: str = stored_with if stored_with and self._is_within_budget(stored_with) else self._choose()

    def note_stored(self, raw_bytes: int, stored_bytes: int) -> None:
        """Subtract frames that were stored, and revise the choice.

        Args:
            raw_bytes: Their bytes before they were encoded.
            stored_bytes: Their stored bytes.
        """
        self._raw_bytes_left = max(0, self._raw_bytes_left - raw_bytes)
        self._bytes_left -= stored_bytes + self._overhead * raw_bytes
        if not self._is_within_budget(self.codec):
            self.codec = self._choose()

    def _is_within_budget(self, label: str) -> bool:
        return any(
            each.codec == label and each.ratio * self._raw_bytes_left <= self._bytes_left for each in self._figures
        )

    def _choose(self) -> str:
        max_bytes = max(0, math.floor(self._bytes_left))
        conditions = replace(self._conditions, expected_raw_bytes=self._raw_bytes_left, max_bytes=max_bytes)
        return choose_codec(self._figures, conditions).codec


SAMPLES = 3
"""Frames that are measured: all codecs together take 1/8 s for them at 1280x720, 1/100 s at 224x224."""

FRAME_OVERHEAD = 56
"""Bytes of a stored frame besides its data: a row in the directory of its file."""
RUN_OVERHEAD = 1000
"""Bytes of frames that are stored together besides the frames, at most: key and description of the stream."""
_UNUSED_SHARE, _UNUSED_BYTES = 0.01, 1 << 14
"""Of a budget: not usable in the last file, which reserves the largest size that a clip may take."""

KindCounts = Mapping[Kind, tuple[int, int]]
"""As in ``StoreInfo``: frames and bytes of each kind."""
Clock = Callable[[], float]


def choose_exact_codec(
    layout: PlaneLayout,
    samples: Sequence[Pixels],
    expected_bytes: int | None,
    max_bytes: int | None,
    kinds: KindCounts | None = None,
) -> FrameCodec:
    """Choose an exact codec for frames like some samples.

    Args:
        layout: Of the frames.
        samples: Some of them, uint8 [layout.nbytes] each, at least one.
        expected_bytes: Uncompressed bytes of all frames, or None.
        max_bytes: Largest size of the cache, or None.
        kinds: Frames in the cache: a codec that stored such frames already is kept.
    """
    stored_with = find_stored_codec(layout, kinds or {})
    if stored_with is not None:
        return stored_with
    count = min(SAMPLES, len(samples))
    spread = [samples[i * len(samples) // count] for i in range(count)]
    conditions = Conditions(expected_bytes, max_bytes, read_memory_size())
    codec, _ = choose_auto_codec([(layout, sample) for sample in spread], conditions)
    return codec


def compute_overhead(size: PlannedSize) -> float:
    """Divide the bytes that frames take besides their data by their uncompressed bytes."""
    return (size.frames * FRAME_OVERHEAD + size.clips * RUN_OVERHEAD) / max(1, size.raw_bytes)


def compute_usable_bytes(max_bytes: int, bytes_on_disk: int) -> int:
    """Return the bytes of a budget that new frames can take."""
    return max(0, int(max_bytes * (1 - _UNUSED_SHARE)) - _UNUSED_BYTES - bytes_on_disk)


def choose_budgeted_codec(
    samples: Sequence[Sample],
    size: PlannedSize,
    max_bytes: int,
    kinds: KindCounts | None = None,
    clock: Clock = thread_time,
) -> BudgetedCodec:
    """Choose an exact codec with which all frames of a plan fit a budget.

    Args:
        samples: Of the whole plan, each for an equal share of its bytes; at least one.
        size: Frames that are not stored yet.
        max_bytes: Their budget.
        kinds: Frames in the cache.
        clock: Returns the seconds that this thread has worked.
    """
    layouts = {layout for layout, _ in samples}
    timed = [samples[i * len(samples) // SAMPLES] for i in range(min(SAMPLES, len(samples)))]
    figures = []
    for codec in find_exact_codecs(layouts):
        measured = measure_codec(codec, timed, clock)
        shares = [len(find_codec_for(codec, each[0]).encode(*each)) / each[0].nbytes for each in samples]
        # The bytes expected of all frames: the mean of the samples plus its standard error.
        share = np.mean(shares) + (np.std(shares, ddof=1) / len(shares) ** 0.5 if len(shares) > 1 else 0.0)
        figures.append(replace(measured, stored_bytes=math.ceil(share * measured.raw_bytes)))
    kept = [find_stored_codec(layout, kinds or {}) for layout in layouts]
    stored = [codec.label for codec in kept if codec is not None]
    conditions = Conditions(size.raw_bytes, max_bytes, read_memory_size())
    stored_with = max(sorted(stored), key=stored.count, default=None)
    return BudgetedCodec(figures, conditions, compute_overhead(size), stored_with)


def find_stored_codec(layout: PlaneLayout, kinds: KindCounts) -> FrameCodec | None:
    """Find the exact codec that most frames of a layout are stored with; None if there are no such frames."""
    stored = [(frames, kind.codec) for kind, (frames, _) in kinds.items() if frames and kind.layout == layout.text]
    for _, label in sorted(stored, reverse=True):
        try:
            codec = find_labelled_codec(label)
        except (UsageError, MissingDependency):
            continue  # Written by another version, or with codecs that are not installed here.
        if codec.is_exact and codec.can_store(layout):
            return codec
    return None


def read_memory_size() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
