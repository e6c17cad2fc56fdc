"""Parts of the tests that need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.conftest import CHECKOUT


def report_of(module: str, *arguments: str) -> Any:
    """Run a module of the tests as a program that says nothing but one JSON document on standard output."""
    run = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return json.loads(run.stdout)
