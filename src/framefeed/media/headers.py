"""What the headers of a still picture claim."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from PIL import ExifTags, Image, UnidentifiedImageError

from framefeed.errors import LimitExceeded, UnreadableMedia
from framefeed.media.info import MediaInfo
from framefeed.media.limits import Limits
from framefeed.media.source import MediaSource

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
"""Pillow's plug-ins that may look at a file; none of them starts another program (S10)."""

# EXIF 2.32 table 6: how the stored picture is turned counter-clockwise, then mirrored left to right, for display.
_ORIENTATIONS = {
    1: (0, False),
    2: (0, True),
    3: (180, False),
    4: (180, True),
    5: (270, True),
    6: (270, False),
    7: (90, True),
    8: (90, False),
}


class OddHeader(ValueError):
    """A header that is left to a library."""


class StillHeader(NamedTuple):
    """Facts of a still picture."""

    container: str
    codec: str
    width: int
    height: int
    mode: str
    bit_depth: int
    orientation: int
    num_frames: int
    is_animated: bool


def still_header(head: bytes, more: Callable[[int, int], bytes]) -> StillHeader:
    """Read facts from the first bytes; everything is left to a library for now."""
    raise OddHeader("left to a library")


def orientation_of(value: int) -> tuple[int, bool]:
    """Rotation and mirroring of an EXIF orientation."""
    return _ORIENTATIONS.get(value, (0, False))


def image_info(source: MediaSource, limits: Limits) -> MediaInfo:
    """Describe a still picture from its headers; not a pixel is decoded.

    Raises:
        UnreadableMedia: None of the known formats, or a damaged header.
        LimitExceeded: It claims more pixels than ``limits``.
    """
    with _translated(source.name), _opened(source) as image:
        width, height = image.size
        limits.check_picture(width, height, source.name)
        orientation = int(image.getexif().get(ExifTags.Base.Orientation, 1) or 1)
        rotation, mirrored = _ORIENTATIONS.get(orientation, (0, False))
        turned = rotation in (90, 270)
        name = str(image.format).lower()
        return MediaInfo(
            kind="image",
            container=name,
            codec="mjpeg" if name in ("jpeg", "mpo") else name,
            width=height if turned else width,
            height=width if turned else height,
            coded_width=width,
            coded_height=height,
            rotation=rotation,
            mirrored=mirrored,
            pixel_format=image.mode,
            num_frames_from_header=int(getattr(image, "n_frames", 1)) if name == "gif" else 1,
            duration_seconds_from_header=None,
            average_fps_from_header=None,
            bytes=source.stat().bytes,
        )


@contextmanager
def _opened(source: MediaSource) -> Iterator[Image.Image]:
    if source.kind == "path":
        with open(source.path, "rb") as file, Image.open(file, formats=FORMATS) as image:
            yield image
    else:
        data = source.data if source.file is None else _whole(source)
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            yield image


def _whole(source: MediaSource) -> bytes:
    return source.head(source.stat().bytes)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large or odd pictures: our limits decide.
            yield
    except Image.DecompressionBombError as error:
        raise LimitExceeded(f"{name}: {error}", source=name, stage="open") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise UnreadableMedia(f"{name}: damaged picture header: {error}", source=name, stage="open") from error
