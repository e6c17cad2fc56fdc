"""Run as a program: print the bytes of C memory that each clip of a file keeps, as JSON.

``python -m tests.decode.heap_growth FILE CLIPS``
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys

import numpy as np

from framefeed.decode import ClipSlot
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

WARM_UP = 100
FIELDS = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]


class MallInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


def read_used_bytes(libc: ctypes.CDLL) -> int:
    gc.collect()
    libc.malloc_trim(0)  # or small freed blocks count as used
    return int(libc.mallinfo2().uordblks)


def main(path: str, clips: int) -> None:
    libc = ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = MallInfo
    source, index = MediaSource.of(path), build_index(path)
    decoder, ordinals = PyAVDecoder(), np.array([3], dtype=np.int64)

    def read_clips(count: int) -> None:
        for _ in range(count):
            slot = ClipSlot(ordinals, OutputSpec(), np.empty((1, 3, 48, 64), np.uint8))
            decoder.decode(source, index, [slot]).raise_first()

    read_clips(WARM_UP)
    before = read_used_bytes(libc)
    read_clips(clips)
    json.dump((read_used_bytes(libc) - before) / clips, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
