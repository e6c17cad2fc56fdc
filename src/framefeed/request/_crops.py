"""Crop and resize: the same box for all frames of a clip; checked before decoding that all pictures have one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, isfinite, log, sqrt
from typing import Protocol, get_args

import numpy as np

from framefeed._arrays import IntArray, has_bools
from framefeed._cached import cached_property
from framefeed._checks import check_choice, check_integer, expected
from framefeed.errors import UsageError
from framefeed.request._random import ClipContext
from framefeed.request._request import MOST_SIDE, Box, Filter, OutputSpec, Placement, StillQuality
from framefeed.request._sizes import (
    AnySize,
    Cover,
    Letterbox,
    PixelBudget,
    ResizeCrop,
    Size,
    as_size,
    refuse_torchvisions,
    scale_short_side,
)

_PROXY_SLACK = 1.02
"""Factor by which a proxy's picture may be enlarged: sides are rounded to even numbers."""


class Crop(Protocol):
    """A crop; its ``repr`` must differ from that of every other crop, for the plan's fingerprint.

    A crop that draws its box has an attribute ``is_random``, which is True.
    """

    @property
    def size(self) -> Size | None:
        """(height, width) of the delivered picture if the crop has one, before any ``size=`` of the plan."""

    @property
    def resizes(self) -> bool:
        """Whether boxes differ in shape, so that they must be resized to ``size``."""

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Choose (top, left, height, width) in a picture of height x width.

        Raises:
            UsageError: The crop does not fit into the picture.
        """


@dataclass(frozen=True)
class FixedCrop:
    """The same box of every picture, from ``crop=(top, left, height, width)``."""

    given: Box
    resizes = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", OutputSpec(crop=self.given).crop)

    @property
    def size(self) -> Size | None:
        """(height, width) of the box."""
        return self.given[2:]

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Return the box, if it lies inside the picture."""
        top, left, rows, columns = self.given
        check_fit((top + rows, left + columns), height, width)
        return self.given


@dataclass(frozen=True)
class _BoxOfSize:
    """A crop to a fixed size; of one number, the side of a square."""

    height: int
    width: int | None = None
    resizes = False

    def __post_init__(self) -> None:
        _fill_width(self)

    @property
    def size(self) -> Size | None:
        """(height, width) of the box."""
        return _get_size(self)

    def _check_fit(self, height: int, width: int) -> Size:
        rows, columns = _get_size(self)
        instead = (
            f". To enlarge them, give size=ff.ResizeCrop({max(rows, columns)}, ({rows}, {columns})) or "
            f"size=ff.Letterbox({rows}, {columns}) in place of the crop, which comes before any size"
        )
        return check_fit((rows, columns), height, width, instead)


@refuse_torchvisions("CenterCrop(224) or CenterCrop(height, width); a resize is size= of plan_clips")
@dataclass(frozen=True)
class CenterCrop(_BoxOfSize):
    """The middle of every picture, as in torchvision; a picture that is too small is an error, not padded.

    Attributes:
        height: Rows of the box.
        width: Columns of the box; None for the same as ``height``.
    """

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Choose the middle box; halves round to even, as in torchvision.transforms.functional.center_crop."""
        rows, columns = self._check_fit(height, width)
        return round((height - rows) / 2), round((width - columns) / 2), rows, columns


@refuse_torchvisions("RandomCrop(224) or RandomCrop(height, width); a resize is size= of plan_clips")
@dataclass(frozen=True)
class RandomCrop(_BoxOfSize):
    """A box of random position, drawn once per clip, uniform over all positions inside the picture.

    Attributes:
        height: Rows of the box.
        width: Columns of the box; None for the same as ``height``.
    """

    is_random = True

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Draw the box of one clip."""
        rows, columns = self._check_fit(height, width)
        return *_draw_corner(height - rows, width - columns, context), rows, columns


@refuse_torchvisions("RandomResizedCrop(224), or RandomResizedCrop() and give the size to plan_clips(size=(224, 224))")
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
    is_random = True

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
            _fill_width(self)
        for name in ("scale", "ratio"):
            given = getattr(self, name)
            try:
                bounds = () if has_bools(given) else tuple(float(bound) for bound in given)
            except (TypeError, ValueError, OverflowError):
                bounds = ()
            if len(bounds) != 2 or not all(map(isfinite, bounds)) or not 0 < bounds[0] <= bounds[1]:
                raise expected(name, "(smallest, largest), two numbers above 0 in this order", given)
            object.__setattr__(self, name, bounds)
        if self.scale[1] > 1:
            raise expected("scale", "shares of the picture's area, at most 1", self.scale)
        if self.ratio[0] * MOST_SIDE < 1 or self.ratio[1] > MOST_SIDE:
            raise expected("ratio", f"columns / rows from 1/{MOST_SIDE} to {MOST_SIDE}", self.ratio)

    @property
    def size(self) -> Size | None:
        """(height, width) of the delivered picture, if given."""
        return None if self.height is None else _get_size(self)

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Draw the box of one clip, after torchvision.transforms.RandomResizedCrop.get_params.

        Ten draws of area and ratio; if none fits, the middle box whose ratio is the nearest allowed.
        """
        for _ in range(10):
            draws = context.generator.random(2)
            area = height * width * (self.scale[0] + float(draws[0]) * (self.scale[1] - self.scale[0]))
            low, high = log(self.ratio[0]), log(self.ratio[1])
            ratio = exp(low + float(draws[1]) * (high - low))
            rows, columns = round(sqrt(area / ratio)), round(sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                return *_draw_corner(height - rows, width - columns, context), rows, columns
        rows, columns = height, width
        if width / height < self.ratio[0]:
            rows = max(1, min(height, round(width / self.ratio[0])))
        elif width / height > self.ratio[1]:
            columns = max(1, min(width, round(height * self.ratio[1])))
        return (height - rows) // 2, (width - columns) // 2, rows, columns


def as_crop(crop: Crop | Sequence[int] | None) -> Crop | None:
    """Convert a value of ``crop=`` to a crop."""
    if crop is None or isinstance(crop, (FixedCrop, CenterCrop, RandomCrop, RandomResizedCrop)):
        return crop
    if isinstance(crop, Sequence) and not isinstance(crop, (str, bytes)):
        return FixedCrop(tuple(crop))  # type: ignore[arg-type]
    if not isinstance(crop, type) and hasattr(crop, "box") and hasattr(crop, "size") and hasattr(crop, "resizes"):
        return crop
    raise expected(
        "crop", "(top, left, height, width), CenterCrop(224), RandomCrop(224) or RandomResizedCrop(224)", crop
    )


def check_fit(size: Size, height: int, width: int, advice: str = "") -> Size:
    """Return the size; UsageError, with more advice at its end, unless it fits into a picture of height x width."""
    if size[0] > height or size[1] > width:
        raise UsageError(
            f"crop: expected one that fits into the picture of {height} x {width} (height x width), got one of "
            f"{size[0]} x {size[1]}: crop less, or leave out the small sources with catalog.filter(){advice}"
        )
    return size


def _draw_corner(free_rows: int, free_columns: int, context: ClipContext) -> tuple[int, int]:
    generator = context.generator
    return int(generator.integers(free_rows + 1)), int(generator.integers(free_columns + 1))


def _fill_width(crop: _BoxOfSize | RandomResizedCrop) -> None:
    if crop.width is None:
        object.__setattr__(crop, "width", crop.height)
    object.__setattr__(crop, "height", check_integer("height", crop.height, least=1, most=MOST_SIDE))
    object.__setattr__(crop, "width", check_integer("width", crop.width, least=1, most=MOST_SIDE))


def _get_size(crop: _BoxOfSize | RandomResizedCrop) -> Size:
    assert isinstance(crop.height, int) and crop.width is not None  # by _fill_width
    return crop.height, crop.width


@dataclass(frozen=True)
class PictureRule:
    """``size=`` and ``crop=`` of a plan: crop first, then resize."""

    # (height, width); or an int for the short side, the long one being int(size * long / short); or a rule such as
    # `ResizeCrop`; or None.
    size: AnySize | None = None
    crop: Crop | None = None  # the part of the picture, or None for all of it
    still_quality: StillQuality = "exact"  # of the outputs
    filter: Filter = "bilinear"  # of the outputs

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", as_size(self.size))
        check_choice("still_quality", self.still_quality, get_args(StillQuality))
        check_choice("filter", self.filter, get_args(Filter))
        if self.crop is None or not self.crop.resizes:
            return
        if not isinstance(self.common, tuple):
            raise UsageError(
                f"expected one output size, got {self.crop!r} with size={self.size}: give either size=(height, width), "
                "or the crop a height and width"
            )
        if self.size is not None and self.crop.size not in (None, self.size):
            raise UsageError(f"size={self.size} contradicts {self.crop!r}: give the size in one context only")
        if isinstance(self.size, ResizeCrop) and isinstance(self.size.resize, int):
            rows, columns = self.size.common
            if max(rows, columns) <= self.size.resize:
                return
            raise UsageError(
                f"size={self.size} with {self.crop!r}: a box of random shape that is resized to {self.size.resize} may "
                f"be smaller than the crop of {rows} x {columns} (height x width): give size=({rows}, {columns}), to "
                f"which every box is resized, or ff.ResizeCrop({max(rows, columns)}, ({rows}, {columns}))"
            )

    def output(self, height: int, width: int, context: ClipContext) -> OutputSpec:
        """Choose the crop and size of one clip, for a displayed picture of height x width, each -1 where unknown."""
        if min(height, width) < 1 and (self.crop is not None or not isinstance(self.size, tuple)):
            raise UsageError("the size of this picture is not known: use size=(height, width) without a crop")
        if self.crop is None and (self.size is None or isinstance(self.size, tuple)):
            return self._whole
        box = None if self.crop is None else self.crop.box(height, width, context)
        if self.crop is not None and self.crop.resizes and self.size is None:
            return OutputSpec(self.crop.size, box, still_quality=self.still_quality, filter=self.filter)
        top, left, rows, columns = box or (0, 0, height, width)
        size, part = self._fit(rows, columns)
        if part not in (None, (0, 0, rows, columns)):
            box = top + part[0], left + part[1], *part[2:]
        elif self.common is None and self.crop is not None and self.crop.size is not None:
            # A box of several streams that is scaled, and so rounded, gives pictures of the crop's own shape.
            size = self._fit(*self.crop.size)[0]
        return OutputSpec(size, box, still_quality=self.still_quality, filter=self.filter)

    def _fit(self, height: int, width: int) -> tuple[Size | None, Box | None]:
        """Choose the size of a picture, or of the box that is its crop, and the part that is resized to it."""
        size = self.size
        if isinstance(size, int):
            return scale_short_side(size, height, width), None
        return (size, None) if size is None or isinstance(size, tuple) else size.fit(height, width)

    def for_frames(self, num_frames: int) -> PictureRule:
        """Return the rule of the pictures of a clip of T frames."""
        if not (isinstance(self.size, PixelBudget) and self.size.needs_frames):
            return self
        return replace(self, size=self.size.for_frames(num_frames))

    @property
    def needs_frames(self) -> bool:
        """Whether the size depends on T."""
        return isinstance(self.size, PixelBudget) and self.size.needs_frames

    @property
    def takes_any_size(self) -> bool:
        """Whether pictures of other sizes than the stream's come out right: all of each is resized."""
        return self.crop is None and self.size is not None and not isinstance(self.size, ResizeCrop | Cover)

    @property
    def common(self) -> Size | None:
        """(height, width) of all delivered pictures, if they are resized to one."""
        size = self.size
        if size is None:
            return self.crop.size if self.crop is not None and self.crop.resizes else None
        return None if isinstance(size, int) else size if isinstance(size, tuple) else size.common

    def _find_doubtful(self, heights: IntArray, widths: IntArray) -> IntArray:
        """Find the pictures that decide whether crop and size are possible for all of them; mostly there are none.

        To check each of a million pictures would take seconds.
        """
        is_drawn = isinstance(self.crop, RandomResizedCrop)  # in every picture, and of a shape that fits any size
        if self.crop is not None and not is_drawn:
            return np.arange(len(heights))
        doubtful = np.minimum(heights, widths) < 1
        if isinstance(self.size, ResizeCrop) and not is_drawn:
            doubtful |= ~self.size.fits(heights, widths)
        if isinstance(self.size, PixelBudget):
            doubtful |= np.maximum(heights, widths) > self.size.max_ratio * np.minimum(heights, widths)
        return np.flatnonzero(doubtful)[:1]

    @cached_property
    def _whole(self) -> OutputSpec:
        return OutputSpec(self.common, still_quality=self.still_quality, filter=self.filter)

    def decoder_output(self, height: int, width: int) -> OutputSpec:
        """Choose crop and size for a decoder alone, which has no clips to draw for.

        Raises:
            UsageError: As for `output`; or the size has a border, which only loaders add.
        """
        if isinstance(self.size, Letterbox):
            raise UsageError("size: Letterbox is for plans; here use size=(height, width), or ff.LongSide(640)")
        return self.output(height, width, ClipContext(0, 0, 0))

    def place(self, output: OutputSpec, *, is_flipped: bool) -> Placement | None:
        """Find where pictures of an output lie in those that are delivered; None if they are these."""
        if not isinstance(self.size, Letterbox):
            return None
        assert output.size is not None
        placement = self.size.place(output.size)
        return placement.mirror() if is_flipped else placement

    def explain_enlarging(self, height: int, width: int) -> str | None:
        """Explain that the crop is enlarged, if it is smaller than ``size``, and which box was meant; else None.

        The box is computed for a displayed picture of height x width, each -1 where unknown.
        """
        crop, size = self.crop, self.size
        box = None if crop is None or crop.resizes else crop.size
        if crop is None or box is None or size is None:
            return None
        resized, part = self._fit(*box)
        cut = part[2:] if part else box
        if resized is None or (resized[0] <= cut[0] and resized[1] <= cut[1]):
            return None
        said = (
            f"crop comes before size: a box of {box[0]} x {box[1]} pixels (height x width) is cut out, and enlarged to "
            f"{resized[0]} x {resized[1]}"
        )
        if not isinstance(size, (int, tuple)):
            return f"{said}; with a box of at least the size, nothing is enlarged"
        # The size of the picture, if it were resized before the crop.
        is_known = min(height, width) >= 1
        whole = size if isinstance(size, tuple) else scale_short_side(size, *((height, width) if is_known else (1, 1)))
        if box[0] > whole[0] or box[1] > whole[1] or not (is_known or isinstance(crop, CenterCrop)):
            return f"{said}; with a box of at least the size, nothing is enlarged"
        if isinstance(crop, CenterCrop):
            advice = f"size=ff.ResizeCrop({size}, {box[0] if box[0] == box[1] else box}) and no crop"
        else:
            meant = round(box[0] * height / whole[0]), round(box[1] * width / whole[1])
            call = f"{type(crop).__name__}({meant[0]}, {meant[1]})"
            if isinstance(crop, FixedCrop):
                corner = round(crop.given[0] * height / whole[0]), round(crop.given[1] * width / whole[1])
                call = f"({corner[0]}, {corner[1]}, {meant[0]}, {meant[1]})"
            advice = f"size={box} and, for a picture of {height} x {width}, crop={call}"
        return (
            f"{said}. If the picture was to be resized first and cropped then, as torchvision's Resize and CenterCrop "
            f"do, give {advice}"
        )

    def find_enlarging(self, shown: Size, stored: Size) -> tuple[Size, tuple[float, float]] | None:
        """Find where pictures of a proxy are too small for this rule, and those of its original are not.

        Args:
            shown: (height, width) of the original as displayed.
            stored: (height, width) of the proxy.

        Returns:
            (height, width) that are delivered, and those that the proxy has for them; of a box of random area, of the
            smallest. None if the proxy is large enough.
        """
        output = self.output(*shown, ClipContext(0, 0, 0))
        delivered = output.shape(*shown)[1:]
        box: tuple[float, float] = output.crop[2:] if output.crop else shown
        if isinstance(self.crop, RandomResizedCrop):
            side = sqrt(self.crop.scale[0])
            box = shown[0] * side, shown[1] * side
        needed = [min(want, there) for want, there in zip(delivered, box, strict=True)]
        there = [side * small / whole for side, small, whole in zip(box, stored, shown, strict=True)]
        if all(want <= _PROXY_SLACK * have + 1 for want, have in zip(needed, there, strict=True)):
            return None
        return delivered, (there[0], there[1])

    def shape(self, height: int, width: int) -> tuple[int, int, int]:
        """Shape (C, H, W) of a delivered picture; it does not depend on the draw of a crop."""
        shape = self.decoded_shape(height, width)
        return (3, *self.size.common) if isinstance(self.size, Letterbox) else shape

    def find_shape(self, height: int, width: int, number: int) -> tuple[int, int, int]:
        """Shape (C, H, W) of the pictures of a clip of this number, which makes no difference."""
        return self.shape(height, width)

    def decoded_shape(self, height: int, width: int) -> tuple[int, int, int]:
        """Shape (C, H, W) of a picture from the decoder; it may lie in a larger one."""
        return self.output(height, width, ClipContext(0, 0, 0)).shape(height, width)

    def common_picture(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> Size | None:
        """Find the one (height, width) of all delivered pictures; None if there are no pictures.

        ``heights`` and ``widths`` are those of the displayed pictures, int64 [R]; ``name`` gives the name of picture r.

        Raises:
            UsageError: They have different sizes, or a crop does not fit.
        """
        if self.common is not None:
            self.check_pictures(heights, widths, name)
            return self.common if len(heights) else None
        first_rows = self._find_sizes(heights, widths, name)
        if len(first_rows) > 1:
            (one, first), (other, second) = list(first_rows.items())[:2]
            own = [
                "" if self.size is None and self.crop is None else f", of {heights[row]} x {widths[row]},"
                for row in (first, second)
            ]
            raise UsageError(
                f"all pictures of a plan must have the same size, but {name(first)}{own[0]} gives {one[0]} x {one[1]} "
                f"and {name(second)}{own[1]} gives {other[0]} x {other[1]} (height x width): give "
                "size=(height, width), size=ff.ResizeCrop(256, 224) or size=ff.Letterbox(224), or a crop to one size, "
                "or make several plans with catalog.filter(), or give plan_clips unequal=True, which makes each batch "
                f"a list of clips (on the command line: --size HEIGHTxWIDTH, such as --size {one[0]}x{one[1]})"
            )
        return next(iter(first_rows), None)

    def check_pictures(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> None:
        """Check that crop and size are possible for all pictures, which may differ; see ``common_picture``."""
        doubtful = self._find_doubtful(heights, widths)
        self._find_sizes(heights[doubtful], widths[doubtful], lambda at: name(int(doubtful[at])))

    def _find_sizes(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> dict[Size, int]:
        """Find each delivered (height, width), with the number of the first picture that has it."""
        _, first_of = np.unique(heights * (1 << 32) + widths, return_index=True)
        first_rows: dict[Size, int] = {}
        for row in np.sort(first_of).tolist():
            height, width = int(heights[row]), int(widths[row])
            try:
                shape = self.shape(height, width)
            except UsageError as error:
                raise UsageError(f"{name(row)}: {error}", source=name(row), stage="plan") from None
            first_rows.setdefault(shape[1:], row)
        return first_rows


def explain_small_proxy(name: str, stored: Size, delivered: Size, there: tuple[float, float]) -> str:
    """Explain that a proxy is too small, by what `PictureRule.find_enlarging` found, and which would do."""
    factor = max(want / max(1, have) for want, have in zip(delivered, there, strict=True))
    short_side = 2 * ceil(min(stored) * factor / 2)
    return (
        f"{name}: of the part that becomes {delivered[0]} x {delivered[1]} pixels (height x width) its proxy has only "
        f"{there[0]:.0f} x {there[1]:.0f}, which would be enlarged: make proxies with short_side={short_side} (on the "
        f"command line: --short-side {short_side}), give a smaller size, or use the catalog of the originals"
    )
