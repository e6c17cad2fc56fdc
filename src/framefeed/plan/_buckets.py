"""Say which shapes (T, H, W) clips may have, and choose one for each source, by exact seconds and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor, isqrt, log, sqrt
from typing import Any

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_integer, expected
from framefeed.errors import UsageError
from framefeed.plan._rules import MOST_FRAMES
from framefeed.request import MOST_SIDE, Size

Bucket = tuple[int, int, int]
"""(T, H, W)."""

RATIOS = ("9:16", "3:4", "1:1", "4:3", "16:9")
_ONE_AREA = Fraction(4, 5)
"""Sizes of a list are of one area down to this share of the largest."""
_MOST_BUCKETS = 1 << 12


@dataclass(frozen=True)
class Buckets:
    """Shapes of clips: each number of frames with each size; a size has about an area, and one of some ratios.

    Of a ratio r = width / height and an area A, sides are near sqrt(A * r) and sqrt(A / r), each rounded up or down to
    a multiple: of the pairs of no more pixels than A, the one for which abs(log(w / h / r)) + abs(log(w * h / A)) is
    least; a square has equal sides. Nothing depends on the files.

    Example: ``Buckets(frames=(17, 33, 49), pixels=(320 * 576, 480 * 832), multiple=16)``

    Attributes:
        frames: Numbers of frames, T; 1 is for still pictures alone.
        pixels: Areas, H * W.
        multiple: Of the sides.
        ratios: Of width and height, such as "16:9".
    """

    frames: tuple[int, ...]
    pixels: tuple[int, ...]
    multiple: int = 16
    ratios: tuple[str, ...] = RATIOS

    def __post_init__(self) -> None:
        object.__setattr__(self, "multiple", check_integer("multiple", self.multiple, least=1, most=MOST_SIDE))
        for name, least, most in (("frames", 1, MOST_FRAMES), ("pixels", 1, MOST_SIDE**2)):
            values = _as_tuple(name, getattr(self, name), "integers, such as (17, 33)")
            object.__setattr__(self, name, tuple(sorted({check_integer(name, each, least, most) for each in values})))
        if self.pixels[0] < self.multiple**2:
            raise UsageError(
                f"pixels: expected at least multiple * multiple = {self.multiple**2}, got {self.pixels[0]}"
            )
        object.__setattr__(self, "ratios", _as_tuple("ratios", self.ratios, 'texts such as ("16:9", "1:1")'))
        self.shapes  # noqa: B018 - made now, so that a wrong ratio fails at once

    @cached_property
    def shapes(self) -> tuple[tuple[int, Bucket], ...]:
        """Area, as its number from the smallest, and (T, H, W) of each bucket, without those that come twice."""
        ratios = [_read_ratio(text) for text in self.ratios]
        sizes = [
            (number, _fit_size(area, each, self.multiple)) for number, area in enumerate(self.pixels) for each in ratios
        ]
        for _, size in sizes:
            if max(size) > MOST_SIDE:
                raise UsageError(f"pixels: sides of at most {MOST_SIDE}, got {size} (height, width) by the ratios")
        return _check_shapes((area, (length, *size)) for length, (area, size) in product(self.frames, sizes))


def read_buckets(buckets: Any) -> tuple[tuple[int, Bucket], ...]:
    """Read `Buckets`, or a list of (T, H, W), of which sizes within a fifth of one another are of one area."""
    if isinstance(buckets, Buckets):
        return buckets.shapes
    what = "ff.Buckets(...), or a list of (T, H, W), such as [(49, 480, 832)]"
    if isinstance(buckets, str | bytes) or not isinstance(buckets, Iterable):
        raise expected("buckets", what, buckets)
    shapes = []
    for each in buckets:
        if isinstance(each, str | bytes) or not isinstance(each, Sequence | np.ndarray) or len(each) != 3:
            raise expected("buckets", what, each)
        limits = (("T", MOST_FRAMES), ("H", MOST_SIDE), ("W", MOST_SIDE))
        shapes.append(
            tuple(check_integer(name, side, 1, most) for side, (name, most) in zip(each, limits, strict=True))
        )
    areas = sorted({rows * columns for _, rows, columns in shapes}, reverse=True)
    first, number, numbers = 0, 0, {}
    for area in areas:
        if area < first * _ONE_AREA or not first:
            first, number = area, number - 1
        numbers[area] = number
    return _check_shapes((numbers[rows * columns], (length, rows, columns)) for length, rows, columns in shapes)


def _check_shapes(shapes: Iterable[tuple[int, Bucket]]) -> tuple[tuple[int, Bucket], ...]:
    distinct = tuple(sorted({shape: area for area, shape in shapes}.items()))
    if not 1 <= len(distinct) <= _MOST_BUCKETS:
        raise UsageError(f"buckets: expected 1 to {_MOST_BUCKETS}, got {len(distinct)}")
    return tuple((area, shape) for shape, area in distinct)


def _as_tuple(name: str, values: Any, what: str) -> tuple[Any, ...]:
    if isinstance(values, int | np.integer) and not isinstance(values, bool):
        return (values,)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable) or not (found := tuple(values)):
        raise expected(name, what, values)
    return found


def _read_ratio(text: Any) -> Fraction:
    try:
        width, height = map(int, text.split(":"))
        ratio = Fraction(width, height)
    except (AttributeError, ValueError, ZeroDivisionError):
        raise expected("ratios", 'texts such as "16:9", width to height', text) from None
    if not Fraction(1, 64) <= ratio <= 64:
        raise expected("ratios", "ratios from 1:64 to 64:1", text)
    return ratio


def _fit_size(area: int, ratio: Fraction, multiple: int) -> Size:
    """Choose (height, width) of an area and a ratio, by the formula of `Buckets`."""
    if ratio == 1:
        side = isqrt(area) // multiple * multiple
        return side, side
    if ratio < 1:
        columns, rows = _fit_size(area, 1 / ratio, multiple)
        return rows, columns
    height, width = sqrt(area / ratio) / multiple, sqrt(area * ratio) / multiple
    pairs = [
        (max(1, rows) * multiple, max(1, columns) * multiple)
        for rows in (floor(height), ceil(height))
        for columns in (floor(width), ceil(width))
    ]
    fitting = [pair for pair in pairs if pair[0] * pair[1] <= area] or pairs[:1]
    return min(
        fitting,
        key=lambda size: abs(log(size[1] / size[0] / ratio)) + abs(log(size[0] * size[1] / area)),
    )


TOO_SHORT, REPEATS, CUT_OFF, ENLARGED = -4, -3, -2, -1
"""Why a source has no bucket, in place of the number of one: the largest that is true of any bucket."""


def fill_size(bucket: Bucket, heights: IntArray, widths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Compute the share that is cut off pictures that fill a bucket, and how much they are enlarged, float64 [U]."""
    _, height, width = bucket
    scales: FloatArray = np.maximum(height / heights, width / widths)
    return 1 - height * width / (scales * scales * heights * widths), scales


def choose_sizes(
    shapes: Sequence[tuple[int, Bucket]], buckets: Sequence[int], heights: IntArray, widths: IntArray,
    max_crop: float, *, enlarge: bool,
) -> IntArray:  # fmt: skip
    """Choose one of some buckets for each picture: of the largest area that fits it, the one that cuts off least.

    Returns:
        Their numbers, int64 [U]; `CUT_OFF` where all cut off more, `ENLARGED` where those that do not, enlarge it.
    """
    chosen, areas = np.full(len(heights), CUT_OFF), np.full(len(heights), -_MOST_BUCKETS)
    cuts = np.full(len(heights), np.inf)
    for bucket in buckets:
        area, shape = shapes[bucket]
        cut, scales = fill_size(shape, heights, widths)
        fits = cut <= max_crop
        if not enlarge:
            chosen = np.where(fits & (scales > 1), np.maximum(chosen, ENLARGED), chosen)
            fits &= scales <= 1
        fits &= (area > areas) | ((area == areas) & (cut < cuts))
        chosen[fits], areas[fits], cuts[fits] = bucket, area, cut[fits]
    return chosen
