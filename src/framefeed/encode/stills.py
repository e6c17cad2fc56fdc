"""Stills: one RGB picture as a PNG or JPEG file, whole or not at all."""

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
    """Name of the file of one frame: ``frame_000037_1.480000000s.png``; without a time for a stream that has none."""
    time = f"_{pts_seconds:.9f}s" if math.isfinite(pts_seconds) else ""
    return f"frame_{ordinal:06d}{time}{suffix}"


def encode_still(picture: Pixels, form: StillFormat = "PNG", quality: int = JPEG_QUALITY) -> bytes:
    """Encode one picture.

    Args:
        picture: RGB, uint8 [H, W, 3].
        form: "PNG", which loses nothing, or "JPEG", without chroma subsampling.
        quality: Of a JPEG, 1 to 100.

    Raises:
        UsageError: It is no picture.
    """
    image = as_image(picture)
    buffer = io.BytesIO()
    if form == "JPEG":
        image.save(buffer, form, quality=quality, subsampling=0)
    else:
        image.save(buffer, form)
    return buffer.getvalue()


def save_still(path: str | os.PathLike[str], picture: Pixels, quality: int = JPEG_QUALITY) -> int:
    """Write one picture; its name's ending says how. A crash leaves what was there before, or all of the new.

    Args:
        path: Ends in ``.png``, ``.jpg`` or ``.jpeg``.
        picture: RGB, uint8 [H, W, 3].
        quality: Of a JPEG, 1 to 100.

    Returns:
        The size of the file in bytes.

    Raises:
        UsageError: An ending of another format, no picture, or the file cannot be written.
    """
    name = os.fsdecode(path)
    form = still_format(name)
    data = encode_still(picture, form, quality)
    if (kind := kind_at(name)) is not None:
        raise UsageError(f"cannot write {name}: {kind} stands there; choose another name")
    with writing(name):
        _replace(name, data)
    return len(data)


def still_format(path: str) -> StillFormat:
    """The format that a name's ending means.

    Raises:
        UsageError: None that is known.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        raise UsageError(f"{path}: the name of a picture ends in {', '.join(_FORMATS)}")
    return _FORMATS[suffix]


def as_image(picture: Pixels) -> Image.Image:
    """Check a picture, and view it as Pillow's."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise UsageError(f"a picture is uint8 [H, W, 3], not {picture.dtype} {list(picture.shape)}")
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
