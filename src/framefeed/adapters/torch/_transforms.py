"""TorchCodec's and torchvision's decoder transforms, told by their names: neither package need be installed."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import interpolate

from framefeed.decode import RefusedValue, WrongKind
from framefeed.errors import UsageError
from framefeed.media import DEFAULT_LIMITS
from framefeed.plan import PictureRule, Place, as_crop

Size = tuple[int, int]
Box = tuple[int, int, int, int]

_KNOWN = ("Resize", "CenterCrop", "RandomCrop")
# What torchvision's transforms can do beyond these, and TorchCodec refuses too: attribute, and what it may be.
_OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Resize": {"interpolation": ("bilinear",), "antialias": (True, None, "warn")},
    "CenterCrop": {},
    "RandomCrop": {"padding": (None,), "pad_if_needed": (False,), "fill": (0,), "padding_mode": ("constant",)},
}


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do with each picture of a video.

    Attributes:
        size: (height, width) that the decoder resizes to, or None.
        crop: (top, left, height, width) that it cuts out before that, or None.
        rest: What follows, in order: a box to cut out, or a size to resize to.
    """

    size: Size | None = None
    crop: Box | None = None
    rest: tuple[Size | Box, ...] = ()

    def finish(self, pictures: torch.Tensor) -> torch.Tensor:
        """Do the rest with decoded pictures, uint8 [..., C, H, W]."""
        for step in self.rest:
            if len(step) == 2:
                pictures = _resized(pictures, step)
            else:
                top, left, height, width = step
                pictures = pictures[..., top : top + height, left : left + width]
        return pictures

    def then_resize(self, size: Size) -> Steps:
        """Add a resize: the decoder's own if it is the first and nothing but a crop comes before."""
        return replace(self, rest=(*self.rest, size)) if self.size or self.rest else replace(self, size=size)

    def then_crop(self, box: Box) -> Steps:
        """Add a crop: the decoder's own, within the one that it has, if nothing else comes before."""
        if self.size or self.rest:
            return replace(self, rest=(*self.rest, box))
        top, left = self.crop[:2] if self.crop else (0, 0)
        return replace(self, crop=(top + box[0], left + box[1], *box[2:]))


def as_steps(transforms: Any, size: Size | int | None, crop: Any, displayed: Size) -> Steps:
    """Settle transforms for one video.

    Args:
        transforms: Resize, CenterCrop and RandomCrop of torchcodec.transforms or torchvision.transforms.v2, any of them
            several times; a random crop is drawn here, once, from torch's generator.
        size: As VideoDecoder's; not beside ``transforms``.
        crop: As VideoDecoder's; not beside ``transforms``.
        displayed: (height, width) of the source's pictures.

    Raises:
        UsageError: An unknown transform, or a crop that does not fit.
    """
    try:
        asked = list(transforms or ())
    except TypeError as error:
        raise WrongKind(f"transforms: expected a list of transforms, got {transforms!r}") from error
    if not asked:
        output = PictureRule(size, as_crop(crop)).output(*displayed, Place(0, 0, 0))
        return Steps(output.size, output.crop)
    if size is not None or crop is not None:
        raise UsageError("transforms: expected either transforms=, or size= and crop=, got both")
    steps, current = Steps(), displayed
    for transform in asked:
        name = _known_name(transform)
        sides = _sides(transform, name)
        if name == "Resize":
            steps = steps.then_resize(sides)
        else:
            steps = steps.then_crop(_box(name, sides, current))
        current = sides
    return steps


def _known_name(transform: Any) -> str:
    # A class of the user's own may be derived from one of these.
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


def _sides(transform: Any, name: str) -> Size:
    size: Any = getattr(transform, "size", None)
    sides = [_whole(side, name) for side in size] if hasattr(size, "__iter__") else []
    if len(sides) != 2:
        raise WrongKind(f"the size of {name} must be (height, width), got {size!r}")
    if min(sides) < 1 or sides[0] * sides[1] > DEFAULT_LIMITS.max_pixels:
        raise RefusedValue(
            f"the size of {name} must be from 1x1 to {DEFAULT_LIMITS.max_pixels} pixels, got {sides[0]}x{sides[1]}"
        )
    return sides[0], sides[1]


def _whole(side: Any, name: str) -> int:
    if isinstance(side, float) and side.is_integer():
        return int(side)
    try:
        return operator.index(side)
    except TypeError as error:
        raise WrongKind(f"the size of {name} must be integers, got {side!r}") from error


def _box(name: str, sides: Size, current: Size) -> Box:
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


def _resized(pictures: torch.Tensor, size: Size) -> torch.Tensor:
    """Resize pictures as torchvision does: bilinear, antialiased."""
    if tuple(pictures.shape[-2:]) == size:
        return pictures
    if not pictures.numel():
        return pictures.new_empty((*pictures.shape[:-2], *size))
    batch = pictures if pictures.ndim == 4 else pictures[None]
    resized = interpolate(batch, size=size, mode="bilinear", antialias=True)
    return resized if pictures.ndim == 4 else resized[0]
