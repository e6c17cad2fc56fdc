"""Lose a node in the middle of epochs, at moments drawn from seeds: ``make chaos`` runs it as a program.

.venv-ray/bin/python -m tests.adapters.ray.chaos --seeds 20
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import framefeed as ff
from framefeed.load import ClipLoader
from tests.makers import plan_of

_BATCH = 2


def make_plan() -> ff.EpochPlan:
    """Make a plan of 72 clips of 1.2 MB: blocks lie in the stores of the nodes, where smaller ones go to the driver."""
    return plan_of(ff.Dense(8), clips_per_video=12, size=(224, 224))


def read_and_lose(plan: ff.EpochPlan, nodes: Any, seed: int) -> tuple[list[int], Any]:
    """Read a dataset, lose the other node after a batch that the seed chooses, and add one again.

    Returns:
        Positions and clips of all rows, in their order.
    """
    after = int(np.random.default_rng(seed).integers(0, len(plan) // _BATCH - 1))
    positions, clips = list[int](), []
    try:
        dataset = ff.ray.dataset(plan, batch_size=_BATCH)
        for number, batch in enumerate(
            dataset.iter_batches(batch_size=_BATCH, batch_format="numpy", prefetch_batches=0)
        ):
            positions += batch["position"].tolist()
            clips.append(np.array(batch["data"]))
            if number == after:
                nodes.lose()
    finally:
        nodes.add()
    return positions, np.concatenate(clips)


def main() -> None:
    """Lose a node for each seed."""
    from tests.adapters.ray.conftest import Nodes, set_up

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    plan = make_plan()
    with ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
        (expected,) = loader
    with tempfile.TemporaryDirectory(prefix="ff", dir="/tmp", ignore_cleanup_errors=True) as folder:
        set_up(Path(folder))
        nodes = Nodes(Path(folder))
        try:
            for seed in range(seeds):
                positions, clips = read_and_lose(plan, nodes, seed)
                assert positions == list(range(len(plan))), f"seed {seed}: {positions}"
                assert np.array_equal(clips, expected.data), f"seed {seed}: other pixels"
                print(f"seed {seed}: {len(positions)} rows", flush=True)
        finally:
            nodes.stop()


if __name__ == "__main__":
    main()
