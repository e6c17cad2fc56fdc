"""Sizes that depend on the shape of each picture: one side, a resize and a crop in one, or a border around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, sqrt
from typing import Any, TypeVar

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._checks import check_integer, expected, is_number, refuse_names
from framefeed.errors import UsageError
from framefeed.request._request import MOST_SIDE, Box, OutputSpec, Placement

Size = tuple[int, int]
T = TypeVar("T")


def refuse_torchvisions(example: str) -> Callable[[type[T]], type[T]]:
    """Make a decorator of a class: arguments of torchvision's transforms raise an error that says what to write."""
    names = {
        **dict.fromkeys(("size", "max_size"), f"write {example}"),
        **dict.fromkeys(("interpolation", "antialias"), "leave it out: each resize is bilinear and antialiased"),
        **dict.fromkeys(
            ("padding", "pad_if_needed", "padding_mode"), "only size=ff.Letterbox(224) of plan_clips makes a border"
        ),
    }

    def decorate(kind: type[T]) -> type[T]:
        kind.__init__ = refuse_names(kind.__name__, names)(kind.__init__)  # type: ignore[method-assign]
        return kind

    return decorate


@refuse_torchvisions("ResizeCrop(256, 224), the resize and then the crop")
@dataclass(frozen=True)
class ResizeCrop:
    """A resize and the middle of its result, as torchvision's Resize and CenterCrop, in one step from the source.

    Pixels outside of the middle are not resized. The box in the source is rounded to whole pixels, so that the picture
    may lie up to half a pixel of the source beside that of two steps. A picture that is smaller than the crop after its
    resize is an error, not padded.

    Example: ``ResizeCrop(256, 224)``

    Attributes:
        resize: The short side after the resize, the long one being int(resize * long / short); or (height, width).
        crop: (height, width) of the delivered picture, or an integer for both; kept as a tuple.
    """

    resize: int | Size
    crop: int | Size

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            object.__setattr__(self, name, _check_size(name, getattr(self, name)))
        if isinstance(self.crop, int):
            object.__setattr__(self, "crop", (self.crop, self.crop))
        resize, (rows, columns) = self.resize, self.common
        # With an integer, the long side is as long as a picture has it.
        is_possible = min(rows, columns) <= resize if isinstance(resize, int) else _holds(resize, (rows, columns))
        if not is_possible:
            raise UsageError(
                f"ResizeCrop: expected a crop that fits into the resized picture, got {rows} x {columns} (height x "
                f"width) of a picture resized to {resize}: give a larger resize, or a smaller crop"
            )

    @property
    def common(self) -> Size:
        """(height, width) of every delivered picture."""
        assert isinstance(self.crop, tuple)  # by __post_init__
        return self.crop

    def fit(self, height: int, width: int) -> tuple[Size, Box]:
        """Choose the size, and the box in the source whose resize is the middle of the resized picture."""
        resize, (rows, columns) = self.resize, self.common
        resized = scale_short_side(resize, height, width) if isinstance(resize, int) else resize
        if not _holds(resized, (rows, columns)):
            raise UsageError(
                f"size: a picture of {height} x {width} (height x width) is {resized[0]} x {resized[1]} when resized "
                f"to {resize}, and so smaller than the crop of {rows} x {columns}; nothing is padded: resize to at "
                f"least {self._find_least(height, width)}, crop less, or leave out such sources with catalog.filter()"
            )
        # As torchvision.transforms.functional.center_crop rounds: halves to even.
        top, left = round((resized[0] - rows) / 2), round((resized[1] - columns) / 2)
        top, bottom = (_round_ratio(edge * height, resized[0]) for edge in (top, top + rows))
        left, right = (_round_ratio(edge * width, resized[1]) for edge in (left, left + columns))
        # At least a pixel: a crop may be less than one of the source.
        top, left = min(top, height - 1), min(left, width - 1)
        return (rows, columns), (top, left, max(1, bottom - top), max(1, right - left))

    def fits(self, heights: IntArray, widths: IntArray) -> BoolArray:
        """Whether each of some pictures, int64 [R], is as large as the crop after its resize; unknown ones are not."""
        rows, columns = self.common
        if isinstance(self.resize, tuple):
            return np.full(len(heights), _holds(self.resize, (rows, columns)))
        long = self.resize * np.maximum(heights, widths) // np.maximum(1, np.minimum(heights, widths))
        is_tall = heights > widths
        return (np.where(is_tall, long, self.resize) >= rows) & (np.where(is_tall, self.resize, long) >= columns)

    def _find_least(self, height: int, width: int) -> int | Size:
        """Find the least resize with which a picture is as large as the crop."""
        rows, columns = self.common
        if not isinstance(self.resize, int):
            return max(rows, self.resize[0]), max(columns, self.resize[1])
        short, along, across = (width, rows, columns) if height > width else (height, columns, rows)
        return max(across, -(-along * short // max(height, width)))


@refuse_torchvisions("LongSide(640), the long side")
@dataclass(frozen=True)
class LongSide:
    """A resize to a long side; the short one is int(length * short / long), at least 1.

    Example: ``LongSide(640)``

    Attributes:
        length: Pixels of the long side.
    """

    length: int
    common = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", check_integer("length", self.length, least=1, most=MOST_SIDE))

    def fit(self, height: int, width: int) -> tuple[Size, None]:
        """Choose the size; the whole picture is resized."""
        if height >= width:
            return (self.length, max(1, self.length * width // height)), None
        return (max(1, self.length * height // width), self.length), None


@dataclass(frozen=True)
class _FixedSize:
    """A size of fixed height and width; of one number, a square."""

    height: int | Size
    width: int | None = None

    def __post_init__(self) -> None:
        size = _check_size("height", self.height)
        if self.width is not None:
            if isinstance(size, tuple):
                raise UsageError(f"height: expected a number of rows where width={self.width!r} is given, got {size}")
            size = size, check_integer("width", self.width, least=1, most=MOST_SIDE)
        height, width = (size, size) if isinstance(size, int) else size
        object.__setattr__(self, "height", height)
        object.__setattr__(self, "width", width)

    @property
    def common(self) -> Size:
        """(height, width) of every delivered picture."""
        assert isinstance(self.height, int) and self.width is not None  # by __post_init__
        return self.height, self.width


@refuse_torchvisions("Letterbox(640) or Letterbox(height, width)")
@dataclass(frozen=True)
class Letterbox(_FixedSize):
    """A picture that is resized to fit into a size, with its proportions kept, and lies in the middle of that size.

    The side that does not fill the size is rounded to the nearest pixel, and is at least 1. Of an odd number of pixels
    around it, the last one is below it or right of it.

    Example: ``Letterbox(640)``, ``Letterbox(480, 640, fill=114)``

    Attributes:
        height: Rows of the delivered picture, or (height, width).
        width: Columns of the delivered picture; None for the same as ``height``.
        fill: Value around the picture, from 0 to 255, or those of red, green and blue; kept as a tuple of three.
    """

    fill: int | tuple[int, int, int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fill", _check_fill(self.fill))

    def fit(self, height: int, width: int) -> tuple[Size, None]:
        """Choose the largest size inside; the whole picture is resized."""
        rows, columns = self.common
        if rows * width <= columns * height:
            return (rows, max(1, _round_ratio(width * rows, height))), None
        return (max(1, _round_ratio(height * columns, width)), columns), None

    def place(self, size: Size) -> Placement:
        """Place a picture of (height, width) in the middle."""
        rows, columns = self.common
        assert isinstance(self.fill, tuple)  # by __post_init__
        return Placement((rows, columns), ((rows - size[0]) // 2, (columns - size[1]) // 2, *size), self.fill)


@refuse_torchvisions("Cover(224) or Cover(height, width)")
@dataclass(frozen=True)
class Cover(_FixedSize):
    """A size that a picture fills, with its proportions kept: what is too long is cut off at both ends.

    The box in the source is rounded to whole pixels; of an odd number of pixels that are cut off, the last one is at
    the bottom or the right. Small pictures are enlarged.

    Example: ``Cover(224)``, ``Cover(480, 832)``

    Attributes:
        height: Rows of the delivered picture, or (height, width).
        width: Columns of the delivered picture; None for the same as ``height``.
    """

    def fit(self, height: int, width: int) -> tuple[Size, Box]:
        """Choose the size, and the largest box of its proportions in the middle of the source."""
        rows, columns = self.common
        part_rows = min(height, max(1, _round_ratio(width * rows, columns)))
        part_columns = min(width, max(1, _round_ratio(height * columns, rows)))
        return (rows, columns), ((height - part_rows) // 2, (width - part_columns) // 2, part_rows, part_columns)


_ABOVE_LEAST = 1.05


@dataclass(frozen=True)
class PixelBudget:
    """A resize to sides that are multiples, of as many pixels as a budget allows; proportions are nearly kept.

    Each side is rounded to its nearest multiple, and is at least one. If the picture has more pixels than it may have
    then, both sides are scaled by sqrt(limit / (height * width)) and rounded down to multiples; if it has less than
    it must have, up. This is the arithmetic of the processors of Qwen-VL, GLM-V and qwen-vl-utils ("smart_resize").

    Example: ``PixelBudget(28, max_pixels=768 * 28 * 28)``, ``PixelBudget(32, max_total=25_165_824)``

    Attributes:
        multiple: Of the sides, in pixels.
        min_pixels: Least pixels of a picture; None for no limit.
        max_pixels: Most pixels of a picture.
        min_total: Least pixels of a clip, T * H * W.
        max_total: Most pixels of a clip. Of it and ``max_pixels`` the tighter one counts, but a picture may always have
            1.05 times ``min_pixels``.
        max_ratio: Longest side of a picture, in short sides.
    """

    multiple: int
    min_pixels: int | Fraction | None = None
    max_pixels: int | Fraction | None = None
    min_total: int | None = None
    max_total: int | None = None
    max_ratio: float = 200
    common = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "multiple", check_integer("multiple", self.multiple, least=1, most=MOST_SIDE))
        for name in ("min_pixels", "max_pixels", "min_total", "max_total"):
            value = getattr(self, name)
            if isinstance(value, Fraction):
                if value <= 0:
                    raise expected(name, "a number above 0", value)
            elif value is not None:
                object.__setattr__(self, name, check_integer(name, value, least=1))
        for least, most in ((self.min_pixels, self.max_pixels), (self.min_total, self.max_total)):
            if least is not None and most is not None and least > most:
                raise UsageError(
                    f"PixelBudget: expected a least number of pixels up to the most, got {least} and {most}"
                )
        if not is_number(self.max_ratio) or not self.max_ratio >= 1:
            raise expected("max_ratio", "a number of at least 1", self.max_ratio)

    @property
    def needs_frames(self) -> bool:
        """Whether the size depends on the number of frames."""
        return self.min_total is not None or self.max_total is not None

    def for_frames(self, num_frames: int) -> PixelBudget:
        """Return the budget of each picture of a clip of T frames."""
        least, most = self.min_pixels, self.max_pixels
        if self.max_total is not None:
            own = Fraction(self.max_total, num_frames)
            most = own if most is None else min(own, most)
            if least is not None:  # as qwen-vl-utils does, so that there is a multiple between the two
                most = max(most, int(least * _ABOVE_LEAST))
        if self.min_total is not None:
            own = Fraction(self.min_total, num_frames)
            least = own if least is None else max(own, least)
        if least is not None and most is not None:
            least = min(least, most)
        return PixelBudget(self.multiple, least, most, max_ratio=self.max_ratio)

    def fit(self, height: int, width: int) -> tuple[Size, None]:
        """Choose the size; the whole picture is resized."""
        if self.needs_frames:
            raise UsageError(f"size: {self} depends on the number of frames, which only the clips of plans have")
        if max(height, width) > self.max_ratio * min(height, width):
            raise UsageError(
                f"size: a picture of {height} x {width} (height x width) has a side of more than {self.max_ratio} "
                "times the other: leave out such sources with catalog.filter(), or give PixelBudget max_ratio="
            )
        step = self.multiple
        rows, columns = max(1, round(height / step)), max(1, round(width / step))
        if self.max_pixels is not None and rows * columns * step * step > self.max_pixels:
            scale = sqrt(height * width / self.max_pixels)
            rows, columns = max(1, floor(height / scale / step)), max(1, floor(width / scale / step))
        elif self.min_pixels is not None and rows * columns * step * step < self.min_pixels:
            scale = sqrt(self.min_pixels / (height * width))
            rows, columns = ceil(height * scale / step), ceil(width * scale / step)
        if max(rows, columns) * step > MOST_SIDE:
            raise UsageError(
                f"size: {self} makes {rows * step} x {columns * step} of a picture of {height} x {width}: expected at "
                f"most {MOST_SIDE} a side"
            )
        return (rows * step, columns * step), None


AnySize = Size | int | ResizeCrop | LongSide | Letterbox | Cover | PixelBudget
"""Values of ``size=``."""


def as_size(size: Any) -> AnySize | None:
    """Check a value of ``size=``."""
    if size is None or isinstance(size, (ResizeCrop, LongSide, Letterbox, Cover, PixelBudget)):
        return size
    if _is_integer(size) or isinstance(size, (list, tuple, np.ndarray)):
        return _check_size("size", size)
    rules = "ff.ResizeCrop(256, 224), ff.LongSide(640), ff.Letterbox(640), ff.Cover(224) or ff.PixelBudget(28)"
    raise expected("size", f"(height, width), an integer for the short side, {rules}", size)


def scale_short_side(size: int, height: int, width: int) -> Size:
    """Scale a picture so that its short side is ``size``; the long side is int(size * long / short)."""
    if height <= width:
        return size, size * width // height
    return size * height // width, size


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_size(name: str, size: Any) -> int | Size:
    if _is_integer(size):
        return check_integer(name, size, least=1, most=MOST_SIDE)
    if isinstance(size, (Sequence, np.ndarray)) and not isinstance(size, (str, bytes)):
        try:
            return OutputSpec(size).size or (1, 1)  # type: ignore[arg-type]
        except UsageError:
            raise expected(name, f"(height, width), from 1 to {MOST_SIDE}", size) from None
    raise expected(name, "(height, width), or an integer", size)


def _check_fill(fill: Any) -> tuple[int, int, int]:
    what = "an integer from 0 to 255, or three of them: red, green and blue"
    is_row = isinstance(fill, (Sequence, np.ndarray)) and not isinstance(fill, (str, bytes))
    values = tuple(fill) if is_row else (fill, fill, fill)
    if len(values) != 3 or not all(_is_integer(value) and 0 <= value <= 255 for value in values):
        raise expected("fill", what, fill)
    red, green, blue = map(int, values)
    return red, green, blue


def _holds(outer: Size, inner: Size) -> bool:
    return outer[0] >= inner[0] and outer[1] >= inner[1]


def _round_ratio(numerator: int, denominator: int) -> int:
    """Divide to the nearest integer, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)
