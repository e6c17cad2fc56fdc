"""Pages of the docs that need DALI, as programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framefeed.testing import ClipSpec, write_clip
from tests.adapters.dali.proxies import WITHOUT_PROFILER
from tests.cli.running import SECONDS, environment
from tests.test_docs import ROOT, blocks_of

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")


def run_page(name: str, folder: Path, before: str = "") -> str:
    code = "\n".join(block.code for block in blocks_of(ROOT / "docs" / name))
    (folder / "page.py").write_text(before + code, encoding="utf-8")
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.chaos
def test_the_page_of_five_wishes_is_one_program_that_ends_in_operators_of_dali(tmp_path: Path) -> None:
    assert "(4, 7, 3, 56, 56) torch.float32" in run_page("five-wishes.md", tmp_path)


def test_the_page_of_dali_is_one_program(tmp_path: Path) -> None:
    for number in range(10):
        (folder := tmp_path / "videos" / f"class_{number % 2}").mkdir(parents=True, exist_ok=True)
        write_clip(folder / f"{number}.mp4", ClipSpec(num_frames=16, height=96, width=128, seed=number))
    (tmp_path / "vp9").mkdir()
    for number in range(6):
        spec = ClipSpec(num_frames=100, codec="libvpx-vp9", b_frames=None, seed=number)
        write_clip(tmp_path / "vp9" / f"{number}.webm", spec)
    printed = run_page("dali.md", tmp_path)
    assert printed.count("torch.Size([10, 8, 3, 240, 240]) torch.Size([10])") == 2
    assert "2 batches left" in printed
    assert [printed.count(f"torch.Size([{count}, 8, 3, 64, 64])") for count in (4, 2)] == [2, 1]
    assert "(2, 4, 3, 64, 64)" in printed
    assert "(4, 96, 128, 3)" in printed


@pytest.mark.chaos
def test_the_page_of_the_proxy_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for number in range(6):
        spec = ClipSpec(num_frames=100, codec="libvpx-vp9", b_frames=None, seed=number)
        write_clip(tmp_path / "videos" / f"{number}.webm", spec)
    shapes = run_page("dali-proxy.md", tmp_path, WITHOUT_PROFILER).splitlines()
    assert shapes == [f"torch.Size([{count}, 4, 3, 64, 64]) torch.float32" for count in (4, 2)]
