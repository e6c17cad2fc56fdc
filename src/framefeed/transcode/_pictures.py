"""Check what the user's function returns, and make pictures of it; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from framefeed._arrays import AnyArray, ByteArray
from framefeed._checks import describe_value
from framefeed.errors import UsageError

_WHAT = "a picture (uint8 [H, W, 3]), a list of pictures, or None"


def take_pictures(result: Any) -> list[ByteArray]:
    """Return the pictures of one frame's result, none for None; raise UsageError that says how to convert others."""
    if result is None:
        return []
    if isinstance(result, list | tuple):
        return [_take_picture(picture) for picture in result]
    return [_take_picture(result)]


def _take_picture(value: Any) -> ByteArray:
    if isinstance(value, Iterator):
        raise _make_error(f"{describe_value(value)}: return list(...) of it")
    if not isinstance(value, np.ndarray):
        if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
            raise _make_error(describe_value(value))
        value = np.asarray(value)
    if value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3 and value.size:
        return value  # type: ignore[no-any-return]
    raise _make_error(f"{value.dtype} {list(value.shape)}{_advise(value)}")


def _advise(picture: AnyArray) -> str:
    if not picture.size:
        return ": it is empty"
    if picture.dtype.kind == "f":
        return ": scale it to 0 to 255, and use picture.round().clip(0, 255).astype(np.uint8)"
    if picture.dtype != np.uint8:
        return ": use picture.astype(np.uint8)"
    if picture.ndim == 2:
        return (
            ": the axis of the channels is missing: a grey picture as [H, W, 3] is "
            "np.repeat(picture[:, :, np.newaxis], 3, axis=2)"
        )
    if picture.ndim == 3 and picture.shape[2] == 1:
        return ": it has one channel: a grey picture as [H, W, 3] is np.repeat(picture, 3, axis=2)"
    if picture.ndim == 3 and picture.shape[2] == 4:
        return ": leave out the alpha channel, picture[:, :, :3]"
    if picture.ndim == 3 and picture.shape[0] == 3:
        return ": put the channels last, picture.transpose(1, 2, 0)"
    if picture.ndim == 4:
        return ": for several pictures, return a list of them"
    return ""


def _make_error(given: str) -> UsageError:
    return UsageError(f"expected the function to return {_WHAT}; got {given}")


def split_batch(results: Any, count: int) -> list[Any]:
    """Split the result for several frames into one for each."""
    if isinstance(results, np.ndarray) and results.ndim and len(results) == count:
        return list(results)
    if isinstance(results, list | tuple) and len(results) == count:
        return list(results)
    has_length = isinstance(results, np.ndarray | list | tuple) and np.ndim(results) > 0
    given = f"{len(results)} results" if has_length else describe_value(results)
    raise UsageError(
        f"expected the function to return a list of {count} results, one for each frame of the batch; got {given}"
    )


def draw_mosaic(pictures: list[ByteArray]) -> ByteArray:
    """Draw pictures of one size as one, row by row; four become 2 x 2, and what is left over is black."""
    if len(pictures) == 1:
        return pictures[0]
    sizes = sorted({picture.shape[:2] for picture in pictures})
    if len(sizes) > 1:
        raise UsageError(f"expected pictures of one size for one frame, got {sizes[0]} and {sizes[1]} (height, width)")
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = -(-len(pictures) // columns)
    height, width = sizes[0]
    drawn = np.empty((rows * height, columns * width, 3), dtype=np.uint8)
    if rows * columns > len(pictures):
        drawn[(rows - 1) * height :] = 0
    for number, picture in enumerate(pictures):
        top, left = number // columns * height, number % columns * width
        drawn[top : top + height, left : left + width] = picture
    return drawn
