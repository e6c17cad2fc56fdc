"""Shared by the tests of the DALI adapter, which `make dali` runs in an environment that has DALI."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import framefeed as ff
from tests.adapters.framework_checks import making_loaders
from tests.makers import plan_of

BATCH = 5
"""Batches of 5, 5 and 2 clips."""


@pytest.fixture
def make_loader() -> Iterator[Callable[..., ff.ClipLoader]]:
    yield from making_loaders(BATCH)


@pytest.fixture
def make_pipe() -> Iterator[Callable[..., Any]]:
    """Make pipelines, and close them at the end."""
    made: list[Any] = []

    def make(plan: ff.EpochPlan | None = None, **options: Any) -> Any:
        given = plan_of() if plan is None else plan  # one without clips is False
        made.append(ff.dali.pipeline(given, **{"batch_size": BATCH, "workers": 2, **options}))
        return made[-1]

    yield make
    for pipe in made:
        pipe.close()
