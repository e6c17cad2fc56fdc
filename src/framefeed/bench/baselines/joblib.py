"""joblib, one file a frame, as the write-up has it: pickled arrays, raw, gzip and lz4."""

from __future__ import annotations

from functools import partial

import joblib
import lz4

from framefeed.bench._peers import BenchFrame, FileFormat
from framefeed.decode import Pixels

GZIP_LEVELS = (1, 3)
LZ4_LEVELS = (1, 2, 3, 5)


def write_array(path: str, frame: BenchFrame, compress: tuple[str, int] | int) -> None:
    """Write a frame."""
    joblib.dump(frame.rgb, path, compress=compress)


def read_array(path: str) -> Pixels:
    """Read a frame that this process has written: joblib unpickles, which is not safe for a stranger's file."""
    rgb: Pixels = joblib.load(path)
    return rgb


def versions() -> dict[str, str]:
    """Both libraries."""
    return {"joblib": joblib.__version__, "lz4": lz4.version.version}


def formats() -> list[FileFormat]:
    """Those of the write-up."""
    raw = FileFormat("joblib raw", ".joblib", True, partial(write_array, compress=0), read_array)
    packed = [("gzip", level) for level in GZIP_LEVELS] + [("lz4", level) for level in LZ4_LEVELS]
    return [
        raw,
        *(
            FileFormat(
                f"joblib {codec} {level}", ".joblib", True, partial(write_array, compress=(codec, level)), read_array
            )
            for codec, level in packed
        ),
    ]
