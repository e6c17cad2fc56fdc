"""Run a file of tests in one process of its own: TensorFlow and JAX start threads that stay, and JAX warns of forks.

JAX must also be told of several devices before it is imported. For each test that ends, the process appends a line to
the file that OWN_PROCESS_LINES names; each test here waits for its own, since all together take minutes under load.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.patience import PATIENCE_SECONDS

LINES = "OWN_PROCESS_LINES"
SECONDS = 3 * PATIENCE_SECONDS
"""The first test waits until the framework is imported."""


def names_of(cases: Path) -> list[str]:
    """Names of the tests of a file, which is not imported."""
    tree = ast.parse(cases.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test ended, in the process of the cases."""
    if LINES in os.environ and (report.when == "teardown" or not report.passed):
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        with open(os.environ[LINES], "a", encoding="utf-8") as file:
            file.write(json.dumps([name, "" if report.passed else report.longreprtext or "skipped"]) + "\n")


class CasesProcess:
    """A process that runs the tests of a file, in their order."""

    def __init__(self, process: subprocess.Popen[bytes], lines: Path, output: Path) -> None:
        self._process, self._lines, self._output = process, lines, output

    def find_failure(self, name: str) -> str:
        """Wait until all cases of a test have ended; give what failed, or ""."""
        until = time.monotonic() + SECONDS
        while True:
            has_ended = self._process.poll() is not None
            ended = self._lines.read_text(encoding="utf-8").splitlines(keepends=True)
            rows = [json.loads(line) for line in ended if line.endswith("\n")]
            mine = [number for number, (each, _) in enumerate(rows) if each == name]
            if mine and (has_ended or mine[-1] < len(rows) - 1):
                return "\n".join(filter(None, (rows[number][1] for number in mine)))
            assert not has_ended, self._output.read_text(encoding="utf-8")
            assert time.monotonic() < until, f"{name} has not ended"
            time.sleep(0.05)


@contextmanager
def running_cases(cases: Path, settings: Mapping[str, str]) -> Iterator[CasesProcess]:
    """Run the tests of a file, whose name pytest does not collect by itself, with variables of the environment."""
    with tempfile.TemporaryDirectory() as folder:
        lines, output = Path(folder, "lines.jsonl"), Path(folder, "output.txt")
        lines.touch()
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", __name__, os.fspath(cases)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)]), **settings}
        environment[LINES] = os.fspath(lines)
        with (
            output.open("wb") as file,
            subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=file, stderr=file) as process,
        ):
            try:
                yield CasesProcess(process, lines, output)
            finally:
                process.kill()
