"""Pillow: open lazily, and ask for the size."""

from __future__ import annotations

import warnings
from importlib.metadata import version

from PIL import Image, UnidentifiedImageError

from framefeed.bench._sizing import Engine, Size, in_process

# Once and for all: looking away file by file would cost as much as opening it.
warnings.filterwarnings("ignore", module=r"PIL\.")


def size_of(path: str) -> Size:
    """Stored size of one picture."""
    try:
        with Image.open(path) as image:
            return image.size
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError):
        return None


def versions() -> dict[str, str]:
    """The library."""
    return {"pillow": version("pillow")}


def engines() -> list[Engine]:
    """The one way; Pillow reads no more than the header before pixels are asked for."""
    return [in_process("Pillow", size_of, "steady")]
