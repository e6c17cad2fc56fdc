"""CPU seconds of each test, and the list of the slow ones: ``python -m tests.cpu_times`` runs all tests and writes it.

As a plugin (``pytest -p tests.cpu_times``) it appends a line for each test to the file that CPU_TIMES names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.tiers import LIST, listed_tests, name_of

VARIABLE = "CPU_TIMES"
SLOW_SECONDS = 0.5
HEADING = """\
# Tests that only `make test` runs: CPU seconds of all parameters together, and the name. From 0.5 seconds on, a test
# stands here. Written by `python -m tests.cpu_times`; fixtures, and processes that a test waits for, are counted. Tests
# that are marked slow in their files are not listed.
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _cpu_seconds()
    try:
        return (yield)
    finally:
        # One of its marks may come from the list.
        is_marked = len(list(item.iter_markers("slow"))) > (name_of(item) in listed_tests())
        if not is_marked:
            with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
                file.write(f"{_cpu_seconds() - before:.3f} {name_of(item)}\n")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def sum_times(lines: Iterable[str]) -> dict[str, float]:
    """Add up the seconds of all parameters of each test."""
    total: dict[str, float] = defaultdict(float)
    for line in lines:
        seconds, _, name = line.strip().partition(" ")
        total[name] += float(seconds)
    return dict(total)


def list_slow(seconds: Mapping[str, float]) -> str:
    """Write the list of slow tests, by name."""
    functions = (name for name in seconds if name.count("::") == 1)  # an exam, which is a class, is run whole
    slow = sorted(name for name in functions if seconds[name] >= SLOW_SECONDS)
    return HEADING + "".join(f"{seconds[name]:5.1f} {name}\n" for name in slow)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all tests and write the list, unless a test fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=Path, help="lines of an earlier run, instead of a run")
    times: Path | None = parser.parse_args(arguments).times
    if times is None:
        times = Path(tempfile.mkdtemp(prefix="framefeed-cpu-times-")) / "times.txt"
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "tests.cpu_times"]
        if code := subprocess.run(command, env={**os.environ, VARIABLE: str(times)}).returncode:
            return code
        print(f"times of all tests: {times}")
    LIST.write_text(list_slow(sum_times(times.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
