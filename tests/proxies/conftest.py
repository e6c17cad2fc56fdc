from __future__ import annotations

from typing import Any

import pytest

from framefeed.proxies import _estimate


def count_pixels(source: Any, index: Any, generator: Any) -> float:
    """Stand in for the time of a clip: it is proportional to the pixels of a picture."""
    return float(index.stream.width * index.stream.height) * 1e-6


@pytest.fixture(autouse=True)
def time_is_counted_by_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gain that a clock measures differs from run to run."""
    monkeypatch.setattr(_estimate, "_time_clips", count_pixels)
