"""JPEG XL without loss, one file a frame, by imagecodecs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from imagecodecs import jpegxl_decode, jpegxl_encode

from framefeed.bench.baselines import FileFormat
from framefeed.decode import Pixels

PACKAGES = ("imagecodecs",)


def write_jpegxl(path: str, rgb: Pixels) -> None:
    """Write a frame, with the least effort: the one that is made for speed."""
    Path(path).write_bytes(jpegxl_encode(rgb, lossless=True, effort=1, numthreads=1))


def read_jpegxl(path: str) -> Pixels:
    """Read a frame."""
    return np.asarray(jpegxl_decode(Path(path).read_bytes(), numthreads=1))


FORMATS = [FileFormat("JPEG XL lossless, effort 1", ".jxl", True, write_jpegxl, read_jpegxl)]
