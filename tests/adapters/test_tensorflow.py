"""The cases of tensorflow_cases.py, in one process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.own_process import CasesProcess, names_of, running_cases

CASES = Path(__file__).with_name("tensorflow_cases.py")
# No messages about the processor, and no search for GPUs.
SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def process() -> Iterator[CasesProcess]:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    with running_cases(CASES, SETTINGS) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("name", names_of(CASES))
def test_case(name: str, process: CasesProcess) -> None:
    assert process.find_failure(name) == ""
