"""Run as a program: decode, fork, and decode again in the children (L01). Prints the number of correct children."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

from framefeed.load._loader import ClipLoader
from tests.load.laws import content
from tests.makers import plan_of
from tests.patience import PATIENCE_SECONDS

CHILDREN = 4


def collect_batches(loader: ClipLoader) -> list[Any]:
    return [content(batch) for batch in loader]


def is_child_right(loader: ClipLoader, expected: list[list[Any]]) -> bool:
    signal.alarm(int(PATIENCE_SECONDS))
    loader.load_state_dict({**loader.state_dict(), "delivered": 0, "clips": 0, "finished": False})
    anew = ClipLoader(plan_of(), batch_size=5, workers=2)
    return [collect_batches(loader), collect_batches(loader)] == expected[1:] and collect_batches(anew) == expected[0]


def fork_child(loader: ClipLoader, expected: list[list[Any]]) -> int:
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = is_child_right(loader, expected)
        finally:
            os._exit(0 if right else 1)
    return child


def main() -> None:
    # To fork a process that has threads is what this is about.
    warnings.simplefilter("ignore", DeprecationWarning)
    with ClipLoader(plan_of(), batch_size=5, workers=0) as inline:
        expected = [collect_batches(inline) for _ in range(3)]
    right = 0
    for workers in (0, 2):
        loader = ClipLoader(plan_of(), batch_size=5, workers=workers)
        assert collect_batches(loader) == expected[0]
        iterator = iter(loader)
        next(iterator)
        children = [fork_child(loader, expected) for _ in range(CHILDREN)]
        right += sum(os.waitpid(child, 0)[1] == 0 for child in children)
        assert len(list(iterator)) == len(loader) - 1
        loader.close()
    sys.stdout.write(f"{right} of {2 * CHILDREN}\n")


if __name__ == "__main__":
    main()
