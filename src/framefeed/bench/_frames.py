"""Our own method to get the frames of a clip, and whether the frames of others are the ones that were asked for.

Frames are compared by content, whatever a contender's resize does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Method
from framefeed.decode import ClipSlot, Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.request import OutputSpec

FloatArray = npt.NDArray[np.float32]

OURS = "framefeed"
NUM_FRAMES = 16
"""Of a clip."""
SEED = 20260101
OUTPUT = OutputSpec(size=(SIZE, SIZE))
_DECODER = PyAVDecoder()
# Through the container and with nothing left out: the reference of the equality check.
_PLAIN = PyAVDecoder(skip=False, direct=False)


def decode_clip(video: BenchVideo, ordinals: Sequence[int], decoder: PyAVDecoder = _DECODER) -> Pixels:
    """Decode the frames of a clip; uint8 [T, 3, 224, 224]."""
    out = np.empty((len(ordinals), 3, SIZE, SIZE), dtype=np.uint8)
    slot = ClipSlot(np.array(ordinals, dtype=np.int64), OUTPUT, out)
    decoder.decode(video.source, video.index, [slot]).raise_first()
    return out


# Contexts stay in the pool, whatever file comes next.
OUR_METHOD = Method(OURS, "NCHW", lambda video: partial(decode_clip, video), prepare=lambda video: video.index)

NEIGHBOURS = (-3, -2, -1, 1, 2, 3)
_CELL = 4
"""Side in pixels of the squares whose mean brightness is compared: coarser than any difference of resizing."""
MEAN_TOLERANCE = 6.0
"""Largest mean difference in brightness, of 255: colour matrices and ranges that a peer ignores stay below it."""
PEAK_TOLERANCE = 60.0
"""Largest difference of one square: a figure of a number that differs is above it."""
_TIE = 0.2
"""Neighbours that look the same are not told apart."""


def brightness(pictures: npt.NDArray[np.uint8], layout: Literal["NCHW", "NHWC"]) -> FloatArray:
    """Mean brightness of squares of 4 pixels, float32 [T, H / 4, W / 4]."""
    channels_last = pictures.transpose(0, 2, 3, 1) if layout == "NCHW" else pictures
    luma = channels_last.astype(np.float32) @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    count, height, width = luma.shape
    cells: FloatArray = luma.reshape(count, height // _CELL, _CELL, width // _CELL, _CELL).mean((2, 4))
    return cells


class Reference:
    """The requested frames of a clip and their neighbours, decoded with nothing left out."""

    def __init__(self, video: BenchVideo, ordinals: Sequence[int]) -> None:
        self.video = video
        self.ordinals = list(ordinals)
        needed = sorted({self._near(ordinal, step) for ordinal in ordinals for step in (0, *NEIGHBOURS)})
        pictures = brightness(decode_clip(video, needed, _PLAIN), "NCHW")
        self._of = dict(zip(needed, pictures, strict=True))

    def _near(self, ordinal: int, step: int) -> int:
        return min(max(ordinal + step, 0), len(self.video) - 1)

    def share_matching(self, delivered: npt.NDArray[np.uint8], layout: Literal["NCHW", "NHWC"]) -> float:
        """Share of the requested frames that came: like the reference, and not more like a neighbour of it."""
        if len(delivered) != len(self.ordinals):
            return 0.0
        came = brightness(delivered, layout)
        hits = [self._is_right(picture, ordinal) for picture, ordinal in zip(came, self.ordinals, strict=True)]
        return float(np.mean(hits))

    def _is_right(self, picture: FloatArray, ordinal: int) -> bool:
        difference = np.abs(picture - self._of[ordinal])
        if difference.mean() > MEAN_TOLERANCE or difference.max() > PEAK_TOLERANCE:
            return False
        others = [_unlikeness(picture, self._of[self._near(ordinal, step)]) for step in NEIGHBOURS]
        return _unlikeness(picture, self._of[ordinal]) <= min(others) + _TIE


def _unlikeness(picture: FloatArray, reference: FloatArray) -> float:
    """What of a picture a reference does not explain, in levels (root mean square).

    A gain and a shift of brightness are no evidence: other colour recipes have them, and so have fades.
    """
    came, expected = picture - picture.mean(), reference - reference.mean()
    power = float((expected * expected).sum())
    gain = float((came * expected).sum()) / power if power else 0.0
    return float(np.sqrt(((came - gain * expected) ** 2).mean()))


def spread_ordinals(num_frames: int, count: int) -> list[int]:
    """Frames from the middle of equal parts of a video."""
    return [(2 * part + 1) * num_frames // (2 * count) for part in range(min(count, num_frames))]


def psnr(pictures: Pixels, reference: Pixels) -> float:
    """Peak signal-to-noise ratio in dB of 8-bit pictures; infinite where they are equal."""
    error = float(np.mean((pictures.astype(np.float64) - reference) ** 2))
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))
