"""Draw and read frame numbers as black and white cells, which stay readable after lossy coding.

The upper half of a picture is a grid of 4 rows and 8 columns of cells; the lower half a moving texture, so that
codecs make real P and B frames. In row order the cells hold::

    F D D D D D D F      F  8 finder cells, a fixed pattern that differs in all 8 orientations
    F D D D D D D F      D 16 data bits (the number, Gray coded) and 8 bits of CRC
    F D D D D D D F
    F D D D D D D F

Cells are read by their middle, relative to the finder cells, and a cell that is neither clearly dark nor clearly
light makes the stamp unreadable: two frames blended into one do not pass as either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import ByteArray
from framefeed._units import format_share

ROWS = 4
COLUMNS = 8
MAX_NUMBER = (1 << 16) - 1
MIN_HEIGHT = 24
MIN_WIDTH = 32

# Video range, so that the limited-range round trip clips nothing.
_DARK = 16
_LIGHT = 235
_MIN_CONTRAST = 0.1
_MAX_DOUBT = 0.3

# Left column downwards, then right column downwards: equal to none of its rotations or mirror images.
_FINDER = np.array([[1, 0], [1, 0], [0, 0], [1, 1]], dtype=bool)

# Colour of the texture by style; each is clearly brighter in other channels than its neighbours.
COLOURS: tuple[tuple[str, tuple[int, int, int]], ...] = (
    ("red", (220, 60, 50)),
    ("blue", (50, 80, 220)),
    ("green", (60, 190, 70)),
    ("yellow", (225, 200, 50)),
    ("violet", (160, 70, 200)),
    ("teal", (40, 180, 190)),
)
_DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1))


@dataclass(frozen=True, slots=True)
class StampReading:
    """A stamp found in a picture that may be turned.

    Attributes:
        number: The frame number.
        rotation: Degrees counter-clockwise by which the picture must be turned to stand upright.
        mirrored: Whether it must, after that turn, also be mirrored left to right.
    """

    number: int
    rotation: int
    mirrored: bool


def draw_stamp(number: int, height: int, width: int, *, style: int = 0, seed: int = 0) -> ByteArray:
    """Draw one frame that shows its number.

    Args:
        number: The number to draw, 0 to 65535.
        height: Rows, at least 24 (cells are 8x8 pixels or more from 64x64 on).
        width: Columns, at least 32.
        style: Colour and direction of the moving texture, for example one for each class of videos.
        seed: Seed of the texture.

    Returns:
        uint8 RGB picture [height, width, 3].

    Raises:
        ValueError: If the number or the size is out of range.
    """
    if not 0 <= number <= MAX_NUMBER:
        raise ValueError(f"number: expected 0 to {MAX_NUMBER}, got {number}")
    if height < MIN_HEIGHT or width < MIN_WIDTH:
        raise ValueError(
            f"expected at least {MIN_HEIGHT}x{MIN_WIDTH} (height x width) for a stamp, got {height}x{width}"
        )
    dy, dx = _DIRECTIONS[style % len(_DIRECTIONS)]
    speed = 2 + seed % 3
    picture = np.roll(
        _draw_texture(height, width, style, seed), (dy * speed * number, dx * speed * number), axis=(0, 1)
    )
    gray = number ^ (number >> 1)
    word = (gray << 8) | _compute_crc8(number)
    data = np.array([word >> shift & 1 for shift in range(23, -1, -1)], dtype=bool).reshape(ROWS, COLUMNS - 2)
    cells = np.concatenate([_FINDER[:, :1], data, _FINDER[:, 1:]], axis=1)
    rows, columns = _compute_edges(height, width)
    bits = np.where(cells, _LIGHT, _DARK).astype(np.uint8)
    picture[: rows[-1]] = bits.repeat(np.diff(rows), axis=0).repeat(np.diff(columns), axis=1)[:, :, None]
    return picture


def read_stamp(frame: npt.NDArray[Any]) -> int:
    """Read the number of an upright frame.

    Args:
        frame: Picture [H, W, 3], [3, H, W] or [H, W]; integers, or floats of any scale.

    Returns:
        The number that was drawn.

    Raises:
        ValueError: If there is no stamp, or it is damaged, blended or turned.
    """
    return _read_luma(_extract_luma(frame))


def find_stamp(frame: npt.NDArray[Any]) -> StampReading:
    """Read the number of a frame that may be turned or mirrored.

    Args:
        frame: As for `read_stamp`.

    Returns:
        The number and the orientation in which it could be read.

    Raises:
        ValueError: If no orientation has a readable stamp.
    """
    luma = _extract_luma(frame)
    for turns in range(4):
        for mirrored in (False, True):
            upright = np.rot90(luma, turns)
            try:
                number = _read_luma(upright[:, ::-1] if mirrored else upright)
            except ValueError:
                continue
            return StampReading(number, 90 * turns, mirrored)
    raise ValueError(f"no stamp found in any orientation of the picture of shape {list(frame.shape)}")


def read_stamps(frames: npt.NDArray[Any]) -> list[int]:
    """Read the numbers of a batch of upright frames.

    Args:
        frames: Pictures [N, H, W, 3] or [N, 3, H, W].

    Returns:
        One number per frame.

    Raises:
        ValueError: If one of them is unreadable; the message says which.
    """
    numbers = []
    for number, frame in enumerate(frames):
        try:
            numbers.append(read_stamp(frame))
        except ValueError as error:
            raise ValueError(f"frame {number} of {len(frames)}: {error}") from error
    return numbers


def _extract_luma(frame: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    values = np.asarray(frame)
    if values.ndim == 3:
        channels_first = values.shape[0] in (1, 3) and values.shape[2] not in (1, 3)
        # Stamps are black and white: the green channel, or the only one, is enough.
        values = values[values.shape[0] // 2] if channels_first else values[:, :, values.shape[2] // 2]
    if values.ndim != 2 or values.shape[0] < ROWS * 2 or values.shape[1] < COLUMNS:
        raise ValueError(f"frame: expected [H, W, 3], [3, H, W] or [H, W] with a stamp, got shape {list(frame.shape)}")
    return values.astype(np.float32, copy=False)


def _read_luma(luma: npt.NDArray[np.float32]) -> int:
    rows, columns = _compute_edges(*luma.shape)
    levels: npt.NDArray[np.floating[Any]] = _make_weights(rows) @ luma[: rows[-1]] @ _make_weights(columns).T
    sides = levels[:, [0, -1]]
    light, dark = float(sides[_FINDER].mean()), float(sides[~_FINDER].mean())
    if light - dark < _MIN_CONTRAST:
        raise ValueError("no stamp found: the cells at the left and right edges are not clearly black and white")
    shares = (levels - dark) / (light - dark)
    bits = shares > 0.5
    doubt = float(np.abs(shares - bits).max())
    if doubt > _MAX_DOUBT:
        raise ValueError(
            f"stamp unreadable: a cell is {format_share(doubt)} of the contrast away from black or white: it may be "
            "blurred or blended"
        )
    if not np.array_equal(bits[:, [0, -1]], _FINDER):
        raise ValueError("no stamp found: the edge cells show another pattern; find_stamp also reads turned pictures")
    return _decode_number(bits[:, 1:-1].ravel())


@lru_cache(maxsize=64)
def _make_weights(edges: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Make weights [cells, samples] that average the middle half of each cell: coding and resizing blur its edges."""
    weights = np.zeros((len(edges) - 1, edges[-1]), np.float32)
    for cell, (start, stop) in enumerate(pairwise(edges)):
        rim = (stop - start) // 4
        weights[cell, start + rim : stop - rim] = 1 / (stop - start - 2 * rim)
    return weights


@lru_cache(maxsize=64)
def _compute_edges(height: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rows = tuple(row * height // (2 * ROWS) for row in range(ROWS + 1))
    columns = tuple(column * width // COLUMNS for column in range(COLUMNS + 1))
    return rows, columns


def _decode_number(bits: npt.NDArray[np.bool_]) -> int:
    word = int("".join("1" if bit else "0" for bit in bits), 2)
    gray, check = word >> 8, word & 0xFF
    number = 0
    while gray:
        number ^= gray
        gray >>= 1
    if _compute_crc8(number) != check:
        raise ValueError(f"stamp damaged: its checksum does not match its number {number}")
    return number


def _compute_crc8(number: int) -> int:
    """CRC-8 of two bytes, polynomial x^8 + x^2 + x + 1, started at 0xFF so that all-black is no valid stamp."""
    crc = 0xFF
    for byte in (number >> 8, number & 0xFF):
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc


@lru_cache(maxsize=8)
def _draw_texture(height: int, width: int, style: int, seed: int) -> ByteArray:
    # Blocks of 4 pixels: fine enough to need residuals, coarse enough to stay cheap at low bit rates.
    noise = np.random.default_rng([style, seed]).integers(-40, 41, (-(-height // 4), -(-width // 4)))
    shade = noise.repeat(4, axis=0).repeat(4, axis=1)[:height, :width, None]
    colour = np.array(COLOURS[style % len(COLOURS)][1])
    texture: ByteArray = np.clip(colour + shade, 0, 255).astype(np.uint8)
    texture.setflags(write=False)
    return texture
