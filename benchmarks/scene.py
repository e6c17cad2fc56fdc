"""A generated scene that codecs treat much as they treat a film: a still picture that pans, things that move, grain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from framefeed.decode import Pixels

_MARGIN = 128
_GRAIN_PAGES = 8
_GRAIN = 2
"""Levels (standard deviation), about that of a film."""
_THINGS = 5


class Scene:
    """Draws the frames of one scene, whose seed decides all that is in it."""

    def __init__(self, height: int, width: int, seed: int = 1) -> None:
        chance = np.random.Generator(np.random.Philox(key=seed))
        self._size = height, width
        shape = height + 2 * _MARGIN, width + 2 * _MARGIN
        light = _make_clouds(shape, chance)
        tints = [0.25 * _make_clouds(shape, chance) for _ in range(3)]
        self._back = np.stack([np.clip(120 + 45 * light + 45 * tint, 0, 255) for tint in tints], axis=2).astype(
            np.int16
        )
        side = height // 4
        self._things = [
            np.clip(self._back[top : top + side, left : left + side] + shift, 0, 255)
            for top, left, shift in zip(
                chance.integers(0, height - side, _THINGS), chance.integers(0, width - side, _THINGS),
                chance.integers(-70, 70, _THINGS), strict=True,
            )
        ]  # fmt: skip
        self._speeds = chance.uniform(0.004, 0.03, (_THINGS, 2))
        self._starts = chance.uniform(0, 6.28, (_THINGS, 2))
        self._grain = [
            np.rint(chance.normal(0, _GRAIN, (height, width, 1))).astype(np.int16) for _ in range(_GRAIN_PAGES)
        ]

    def draw(self, ordinal: int) -> Pixels:
        """Draw a frame, uint8 RGB [H, W, 3]."""
        (height, width), side = self._size, self._things[0].shape[0]
        top = round(_MARGIN * (1 + 0.9 * np.sin(ordinal / 97)))
        left = round(_MARGIN * (1 + 0.9 * np.cos(ordinal / 131)))
        picture = self._back[top : top + height, left : left + width].copy()
        for thing, speed, start in zip(self._things, self._speeds, self._starts, strict=True):
            row, column = (0.5 + 0.5 * np.sin(start + speed * ordinal)) * (height - side, width - side)
            picture[round(row) : round(row) + side, round(column) : round(column) + side] = thing
        picture += np.roll(self._grain[ordinal % _GRAIN_PAGES], ordinal * 37, axis=1)
        return np.clip(picture, 0, 255).astype(np.uint8)


def _make_clouds(shape: tuple[int, int], chance: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise with the spectrum of natural pictures, 1 / f; mean 0, standard deviation 1."""
    rows, columns = np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None]
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = 1
    phases = np.exp(2j * np.pi * chance.random(frequency.shape))
    clouds = np.fft.irfft2(phases / frequency, shape)
    clouds -= clouds.mean()
    return np.asarray(clouds / clouds.std(), dtype=np.float64)
