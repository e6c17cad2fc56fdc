"""The form of each clip's pictures, and the check, before anything is decoded, that all come out equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from framefeed._checks import check_integer, expected
from framefeed.errors import UsageError
from framefeed.index.frame_index import IntArray
from framefeed.plan.chance import Place
from framefeed.plan.crops import Crop, Size
from framefeed.plan.request import OutputSpec


@dataclass(frozen=True)
class PictureRule:
    """``size=`` and ``crop=`` of a plan: crop first, then resize.

    Attributes:
        size: (height, width); or an int for the short side, the long one being int(size * long / short); or None.
        crop: The part of the picture, or None for all of it.
    """

    size: Size | int | None = None
    crop: Crop | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _checked_size(self.size))
        if self.crop is None or not self.crop.resizes:
            return
        if not isinstance(self.size or self.crop.size, tuple):
            raise UsageError(
                f"expected one output size, got {self.crop!r} with size={self.size}: give either size=(height, width), "
                "or the crop a height and width"
            )
        if self.size is not None and self.crop.size not in (None, self.size):
            raise UsageError(f"size={self.size} contradicts {self.crop!r}: give the size in one place only")

    def output(self, height: int, width: int, place: Place) -> OutputSpec:
        """Settle the form for one clip.

        Args:
            height: Rows of the displayed picture; -1 where unknown.
            width: Columns of the displayed picture; -1 where unknown.
            place: Where in the epoch the clip is; the crop draws from its generator.

        Raises:
            UsageError: The crop does not fit, or the unknown size is needed.
        """
        if min(height, width) < 1 and (self.crop is not None or not isinstance(self.size, tuple)):
            raise UsageError("the size of this picture is not known: use size=(height, width) without a crop")
        box = None if self.crop is None else self.crop.box(height, width, place)
        if self.crop is not None and self.crop.resizes and self.size is None:
            return OutputSpec(self.crop.size, box)
        rows, columns = (height, width) if box is None else box[2:]
        size = short_side(self.size, rows, columns) if isinstance(self.size, int) else self.size
        return OutputSpec(size, box)

    def shape(self, height: int, width: int) -> tuple[int, int, int]:
        """(C, H, W) in which a picture comes out; it does not depend on the draw of a crop."""
        return self.output(height, width, Place(0, 0, 0)).shape(height, width)

    def common_picture(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> Size | None:
        """Find the one (height, width) in which all pictures come out; None if there are no pictures.

        Args:
            heights: Rows of the displayed pictures, int64 [R].
            widths: Columns of the displayed pictures, int64 [R].
            name: Gives the name of picture r, for messages.

        Raises:
            UsageError: They come out unequal, or a crop does not fit.
        """
        if isinstance(self.size, tuple) and self.crop is None:
            return self.size if len(heights) else None  # whatever the pictures were
        found = self._shapes(heights, widths, name)
        if len(found) > 1:
            (one, first), (other, second) = list(found.items())[:2]
            raise UsageError(
                f"all pictures of a plan must have the same size, but {name(first)} gives {one[0]} x {one[1]} and "
                f"{name(second)} gives {other[0]} x {other[1]} (height x width): give size=(height, width), "
                "or a crop to one size, or make several plans with catalog.filter(), or give plan_clips unequal=True, "
                "which makes each batch a list of clips (on the command line: --size HEIGHTxWIDTH, such as --size "
                f"{one[0]}x{one[1]})"
            )
        return next(iter(found), None)

    def check_pictures(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> None:
        """Check that the form can be settled for all pictures, which may differ; see ``common_picture``.

        Raises:
            UsageError: A crop does not fit, or a size is unknown that is needed.
        """
        if self.crop is None:
            # Any size will do, if it is known: a look at each would take seconds over a million pictures.
            unknown = np.flatnonzero(np.minimum(heights, widths) < 1)[:1]
            self._shapes(heights[unknown], widths[unknown], lambda at: name(int(unknown[at])))
        else:
            self._shapes(heights, widths, name)

    def _shapes(self, heights: IntArray, widths: IntArray, name: Callable[[int], str]) -> dict[Size, int]:
        """Find each (height, width) that comes out, and the first picture that it comes out of."""
        _, first_of = np.unique(heights * (1 << 32) + widths, return_index=True)
        found: dict[Size, int] = {}
        for row in np.sort(first_of).tolist():
            height, width = int(heights[row]), int(widths[row])
            try:
                shape = self.shape(height, width)
            except UsageError as error:
                raise UsageError(f"{name(row)}: {error}", source=name(row), stage="plan") from None
            found.setdefault(shape[1:], row)
        return found


def short_side(size: int, height: int, width: int) -> Size:
    """Scale a picture so that its short side is ``size``; the long side is int(size * long / short)."""
    if height <= width:
        return size, size * width // height
    return size * height // width, size


def _checked_size(size: Size | int | Sequence[int] | None) -> Size | int | None:
    if size is None:
        return None
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        return check_integer("size", size, least=1)
    if isinstance(size, (list, tuple, np.ndarray)):
        return OutputSpec(size).size  # type: ignore[arg-type]
    raise expected("size", "(height, width), or an integer for the short side", size)
