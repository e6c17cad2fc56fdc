"""Make the parts of an item of a data set from those of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from framefeed._arrays import AnyArray
from framefeed.encode import make_image
from framefeed.load import ByStream, map_streams
from framefeed.media import source_name

Output = Literal["tensor", "numpy", "pil"]
TRANSFORM_INPUTS = {
    "tensor": 'a tensor, uint8 [T, C, H, W]; ClipDataset(output="pil") gives PIL pictures, output="numpy" NumPy arrays',
    "numpy": 'a NumPy array, uint8 [T, H, W, C]; ClipDataset(output="pil") gives PIL pictures, output="tensor" tensors',
    "pil": 'a PIL picture for a clip of one frame, else a list of them; ClipDataset(output="tensor") gives tensors',
}
"""Arguments of a transform by ``output=``, for messages."""


def as_output(clip: npt.NDArray[np.uint8], output: Output) -> object:
    """Convert a clip, uint8 [T, C, H, W], to the form that a `ClipDataset` is asked for."""
    if output == "tensor":
        return torch.from_numpy(clip)
    frames = np.ascontiguousarray(clip.transpose(0, 2, 3, 1))
    if output == "numpy":
        return frames
    pictures = [make_image(frame) for frame in frames]
    return pictures[0] if len(pictures) == 1 else pictures


def take_tensor(arrays: Any, slot: int, fill: float | None = None) -> ByStream[torch.Tensor]:
    """Return a slot of arrays of a batch as a tensor, or a tensor like it that is filled; by stream of dicts."""

    def take(array: AnyArray) -> torch.Tensor:
        tensor = torch.from_numpy(array[slot])
        return tensor if fill is None else torch.full_like(tensor, fill)

    return map_streams(take, arrays)


class TextList(list[str]):
    """Texts of one item, of which ``default_collate`` makes a list of B lists: it would turn plain lists round."""


def _list_items(items: list[Any], *, collate_fn_map: Any = None) -> list[Any]:
    return list(items)


default_collate_fn_map[TextList] = _list_items


def fill_null(text: str | list[str | None] | None, *, has_lists: bool) -> str | TextList:
    """Replace a missing text by "", and a missing list by an empty one: torch's ``default_collate`` takes no None."""
    if isinstance(text, list):
        return TextList([each or "" for each in text])
    return TextList() if has_lists else text or ""


def show_source(source: Any) -> str:
    """Return the path or URL of a source, or its name for messages."""
    return source if isinstance(source, str) else source_name(source)


def zeros_like(value: object) -> object:
    """Replace the tensors and arrays of a transform's result by zeros, also in dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, Mapping):
        return {key: zeros_like(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(zeros_like(each) for each in value)
    return value
