"""The cases of jax_cases.py, in one process, which has four devices."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.own_process import CasesProcess, names_of, running_cases

CASES = Path(__file__).with_name("jax_cases.py")
SETTINGS = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


@pytest.fixture(scope="module")
def process() -> Iterator[CasesProcess]:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    with running_cases(CASES, SETTINGS) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of(CASES))
def test_case(name: str, process: CasesProcess) -> None:
    assert process.find_failure(name) == ""
