"""DALI's proxy as a route of section D, without the profiler that it needs CUDA for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.media import OwnStore
from benchmarks.sections import d
from framefeed.bench import BenchVideo, Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.testing import ClipSpec, write_clip
from tests.adapters.dali.proxies import WITHOUT_PROFILER

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")


def test_the_proxy_gives_the_frames_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d, "STRIDE", 2)
    spec = ClipSpec(num_frames=50, codec="libvpx-vp9", b_frames=None)
    video = BenchVideo(write_clip(tmp_path / "v.webm", spec))
    videos = d.make_videos(OwnStore((), tmp_path, Rounds(1)), video, (2,), 4, tmp_path)
    loop = replace(d.PROXY_LOOPS[0], prelude=WITHOUT_PROFILER.strip())
    row = d.clips_row("D:VP9", "clips", videos, (d.OWN_LOOPS[0], loop), Peers({"dali": None, "torch": None}), tmp_path)
    result = run_row(row, Rounds(1, pilot=1))
    assert [each["num_wrong"] for each in result["contenders"]] == [0, 0]
