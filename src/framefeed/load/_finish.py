"""Finish a decoded clip on its way into the batch: what decoders and caches do not know of."""

from __future__ import annotations

import math

import numpy as np

from framefeed.decode import Pixels
from framefeed.load._pending import PendingBatch
from framefeed.plan import Take
from framefeed.request import Placement, Size

_WORD = 8
"""Most bytes of an integer of NumPy."""


class TaskFrames:
    """Memory that the takes of a task are decoded into, from which it makes what is delivered, or transformed.

    With ``in_place``, frames that need nothing else are decoded where their clip is.
    """

    def __init__(self, batch: PendingBatch, *, in_place: bool) -> None:
        self._batch = batch
        self._in_place = in_place
        # Of whole clips, which their takes share, by part and clip: each is leased once.
        self._wholes: dict[tuple[int, int], Pixels] = {}

    def lease(self, slot: int, take: Take) -> Pixels:
        """Lend the memory that a take is decoded into."""
        if self._in_place and is_finished(take):
            return self._get_whole(slot)
        return self._lease_scratch(slot, take, None if take.placement is None else take.output.size)

    def finish(self, slot: int, take: Take, decoded: Pixels) -> Pixels:
        """Return the finished frames, uint8 [T, C, H, W]: in their clip if they are decoded there."""
        frames = decoded
        if not is_finished(take):
            frames = self._get_whole(slot) if self._in_place else self._lease_scratch(slot, take)
            finish_take(take, decoded, frames)
        if take.skipped is not None:
            frames[take.skipped] = 0
        return frames

    def pop_clip(self, clip: int) -> list[Pixels]:
        """Return the memory of each part of a clip, and give it up."""
        return [self._wholes.pop((part, clip)) for part in range(len(self._batch.memories))]

    def _get_whole(self, slot: int) -> Pixels:
        """Return the memory of a slot in that of its clip."""
        part, clip, frames = self._batch.places[slot]
        whole = self._wholes.get((part, clip))
        if whole is None:
            whole = self._wholes[part, clip] = self._batch.memories[part].lease(clip)
        return whole[frames]

    def _lease_scratch(self, slot: int, take: Take, size: Size | None = None) -> Pixels:
        part, clip, _ = self._batch.places[slot]
        return self._batch.memories[part].lease_scratch(clip, len(take), size)


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
