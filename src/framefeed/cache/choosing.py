"""What codec="auto" means for one cache: measured on the first frames that are stored."""

from __future__ import annotations

import os
from collections.abc import Sequence

from framefeed.cache.codecs import FrameCodec
from framefeed.cache.codecs.choice import Conditions, auto_codec
from framefeed.decode.decoder import Pixels
from framefeed.decode.planes import PlaneLayout

_SAMPLES = 6
"""Frames that are measured: at 1280x720 all codecs take a tenth of a second for them."""


def chosen_codec(
    layout: PlaneLayout, samples: Sequence[Pixels], expected_bytes: int | None, max_bytes: int | None
) -> FrameCodec:
    """Choose an exact codec for frames like some samples.

    Args:
        layout: Of the frames.
        samples: Some of them, uint8 [layout.nbytes] each, at least one.
        expected_bytes: Bytes of all frames before they are encoded, or None.
        max_bytes: What all may weigh, or None.
    """
    count = min(_SAMPLES, len(samples))
    spread = [samples[place * len(samples) // count] for place in range(count)]
    conditions = Conditions(expected_bytes, max_bytes, memory_bytes())
    codec, _ = auto_codec([(layout, sample) for sample in spread], conditions)
    return codec


def memory_bytes() -> int:
    """Of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
