"""WebP without loss, one file a frame, by Pillow."""

from __future__ import annotations

import numpy as np
from PIL import Image, __version__, features

from framefeed.bench._cache_formats import FileFormat
from framefeed.bench._cache_samples import BenchFrame
from framefeed.decode import Pixels

if not features.check("webp"):
    raise ImportError("this Pillow is built without WebP")


def write_webp(path: str, frame: BenchFrame) -> None:
    """Write a frame, with the least effort: more of it takes seconds a frame."""
    Image.fromarray(frame.rgb).save(path, "WEBP", lossless=True, method=0, quality=0)


def read_webp(path: str) -> Pixels:
    """Read a frame."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


def versions() -> dict[str, str]:
    """Pillow, and the library in it."""
    return {"pillow": __version__, "libwebp": str(features.version("webp"))}


def formats() -> list[FileFormat]:
    """The one."""
    return [FileFormat("WebP lossless, least effort (Pillow)", ".webp", True, write_webp, read_webp)]
