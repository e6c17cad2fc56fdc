"""Finish a decoded clip on its way into the batch: what decoders and caches do not know of."""

from __future__ import annotations

import math

import numpy as np

from framefeed.decode import Pixels
from framefeed.load._memory import ClipMemory
from framefeed.request import DecodeRequest, Placement

_WORD = 8
"""Most bytes of an integer of NumPy."""


class Finisher:
    """Lends memory that clips are decoded into, and makes of it what is delivered, or transformed.

    With ``in_place``, clips that need nothing else are decoded into their slots.
    """

    def __init__(self, *, in_place: bool) -> None:
        self._in_place = in_place

    def lease(self, memory: ClipMemory, slot: int, request: DecodeRequest) -> Pixels:
        """Lend the memory that a clip is decoded into."""
        if self._in_place and is_finished(request):
            return memory.lease(slot)
        return memory.lease_scratch(slot, None if request.placement is None else request.output.size)

    def finish(self, memory: ClipMemory, slot: int, request: DecodeRequest, decoded: Pixels) -> Pixels:
        """Return the finished clip, uint8 [T, C, H, W]: in its slot if clips are decoded there."""
        clip = decoded
        if not is_finished(request):
            clip = memory.lease(slot) if self._in_place else memory.lease_scratch(slot)
            finish_clip(request, decoded, clip)
        if request.skipped is not None:
            clip[request.skipped] = 0
        return clip


def is_finished(request: DecodeRequest) -> bool:
    """Whether the decoded pixels of a request are those to be delivered."""
    return not request.flipped and (request.placement is None or request.placement.is_whole)


def finish_clip(request: DecodeRequest, decoded: Pixels, out: Pixels) -> None:
    """Write the decoded pixels of a request to memory, uint8 [T, C, H, W], as they are to be delivered."""
    if request.placement is not None:
        out = _fill_around(request.placement, out)
    if request.flipped:
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
