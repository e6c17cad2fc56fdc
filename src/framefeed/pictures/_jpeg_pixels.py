"""Decode JPEGs by simplejpeg (libjpeg-turbo), also at a half, a quarter or an eighth of their size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import simplejpeg  # type: ignore[import-untyped]

from framefeed._values import Limits
from framefeed.pictures._exif import convert_exif_orientation
from framefeed.pictures._reads import PICTURE_HEAD_BYTES, CountedReads, OddHeader
from framefeed.pictures._still import read_still_header

JPEG_LIBRARY = f"simplejpeg {simplejpeg.__version__}"
_PADDING_BYTES = 64
"""Behind the pixels: swscale reads whole registers, also at the end of the last row."""
_DECODED_MODES = frozenset({"L", "RGB"})
"""Pillow's formulas for CMYK and YCCK differ from simplejpeg's by up to 2 of 255."""


def decode_jpeg(data: bytes, name: str, limits: Limits, reduction: int = 1) -> npt.NDArray[np.uint8] | None:
    """Decode a plain JPEG, and turn it upright by its EXIF orientation.

    At full size the pixels are those of Pillow, which uses the same library; reduced ones are those of its ``draft``.

    ``reduction``: 1, 2, 4 or 8: height and width are divided by it, and rounded up.

    Returns:
        RGB, uint8 [H, W, 3], C-contiguous. None for all that Pillow must decode: other formats, CMYK, rare headers, and
        what libjpeg warns of. Of that, Pillow's rules say whether there is a picture, and `find_damage` whether it is
        damaged.

    Raises:
        LimitExceeded: It claims more pixels than ``limits``, and nothing was allocated.
    """
    if not data.startswith(b"\xff\xd8"):
        return None
    more = CountedReads(_read_part, data, limits.max_header_bytes)
    try:
        header = read_still_header(data[:PICTURE_HEAD_BYTES], more, len(data))
    except OddHeader:
        return None
    if header.mode not in _DECODED_MODES:
        return None
    limits.check_picture(header.width, header.height, name)
    shape = *reduce_size(header.height, header.width, reduction), 3
    # The memory is of the size that the header claims: simplejpeg fails if it understands a larger one. Memory for the
    # whole of a reduced picture is not touched, and safe if TurboJPEG should not reduce it, as with lossless ones.
    memory = np.empty(3 * header.width * header.height + _PADDING_BYTES, np.uint8)
    # It takes the smallest picture of at least this size; 0 is full size.
    least = shape[:2] if reduction > 1 else (0, 0)
    try:
        pixels: npt.NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, "RGB", min_height=least[0], min_width=least[1], buffer=memory
        )
    except ValueError:
        return None
    return _turn_upright(pixels, header.orientation) if pixels.shape == shape else None


def _read_part(data: bytes, count: int, offset: int) -> bytes:
    return data[offset : offset + count]


def reduce_size(height: int, width: int, reduction: int) -> tuple[int, int]:
    """Compute the (height, width) of a reduced JPEG, as libjpeg rounds them: up."""
    return -(-height // reduction), -(-width // reduction)


def _turn_upright(pixels: npt.NDArray[np.uint8], orientation: int) -> npt.NDArray[np.uint8]:
    rotation, mirrored = convert_exif_orientation(orientation)
    if not rotation and not mirrored:
        return pixels
    # NumPy copies values of 3 bytes in half the time of 3 values, and Pillow takes longer than either.
    turned = np.rot90(pixels.view("V3")[:, :, 0], rotation // 90)
    turned = (turned[:, ::-1] if mirrored else turned).copy()
    return turned.view(np.uint8).reshape(*turned.shape, 3)
