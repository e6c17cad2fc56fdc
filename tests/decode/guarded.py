"""Converts pictures that end where memory ends: run as a program, for touching one byte more kills it.

Arguments: "in place" pictures, or "overrun": one that is read in place though its rows are no whole multiples.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from dataclasses import replace

import numpy as np

from framefeed.decode import _planes
from framefeed.decode._convert import Converter
from framefeed.decode._decoder import Pixels
from framefeed.decode._planes import PlaneLayout, rebuild_picture
from framefeed.index import StreamFacts
from framefeed.request import OutputSpec

PAGE = mmap.PAGESIZE
SIZES = [(64, 1), (64, 37), (128, 2), (192, 18), (256, 16), (320, 64), (640, 5)]


def guarded(nbytes: int) -> tuple[Pixels, Pixels]:
    """Memory that ends, and memory that begins, at a page that may not be touched."""
    rounded = -(-nbytes // PAGE) * PAGE
    whole = np.frombuffer(mmap.mmap(-1, rounded + 2 * PAGE), np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for start in (0, PAGE + rounded):
        if protect(ctypes.c_void_p(whole.ctypes.data + start), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return whole[PAGE + rounded - nbytes : PAGE + rounded], whole[PAGE : PAGE + nbytes]


def convert(layout: PlaneLayout) -> int:
    """Convert pictures of one layout in many ways; how many of them lay where they were given."""
    width, height = layout.width, layout.height
    stream = StreamFacts(0, "m", "c", None, width, height, layout.pixel_format)
    lower, right = (height - height // 2, width - width // 2)
    outputs = [OutputSpec(crop=(height // 2, width // 2, lower, right), size=(20, 30)), OutputSpec()]
    outputs += [OutputSpec(size=size) for size in ((1, 1), (7, 5), (2 * height + 1, 2 * width + 3), (height, right))]
    outputs += [replace(output, filter="bicubic") for output in outputs]
    in_place = 0
    for data in guarded(layout.nbytes):
        data[:] = np.random.default_rng(0).integers(0, 255, layout.nbytes, dtype=np.uint8)
        picture = rebuild_picture(layout, data)
        in_place += np.frombuffer(picture.planes[0], np.uint8).ctypes.data == data.ctypes.data
        for output in outputs:
            Converter().write(picture, stream, output, np.empty(output.shape(height, width), np.uint8))
    return in_place


def main(what: str) -> None:
    if what == "overrun":
        _planes._ALIGNMENT = 1
        convert(PlaneLayout("yuv420p", 6, 1))
        return
    in_place = 0
    for pixel_format, (width, height) in itertools.product(sorted(_planes._READ_IN_PLACE), SIZES):
        in_place += convert(PlaneLayout(pixel_format, width, height, chroma_location=1))
    print(in_place)


if __name__ == "__main__":
    main(sys.argv[1])
