"""OpenCV's pictures, one file a frame, JPEG and PNG, and its reading of the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np

from framefeed.bench._cache_formats import FileFormat, OrderReader, OriginalReader
from framefeed.bench._cache_samples import BenchFrame
from framefeed.bench._media import BenchVideo
from framefeed.decode import Pixels

QUALITIES = (70, 80, 90, 95, 100)


def write_picture(path: str, frame: BenchFrame, options: Sequence[int] = ()) -> None:
    """Write a frame; OpenCV's order of channels is blue, green, red."""
    cv2.imwrite(path, cv2.cvtColor(frame.rgb, cv2.COLOR_RGB2BGR), options)


def read_picture(path: str) -> Pixels:
    """Read a frame, and turn its channels round; uint8 [H, W, 3]."""
    rgb: Pixels = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    return rgb


def _captured(video: BenchVideo) -> Any:
    return cv2.VideoCapture(str(video.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video to seek to one frame after the other."""
    capture = _captured(video)

    def read(ordinals: Sequence[int]) -> Any:
        pictures = []
        for ordinal in ordinals:
            capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
            pictures.append(cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB))
        return np.stack(pictures)

    return read


def read_in_order(path: str) -> Iterator[Pixels]:
    """Read a video as most loops do: one frame after the other, its threads as they are by default."""
    capture = cv2.VideoCapture(path)
    try:
        while True:
            came, picture = capture.read()
            if not came:
                return
            yield cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
    finally:
        capture.release()


def versions() -> dict[str, str]:
    """The library."""
    return {"opencv": cv2.__version__}


def formats() -> list[FileFormat]:
    """JPEG in five qualities, and PNG as it is by default."""
    cv2.setNumThreads(1)
    jpegs = [
        FileFormat(
            f"JPEG q{quality} (OpenCV)", ".jpg", False,
            partial(write_picture, options=(cv2.IMWRITE_JPEG_QUALITY, quality)), read_picture,
        )
        for quality in QUALITIES
    ]  # fmt: skip
    return [*jpegs, FileFormat("PNG (OpenCV)", ".png", True, write_picture, read_picture)]


def originals() -> list[OriginalReader]:
    """A seek a frame."""
    return [OriginalReader("OpenCV, a seek a frame", open_original)]


def in_order() -> list[OrderReader]:
    """The loop."""
    return [OrderReader("OpenCV", read_in_order)]
