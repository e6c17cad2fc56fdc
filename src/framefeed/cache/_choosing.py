"""What codec="auto" means for one cache: measured on the first frames, or where a budget is short on all of a plan.

Fitting: which exact codec the next frames are stored with, so that all that are to come fit a budget. Pure.

The choice rests on samples and is revised while a cache is filled: where what was stored already took more than was
expected, and the frames to come would not fit any more, a codec that makes them smaller takes over.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import thread_time

import numpy as np

from framefeed.cache._planned import Demand
from framefeed.cache.codecs._auto import CodecFigures, Conditions, Sample, auto_codec, choose_codec, measure_codec
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import codec_for, codec_labelled, exact_codecs
from framefeed.cache.store._format import Kind
from framefeed.decode import Pixels, PlaneLayout
from framefeed.errors import MissingDependency, UsageError


class Fitting:
    """A choice of codec that is revised.

    Args:
        figures: Of each codec; their ratios are what is to be expected of all frames, rather too large.
        conditions: With the bytes of all frames to come, before they are encoded, and the budget that they have.
        overhead: Bytes that a frame takes besides its data, by its bytes before it is encoded.
        kept: Label of the codec to go on with if that fits, or None.

    Attributes:
        codec: Label of the codec for the next frames.
    """

    def __init__(
        self, figures: Sequence[CodecFigures], conditions: Conditions, overhead: float = 0.0, kept: str | None = None
    ) -> None:
        self._figures = [
            replace(each, stored_bytes=math.ceil(each.stored_bytes + overhead * each.raw_bytes)) for each in figures
        ]
        self._conditions = conditions
        self._overhead = overhead
        self._total = conditions.expected_raw_bytes or 0
        self._room = conditions.max_bytes or 0
        self._raw = 0
        self._used = 0.0
        fits = any(each.codec == kept and self._fits(each) for each in self._figures)
        self.codec: str = kept if kept is not None and fits else self._chosen()

    def note(self, raw_bytes: int, stored_bytes: int) -> None:
        """Take note of frames that were stored, and revise the choice.

        Args:
            raw_bytes: Of them before.
            stored_bytes: After.
        """
        self._raw += raw_bytes
        self._used += stored_bytes + self._overhead * raw_bytes
        if not any(each.codec == self.codec and self._fits(each) for each in self._figures):
            self.codec = self._chosen()

    @property
    def _to_come(self) -> int:
        """Bytes of the frames to come, before they are encoded."""
        return max(0, self._total - self._raw)

    def _fits(self, figures: CodecFigures) -> bool:
        return self._used + figures.ratio * self._to_come <= self._room

    def _chosen(self) -> str:
        left = max(0, math.floor(self._room - self._used))
        conditions = replace(self._conditions, expected_raw_bytes=self._to_come, max_bytes=left)
        return choose_codec(self._figures, conditions).codec


_SAMPLES = 3
"""Frames that are measured: at 1280x720 all codecs take an eighth of a second for them, at 224x224 a hundredth."""

FRAME_OVERHEAD = 170
"""Bytes of a stored frame besides its data: a row in its clip's table, and one in the directory of its file."""
PIECE_OVERHEAD = 1700
"""Bytes of what is stored together besides its frames: a table's head, and the description of its stream."""
_LEFT_SHARE, _LEFT_BYTES = 0.01, 1 << 14
"""Of a budget: what the last file cannot use, for it must have room for all that may come of a clip."""

Kinds = Mapping[Kind, tuple[int, int]]
"""As in ``StoreInfo``: frames and bytes of each."""
Clock = Callable[[], float]


def chosen_codec(
    layout: PlaneLayout,
    samples: Sequence[Pixels],
    expected_bytes: int | None,
    max_bytes: int | None,
    kinds: Kinds | None = None,
) -> FrameCodec:
    """Choose an exact codec for frames like some samples.

    Args:
        layout: Of the frames.
        samples: Some of them, uint8 [layout.nbytes] each, at least one.
        expected_bytes: Bytes of all frames before they are encoded, or None.
        max_bytes: What all may weigh, or None.
        kinds: What the cache holds: where such frames are among it, it goes on as it began.
    """
    kept = kept_codec(layout, kinds or {})
    if kept is not None:
        return kept
    count = min(_SAMPLES, len(samples))
    spread = [samples[place * len(samples) // count] for place in range(count)]
    conditions = Conditions(expected_bytes, max_bytes, memory_bytes())
    codec, _ = auto_codec([(layout, sample) for sample in spread], conditions)
    return codec


def overhead_of(demand: Demand) -> float:
    """Bytes that frames take besides their data, by their bytes before they are encoded."""
    return (demand.frames * FRAME_OVERHEAD + demand.clips * PIECE_OVERHEAD) / max(1, demand.raw_bytes)


def usable_bytes(max_bytes: int, there: int) -> int:
    """Bytes of a budget that frames can take, where some are there already."""
    return max(0, int(max_bytes * (1 - _LEFT_SHARE)) - _LEFT_BYTES - there)


def fitting_of(
    samples: Sequence[Sample], demand: Demand, room: int, kinds: Kinds | None = None, clock: Clock = thread_time
) -> Fitting:
    """Choose an exact codec with which all frames of a plan fit, and be ready to revise the choice.

    Args:
        samples: Of the whole plan, each of which stands for the same share of its bytes; at least one.
        demand: What is still to come.
        room: Bytes that it may take.
        kinds: What the cache holds.
        clock: Seconds that this thread has worked.
    """
    layouts = {layout for layout, _ in samples}
    timed = [samples[place * len(samples) // _SAMPLES] for place in range(min(_SAMPLES, len(samples)))]
    figures = [_expected(measure_codec(codec, timed, clock), codec, samples) for codec in exact_codecs(layouts)]
    kept = [codec.label for layout in layouts if (codec := kept_codec(layout, kinds or {})) is not None]
    conditions = Conditions(demand.raw_bytes, room, memory_bytes())
    return Fitting(figures, conditions, overhead_of(demand), max(sorted(kept), key=kept.count, default=None))


def _expected(figures: CodecFigures, codec: FrameCodec, samples: Sequence[Sample]) -> CodecFigures:
    """Give figures the ratio that is to be expected of all frames: the mean of the samples, and its standard error."""
    shares = np.array([len(codec_for(codec, sample[0]).encode(*sample)) / sample[0].nbytes for sample in samples])
    error = shares.std(ddof=1) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
    return replace(figures, stored_bytes=math.ceil((shares.mean() + error) * figures.raw_bytes))


def kept_codec(layout: PlaneLayout, kinds: Kinds) -> FrameCodec | None:
    """Give the exact codec that most frames of a layout are stored with; None where there are none."""
    stored = [(frames, kind.codec) for kind, (frames, _) in kinds.items() if frames and kind.layout == layout.text]
    for _, label in sorted(stored, reverse=True):
        try:
            codec = codec_labelled(label)
        except (UsageError, MissingDependency):
            continue  # Written by another version, or where more is installed.
        if codec.is_exact and codec.takes(layout):
            return codec
    return None


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
