"""The cases of jax_cases.py, in one process, which has four devices."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.adapters.own_process import names_of, run_cases

CASES = Path(__file__).with_name("jax_cases.py")
SETTINGS = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    return run_cases(CASES, SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of(CASES))
def test_case(name: str, failures: dict[str, str]) -> None:
    assert failures[name] == ""
