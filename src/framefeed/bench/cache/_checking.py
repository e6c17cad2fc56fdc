"""Whether what comes back from a format is what was stored, and how it looks where it is not meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framefeed.bench._frames import psnr
from framefeed.decode import Pixels
from framefeed.encode import SheetClip, draw_contact_sheet

CROP = 40
"""Side of a crop in pixels: five blocks of a JPEG."""
MAGNIFIED = 4
_STEP = 8
_LINE = 2
"""Columns between the two, white."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameSquare:
    """A square of one frame.

    Attributes:
        number: Of the frame in the sample.
        top: Row of its upper left corner.
        left: Column of it.
        original: RGB as decoded, uint8 [h, w, 3].
        stored: RGB as it came back.
    """

    number: int
    top: int
    left: int
    original: Pixels
    stored: Pixels

    @property
    def psnr(self) -> float:
        """Of the square alone, in dB."""
        return psnr(self.stored, self.original)


@dataclass(frozen=True, slots=True)
class Checked:
    """What came back.

    Attributes:
        differing: Places in the sample of the frames that are not the same, bit for bit.
        missing: Places of those that did not come, or in another shape.
        psnr_mean: Of the frames, in dB; infinite where none differs.
        psnr_worst: Of the frame that differs most.
        worst: The square that differs most; None where none differs, or it was not looked for.
        same: The square that was asked for, as it came back.
    """

    differing: list[int]
    missing: list[int]
    psnr_mean: float
    psnr_worst: float
    worst: FrameSquare | None = None
    same: FrameSquare | None = None

    def describe(self) -> list[str]:
        """What is wrong, for a format that is exact; nothing, if all is well."""
        if not self.differing and not self.missing:
            return []
        return [f"{len(self.differing)} frames differ, {len(self.missing)} did not come"]


@dataclass(frozen=True, slots=True)
class CropRequest:
    """Which squares of RGB frames to keep for looking at.

    Attributes:
        at: One of these places, besides the one that differs most.
    """

    at: FrameSquare | None = None


def check(
    came: Iterable[tuple[int, Pixels]], originals: Sequence[Pixels], request: CropRequest | None = None
) -> Checked:
    """Compare what a format gives with what it was given.

    Args:
        came: (Place, frame), each valid until the next.
        originals: The frames by number.
        request: Which squares to keep; the frames are [H, W, 3] then.
    """
    differing: list[int] = []
    missing = set(range(len(originals)))
    ratios: list[float] = []
    worst = same = None
    most = 0.0
    for number, frame in came:
        original = originals[number]
        if frame.shape != original.shape:
            continue
        missing.discard(number)
        if request is not None and request.at is not None and request.at.number == number:
            same = _crop(number, (request.at.top, request.at.left), original, frame)
        if np.array_equal(frame, original):
            continue
        differing.append(number)
        squares = (frame.astype(np.float32) - original) ** 2
        ratios.append(float(10 * np.log10(255**2 / squares.mean(dtype=np.float64))))
        if request is not None:
            error, corner = _worst_square(squares.sum(axis=2))
            if error > most:
                most, worst = error, _crop(number, corner, original, frame)
    infinite = float("inf")
    mean = float(np.mean(ratios)) if ratios else infinite
    return Checked(sorted(differing), sorted(missing), mean, min(ratios, default=infinite), worst, same)


def crops_sheet(rows: Sequence[tuple[str, Sequence[tuple[str, FrameSquare]]]]) -> Pixels:
    """Draw crops, each as original beside stored, four times as large.

    Args:
        rows: Title, and (caption, crop) of each format.

    Returns:
        RGB, uint8 [H, W, 3].
    """
    return draw_contact_sheet([
        SheetClip(title, [_beside(crop) for _, crop in crops], [caption for caption, _ in crops])
        for title, crops in rows
    ])  # fmt: skip


def _beside(crop: FrameSquare) -> Pixels:
    left, right = (np.repeat(np.repeat(side, MAGNIFIED, 0), MAGNIFIED, 1) for side in (crop.original, crop.stored))
    left[:, -_LINE:] = 255
    return np.hstack([left, right])


def _worst_square(squares: npt.NDArray[np.float32]) -> tuple[float, tuple[int, int]]:
    """Sum of squared differences of the worst square, and its upper left corner, at a multiple of 8 pixels.

    Args:
        squares: Squared differences, float32 [H, W].
    """
    rows, columns = (np.arange(0, side, _STEP) for side in squares.shape)
    blocks = np.add.reduceat(np.add.reduceat(squares, columns, axis=1), rows, axis=0)
    total = np.pad(blocks.cumsum(0, dtype=np.float64).cumsum(1), ((1, 0), (1, 0)))
    down, right = (min(CROP // _STEP, count) for count in blocks.shape)
    sums = total[down:, right:] - total[:-down, right:] - total[down:, :-right] + total[:-down, :-right]
    row, column = np.unravel_index(int(sums.argmax()), sums.shape)
    return float(sums[row, column]), (_STEP * int(row), _STEP * int(column))


def _crop(number: int, corner: tuple[int, int], original: Pixels, frame: Pixels) -> FrameSquare:
    top, left = corner
    square = (slice(top, top + CROP), slice(left, left + CROP))
    return FrameSquare(number, top, left, original[square].copy(), frame[square].copy())
