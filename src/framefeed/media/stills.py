"""Still pictures, decoded: the border to Pillow. Strict: a picture comes whole, or an error does."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from framefeed.errors import CorruptMedia, LimitExceeded, MediaError, UnsupportedCodec, UsageError
from framefeed.media.limits import Limits

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
"""Pillow's plug-ins that may look at a file; none of them starts another program (S10)."""

DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error)
"""What Pillow raises for damaged pictures, found by damaging some of every format."""

_TURNS = {
    2: (0, True),
    3: (180, False),
    4: (180, True),
    5: (270, True),
    6: (270, False),
    7: (90, True),
    8: (90, False),
}
_OTHERS = {b"heic": "HEIC", b"heix": "HEIC", b"heim": "HEIC", b"heis": "HEIC", b"mif1": "HEIF", b"msf1": "HEIF"}


@dataclass(frozen=True, slots=True)
class Still:
    """A decoded picture.

    Attributes:
        image: As stored, whole.
        rotation: Degrees counter-clockwise to turn it: 0, 90, 180 or 270.
        mirrored: Flip left and right, after that.
    """

    image: Image.Image
    rotation: int
    mirrored: bool

    @property
    def displayed(self) -> tuple[int, int]:
        """(height, width) as displayed."""
        width, height = self.image.size
        return (width, height) if self.rotation in (90, 270) else (height, width)


def decode_still(data: bytes, name: str, limits: Limits) -> Still:
    """Decode a picture; of an animation, the first.

    Damage that the format's own library corrects in silence, as libjpeg does with flipped bits, is not seen.

    Args:
        data: The whole file.
        name: For messages.
        limits: What it may claim.

    Raises:
        CorruptMedia: It is damaged or cut short.
        UnsupportedCodec: A format that Pillow does not read here.
        LimitExceeded: It claims more pixels than ``limits``; nothing was allocated.
        UsageError: Pillow was told to fill what is missing with grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UsageError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set somewhere in this program: Pillow then fills what is missing "
            "of a picture with grey, for everyone; set it to False, and skip broken pictures with on_error='skip'"
        )
    with _translated(data, name), Image.open(io.BytesIO(data), formats=FORMATS) as image:
        limits.check_picture(*image.size, name)
        image.load()
        # Only now: reading a TIFF turns it, and takes the tag away.
        return Still(image, *_turn(image))


def _turn(image: Image.Image) -> tuple[int, bool]:
    """What EXIF 2.32 table 6 asks for, as (degrees counter-clockwise, mirrored after that); a broken tag is none."""
    try:
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1), (0, False))
    except DAMAGE:
        return 0, False


@contextmanager
def _translated(data: bytes, name: str) -> Iterator[None]:
    try:
        yield
    except MediaError:
        raise
    except Image.DecompressionBombError as error:
        raise LimitExceeded(f"{name}: {error}", source=name, stage="decode") from error
    except UnidentifiedImageError as error:
        raise _unidentified(data, name) from error
    except DAMAGE as error:
        reason = str(error) or type(error).__name__
        message = f"{name}: the picture is damaged or cut short: {reason}"
        raise CorruptMedia(message, source=name, stage="decode") from error


def _unidentified(data: bytes, name: str) -> MediaError:
    other = _OTHERS.get(data[8:12]) if data[4:8] == b"ftyp" else None
    if data.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")):
        other = "JPEG XL"
    if other is None:
        message = f"{name}: is no picture that Pillow reads here ({', '.join(FORMATS)}), or its header is damaged"
        return CorruptMedia(message, source=name, stage="decode")
    message = f"{name}: is {other}, which is not decoded: convert it to one of {', '.join(FORMATS)}"
    return UnsupportedCodec(message, source=name, stage="decode")
