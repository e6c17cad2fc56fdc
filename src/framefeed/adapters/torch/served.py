"""Served: counts the items that all processes gave since the epoch was set, to warn where it never is."""

from __future__ import annotations

import warnings

import torch
from torch.utils.data import get_worker_info

_MOST_EPOCHS = 1.5
"""Samplers that draw with replacement or pad stay below; a second epoch goes above."""
_SLOTS = 256


class Served:
    """Counts of items in shared memory, one of each worker number, so that no lock is needed."""

    def __init__(self) -> None:
        self._counts = torch.zeros(1 + _SLOTS, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._has_warned = torch.zeros(1, dtype=torch.bool).share_memory_()  # type: ignore[no-untyped-call]

    def restart(self) -> None:
        """Begin to count again: the epoch was set."""
        self._counts.zero_()

    def add(self, items: int, epoch_items: int) -> None:
        """Count items, and warn once where there were more than one and a half epochs of them.

        Args:
            items: That are given now.
            epoch_items: Of an epoch.
        """
        worker = get_worker_info()
        slot = 0 if worker is None else 1 + worker.id % _SLOTS
        self._counts[slot] += items
        if slot > 1:  # only this process or its first worker warns: two that see the same count would both do so
            return
        given = int(self._counts.sum())
        # A single clip that is looked at twice is no second epoch.
        if given <= max(2, _MOST_EPOCHS * epoch_items) or self._has_warned:
            return
        self._has_warned.fill_(True)
        warnings.warn(
            f"this ClipDataset delivered {given} items of an epoch of {epoch_items} without set_epoch: the random "
            "clips are the same in every epoch; call dataset.set_epoch(epoch) before each epoch, or, if you want the "
            "same clips each time (as for validation), dataset.set_epoch(0)",
            UserWarning,
            stacklevel=4,
        )
