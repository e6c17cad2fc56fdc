"""Whether what comes back from a format is what was stored, and how it appears where it is not meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from framefeed.bench._frames import psnr
from framefeed.decode import Pixels
from framefeed.encode import SheetClip, draw_contact_sheet

CROP = 40
"""Side of a crop in pixels: five blocks of a JPEG."""
MAGNIFIED = 4
_LINE = 2
"""Columns between the two, white."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameSquare:
    """A square of one frame."""

    number: int
    top: int
    left: int
    original: Pixels
    stored: Pixels

    @classmethod
    def cut(cls, number: int, top: int, left: int, original: Pixels, stored: Pixels) -> FrameSquare:
        """Cut it out of two frames, and keep a copy."""
        square = (slice(top, top + CROP), slice(left, left + CROP))
        return cls(number, top, left, original[square].copy(), stored[square].copy())


@dataclass(frozen=True, slots=True)
class Checked:
    """What came back."""

    differing: list[int]  # numbers in the sample of the frames that are not the same, bit for bit
    missing: list[int]  # numbers of those that did not come, or in another shape
    psnr_mean: float  # of the frames that differ, in dB; infinite where none does
    psnr_worst: float
    # The square that differs most; None where none differs, or no crops were asked for.
    worst: FrameSquare | None = None
    same: FrameSquare | None = None  # the square that was asked for, as it came back

    def describe(self) -> list[str]:
        """What is wrong, for a format that is exact; nothing, if all is well."""
        if not self.differing and not self.missing:
            return []
        return [f"{len(self.differing)} frames differ, {len(self.missing)} did not come"]


def check(
    came: Iterable[tuple[int, Pixels]],
    originals: Sequence[Pixels],
    *,
    crops: bool = False,
    at: FrameSquare | None = None,
) -> Checked:
    """Compare frames that came, each valid until the next, with the originals by number.

    With ``crops``, for which frames are [H, W, 3], the square that differs most is kept, and the one of ``at`` too.
    """
    missing, ratios, worst, same, most = set(range(len(originals))), dict[int, float](), None, None, 0.0
    for number, frame in came:
        original = originals[number]
        if frame.shape != original.shape:
            continue
        missing.discard(number)
        if at is not None and at.number == number:
            same = FrameSquare.cut(number, at.top, at.left, original, frame)
        if np.array_equal(frame, original):
            continue
        ratios[number] = psnr(frame, original)
        if crops:
            squares = ((frame.astype(np.float32) - original) ** 2).sum(axis=2)
            rows, columns = (np.arange(0, side, CROP) for side in squares.shape)
            sums = np.add.reduceat(np.add.reduceat(squares, columns, axis=1), rows, axis=0)
            if sums.max() > most:
                most = float(sums.max())
                row, column = np.unravel_index(int(sums.argmax()), sums.shape)
                worst = FrameSquare.cut(number, CROP * int(row), CROP * int(column), original, frame)
    values = list(ratios.values()) or [float("inf")]
    return Checked(sorted(ratios), sorted(missing), sum(values) / len(values), min(values), worst, same)


def draw_crops(rows: Sequence[tuple[str, Sequence[tuple[str, FrameSquare]]]]) -> Pixels:
    """Draw crops, each as original beside stored, four times as large; RGB, uint8 [H, W, 3]."""

    def beside(crop: FrameSquare) -> Pixels:
        left, right = (side.repeat(MAGNIFIED, 0).repeat(MAGNIFIED, 1) for side in (crop.original, crop.stored))
        left[:, -_LINE:] = 255
        return np.hstack([left, right])

    return draw_contact_sheet([
        SheetClip(title, [beside(crop) for _, crop in crops], [caption for caption, _ in crops])
        for title, crops in rows
    ])  # fmt: skip
