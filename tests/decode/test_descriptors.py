"""Thousands of files: few descriptors (L09), and no memory that stays (L10)."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from framefeed.testing import ClipSpec, write_clip
from tests.lengths import either
from tests.programs import report_of


@pytest.mark.slow
@pytest.mark.long
def test_L09_thousands_of_files_with_128_descriptors(tmp_path: Path) -> None:
    spec = ClipSpec(num_frames=2, height=48, width=64, b_frames=0)
    for ending in (".mp4", ".mkv"):
        write_clip(tmp_path / f"clip{ending}", spec)
    most = report_of("tests.decode.many_files", os.fspath(tmp_path), str(either(short=1000, long=10_000)))
    assert most["direct"] < 30
    assert most["contained"] < 30
    assert max(most.values()) < 100


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library does not count the memory in use")
@pytest.mark.parametrize("ending", [".mp4", ".mkv"])
def test_L10_a_clip_keeps_no_memory_of_c(tmp_path: Path, ending: str) -> None:
    path = write_clip(tmp_path / f"clip{ending}", ClipSpec(num_frames=12, height=48, width=64, b_frames=0))
    # A packet of libav has 104 bytes, of PyAV more.
    assert report_of("tests.decode.heap_growth", os.fspath(path), "500") < 60
