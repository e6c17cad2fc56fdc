"""Blosc2, one file a frame: bits of neighbouring pixels shuffled together, then LZ4 or Zstandard."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import blosc2
import numpy as np

from framefeed.bench.baselines import FileFormat
from framefeed.decode import Pixels

PACKAGES = ("blosc2",)
_SHAPE = np.dtype("<i4")


def write_chunk(path: str, rgb: Pixels, codec: Any) -> None:
    """Write the picture's height and width, and its pixels as one chunk."""
    chunk = blosc2.compress2(
        rgb, codec=codec, clevel=1, typesize=1, nthreads=1, filters=[blosc2.Filter.BITSHUFFLE], filters_meta=[0]
    )
    Path(path).write_bytes(np.array(rgb.shape[:2], dtype=_SHAPE).tobytes() + chunk)


def read_chunk(path: str) -> Pixels:
    """Read a frame."""
    data = memoryview(Path(path).read_bytes())
    height, width = np.frombuffer(data[:8], dtype=_SHAPE).tolist()
    rgb = np.empty((height, width, 3), dtype=np.uint8)
    blosc2.decompress2(data[8:], dst=rgb, nthreads=1)
    return rgb


blosc2.set_nthreads(1)
FORMATS = [
    FileFormat(f"Blosc2 bitshuffle {name} 1", ".b2", True, partial(write_chunk, codec=codec), read_chunk)
    for name, codec in (("lz4", blosc2.Codec.LZ4), ("zstd", blosc2.Codec.ZSTD))
]
