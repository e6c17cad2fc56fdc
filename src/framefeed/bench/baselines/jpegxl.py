"""JPEG XL without loss, one file a frame, by imagecodecs."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
from imagecodecs import jpegxl_decode, jpegxl_encode

from framefeed.bench._peers import BenchFrame, FileFormat
from framefeed.decode import Pixels

EFFORT = 1


def write_jpegxl(path: str, frame: BenchFrame) -> None:
    """Write a frame, with the least effort: the one that is made for speed."""
    Path(path).write_bytes(jpegxl_encode(frame.rgb, lossless=True, effort=EFFORT, numthreads=1))


def read_jpegxl(path: str) -> Pixels:
    """Read a frame."""
    return np.asarray(jpegxl_decode(Path(path).read_bytes(), numthreads=1))


def versions() -> dict[str, str]:
    """The library."""
    return {"imagecodecs": version("imagecodecs")}


def formats() -> list[FileFormat]:
    """The one."""
    return [FileFormat(f"JPEG XL lossless, effort {EFFORT}", ".jxl", True, write_jpegxl, read_jpegxl)]
