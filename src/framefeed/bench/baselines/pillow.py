"""Pillow: sizes from headers, WebP without loss, and the careful resize that others are compared with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image, UnidentifiedImageError, features

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Engine, FileFormat, Size, one_by_one
from framefeed.decode import Pixels
from framefeed.decode.backends.pyav import PyAVDecoder

PACKAGES = ("pillow",)
VERSIONS = {"libwebp": str(features.version("webp"))}
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


def write_webp(path: str, rgb: Pixels) -> None:
    """Write a frame, with the least effort: more of it takes seconds a frame."""
    Image.fromarray(rgb).save(path, "WEBP", lossless=True, method=0, quality=0)


def read_webp(path: str) -> Pixels:
    """Read a frame."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


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
# A Pillow that is built without WebP fails as it writes.
FORMATS = [FileFormat("WebP lossless, least effort (Pillow)", ".webp", True, write_webp, read_webp)]
