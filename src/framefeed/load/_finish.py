"""Finish a decoded clip on its way into the batch: what decoders and caches do not know of."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from framefeed.decode import Pixels
from framefeed.load._memory import ClipMemory
from framefeed.plan import Take
from framefeed.request import Placement

_WORD = 8
"""Most bytes of an integer of NumPy."""


class Finisher:
    """Lends memory that frames are decoded into, and makes of it what is delivered, or transformed.

    With ``in_place``, frames that need nothing else are decoded where their clip is.
    """

    def __init__(self, *, in_place: bool) -> None:
        self.in_place = in_place

    def lease(self, memory: ClipMemory, clip: int, take: Take, whole: Callable[[], Pixels]) -> Pixels:
        """Lend the memory that a take is decoded into; ``whole`` gives that of the take in its clip."""
        if self.in_place and is_finished(take):
            return whole()
        return memory.lease_scratch(clip, len(take), None if take.placement is None else take.output.size)

    def finish(self, memory: ClipMemory, clip: int, take: Take, decoded: Pixels, whole: Callable[[], Pixels]) -> Pixels:
        """Return the finished frames, uint8 [T, C, H, W]: in their clip if they are decoded there."""
        frames = decoded
        if not is_finished(take):
            frames = whole() if self.in_place else memory.lease_scratch(clip, len(take))
            finish_take(take, decoded, frames)
        if take.skipped is not None:
            frames[take.skipped] = 0
        return frames


def is_finished(take: Take) -> bool:
    """Whether the decoded pixels of a take are those to be delivered."""
    return not take.flipped and (take.placement is None or take.placement.is_whole)


def finish_take(take: Take, decoded: Pixels, out: Pixels) -> None:
    """Write the decoded pixels of a take to memory, uint8 [T, C, H, W], as they are to be delivered."""
    if take.placement is not None:
        out = _fill_around(take.placement, out)
    if take.flipped:
        mirror(decoded, out)
    else:
        np.copyto(out, decoded)


def _fill_around(placement: Placement, out: Pixels) -> Pixels:
    """Fill what is around a picture, and return the part of the memory where it lies."""
    top, left, rows, columns = placement.box
    bottom, right = top + rows, left + columns
    fill = np.array(placement.fill, np.uint8)[:, np.newaxis, np.newaxis]
    for part in (out[..., :top, :], out[..., bottom:, :], out[..., top:bottom, :left], out[..., top:bottom, right:]):
        part[...] = fill
    return out[..., top:bottom, left:right]


def mirror(pictures: Pixels, out: Pixels) -> None:
    """Write pictures, uint8 [..., W], with left and right swapped; rows of both are contiguous."""
    # Words of several pixels, the last one first, with their bytes swapped: five times as fast as pixel by pixel.
    size = math.gcd(pictures.shape[-1], _WORD)
    np.copyto(out.view(f"<u{size}"), pictures.view(f">u{size}")[..., ::-1])
