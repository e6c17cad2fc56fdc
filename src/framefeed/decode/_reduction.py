"""Decide by how much a JPEG picture file is reduced while it is decoded, and where a crop lies in a smaller picture.

A JPEG decoder gives pictures of a half, a quarter or an eighth of the height and width for less time, because it makes
fewer pixels of each block of 8 x 8. Decoded at twice the wanted size or more, and resized from there, a picture hardly
differs from one that was decoded at full size (docs/pixels.md has the figures; Pillow's ``reducing_gap=2.0`` is the
same rule).
"""

from __future__ import annotations

from dataclasses import replace

from framefeed.index import FrameIndex, StreamFacts, has_picture_files
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
    if output.filter == "bicubic":  # torch's has no reduced pictures to compare with
        return 1
    if not has_picture_files(index):
        return 1
    output = fit_to_proxy(output, index.stream)
    rows, columns = index.stream.upright if output.crop is None else output.crop[2:]
    least_rows, least_columns = _LEAST_GAP * size[0], _LEAST_GAP * size[1]
    fitting = (each for each in _REDUCTIONS if rows >= each * least_rows and columns >= each * least_columns)
    return next(fitting, 1)


def reduce_crop(output: OutputSpec, reduction: int, stream: StreamFacts) -> OutputSpec:
    """Move the crop of an output to the nearest rows and columns of a reduced picture that is turned upright.

    The last row and column of a reduced picture may stand for less than one pixel, so a whole picture is cropped too.
    They are the last ones as stored, and may be the first ones upright.
    """
    height, width = stream.upright
    top, left, rows, columns = output.crop or (0, 0, height, width)
    from_bottom, from_right = stream.rotation in (90, 180), (stream.rotation in (180, 270)) != stream.mirrored
    top, rows = _reduce_span(top, rows, height, reduction, is_reversed=from_bottom)
    left, columns = _reduce_span(left, columns, width, reduction, is_reversed=from_right)
    box = top, left, rows, columns
    return output if box == output.crop else replace(output, crop=box)


def fit_to_proxy(output: OutputSpec, stream: StreamFacts) -> OutputSpec:
    """Move the crop of an output to the nearest rows and columns of a proxy; the size stays that of the original's.

    A proxy is upright. Of another stream, the output is returned as it is.
    """
    if not stream.is_proxy:
        return output
    shown, small = stream.displayed, stream.upright
    size = output.size or (output.crop[2:] if output.crop else shown)
    if output.crop is None:
        return replace(output, size=size)
    spans = [_scale_span(output.crop[axis], output.crop[axis + 2], shown[axis], small[axis]) for axis in (0, 1)]
    (top, rows), (left, columns) = spans
    return replace(output, size=size, crop=(top, left, rows, columns))


def _scale_span(first: int, count: int, length: int, small: int) -> tuple[int, int]:
    """Scale a span of ``length`` rows or columns to ``small`` ones, at least one."""
    begin, end = ((2 * edge * small + length) // (2 * length) for edge in (first, first + count))  # halves up
    begin = min(begin, small - 1)
    return begin, max(1, end - begin)


def _reduce_span(first: int, count: int, length: int, reduction: int, *, is_reversed: bool) -> tuple[int, int]:
    """Reduce a span of ``length`` rows or columns, which may be stored from the last to the first."""
    if is_reversed:
        first = length - first - count
    begin, end = ((2 * edge + reduction) // (2 * reduction) for edge in (first, first + count))  # halves up
    return (-(-length // reduction) - end if is_reversed else begin), end - begin
