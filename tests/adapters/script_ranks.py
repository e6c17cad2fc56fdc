"""Scripts of a folder on two ranks, one after the other: run by tests/test_docs.py."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import torch._dynamo  # noqa: F401 - an optimiser imports it, which takes as long as importing PyTorch: before the fork

import framefeed.torch  # noqa: F401 - likewise


def make_report(folder: Path) -> list[str]:
    """Run each script as the main one; name those that ended."""
    os.chdir(folder)
    scripts = sorted(path.name for path in folder.glob("*.py"))
    for script in scripts:
        runpy.run_path(script, run_name="__main__")
    return scripts
