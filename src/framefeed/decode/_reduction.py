"""Decide by how much a JPEG picture file is reduced while it is decoded, and where a crop lies in the reduced picture.

A JPEG decoder gives pictures of a half, a quarter or an eighth of the height and width for less time, because it makes
fewer pixels of each block of 8 x 8. Decoded at twice the wanted size or more, and resized from there, a picture hardly
differs from one that was decoded at full size (docs/pixels.md has the figures; Pillow's ``reducing_gap=2.0`` is the
same rule).
"""

from __future__ import annotations

from dataclasses import replace

from framefeed.index import FrameIndex, has_picture_files
from framefeed.request import OutputSpec

# libjpeg-turbo decodes M/8 of the size for every M; only 1/2 and 1/4 have SIMD code, and 1/8 needs none.
_REDUCTIONS = (8, 4, 2)
SCALE_MARK = ", JPEG at 1/"
"""Before the divisor, in the recipe of reduced pictures."""
_LEAST_GAP = 2
"""Decoded size over wanted size, at least."""


def find_reduction(index: FrameIndex, output: OutputSpec) -> int:
    """Find the divisor of height and width for one output: 8, 4 or 2, or 1 for full size.

    It depends on the index and the output alone, so that a picture has the same pixels on every way to them.
    """
    size = output.size
    if output.still_quality != "scaled" or size is None or index.stream.codec != "mjpeg":
        return 1
    if not has_picture_files(index):
        return 1
    rows, columns = index.stream.displayed if output.crop is None else output.crop[2:]
    least_rows, least_columns = _LEAST_GAP * size[0], _LEAST_GAP * size[1]
    fitting = (each for each in _REDUCTIONS if rows >= each * least_rows and columns >= each * least_columns)
    return next(fitting, 1)


def reduce_size(height: int, width: int, reduction: int) -> tuple[int, int]:
    """Compute the (height, width) of a reduced picture, as libjpeg rounds them: up."""
    return -(-height // reduction), -(-width // reduction)


def reduce_crop(output: OutputSpec, reduction: int, height: int, width: int) -> OutputSpec:
    """Move the crop of an output to the nearest rows and columns of a picture of height x width that is reduced.

    The last row and column of a reduced picture may stand for less than one pixel, so a whole picture is cropped too.
    """
    top, left, rows, columns = output.crop or (0, 0, height, width)
    first_row, first_column = _divide(top, reduction), _divide(left, reduction)
    last_row, last_column = _divide(top + rows, reduction), _divide(left + columns, reduction)
    box = first_row, first_column, last_row - first_row, last_column - first_column
    return output if box == output.crop else replace(output, crop=box)


def _divide(number: int, divisor: int) -> int:
    """Divide, and round to the nearest integer, halves up."""
    return (2 * number + divisor) // (2 * divisor)
