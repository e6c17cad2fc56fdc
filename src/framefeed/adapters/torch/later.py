"""Names that docs/reference.md promises for a later version."""

from __future__ import annotations

from typing import Any, NoReturn

from framefeed.errors import UsageError


class DataLoader:
    """Not in this version: ``torch.utils.data.DataLoader`` over a ``ClipDataset`` works today."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise UsageError(
            "ff.torch.DataLoader is not in this version: use torch.utils.data.DataLoader with an ff.torch.ClipDataset, "
            "or ff.ClipLoader"
        )


def to_device(*arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: ``torch.from_numpy(batch.data).to(device)`` works today."""
    raise UsageError("ff.torch.to_device is not in this version: use torch.from_numpy(batch.data).to(device)")
