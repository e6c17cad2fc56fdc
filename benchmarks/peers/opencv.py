"""OpenCV with all its threads, which `framefeed.bench.baselines.opencv` limits to one where it is imported."""

from __future__ import annotations

from collections.abc import Iterator

import cv2

from framefeed.decode import Pixels


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


def use_all_threads() -> None:
    """Let OpenCV use as many threads as it does by default, as loops of their own have it."""
    cv2.setNumThreads(-1)
