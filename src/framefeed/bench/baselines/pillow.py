"""Pillow: WebP without loss."""

from __future__ import annotations

import numpy as np
from PIL import Image, features

from framefeed.bench.baselines import FileFormat
from framefeed.decode import Pixels

PACKAGES = ("pillow",)
VERSIONS = {"libwebp": str(features.version("webp"))}


def write_webp(path: str, rgb: Pixels) -> None:
    """Write a frame, with the least effort: more of it takes seconds a frame."""
    Image.fromarray(rgb).save(path, "WEBP", lossless=True, method=0, quality=0)


def read_webp(path: str) -> Pixels:
    """Read a frame."""
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


# A Pillow that is built without WebP fails as it writes.
FORMATS = [FileFormat("WebP lossless, least effort (Pillow)", ".webp", True, write_webp, read_webp)]
