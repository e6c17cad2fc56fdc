"""Refuse names of a later version (docs/reference.md), and names of other libraries that framefeed does not have."""

from __future__ import annotations

from typing import Any, NoReturn

from framefeed._nearest import OTHER_NAMES, did_you_mean
from framefeed.errors import UsageError

_ABSENT = {
    **OTHER_NAMES,
    **{name: f"use ff.{name}" for name in ("ClipLoader", "Frame", "FrameBatch", "plan_clips", "scan")},
}


def raise_absent(name: str) -> NoReturn:
    """Raise the error for a name that this module does not have.

    Raises:
        ImportError: For names of other libraries, because ``from framefeed.torch import`` ignores an AttributeError.
        AttributeError: For all others.
    """
    if name in _ABSENT:
        raise ImportError(f"framefeed.torch has no {name}: {_ABSENT[name]}")
    known = ("ClipDataset", "DataLoader", "VideoDecoder", "to_device")
    raise AttributeError(f"module 'framefeed.torch' has no attribute {name!r}{did_you_mean(name, known)}")


def to_device(*arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: ``torch.from_numpy(batch.data).to(device)`` works today."""
    raise UsageError("ff.torch.to_device is not in this version: use torch.from_numpy(batch.data).to(device)")
