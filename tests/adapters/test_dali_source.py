"""States of a source for DALI's pipelines, without DALI: only names of its package are stood in for."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import CHECKOUT

PROGRAM = """
import sys
from unittest.mock import MagicMock

names = ("nvidia", "nvidia.dali", "nvidia.dali.backend", "nvidia.dali.plugin", "nvidia.dali.plugin.base_iterator")
sys.modules |= {name: MagicMock(name=name) for name in names}
dali = sys.modules["nvidia.dali"]
dali.Pipeline.current.return_value = None
import framefeed as ff
from tests.makers import plan_of

def fetch(source):
    return [len(outputs[0]) for outputs in source]

with ff.dali.external_source(plan_of(), batch_size=5) as source:
    assert fetch(source) == [5, 5, 2]
    state = source.loader.state_dict()
    assert fetch(source) == [5, 5, 2]
    source.load_state_dict(state)
    assert fetch(source) == [5, 5, 2]
    # Of the epoch before the state was loaded, no batch can be waiting in a queue.
    assert source.state_dict(3) == source.state_dict(3, epoch=1)
"""


def test_L15_a_loaded_state_ends_the_counts_of_the_epochs_before_it() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=CHECKOUT, capture_output=True, text=True, timeout=100)
    assert (run.returncode, run.stderr) == (0, "")
