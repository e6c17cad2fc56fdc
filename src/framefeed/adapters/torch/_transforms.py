"""Convert decoder transforms of TorchCodec and torchvision, by the names of their classes: neither is imported."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import interpolate

from framefeed._values import DEFAULT_LIMITS
from framefeed.decode import RefusedValue, WrongKind
from framefeed.errors import UsageError
from framefeed.request import AnySize, PictureRule, as_crop

Size = tuple[int, int]
Box = tuple[int, int, int, int]

_KNOWN = ("Resize", "CenterCrop", "RandomCrop")
# Options of torchvision's transforms: the allowed values of an attribute. TorchCodec refuses other values too.
_OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Resize": {"interpolation": ("bilinear",), "antialias": (True, None, "warn")},
    "CenterCrop": {},
    "RandomCrop": {"padding": (None,), "pad_if_needed": (False,), "fill": (0,), "padding_mode": ("constant",)},
}


@dataclass(frozen=True, slots=True)
class Steps:
    """Crops and resizes of the pictures of a video."""

    size: Size | None = None  # (height, width) that the decoder resizes to, or None
    crop: Box | None = None  # (top, left, height, width) that it crops to before that, or None
    rest: tuple[Size | Box, ...] = ()  # further steps, in order: a box to crop to, or a size to resize to

    def finish(self, pictures: torch.Tensor) -> torch.Tensor:
        """Apply `rest` to decoded pictures, uint8 [..., C, H, W]."""
        for step in self.rest:
            if len(step) == 2:
                pictures = _resize(pictures, step)
            else:
                top, left, height, width = step
                pictures = pictures[..., top : top + height, left : left + width]
        return pictures

    def add_resize(self, size: Size) -> Steps:
        """Add a resize, done by the decoder if only a crop comes before."""
        return replace(self, rest=(*self.rest, size)) if self.size or self.rest else replace(self, size=size)

    def add_crop(self, box: Box) -> Steps:
        """Add a crop, done by the decoder if only crops come before."""
        if self.size or self.rest:
            return replace(self, rest=(*self.rest, box))
        top, left = self.crop[:2] if self.crop else (0, 0)
        return replace(self, crop=(top + box[0], left + box[1], *box[2:]))


def as_steps(transforms: Any, size: AnySize | None, crop: Any, displayed: Size) -> Steps:
    """Convert transforms for one video, whose pictures are displayed as (height, width).

    Each transform may come several times; a random crop is drawn here, once, from torch's generator.
    """
    try:
        given = list(transforms or ())
    except TypeError as error:
        raise WrongKind(f"transforms: expected a list of transforms, got {transforms!r}") from error
    if not given:
        rule = PictureRule(size, as_crop(crop))
        output = rule.decoder_output(*displayed)
        if (remark := rule.explain_enlarging(*displayed)) is not None:
            warnings.warn(remark, UserWarning, stacklevel=3)
        return Steps(output.size, output.crop)
    if size is not None or crop is not None:
        raise UsageError("transforms: expected either transforms=, or size= and crop=, got both")
    steps, current = Steps(), displayed
    for transform in given:
        name = _find_name(transform)
        sides = _read_size(transform, name)
        if name == "Resize":
            steps = steps.add_resize(sides)
        else:
            steps = steps.add_crop(_choose_box(name, sides, current))
        current = sides
    return steps


def _find_name(transform: Any) -> str:
    # The user may have derived a class from one of these.
    name = next((base.__name__ for base in type(transform).__mro__ if base.__name__ in _KNOWN), None)
    if name is None:
        raise UsageError(
            f"transforms: unknown transform {transform!r}: use {', '.join(_KNOWN)}, or a transform after decoding"
        )
    for option, allowed in _OPTIONS[name].items():
        value = getattr(transform, option, allowed[0])
        if getattr(value, "value", value) not in allowed:
            raise UsageError(
                f"{name} with {option}={value!r} is not supported: use {option}={allowed[0]!r}, or transform tensors"
            )
    return name


def _read_size(transform: Any, name: str) -> Size:
    size: Any = getattr(transform, "size", None)
    sides = [_as_integer(side, name) for side in size] if hasattr(size, "__iter__") else []
    if len(sides) != 2:
        raise WrongKind(f"the size of {name} must be (height, width), got {size!r}")
    if min(sides) < 1 or sides[0] * sides[1] > DEFAULT_LIMITS.max_pixels:
        raise RefusedValue(
            f"the size of {name} must be from 1x1 to {DEFAULT_LIMITS.max_pixels} pixels, got {sides[0]}x{sides[1]}"
        )
    return sides[0], sides[1]


def _as_integer(side: Any, name: str) -> int:
    if isinstance(side, float) and side.is_integer():
        return int(side)
    try:
        return operator.index(side)
    except TypeError as error:
        raise WrongKind(f"the size of {name} must be integers, got {side!r}") from error


def _choose_box(name: str, sides: Size, current: Size) -> Box:
    (rows, columns), (height, width) = sides, current
    if rows > height or columns > width:
        # TorchCodec's RandomCrop raises ValueError, its CenterCrop RuntimeError.
        kind = UsageError if name == "RandomCrop" else RefusedValue
        raise kind(f"{name} of {rows}x{columns} is larger than the pictures, {height}x{width}: use a smaller one")
    if name == "CenterCrop":
        return round((height - rows) / 2), round((width - columns) / 2), rows, columns
    top = int(torch.randint(0, height - rows + 1, ()).item())
    left = int(torch.randint(0, width - columns + 1, ()).item())
    return top, left, rows, columns


def _resize(pictures: torch.Tensor, size: Size) -> torch.Tensor:
    """Resize pictures as torchvision does: bilinear, antialiased."""
    if tuple(pictures.shape[-2:]) == size:
        return pictures
    if not pictures.numel():
        return pictures.new_empty((*pictures.shape[:-2], *size))
    batch = pictures if pictures.ndim == 4 else pictures[None]
    resized = interpolate(batch, size=size, mode="bilinear", antialias=True)
    return resized if pictures.ndim == 4 else resized[0]
