"""What the ranks of trainers read, and what they report of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from tests.adapters.ranks import NUM_ITEMS


class Numbers(Dataset[torch.Tensor]):
    """Its own numbers, and the threads that asked for them."""

    def __init__(self) -> None:
        self.threads: set[tuple[int, str]] = set()

    def __len__(self) -> int:
        return NUM_ITEMS

    def __getitem__(self, number: int) -> torch.Tensor:
        self.threads.add((os.getpid(), threading.current_thread().name))
        return torch.tensor(number)


def list_samples(batch: Any) -> list[Any]:
    """Items, or clips by position, file and times of their frames."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        positions, sources, pts_seconds = batch["position"], batch["source"], batch["pts_seconds"]
    else:
        positions, sources, pts_seconds = batch.positions, batch.sources, batch.pts_seconds
    files = [Path(source).stem for source in sources]
    times = [" ".join(f"{seconds:.3f}" for seconds in row) for row in pts_seconds]
    return [list(clip) for clip in zip(positions.tolist(), files, times, strict=True)]
