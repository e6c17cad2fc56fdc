"""Interpreters without the global lock are refused, and sub-interpreters work (L26), as far as they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.parallel._ordered_map import ordered_map
from tests.conftest import CHECKOUT
from tests.parallel import functions
from tests.patience import PATIENCE_SECONDS


def run_in(interpreters: list[str], script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the first interpreter that is installed and starts; skip the test where there is none."""
    for path in filter(None, map(shutil.which, interpreters)):
        # A shim of a version manager may be there and start nothing.
        if subprocess.run([path, "-c", ""], capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode == 0:
            return subprocess.run(
                [path, "-B", "-c", script],
                cwd=CHECKOUT,
                env={"PYTHONPATH": "src:.", **environment},
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
    pytest.skip(f"none of {', '.join(interpreters)} is installed")


USE = """
from framefeed.parallel import ordered_map
from tests.parallel import functions
for kind, workers in (("inline", 0), ("threads", 2), ("processes", 2)):
    print(*ordered_map(functions.same, range(3), workers=workers, kind=kind, max_in_flight=3), sep="")
"""


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_L26_an_interpreter_without_the_global_lock_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**more: Any) -> list[int]:
        return list(ordered_map(functions.same, range(3), kind=kind, max_in_flight=3, **more))

    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(UsageError, match=r"PYTHON_GIL=1.*workers=0"):
        run(workers=2)
    assert run(workers=0) == [0, 1, 2]
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True)
    assert run(workers=2) == [0, 1, 2]


@pytest.mark.slow
def test_L26_a_real_interpreter_without_the_global_lock_is_refused_and_with_it_works() -> None:
    free_threaded = ["python3.13t", "python3.14t", "python3.15t"]
    refused = run_in(free_threaded, USE, PYTHON_GIL="0")
    assert refused.stdout == "012\n"
    assert "PYTHON_GIL=1" in refused.stderr
    works = run_in(free_threaded, USE, PYTHON_GIL="1")
    assert (works.stdout, works.stderr) == ("012\n" * 3, "")


@pytest.mark.slow
def test_L26_sub_interpreters_with_a_lock_of_their_own_have_workers() -> None:
    ended = run_in(
        ["python3.13", "python3.14", "python3.15"],
        f"import _interpreters as all\nitself = all.create()\nfailed = all.run_string(itself, {USE!r})\n"
        "all.destroy(itself)\nassert failed is None, failed",
    )
    assert (ended.stdout, ended.stderr) == ("012\n" * 3, "")
