"""L09: thousands of files, few descriptors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from framefeed.testing import ClipSpec, write_clip
from tests.conftest import CHECKOUT


@pytest.mark.slow
def test_L09_ten_thousand_files_with_128_descriptors(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=2, height=48, width=64, b_frames=0)
    for ending in (".mp4", ".mkv"):
        write_clip(tmp_path / f"clip{ending}", spec)
    run = subprocess.run(
        [sys.executable, "-m", "tests.decode.many_files", os.fspath(tmp_path)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    most: dict[str, int] = json.loads(run.stdout)
    assert most["direct"] < 30
    assert most["contained"] < 30
    assert max(most.values()) < 100
