"""States of a source for DALI's pipelines, without DALI: only names of its package are stood in for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.makers import plan_of


@pytest.fixture
def dali() -> Iterator[Any]:
    """framefeed.adapters.dali over names that stand for NVIDIA's; nothing of it stays."""
    adapters = importlib.import_module("framefeed.adapters")
    before = dict(sys.modules)
    own = [name for name in before if name.startswith("framefeed.adapters.dali")]
    was = vars(adapters).get("dali")
    for name in own:
        del sys.modules[name]
    modules = ("nvidia", "nvidia.dali", "nvidia.dali.backend", "nvidia.dali.plugin", "nvidia.dali.plugin.base_iterator")
    sys.modules |= {name: MagicMock(name=name) for name in modules}
    sys.modules["nvidia.dali"].Pipeline.current.return_value = None
    yield importlib.import_module("framefeed.adapters.dali")
    for name in [name for name in sys.modules if name.startswith(("nvidia", "framefeed.adapters.dali"))]:
        del sys.modules[name]
    sys.modules |= before
    if was is None:
        del adapters.dali
    else:
        adapters.dali = was


def test_L15_a_loaded_state_ends_the_counts_of_the_epochs_before_it(dali: Any) -> None:
    def fetch() -> list[int]:
        return [len(outputs[0]) for outputs in source]

    with dali.external_source(plan_of(), batch_size=5) as source:
        assert fetch() == [5, 5, 2]
        state = source.loader.state_dict()
        assert fetch() == [5, 5, 2]
        source.load_state_dict(state)
        assert fetch() == [5, 5, 2]
        # Of the epoch before the state was loaded, no batch can be waiting in a queue.
        assert source.state_dict(3) == source.state_dict(3, epoch=1)
