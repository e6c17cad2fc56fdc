"""Pillow: sizes from headers, and the careful resize that others are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image, UnidentifiedImageError

from benchmarks.peers.kinds import Engine, Size, one_by_one
from framefeed.bench import SIZE, BenchVideo
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder

PACKAGES = ("pillow",)
# Once and for all: looking away file by file would cost as much as opening it.
warnings.filterwarnings("ignore", module=r"PIL\.")
_FULL_CHROMA = (
    Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP | Interpolation.ACCURATE_RND
)


def size_of(path: str) -> Size:
    """Stored size of one picture."""
    try:
        with Image.open(path) as image:
            return image.size
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError):
        return None


def resize_frames(video: BenchVideo, ordinals: Sequence[int]) -> Pixels:
    """Resize frames antialiased, from RGB made with full chroma and accurate rounding; uint8 [T, 224, 224, 3]."""
    reformatter = VideoReformatter()
    pictures = {}
    for ordinal, frame in PyAVDecoder(skip=False).iter_native(video.source, video.index, ordinals):
        full = reformatter.reformat(frame, format="rgb24", interpolation=_FULL_CHROMA, threads=1)
        small = Image.fromarray(full.to_ndarray()).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        pictures[ordinal] = np.asarray(small)
    return np.stack([pictures[ordinal] for ordinal in ordinals])


# It reads no more than the header before pixels are asked for.
ENGINES = [Engine("Pillow", one_by_one(size_of), "steady")]
