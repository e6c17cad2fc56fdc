"""Planes of a flat run of bytes, each by itself."""

from __future__ import annotations

from collections.abc import Sequence

from framefeed.cache.codecs.codec import Pixels
from framefeed.decode.planes import PlaneLayout

PACKED = {"rgb24": (0, 1, 2), "bgr24": (2, 1, 0)}
"""Formats of one plane with three samples a pixel: which of them are red, green and blue."""


def plane_views(layout: PlaneLayout, planes: Pixels) -> Sequence[Pixels]:
    """View each plane as uint8 [rows, row bytes]."""
    views, start = [], 0
    for rows, row_bytes in layout.planes:
        stop = start + rows * row_bytes
        views.append(planes[start:stop].reshape(rows, row_bytes))
        start = stop
    return views


def channel_views(layout: PlaneLayout, planes: Pixels) -> Sequence[Pixels]:
    """View each plane as `plane_views` does, and packed pixels as red, green and blue, each [rows, columns]."""
    order = PACKED.get(layout.pixel_format)
    if order is None:
        return plane_views(layout, planes)
    pixels = planes.reshape(layout.height, layout.width, 3)
    return [pixels[:, :, channel] for channel in order]
