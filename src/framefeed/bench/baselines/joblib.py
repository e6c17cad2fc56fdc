"""joblib, one file a frame, as the write-up has it: pickled arrays, raw, gzip and lz4."""

from __future__ import annotations

from functools import partial

import joblib
import lz4

from framefeed.bench.baselines import FileFormat
from framefeed.decode import Pixels

PACKAGES = ("joblib",)
VERSIONS = {"lz4": lz4.version.version}


def write_array(path: str, rgb: Pixels, compress: tuple[str, int] | int) -> None:
    """Write a frame."""
    joblib.dump(rgb, path, compress=compress)


_WAYS: dict[str, tuple[str, int] | int] = {
    "raw": 0,
    **{f"gzip {level}": ("gzip", level) for level in (1, 3)},
    **{f"lz4 {level}": ("lz4", level) for level in (1, 2, 3, 5)},
}
# Only what this process has written is read: joblib unpickles, which is not safe for a stranger's file.
FORMATS = [
    FileFormat(f"joblib {name}", ".joblib", True, partial(write_array, compress=compress), joblib.load)
    for name, compress in _WAYS.items()
]
