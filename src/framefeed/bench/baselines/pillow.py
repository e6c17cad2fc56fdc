"""The reference of resizing: Pillow's antialiased bilinear, on RGB made with full chroma and accurate rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image

from framefeed.bench._media import BenchVideo
from framefeed.bench._peer import SIZE
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder

_FULL_CHROMA = (
    Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP | Interpolation.ACCURATE_RND
)


def resized_by_pillow(video: BenchVideo, ordinals: Sequence[int]) -> Pixels:
    """Resize frames as carefully as is usual; uint8 [T, 224, 224, 3] by rising ordinal.

    Args:
        video: Where from.
        ordinals: Rising, each once.
    """
    reformatter = VideoReformatter()
    pictures = {}
    for ordinal, frame in PyAVDecoder(skip=False).iter_native(video.source, video.index, ordinals):
        full = reformatter.reformat(frame, format="rgb24", interpolation=_FULL_CHROMA, threads=1)
        small = Image.fromarray(full.to_ndarray()).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        pictures[ordinal] = np.asarray(small)
    return np.stack([pictures[ordinal] for ordinal in ordinals])
