"""Data sets over handles that threads must not share say ``thread_safe = False``, and are loaded by processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, Dataset, random_split

from framefeed.adapters.torch import DataLoader

pytestmark = pytest.mark.slow
COUNT = 12


class InHdf5(Dataset[Any]):
    """Reads rows of an HDF5 file, which each worker opens with its first item."""

    thread_safe = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Any:
        h5py = pytest.importorskip("h5py")
        self.file = self.file or h5py.File(self.path, "r")
        return self.file["rows"][number], os.getpid()


def test_processes_read_what_threads_must_not_share(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows", "w") as file:
        file["rows"] = np.arange(COUNT)[:, None].repeat(3, axis=1)
    first, second = random_split(InHdf5(tmp_path / "rows"), [5, 7])
    loader = DataLoader(ConcatDataset([first, second]), batch_size=4, num_workers=2)
    batches = list(loader)
    rows = [row.tolist() for batch, _ in batches for row in batch]
    assert rows == [[number] * 3 for number in [*first.indices, *second.indices]]
    assert os.getpid() not in {int(process) for _, processes in batches for process in processes}
