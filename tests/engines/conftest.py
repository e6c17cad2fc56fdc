"""Engines that are installed: tests of another one are skipped, and say what is missing."""

from __future__ import annotations

import pytest

from framefeed.decode import find_decoder
from framefeed.errors import MissingDependency

ENGINES = ("opencv", "torchcodec", "torchcodec-approximate", "decord")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Name of an engine that is installed."""
    require_engine(request.param)
    name: str = request.param
    return name


def require_engine(name: str) -> None:
    """Skip a test of an engine that is not installed."""
    try:
        find_decoder(name)
    except MissingDependency as error:
        pytest.skip(str(error))
