"""Finish a decoded clip on its way into the batch: what decoders and caches do not know of."""

from __future__ import annotations

import math

import numpy as np

from framefeed.decode import Pixels
from framefeed.request import DecodeRequest

_WORD = 8
"""Most bytes of an integer of NumPy."""


def is_finished(request: DecodeRequest) -> bool:
    """Whether the decoded pixels of a request are those to be delivered."""
    return not request.flipped


def finish_clip(request: DecodeRequest, decoded: Pixels, out: Pixels) -> None:
    """Write the decoded pixels of a request to memory, uint8 [T, C, H, W], as they are to be delivered."""
    mirror(decoded, out)


def mirror(pictures: Pixels, out: Pixels) -> None:
    """Write pictures, uint8 [..., W], with left and right swapped; rows of both are contiguous."""
    # Words of several pixels, the last one first, with their bytes swapped: five times as fast as pixel by pixel.
    size = math.gcd(pictures.shape[-1], _WORD)
    np.copyto(out.view(f"<u{size}"), pictures.view(f">u{size}")[..., ::-1])
