from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import SECONDS, environment
from tests.test_docs import ROOT, blocks_of

pytest.importorskip("nvidia.dali")


def test_the_page_of_five_wishes_is_one_program_that_ends_in_operators_of_dali(tmp_path: Path) -> None:
    code = "\n".join(block.code for block in blocks_of(ROOT / "docs" / "five-wishes.md"))
    (tmp_path / "wishes.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "wishes.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert "(4, 7, 3, 56, 56) torch.float32" in done.stdout
