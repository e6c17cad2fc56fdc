"""Input of a ClipDataset's transform, and replacements for clips that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from framefeed.encode.stills import as_image
from framefeed.errors import UsageError

Output = Literal["tensor", "numpy", "pil"]
IGNORED_TARGET = -100
"""The default ``ignore_index`` of torch's losses."""


GIVEN = {
    "tensor": 'a tensor, uint8 [T, C, H, W]; ClipDataset(output="pil") gives PIL pictures, output="numpy" NumPy arrays',
    "numpy": 'a NumPy array, uint8 [T, H, W, C]; ClipDataset(output="pil") gives PIL pictures, output="tensor" tensors',
    "pil": 'a PIL picture for a clip of one frame, else a list of them; ClipDataset(output="tensor") gives tensors',
}
"""What a transform receives, for messages."""


def check_output(output: str) -> None:
    """Raise UsageError unless it names a form of clips."""
    if output not in get_args(Output):
        raise UsageError(f"output must be 'tensor', 'numpy' or 'pil', got {output!r}")


def as_output(clip: npt.NDArray[np.uint8], output: Output) -> Any:
    """Give a clip, uint8 [T, C, H, W], in the form that was asked for.

    Returns:
        A tensor [T, C, H, W]; a NumPy array [T, H, W, C]; or PIL pictures: one for a clip of one frame, else a list.
    """
    if output == "tensor":
        return torch.from_numpy(clip)
    frames = np.ascontiguousarray(clip.transpose(0, 2, 3, 1))
    if output == "numpy":
        return frames
    pictures = [as_image(frame) for frame in frames]
    return pictures[0] if len(pictures) == 1 else pictures


def zeros_like(value: Any) -> Any:
    """Zero the tensors and arrays of what a transform returned, also in dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, Mapping):
        return {key: zeros_like(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(zeros_like(each) for each in value)
    return value
