"""Write one RGB picture as a PNG or JPEG file; a file is written completely or not at all."""

from __future__ import annotations

import io
import math
import os
import secrets
from contextlib import suppress
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from framefeed.errors import UsageError
from framefeed.index.targets import writing
from framefeed.media.regular_files import kind_at

Pixels = npt.NDArray[np.uint8]
StillFormat = Literal["PNG", "JPEG"]

_FORMATS: dict[str, StillFormat] = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
JPEG_QUALITY = 95
"""The highest that Pillow's documentation advises: above it, files grow and pictures hardly gain."""


def still_name(ordinal: int, pts_seconds: float, suffix: str = ".png") -> str:
    """Give the file name of one frame: ``frame_000037_1.480000000s.png``, or without a time if the stream has none."""
    time = f"_{pts_seconds:.9f}s" if math.isfinite(pts_seconds) else ""
    return f"frame_{ordinal:06d}{time}{suffix}"


def encode_still(picture: Pixels, form: StillFormat = "PNG", quality: int = JPEG_QUALITY) -> bytes:
    """Encode one picture.

    Args:
        picture: RGB, uint8 [H, W, 3].
        form: "PNG", which is lossless, or "JPEG", without chroma subsampling.
        quality: Quality of a JPEG, 1 to 100.

    Raises:
        UsageError: ``picture`` is not uint8 [H, W, 3].
    """
    image = as_image(picture)
    buffer = io.BytesIO()
    if form == "JPEG":
        image.save(buffer, form, quality=quality, subsampling=0)
    else:
        image.save(buffer, form)
    return buffer.getvalue()


def save_still(path: str | os.PathLike[str], picture: Pixels, quality: int = JPEG_QUALITY) -> int:
    """Write one picture in the format of the path's ending. After a crash, the file is the old or the new one.

    Args:
        path: File name that ends in ``.png``, ``.jpg`` or ``.jpeg``.
        picture: RGB, uint8 [H, W, 3].
        quality: Quality of a JPEG, 1 to 100.

    Returns:
        The size of the file in bytes.

    Raises:
        UsageError: The ending is another one, ``picture`` is not uint8 [H, W, 3], or the file cannot be written.
    """
    name = os.fsdecode(path)
    form = still_format(name)
    data = encode_still(picture, form, quality)
    if (kind := kind_at(name)) is not None:
        raise UsageError(f"cannot write {name}: {kind} is already there; choose another name")
    with writing(name):
        _replace(name, data)
    return len(data)


def still_format(path: str) -> StillFormat:
    """Give the format that belongs to the ending of a file name.

    Raises:
        UsageError: The ending is not that of a PNG or JPEG file.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        raise UsageError(
            f"{path}: expected a file name that ends in {', '.join(_FORMATS)}, got {suffix or 'no ending'}"
        )
    return _FORMATS[suffix]


def as_image(picture: Pixels) -> Image.Image:
    """Check a picture, and make a Pillow image of it."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise UsageError(f"picture: expected uint8 [H, W, 3], got {picture.dtype} {list(picture.shape)}")
    return Image.fromarray(picture)


def _replace(name: str, data: bytes) -> None:
    # A name of its own, not made from the target's, which may be as long as a name can be.
    scratch = os.path.join(os.path.dirname(name), f".framefeed-{secrets.token_hex(8)}.tmp")
    try:
        with open(scratch, "xb") as file:
            file.write(data)
        os.replace(scratch, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
