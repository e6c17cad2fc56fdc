"""Decoded pictures as flat runs of bytes, and back: the planes without padding, as libav's raw video lays them out.

A picture is rebuilt together with all that swscale looks at, so that converting it gives the pixels that converting the
decoder's own picture gives: the matrix, the range, whether its rows are of two times, and where chroma samples lie.
What swscale is not shown by the conversion (primaries, transfer characteristic, mastering display) is not kept.
"""

from framefeed.decode.planes.layout import CHROMA_LOCATIONS, RGB_PLANAR, PlaneLayout, output_layout
from framefeed.decode.planes.pictures import copy_planes, layout_of, picture_of

__all__ = [
    "CHROMA_LOCATIONS",
    "RGB_PLANAR",
    "PlaneLayout",
    "copy_planes",
    "layout_of",
    "output_layout",
    "picture_of",
]
