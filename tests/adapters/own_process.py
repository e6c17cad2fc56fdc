"""Run a file of tests in one process of its own: TensorFlow and JAX start threads that stay, and JAX warns of forks.

JAX must also be told of several devices before it is imported.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.conftest import CHECKOUT

SECONDS = 100


def names_of(cases: Path) -> list[str]:
    """Names of the tests of a file, which is not imported."""
    tree = ast.parse(cases.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def run_cases(cases: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Run the tests of a file; return the failure of each by its name, "" if it passed or was never run.

    Args:
        cases: A file whose name pytest does not collect by itself.
        settings: Variables of the process's environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", str(cases)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment |= {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)]), **settings}
        ran = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if not report.exists():
            raise AssertionError(ran.stdout + ran.stderr)
        found = {}
        for case in ET.parse(report).iter("testcase"):
            problems = [each for each in case if each.tag in ("failure", "error", "skipped")]
            found[case.get("name", "").partition("[")[0]] = "\n".join(each.text or each.tag for each in problems)
    return found
