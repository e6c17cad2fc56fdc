"""Every test of the cache runs without waiting for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_flushing() -> Iterator[None]:
    """Have fsync return at once, as on a disk that is fast: it takes 10 ms, and only a loss of power shows its effect.

    Tests that imagine one, or count calls, put their own in its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
