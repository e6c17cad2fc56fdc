"""Row "light": items that are ready in memory, under torch's DataLoader and under ours."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np

from framefeed.bench import Comparison, Contender, Findings, Row, Timings, compare_times, read_family_clocks, ready
from framefeed.bench.baselines import Peers
from framefeed.decode import Pixels
from framefeed.errors import MissingMedia

SHAPE = (16, 3, 266, 266)
"""3.4 MB."""
ITEMS, BATCH, BATCHES = 24, 8, 24
WORKERS = (0, 1, 2)
OURS = "framefeed.torch.DataLoader"


def make_items() -> list[Pixels]:
    """Different items, uint8."""
    rng = np.random.Generator(np.random.Philox(key=1))
    return [rng.integers(0, 256, SHAPE, dtype=np.uint8) for _ in range(ITEMS)]


def exhaust(batches: object, number: int) -> None:
    """Take every batch, and drop it."""
    for batch in batches:  # type: ignore[attr-defined]
        del batch


def light_row(peers: Peers, stack: ExitStack) -> Row:
    """Epochs of items that need no work; workers are running already."""
    if "torch" not in peers.modules:
        raise MissingMedia(f"it needs torch: {peers.missing['torch']}")
    torch, items = peers.modules["torch"], make_items()
    contenders = []
    for workers in WORKERS:
        for name, load in ((OURS, torch.load_ready_by_ours), ("torch", torch.load_ready)):
            loader = load(items, BATCH * BATCHES, BATCH, workers)
            library = "" if name == OURS else "torch"
            contenders.append(Contender(f"{name} {workers}", ready(partial(exhaust, loader)), library, amount=BATCHES))

    def conclude(timings: Timings) -> Findings:
        ours = f"{OURS} {WORKERS[-1]}"
        figures = {
            f"{title}, torch {workers}": figure
            for workers in WORKERS
            for title, figure in compare_times(timings, ours, f"torch {workers}", ("wall", "cpu")).items()
        }
        return Findings([Comparison("light", f"the speed of torch's DataLoader, of {ours}", figures)])

    title = f"batches of {BATCH} items of {np.prod(SHAPE) / 1e6:.1f} MB that are ready in memory, by workers"
    return Row("light", title, contenders, conclude, unit="batches", clock=read_family_clocks, warms_up=True)
