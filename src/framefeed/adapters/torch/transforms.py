"""TorchCodec's and torchvision's decoder transforms, told by their names: neither package need be installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from framefeed.errors import UsageError
from framefeed.plan.chance import Place
from framefeed.plan.crops import as_crop
from framefeed.plan.pictures import PictureRule

Size = tuple[int, int]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do with each picture: crop, resize, then cut boxes out of the result.

    Attributes:
        size: (height, width) to resize to, or None.
        crop: (top, left, height, width) before that, or None.
        cuts: Boxes to cut out afterwards, one after the other.
    """

    size: Size | None
    crop: Box | None
    cuts: tuple[Box, ...] = ()

    def cut(self, pixels: Any, dimension_order: str) -> Any:
        """Cut the boxes out of pixels [..., C, H, W] or [..., H, W, C]."""
        for top, left, height, width in self.cuts:
            rows, columns = slice(top, top + height), slice(left, left + width)
            pixels = pixels[..., rows, columns] if dimension_order == "NCHW" else pixels[..., rows, columns, :]
        return pixels


def as_steps(transforms: Sequence[Any] | None, size: Size | int | None, crop: Any, displayed: Size) -> Steps:
    """Settle transforms for one video.

    Args:
        transforms: Resize, CenterCrop and RandomCrop of torchcodec.transforms or torchvision.transforms.v2; a random
            crop is drawn here, once, from torch's generator.
        size: As VideoDecoder's; not beside ``transforms``.
        crop: As VideoDecoder's; not beside ``transforms``.
        displayed: (height, width) of the source's pictures.

    Raises:
        UsageError: An unknown transform, or a crop that does not fit.
    """
    if not transforms:
        output = PictureRule(size, as_crop(crop)).output(*displayed, Place(0, 0, 0))
        return Steps(output.size, output.crop)
    if size is not None or crop is not None:
        raise UsageError("give either transforms or size and crop")
    steps, current = Steps(None, None), displayed
    for transform in transforms:
        steps, current = _with_step(steps, current, transform)
    return steps


def _with_step(steps: Steps, current: Size, transform: Any) -> tuple[Steps, Size]:
    name = type(transform).__name__
    if name == "Resize":
        target = _resized(transform.size, current)
        if steps.size is not None or steps.cuts:
            raise UsageError("transforms can resize once, with crops before or after it")
        return Steps(target, steps.crop), target
    if name not in ("CenterCrop", "RandomCrop"):
        raise UsageError(f"unknown transform {name}: use Resize, CenterCrop or RandomCrop")
    box = _box(name, _pair(transform.size), current)
    if steps.size is None and steps.crop is None:
        return Steps(None, box), box[2:]
    return Steps(steps.size, steps.crop, (*steps.cuts, box)), box[2:]


def _pair(size: Any) -> Size:
    sides = [size, size] if isinstance(size, int) else list(size)
    if len(sides) == 1:
        sides *= 2
    if len(sides) != 2:
        raise UsageError(f"a size is (height, width), not {size!r}")
    return int(sides[0]), int(sides[1])


def _resized(size: Any, current: Size) -> Size:
    if isinstance(size, int) or (isinstance(size, Sequence) and len(size) == 1):
        short = size if isinstance(size, int) else size[0]
        output = PictureRule(int(short)).output(*current, Place(0, 0, 0))
        return output.size or current
    return _pair(size)


def _box(name: str, wanted: Size, current: Size) -> Box:
    (rows, columns), (height, width) = wanted, current
    if rows > height or columns > width:
        raise UsageError(f"{name} of {rows}x{columns} does not fit pictures of {height}x{width}")
    if name == "CenterCrop":
        return round((height - rows) / 2), round((width - columns) / 2), rows, columns
    top = int(torch.randint(0, height - rows + 1, ()).item())
    left = int(torch.randint(0, width - columns + 1, ()).item())
    return top, left, rows, columns
