"""Collate clips that differ in their number of frames: padded, with a mask, or as lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate, get_worker_info

from framefeed._checks import describe_value
from framefeed.errors import UsageError

_FILLS = {"data": 0, "pts_seconds": torch.nan, "seconds": torch.nan, "valid": False}
"""Keys of an item that have an axis of T, and what stands behind the last frame."""


def pad_clips(items: Sequence[Any]) -> Any:
    """Stack the clips of items of a `ClipDataset`, with zeros behind those that have fewer frames than the longest.

    For ``torch.utils.data.DataLoader(dataset, collate_fn=ff.torch.pad_clips)``. The clips may be results of a
    transform, [T, ...], which differ in T alone.

    Returns:
        Of pairs ``(clip, target)``: clips [B, T, ...], targets int64 [B], and a mask, bool [B, T], True where a clip
        has a frame. Of dicts, a dict: data [B, T, ...], pts_seconds and seconds (NaN behind the last frame), valid
        (False there), mask, and the other keys as torch's ``default_collate`` makes them. Of several streams, data,
        times, valid and mask are dicts by stream.

    Raises:
        UsageError: There are no items, or clips differ in more than T.
    """
    return _collate(items, _pad, has_masks=True)


def list_clips(items: Sequence[Any]) -> Any:
    """Collate items of a `ClipDataset` without stacking their clips, which may differ in any way.

    Returns:
        Of pairs ``(clip, target)``: a list of B clips, and targets int64 [B]. Of dicts, a dict: data, pts_seconds,
        seconds and valid are lists of B, and the other keys as torch's ``default_collate`` makes them. Of several
        streams, these four are dicts of lists by stream.

    Raises:
        UsageError: There are no items.
    """
    return _collate(items, _list, has_masks=False)


def _collate(items: Sequence[Any], join: Callable[..., Any], *, has_masks: bool) -> Any:
    if not len(items):
        raise UsageError("expected at least one item to collate")
    if not isinstance(items[0], Mapping):
        clips, targets = [item[0] for item in items], default_collate([item[1] for item in items])
        joined = _by_stream(clips, partial(join, fill=0))
        return (joined, targets, _by_stream(clips, _make_masks)) if has_masks else (joined, targets)
    batch = {}
    for key in items[0]:
        values = [item[key] for item in items]
        batch[key] = _by_stream(values, partial(join, fill=_FILLS[key])) if key in _FILLS else default_collate(values)
    if has_masks:
        batch["mask"] = _by_stream([item["data"] for item in items], _make_masks)
    return batch


def _by_stream(values: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """Join values of items, or those of each stream if they are dicts by stream."""
    if not isinstance(values[0], Mapping):
        return join(values)
    return {name: join([value[name] for value in values]) for name in values[0]}


def _list(clips: Sequence[Any], fill: Any) -> list[Any]:
    return list(clips)


def _pad(clips: Sequence[Any], fill: Any) -> torch.Tensor:
    tensors = [torch.from_numpy(clip) if isinstance(clip, np.ndarray) else clip for clip in clips]
    for number, each in enumerate(tensors):
        if not isinstance(each, torch.Tensor) or not each.ndim:
            raise UsageError(f"pad_clips: expected clips that are tensors [T, ...], got {describe_value(each)}")
        if each.shape[1:] != tensors[0].shape[1:] or each.dtype != tensors[0].dtype:
            shown = [f"{list(some.shape)} of {some.dtype}" for some in (tensors[0], each)]
            raise UsageError(
                f"pad_clips: clips may differ in T alone, but item 0 is {shown[0]}, and item {number} {shown[1]}: give "
                "the plan size=(height, width), or collate with ff.torch.list_clips"
            )
    longest = max(map(len, tensors))
    padded = tensors[0].new_empty((len(tensors), longest, *tensors[0].shape[1:]))
    if get_worker_info() is not None:
        padded.share_memory_()  # now, while it is empty: torch would copy it there
    for clip, out in zip(tensors, padded, strict=True):
        out[: len(clip)] = clip
        out[len(clip) :] = fill
    return padded


def _make_masks(clips: Sequence[Any]) -> torch.Tensor:
    lengths = torch.tensor([len(clip) for clip in clips])
    return torch.arange(int(lengths.max())) < lengths[:, None]
