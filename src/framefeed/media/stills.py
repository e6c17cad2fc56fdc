"""Still pictures, decoded: the border to Pillow. Strict: a picture comes whole, or an error does."""

from __future__ import annotations

from typing import IO, cast

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

from framefeed.errors import CorruptMedia, MediaError, UnsupportedCodec, UsageError
from framefeed.media.headers.picture_file import PILLOW_ERRORS, PictureFile, bomb, pillow_reads
from framefeed.media.headers.pictures import FORMATS
from framefeed.media.headers.turns import orientation_of
from framefeed.media.limits import DEFAULT_LIMITS, Limits
from framefeed.media.sniff import HEAD_BYTES, beyond_pillow
from framefeed.media.source import BytesReader

_TURNS = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
_TILE_SIZE = (322, 323)  # TIFF 6.0 section 15: TileWidth, TileLength


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
        LimitExceeded: It claims more pixels than ``limits``, and nothing was allocated; or its parts go on without end.
        UsageError: Pillow was told to fill what is missing with grey.
    """
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise UsageError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True in this program, so Pillow replaces missing parts of pictures "
            "with grey: set it to False; to skip broken pictures, use on_error='skip'"
        )
    file = PictureFile(BytesReader(data), len(data), name, limits, data)
    with (
        pillow_reads(file, lambda error: _translated(error, data, name)),
        Image.open(cast("IO[bytes]", file), formats=FORMATS) as image,
    ):
        limits.check_picture(*image.size, name)
        if isinstance(image, TiffImageFile):
            # libtiff allocates whole tiles, which may be larger than the picture, and than the limits of a small one.
            wide, high = (int(image.tag_v2.get(tag, 1)) for tag in _TILE_SIZE)
            DEFAULT_LIMITS.check_picture(wide, high, name)
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


def _translated(error: BaseException, data: bytes, name: str) -> MediaError:
    if isinstance(error, Image.DecompressionBombError):
        return bomb(error, name, "decode")
    if isinstance(error, UnidentifiedImageError):
        return _unidentified(data, name)
    reason = str(error) or type(error).__name__
    return CorruptMedia(f"{name}: the picture is damaged or cut short: {reason}", source=name, stage="decode")


def _unidentified(data: bytes, name: str) -> MediaError:
    other = beyond_pillow(data[:HEAD_BYTES])
    if other is None:
        message = f"{name}: is not a picture that Pillow can read here ({', '.join(FORMATS)}), or its header is damaged"
        return CorruptMedia(message, source=name, stage="decode")
    message = f"{name}: is a {other} picture, which framefeed cannot decode: convert it to JPEG, PNG or AVIF"
    return UnsupportedCodec(message, source=name, stage="decode")
