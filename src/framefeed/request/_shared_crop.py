"""Draw a random crop once for all streams of a clip."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from framefeed.request._crops import Crop
from framefeed.request._random import ClipContext
from framefeed.request._request import Box
from framefeed.request._sizes import Size


@dataclass(frozen=True)
class SharedCrop:
    """A random crop whose draw the streams of a clip share."""

    crop: Crop
    # Whether the first box that is drawn decides the same part of each picture; else each stream has a box of its own
    # crop, which draws the same random numbers.
    is_one_part: bool
    is_random = True

    @property
    def size(self) -> Size | None:
        """(height, width) of the delivered picture if the crop has one."""
        return self.crop.size

    @property
    def resizes(self) -> bool:
        """Whether boxes differ in shape."""
        return self.crop.resizes

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Draw the box, or find that of the other streams in a picture of height x width."""
        draw = context.draw
        if draw is None:
            return self.crop.box(height, width, context)
        if not self.is_one_part:
            if draw.generator is None:
                draw.generator = context.generator
            return self.crop.box(height, width, context.continue_with(copy.deepcopy(draw.generator)))
        if draw.box is None:
            draw.box, draw.size = self.crop.box(height, width, context), (height, width)
        return _scale_box(draw.box, draw.size, (height, width))


def _scale_box(box: Box, size: Size, other: Size) -> Box:
    """Find the part of a picture of (height, width) ``other`` that a box is in one of ``size``; at least a pixel."""
    if size == other:
        return box
    edges = []
    for start, length, before, now in zip(box[:2], box[2:], size, other, strict=True):
        first, stop = (round(edge * now / before) for edge in (start, start + length))
        first = min(first, now - 1)
        edges.append((first, max(1, stop - first)))
    (top, rows), (left, columns) = edges
    return top, left, rows, columns
