"""Run as a program: print the bytes of C memory that each clip of some files keeps, as JSON.

``python -m tests.decode.heap_growth CLIPS FILE ...``
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys

from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import build_index
from framefeed.media import MediaSource
from tests.makers import slot_of

WARM_UP = 100
FIELDS = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]


class MallInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


def read_used_bytes(libc: ctypes.CDLL) -> int:
    gc.collect()
    libc.malloc_trim(0)  # or small freed blocks count as used
    return int(libc.mallinfo2().uordblks)


def measure(path: str, clips: int) -> float:
    libc = ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = MallInfo
    source, index = MediaSource.of(path), build_index(path)
    decoder, slot = PyAVDecoder(), slot_of(index, [3])

    def read_clips(count: int) -> None:
        for _ in range(count):
            decoder.decode(source, index, [slot]).raise_first()

    read_clips(WARM_UP)
    before = read_used_bytes(libc)
    read_clips(clips)
    return (read_used_bytes(libc) - before) / clips


if __name__ == "__main__":
    json.dump([measure(path, int(sys.argv[1])) for path in sys.argv[2:]], sys.stdout)
