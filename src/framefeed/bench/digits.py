"""Pictures that show their number, drawn without a font library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from framefeed.decode.decoder import Pixels

# Rows of 5 cells, the leftmost the highest bit: the usual 5x7 figures.
_FIGURES = (
    (14, 17, 19, 21, 25, 17, 14),
    (4, 12, 4, 4, 4, 4, 14),
    (14, 17, 1, 2, 4, 8, 31),
    (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2),
    (31, 16, 30, 1, 1, 17, 14),
    (6, 8, 16, 30, 17, 17, 14),
    (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14),
    (14, 17, 17, 15, 1, 2, 12),
)
_BLUE = (0, 0, 255)
_COLUMNS = 6


def numbered_picture(number: int, height: int, width: int) -> Pixels:
    """Draw a number in white on flat blue, uint8 RGB [height, width, 3]."""
    picture = np.empty((height, width, 3), dtype=np.uint8)
    picture[:] = _BLUE
    cells = np.concatenate([_cells(int(figure)) for figure in f"{number:05}"], axis=1)
    scale = min(height // 2 // cells.shape[0], width // cells.shape[1])
    drawn = cells.repeat(scale, axis=0).repeat(scale, axis=1)
    top, left = (height - drawn.shape[0]) // 2, (width - drawn.shape[1]) // 2
    picture[top : top + drawn.shape[0], left : left + drawn.shape[1]][drawn] = 255
    return picture


def _cells(figure: int) -> npt.NDArray[np.bool_]:
    rows = np.array(_FIGURES[figure])[:, None]
    bits = (rows >> np.arange(4, -1, -1) & 1).astype(bool)
    return np.pad(bits, ((0, 0), (0, _COLUMNS - bits.shape[1])))
