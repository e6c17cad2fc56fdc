"""Refuse names of a later version (docs/reference.md), and names of TorchCodec that framefeed does not have."""

from __future__ import annotations

from typing import Any, NoReturn

from framefeed.errors import UsageError

_SAMPLERS = ("clips_at_random_indices", "clips_at_regular_indices")
_TIME_SAMPLERS = ("clips_at_random_timestamps", "clips_at_regular_timestamps")
_ABSENT = {
    **dict.fromkeys(("AudioDecoder", "AudioEncoder"), "framefeed does not read audio: use torchcodec for it"),
    "VideoEncoder": "framefeed does not write videos in this version: use torchcodec for it",
    **dict.fromkeys(_SAMPLERS, "plan clips with ff.plan_clips and ff.Dense(..., stride=...)"),
    **dict.fromkeys(_TIME_SAMPLERS, "plan clips with ff.plan_clips and ff.Dense(..., fps=...)"),
}


def raise_absent(name: str) -> NoReturn:
    """Raise the error for a name that this module does not have.

    Raises:
        ImportError: For TorchCodec's names, because ``from framefeed.torch import`` ignores an AttributeError.
        AttributeError: For all others.
    """
    if name in _ABSENT:
        raise ImportError(f"framefeed.torch has no {name}: {_ABSENT[name]}")
    raise AttributeError(f"module 'framefeed.torch' has no attribute {name!r}")


def to_device(*arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: ``torch.from_numpy(batch.data).to(device)`` works today."""
    raise UsageError("ff.torch.to_device is not in this version: use torch.from_numpy(batch.data).to(device)")
