"""With too little memory, or too few descriptors, an index is whole or there is none."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framefeed.testing import ClipSpec
from tests.cli.running import environment
from tests.corpus import clip_file
from tests.lengths import IS_ALL

CLIP = ClipSpec(num_frames=40, height=720, width=1280, gop=20)


def _report(program: str, *words: object) -> Any:
    result = subprocess.run(
        [sys.executable, "-m", program, *map(str, words)],
        env=environment(), cwd=Path(__file__).parents[2], capture_output=True,
    )  # fmt: skip
    if result.returncode == -signal.SIGSEGV:
        pytest.skip("libav itself crashed for lack of memory, which gives no index either")
    result.check_returncode()
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["memory.mp4", "memory.mkv", "memory_vp8.webm"])
def test_with_too_little_memory_an_index_is_whole_or_there_is_none(name: str) -> None:
    codec = "libvpx" if "vp8" in name else "libx264"
    path = clip_file(name, CLIP if codec == "libx264" else ClipSpec(num_frames=30, height=360, width=640, codec=codec))
    step = (3 if IS_ALL else 6) * 2**20
    report = _report("tests.scanning.little_memory", path, "full", 48 * 2**20, step)
    assert set(report["outcomes"]) <= {str(report["frames"]), "ResourceExhausted"}
    assert report["outcomes"][0] == "ResourceExhausted"


def test_with_few_descriptors_every_file_is_read_or_the_scan_stops(tmp_path: Path) -> None:
    data = clip_file("good.mkv").read_bytes()
    for number in range(40):
        (tmp_path / f"{number}.mkv").write_bytes(data)
    reports = _report("tests.scanning.few_descriptors", tmp_path, 12, 16, 32)
    for report in reports:
        assert report in ({"rows": 40, "failed": []}, {"error": "file descriptors of this process"})
    assert "rows" in reports[-1]
