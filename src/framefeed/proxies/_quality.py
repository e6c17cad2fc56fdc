"""Compare the pictures of a proxy with those of its original; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from framefeed._arrays import ByteArray, FloatArray

LEAST_PSNR, LEAST_SSIM = 38.0, 0.97
"""Of the luma planes, the mean of the compared frames, in dB and without a unit."""
_MOST_PSNR = 60.0
"""Of nearly equal pictures, such as black ones: they must not outweigh others in a mean."""
_GRID = 8
_MOST_DIFFERENCE = 4.0
"""Levels by which the mean of a 64th of a picture may differ. By crf 18 it is under 1."""
_LEAST_DISTANCE = 0.75
"""Levels, of the 64 means, from which on a picture is another one if it is twice as near to that. Of 40 real videos by
crf 18 it is 0.25 or less, but for one of a screen with 0.44."""
_BLOCK = 4
# Wang et al., "Image quality assessment: from error visibility to structural similarity", IEEE TIP 13(4), 2004.
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


@dataclass(frozen=True, slots=True)
class Quality:
    """How near a proxy's pictures are to its original's, scaled to the same size; in dB but for ``ssim``."""

    psnr: float  # of the luma planes, the mean of the compared frames
    psnr_worst: float  # the smallest of these
    ssim: float  # of the luma planes, the mean
    rgb_psnr: float  # of red, green and blue, the mean

    @property
    def is_enough(self) -> bool:
        """Whether training on the proxy is training on the pictures."""
        return self.psnr >= LEAST_PSNR and self.ssim >= LEAST_SSIM


def compare(pairs: list[tuple[tuple[ByteArray, ByteArray], tuple[ByteArray, ByteArray]]]) -> Quality:
    """Compare pairs of pictures, the right one first: each its luma, uint8 [H, W], and colours, uint8 [H, W, 3]."""
    psnrs = [measure_psnr(right[0], own[0]) for right, own in pairs]
    ssims = [measure_ssim(right[0], own[0]) for right, own in pairs]
    colours = [measure_psnr(right[1], own[1]) for right, own in pairs]
    return Quality(float(np.mean(psnrs)), min(psnrs), float(np.mean(ssims)), float(np.mean(colours)))


def measure_psnr(right: ByteArray, own: ByteArray) -> float:
    """Measure the peak signal-to-noise ratio in dB: 10 log10(255 ** 2 / mean squared error)."""
    error = float(np.mean((right.astype(np.int32) - own) ** 2))
    return min(_MOST_PSNR, 10 * log10(255**2 / error) if error else inf)


def measure_ssim(right: ByteArray, own: ByteArray) -> float:
    """Measure the mean structural similarity of two planes, uint8 [H, W], over windows of 8 x 8 that lie 4 apart.

    The windows are those of libavfilter's ``ssim``; planes of less than 8 rows or columns are one window.
    """
    rows, columns = (max(2 * _BLOCK, side // _BLOCK * _BLOCK) for side in right.shape)
    if min(right.shape) < 2 * _BLOCK:
        right, own = (np.resize(plane, (rows, columns)) for plane in (right, own))
    first, second = (plane[:rows, :columns].astype(np.int64) for plane in (right, own))

    def sum_windows(values: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> FloatArray:
        blocks = values.reshape(rows // _BLOCK, _BLOCK, columns // _BLOCK, _BLOCK).sum(axis=(1, 3)).astype(np.float64)
        windows: FloatArray = (blocks[:-1, :-1] + blocks[1:, :-1] + blocks[:-1, 1:] + blocks[1:, 1:]) / (
            2 * _BLOCK
        ) ** 2
        return windows

    mean, other = sum_windows(first), sum_windows(second)
    variance = sum_windows(first**2 + second**2) - mean**2 - other**2
    covariance = sum_windows(first * second) - mean * other
    similarity = (2 * mean * other + _C1) * (2 * covariance + _C2)
    return float(np.mean(similarity / ((mean**2 + other**2 + _C1) * (variance + _C2))))


def sum_up(luma: ByteArray) -> FloatArray:
    """Sum up a picture, uint8 [H, W] of 8 rows and columns or more: the means of 8 x 8 parts, float64 [64]."""
    rows, columns = (side // _GRID for side in luma.shape)
    # Rows first: NumPy adds whole rows in a third of the time that it takes for all parts at once.
    bands = luma[: rows * _GRID, : columns * _GRID].reshape(_GRID, rows, _GRID * columns)
    sums = np.add.reduce(bands, axis=1, dtype=np.uint32).reshape(_GRID, _GRID, columns).sum(axis=2, dtype=np.int64)
    means: FloatArray = (sums / (rows * columns)).ravel()
    return means


def is_same_picture(right: FloatArray, own: FloatArray, others: Sequence[FloatArray] = ()) -> bool:
    """Whether two pictures may be the same, by `sum_up`, whatever an encoder made of them.

    ``others`` are those before and after the right one: where little moves, these alone tell a repeated frame.
    """
    if np.abs(right - own).max() > _MOST_DIFFERENCE:
        return False
    distance = _measure_distance(right, own)
    return all(distance <= max(_LEAST_DISTANCE, 2 * _measure_distance(each, own)) for each in others)


def _measure_distance(right: FloatArray, own: FloatArray) -> float:
    return float(np.sqrt(np.mean((right - own) ** 2)))
