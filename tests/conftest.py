"""Shared by every room's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "house",
    deadline=None,  # a shared machine's clock says nothing about the code
    derandomize=True,  # the same examples everywhere: a red run can be repeated
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],  # likewise about the machine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def media_root() -> Path:
    """Real media files, which are not part of the repository."""
    root = Path(os.environ.get("FRAMEFEED_MEDIA", CHECKOUT.parent / "shared" / "media"))
    if not root.is_dir():
        pytest.skip(f"no media folder at {root}; FRAMEFEED_MEDIA names another")
    return root
