"""OpenCV: seek to the first frame, grab all, retrieve and resize the wanted ones; its pictures, one file a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np

from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import SIZE, BenchFrame, FileFormat, Method, OrderReader, OriginalReader
from framefeed.decode import Pixels

QUALITIES = (70, 80, 90, 95, 100)


def _open_capture(video: BenchVideo) -> Any:
    return cv2.VideoCapture(str(video.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])


class _Session:
    def __init__(self, video: BenchVideo, interpolation: int) -> None:
        self._interpolation = interpolation
        self._capture = _open_capture(video)

    def clip(self, ordinals: Sequence[int]) -> Any:
        out = np.empty((len(ordinals), SIZE, SIZE, 3), dtype=np.uint8)
        self._capture.set(cv2.CAP_PROP_POS_FRAMES, ordinals[0])
        at = ordinals[0]
        for slot, ordinal in enumerate(ordinals):
            while at <= ordinal:
                self._capture.grab()
                at += 1
            small = cv2.resize(self._capture.retrieve()[1], (SIZE, SIZE), interpolation=self._interpolation)
            cv2.cvtColor(small, cv2.COLOR_BGR2RGB, dst=out[slot])
        return out

    def close(self) -> None:
        self._capture.release()


def versions() -> dict[str, str]:
    """The library, and the codec libraries under it, by name."""
    build = cv2.getBuildInformation()
    codec = next((line.split()[-2] for line in build.splitlines() if "avcodec:" in line), "")
    return {"opencv": cv2.__version__, "opencv's avcodec": codec.strip("()")}


def methods() -> list[Method]:
    """The loop that most write, with the resize that most take, which aliases, and with the one that does not."""
    cv2.setNumThreads(1)
    return [
        Method("opencv linear", "NHWC", partial(_Session, interpolation=cv2.INTER_LINEAR)),
        Method("opencv area", "NHWC", partial(_Session, interpolation=cv2.INTER_AREA)),
    ]


def write_picture(path: str, frame: BenchFrame, options: Sequence[int] = ()) -> None:
    """Write a frame; OpenCV's order of channels is blue, green, red."""
    cv2.imwrite(path, cv2.cvtColor(frame.rgb, cv2.COLOR_RGB2BGR), options)


def read_picture(path: str) -> Pixels:
    """Read a frame, and turn its channels round; uint8 [H, W, 3]."""
    rgb: Pixels = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    return rgb


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video to seek to one frame after the other."""
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
    capture = cv2.VideoCapture(path)
    try:
        while True:
            came, picture = capture.read()
            if not came:
                return
            yield cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
    finally:
        capture.release()


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
    cv2.setNumThreads(1)
    return [OriginalReader("OpenCV, a seek a frame", open_original)]


def in_order() -> list[OrderReader]:
    """The loop."""
    return [OrderReader("OpenCV", read_in_order)]
