"""OpenCV: seek to the first frame, grab all, retrieve and resize the wanted ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np

from framefeed.bench._media import BenchVideo
from framefeed.bench._peer import SIZE, Method


class _Session:
    def __init__(self, video: BenchVideo, interpolation: int) -> None:
        self._interpolation = interpolation
        self._capture = cv2.VideoCapture(str(video.path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])

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
