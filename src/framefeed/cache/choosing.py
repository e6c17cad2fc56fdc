"""What codec="auto" means for one cache: measured on the first frames that are stored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from framefeed.cache.codecs import FrameCodec, codec_labelled
from framefeed.cache.codecs.choice import Conditions, auto_codec
from framefeed.cache.stored import Kind
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes import PlaneLayout
from framefeed.errors import MissingDependency, UsageError

_SAMPLES = 3
"""Frames that are measured: at 1280x720 all codecs take an eighth of a second for them, at 224x224 a hundredth."""

Kinds = Mapping[Kind, tuple[int, int]]
"""As in ``StoreInfo``: frames and bytes of each."""


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
