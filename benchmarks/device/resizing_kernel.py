"""A first Triton kernel: planes -> resized, normalised bfloat16 in one pass, without RGB of the full size.

Imported only where Triton is. With TRITON_INTERPRET=1 it runs on CPU tensors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from benchmarks.device.resizing import CENTRE, MEAN, STD, Conversion

_BLOCK = 64


@triton.jit
def _weigh(distance, support):
    return tl.maximum(0.0, 1.0 - tl.abs(distance) / support)


@triton.jit
def _filter(
    plane, rows, columns, step, row, column, mask, scale_y, scale_x, shift, taps_y: tl.constexpr, taps_x: tl.constexpr
):
    """Filter one row of outputs: `column` is a block; `step` is the distance of samples in a row."""
    support_y, support_x = tl.maximum(scale_y, 1.0), tl.maximum(scale_x, 1.0)
    centre_y, centre_x = (row + 0.5) * scale_y, (column + 0.5) * scale_x + shift
    first_y = tl.floor(centre_y - support_y).to(tl.int32)
    first_x = tl.floor(centre_x - support_x).to(tl.int32)
    total = tl.zeros_like(centre_x)
    sum_x = tl.zeros_like(centre_x)
    sum_y = 0.0
    for j in range(taps_x):
        x = first_x + j
        sum_x += tl.where((x >= 0) & (x < columns), _weigh(x + 0.5 - centre_x, support_x), 0.0)
    for i in range(taps_y):
        y = first_y + i
        is_row = (y >= 0) & (y < rows)
        weight_y = tl.where(is_row, _weigh(y + 0.5 - centre_y, support_y), 0.0)
        sum_y += weight_y
        for j in range(taps_x):
            x = first_x + j
            inside = mask & is_row & (x >= 0) & (x < columns)
            sample = tl.load(plane + y * columns * step + x * step, mask=inside, other=0).to(tl.float32)
            total += weight_y * _weigh(x + 0.5 - centre_x, support_x) * sample
    return total / (sum_x * sum_y)


@triton.jit
def _resize(
    luma, chroma, numbers, out, height, width, out_height, out_width, scale_y, scale_x, shift,
    taps_y: tl.constexpr, taps_x: tl.constexpr, chroma_y: tl.constexpr, chroma_x: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    frame, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.program_id(2) * block + tl.arange(0, block)
    mask = column < out_width
    rows, columns = (height + 1) // 2, (width + 1) // 2
    light = _filter(
        luma + frame * height * width, height, width, 1, row, column, mask, scale_y, scale_x, 0.0, taps_y, taps_x
    )
    half_y, half_x = scale_y * rows / height, scale_x * columns / width
    pairs = chroma + frame * rows * columns * 2
    blue = _filter(pairs, rows, columns, 2, row, column, mask, half_y, half_x, shift, chroma_y, chroma_x)
    red = _filter(pairs + 1, rows, columns, 2, row, column, mask, half_y, half_x, shift, chroma_y, chroma_x)
    for channel in range(3):
        line = numbers + channel * 6  # three of the matrix, the offset, the factor and the last summand
        value = tl.load(line) * light + tl.load(line + 1) * blue + tl.load(line + 2) * red + tl.load(line + 3)
        value = tl.minimum(tl.maximum(value, 0.0), 255.0) * tl.load(line + 4) + tl.load(line + 5)
        target = out + ((frame * 3 + channel) * out_height + row) * out_width + column
        tl.store(target, value.to(tl.bfloat16), mask=mask)


class TritonResize:
    """One launch per batch; arguments as of ``TorchResize``."""

    def __init__(
        self, device: str, frame: tuple[int, int], size: tuple[int, int], conversion: Conversion, siting: float = CENTRE
    ) -> None:
        self._size, self._siting = size, siting
        self._scales = frame[0] / size[0], frame[1] / size[1]
        std = np.array(STD) * 255
        columns = [conversion.matrix, conversion.offset[:, None], 1 / std[:, None], -(np.array(MEAN) / STD)[:, None]]
        self._numbers = torch.tensor(np.hstack(columns), dtype=torch.float32, device=device)

    def __call__(self, luma: Any, chroma: Any) -> Any:
        """Resize contiguous uint8 planes to bfloat16 [N, 3, h, w]."""
        frames, height, width = luma.shape
        out = torch.empty((frames, 3, *self._size), dtype=torch.bfloat16, device=luma.device)
        taps = [math.ceil(2 * max(scale, 1)) + 1 for scale in self._scales]
        chroma_taps = [math.ceil(2 * max(scale / 2, 1)) + 2 for scale in self._scales]
        grid = (frames, self._size[0], triton.cdiv(self._size[1], _BLOCK))
        _resize[grid](
            luma, chroma, self._numbers, out, height, width, *self._size, *self._scales, self._siting,
            *taps, *chroma_taps, block=_BLOCK,
        )  # fmt: skip
        return out
