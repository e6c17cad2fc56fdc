"""Still pictures, decoded: the border to Pillow. Strict: a picture comes whole, or an error does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from framefeed.errors import CorruptMedia, LimitExceeded, MediaError, UnsupportedCodec, UsageError
from framefeed.media.headers.pictures import FORMATS, PILLOW_ERRORS, orientation_of
from framefeed.media.limits import Limits
from framefeed.media.quiet import QUIET
from framefeed.media.sniff import HEAD_BYTES, beyond_pillow

_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


def decode_still(data: bytes, name: str, limits: Limits) -> Image.Image:
    """Decode a picture, and turn it upright as EXIF asks for; of an animation, the first.

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
    with QUIET, _translated(data, name), Image.open(io.BytesIO(data), formats=FORMATS) as image:
        limits.check_picture(*image.size, name)
        image.load()
        # Only now is the tag right: reading a TIFF turns it, and takes the tag away.
        return _upright(image)


def _upright(image: Image.Image) -> Image.Image:
    try:
        rotation, mirrored = orientation_of(int(image.getexif().get(ExifTags.Base.Orientation, 1)))
    except PILLOW_ERRORS:
        return image  # a broken tag turns nothing
    turned = image.transpose(_TURNS[rotation]) if rotation else image
    return turned.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else turned


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
    except PILLOW_ERRORS as error:
        reason = str(error) or type(error).__name__
        message = f"{name}: the picture is damaged or cut short: {reason}"
        raise CorruptMedia(message, source=name, stage="decode") from error


def _unidentified(data: bytes, name: str) -> MediaError:
    other = beyond_pillow(data[:HEAD_BYTES])
    if other is None:
        message = f"{name}: is no picture that Pillow reads here ({', '.join(FORMATS)}), or its header is damaged"
        return CorruptMedia(message, source=name, stage="decode")
    message = f"{name}: is a {other} picture, which is not decoded: convert it to JPEG, PNG or AVIF"
    return UnsupportedCodec(message, source=name, stage="decode")
