"""Crops: which part of the displayed picture a clip shows, the same part in all its frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Protocol

from framefeed._checks import expected
from framefeed.errors import UsageError
from framefeed.plan.chance import Place
from framefeed.plan.clips import check_count
from framefeed.plan.request import Box, OutputSpec

Size = tuple[int, int]


class Crop(Protocol):
    """What a plan needs of a crop; its ``repr`` must tell it from every other, for the plan's fingerprint."""

    @property
    def size(self) -> Size | None:
        """(height, width) of the delivered picture if the crop settles it, before any ``size=`` of the plan."""

    @property
    def resizes(self) -> bool:
        """Whether boxes differ in shape, so that they must be resized to ``size``."""

    def box(self, height: int, width: int, place: Place) -> Box:
        """Give (top, left, height, width) for a picture of height x width.

        Raises:
            UsageError: The crop does not fit into the picture.
        """


@dataclass(frozen=True)
class FixedCrop:
    """The same box of every picture: what ``crop=(top, left, height, width)`` means."""

    given: Box
    resizes = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", OutputSpec(crop=self.given).crop)

    @property
    def size(self) -> Size | None:
        """(height, width) of the box."""
        return self.given[2:]

    def box(self, height: int, width: int, place: Place) -> Box:
        """Give the box, if it lies inside the picture."""
        top, left, rows, columns = self.given
        check_fit((top + rows, left + columns), height, width)
        return self.given


@dataclass(frozen=True)
class _BoxOfSize:
    """What crops to a fixed size share.

    Attributes:
        height: Rows of the box.
        width: Columns of the box; None for the same as ``height``.
    """

    height: int
    width: int | None = None
    resizes = False

    def __post_init__(self) -> None:
        _complete(self)

    @property
    def size(self) -> Size | None:
        """(height, width) of the box."""
        return _size_of(self)


@dataclass(frozen=True)
class CenterCrop(_BoxOfSize):
    """The middle of every picture, as in torchvision; a picture that is too small is an error, not padded.

    Attributes:
        height: Rows of the box.
        width: Columns of the box; None for the same as ``height``.
    """

    def box(self, height: int, width: int, place: Place) -> Box:
        """Give the middle box; halves round to even, as in torchvision.transforms.functional.center_crop."""
        rows, columns = check_fit(_size_of(self), height, width)
        return round((height - rows) / 2), round((width - columns) / 2), rows, columns


@dataclass(frozen=True)
class RandomCrop(_BoxOfSize):
    """A box at a random place, drawn once per clip, uniform over all places where it fits.

    Attributes:
        height: Rows of the box.
        width: Columns of the box; None for the same as ``height``.
    """

    def box(self, height: int, width: int, place: Place) -> Box:
        """Draw the box of one clip."""
        rows, columns = check_fit(_size_of(self), height, width)
        return *_corner(height - rows, width - columns, place), rows, columns


@dataclass(frozen=True)
class RandomResizedCrop:
    """A box of random area and aspect ratio, then resized, as in torchvision; drawn once per clip.

    Example: ``RandomResizedCrop(224)``, ``RandomResizedCrop(112, 160, scale=(0.5, 1.0))``, or ``RandomResizedCrop()``
    if the plan has ``size=(224, 224)``.

    Attributes:
        height: Rows of the delivered picture, or (height, width), or None if the plan has a ``size``.
        width: Columns of the delivered picture; None for the same as ``height``.
        scale: Smallest and largest area of the box, as shares of the picture's area.
        ratio: Smallest and largest width / height of the box; its logarithm is drawn uniformly.
    """

    height: int | Size | None = None
    width: int | None = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    resizes = True

    def __post_init__(self) -> None:
        if isinstance(self.height, Sequence):
            if self.width is not None:
                raise UsageError(
                    f"height: expected a number of rows where width={self.width!r} is given, got {self.height!r}"
                )
            height, width = OutputSpec(self.height).size or (1, 1)
            object.__setattr__(self, "height", height)
            object.__setattr__(self, "width", width)
        if self.height is not None:
            _complete(self)
        for name in ("scale", "ratio"):
            low, high = _interval(name, getattr(self, name))
            object.__setattr__(self, name, (low, high))
        if self.scale[1] > 1:
            raise expected("scale", "shares of the picture's area, at most 1", self.scale)

    @property
    def size(self) -> Size | None:
        """(height, width) of the delivered picture, if given."""
        return None if self.height is None else _size_of(self)

    def box(self, height: int, width: int, place: Place) -> Box:
        """Draw the box of one clip, after torchvision.transforms.RandomResizedCrop.get_params.

        Ten draws of area and ratio; if none fits, the middle box whose ratio is the nearest allowed.
        """
        for _ in range(10):
            draws = place.generator.random(2)
            area = height * width * (self.scale[0] + float(draws[0]) * (self.scale[1] - self.scale[0]))
            low, high = log(self.ratio[0]), log(self.ratio[1])
            ratio = exp(low + float(draws[1]) * (high - low))
            rows, columns = round(sqrt(area / ratio)), round(sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                return *_corner(height - rows, width - columns, place), rows, columns
        rows, columns = self._nearest(height, width)
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    def _nearest(self, height: int, width: int) -> Size:
        if width / height < self.ratio[0]:
            return max(1, min(height, round(width / self.ratio[0]))), width
        if width / height > self.ratio[1]:
            return height, max(1, min(width, round(height * self.ratio[1])))
        return height, width


def as_crop(crop: Crop | Sequence[int] | None) -> Crop | None:
    """Take a crop of any kind that ``crop=`` allows."""
    if crop is None or isinstance(crop, (FixedCrop, CenterCrop, RandomCrop, RandomResizedCrop)):
        return crop
    if isinstance(crop, Sequence) and not isinstance(crop, (str, bytes)):
        return FixedCrop(tuple(crop))  # type: ignore[arg-type]
    if not isinstance(crop, type) and hasattr(crop, "box") and hasattr(crop, "size") and hasattr(crop, "resizes"):
        return crop
    raise expected(
        "crop", "(top, left, height, width), CenterCrop(224), RandomCrop(224) or RandomResizedCrop(224)", crop
    )


def check_fit(size: Size, height: int, width: int) -> Size:
    """Return the size; UsageError unless it fits into a picture of height x width."""
    if size[0] > height or size[1] > width:
        raise UsageError(
            f"crop: expected one that fits into the picture of {height} x {width} (height x width), got one of "
            f"{size[0]} x {size[1]}: crop less, or leave out the small sources with catalog.filter()"
        )
    return size


def _corner(free_rows: int, free_columns: int, place: Place) -> tuple[int, int]:
    generator = place.generator
    return int(generator.integers(free_rows + 1)), int(generator.integers(free_columns + 1))


def _complete(crop: _BoxOfSize | RandomResizedCrop) -> None:
    if crop.width is None:
        object.__setattr__(crop, "width", crop.height)
    object.__setattr__(crop, "height", check_count("height", crop.height))
    object.__setattr__(crop, "width", check_count("width", crop.width))


def _size_of(crop: _BoxOfSize | RandomResizedCrop) -> Size:
    assert isinstance(crop.height, int) and crop.width is not None  # _complete saw to it
    return crop.height, crop.width


def _interval(name: str, given: Sequence[float]) -> tuple[float, float]:
    try:
        bounds = tuple(float(bound) for bound in given)
    except (TypeError, ValueError):
        raise expected(name, "(smallest, largest), two numbers above 0 in this order", given) from None
    if len(bounds) != 2 or not all(isfinite(bound) for bound in bounds) or not 0 < bounds[0] <= bounds[1]:
        raise expected(name, "(smallest, largest), two numbers above 0 in this order", given)
    return bounds[0], bounds[1]
