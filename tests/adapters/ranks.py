"""Programs that run on several ranks at once, as torchrun starts them, and report one JSON document a rank."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from tests.conftest import CHECKOUT
from tests.programs import running

SECONDS = 100
WORLD_SIZE = 2
EPOCHS = 3
NUM_ITEMS = 19
"""Items of a small data set; not a multiple of the ranks and batches."""
STEPS_OF_AN_EPOCH = 5
CHECKPOINTS = ("step=1", "step=5", "step=8", "end of epoch=0", "end of epoch=1")
"""Those of Lightning that a run is resumed from: in the middle, at the last step, and at the end of an epoch; of the
first epoch and a later one."""


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


def report_of_ranks(module: str, folder: Path) -> list[Any]:
    """Run a module on each rank; it gets the folder as its argument, and prints JSON as its last line.

    The ranks meet at a free port of this machine.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                running(
                    [sys.executable, "-m", module, folder],
                    cwd=CHECKOUT,
                    env=_environment(rank, port),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for rank in range(WORLD_SIZE)
        ]
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    for process, (_, err) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, err[-4000:]
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


def _environment(rank: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": "src",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(WORLD_SIZE),
        "LOCAL_WORLD_SIZE": str(WORLD_SIZE),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "framefeed-tests",
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "FRAMEFEED_THREADS": "2",
    }
