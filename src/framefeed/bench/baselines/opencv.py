"""OpenCV: seek to the first frame, grab all, retrieve and resize the wanted ones; its pictures, one file a frame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, FileFormat, Method, ReadFrames
from framefeed.decode import Pixels

# As in "avcodec:   YES (62.28.101)", with more words in some builds.
_CODEC = re.search(r"avcodec:.*?(\d[\d.]*)", cv2.getBuildInformation())
VERSIONS = {"opencv": cv2.__version__, "opencv's avcodec": _CODEC[1] if _CODEC else "none"}


def _open_capture(video: BenchVideo) -> Any:
    return cv2.VideoCapture(str(video.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


def _open_resizing(video: BenchVideo, interpolation: int) -> ReadFrames:
    capture = _open_capture(video)

    def read(ordinals: Sequence[int]) -> Any:
        out = np.empty((len(ordinals), SIZE, SIZE, 3), dtype=np.uint8)
        capture.set(cv2.CAP_PROP_POS_FRAMES, ordinals[0])
        at = ordinals[0]
        for slot, ordinal in enumerate(ordinals):
            while at <= ordinal:
                capture.grab()
                at += 1
            small = cv2.resize(capture.retrieve()[1], (SIZE, SIZE), interpolation=interpolation)
            cv2.cvtColor(small, cv2.COLOR_BGR2RGB, dst=out[slot])
        return out

    return read


def _open_original(video: BenchVideo) -> ReadFrames:
    capture = _open_capture(video)

    def read(ordinals: Sequence[int]) -> Any:
        pictures = []
        for ordinal in ordinals:
            capture.set(cv2.CAP_PROP_POS_FRAMES, ordinal)
            pictures.append(cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB))
        return np.stack(pictures)

    return read


def read_in_order(path: str) -> Iterator[Pixels]:
    """Read a video as most loops do: one frame after the other, its threads as they are by default."""
    return (cv2.cvtColor(picture, cv2.COLOR_BGR2RGB) for picture in read_bgr(path))


def read_bgr(path: str) -> Iterator[Pixels]:
    """Read a video in order, in OpenCV's own order of channels."""
    capture = cv2.VideoCapture(path)
    try:
        while True:
            came, picture = capture.read()
            if not came:
                return
            yield picture
    finally:
        capture.release()


def write_picture(path: str, rgb: Pixels, options: Sequence[int] = ()) -> None:
    """Write a frame; OpenCV's order of channels is blue, green, red."""
    cv2.imwrite(path, cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), options)


def read_picture(path: str) -> Pixels:
    """Read a frame, and turn its channels round; uint8 [H, W, 3]."""
    rgb: Pixels = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    return rgb


cv2.setNumThreads(1)
# The loop that most write, with the resize that most take, which aliases, and with the one that does not.
METHODS = [
    Method("opencv linear", "NHWC", partial(_open_resizing, interpolation=cv2.INTER_LINEAR)),
    Method("opencv area", "NHWC", partial(_open_resizing, interpolation=cv2.INTER_AREA)),
]
ORIGINALS = [Method("OpenCV, a seek a frame", "NHWC", _open_original)]
IN_ORDER = [("OpenCV", read_in_order)]
FORMATS = [
    *(
        FileFormat(f"JPEG q{quality} (OpenCV)", ".jpg", False,
                   partial(write_picture, options=(cv2.IMWRITE_JPEG_QUALITY, quality)), read_picture)
        for quality in (70, 80, 90, 95, 100)
    ),
    FileFormat("PNG (OpenCV)", ".png", True, write_picture, read_picture),
]  # fmt: skip
