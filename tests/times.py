"""How long each test takes: ``python -m tests.times`` runs all tests once and writes ``tests/times.txt``.

As a plugin (``pytest -p tests.times``) it appends a line for each test to the file that TEST_TIMES names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import pytest

from tests.tiers import TIMES, TimesOfTest, name_of, write_times

VARIABLE = "TEST_TIMES"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began, before = perf_counter(), _cpu_seconds()
    try:
        return (yield)
    finally:
        wall, cpu = perf_counter() - began, _cpu_seconds() - before
        with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
            file.write(f"{wall:.3f} {cpu:.3f} {name_of(item)}\n")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def sum_times(lines: Iterable[str]) -> dict[str, TimesOfTest]:
    """Add up the seconds of all parameters of each test."""
    measured: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        wall, cpu, name = line.strip().split(" ", 2)
        measured[name].append((float(wall), float(cpu)))
    return {
        name: TimesOfTest(sum(wall for wall, _ in pairs), sum(cpu for _, cpu in pairs), len(pairs))
        for name, pairs in measured.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all tests and write the file, unless a test fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=Path, help="lines of an earlier run, instead of a run")
    times: Path | None = parser.parse_args(arguments).times
    if times is None:
        times = Path(tempfile.mkdtemp(prefix="framefeed-test-times-")) / "times.txt"
        command = [sys.executable, "-m", "pytest", "-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
        if code := subprocess.run([*command, "-p", "tests.times"], env={**os.environ, VARIABLE: str(times)}).returncode:
            return code
        print(f"times of all tests: {times}")
    TIMES.write_text(write_times(sum_times(times.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
