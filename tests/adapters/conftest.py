"""Shared by the tests of the adapters."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

# The server imports them once; otherwise each worker that it forks takes two seconds for them.
multiprocessing.set_forkserver_preload(["torch", "framefeed.torch"])

NOT_THE_MATTER = (
    "This DataLoader will create",  # PyTorch's opinion of the number of workers on a small machine
    ".*use of fork:DeprecationWarning",  # users fork too
)
"""Warnings that are no errors in these tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for message in NOT_THE_MATTER:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{message}"))
