"""Runs that are interrupted again and again, at any frame and with any workers, end with the bytes of a quiet run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import framefeed as ff
from framefeed.testing import ClipSpec, write_clip
from tests.transcode import functions
from tests.transcode.functions import Recorded

COUNT = 100


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = ClipSpec(num_frames=COUNT, gop=40, height=32, width=32)
    return write_clip(tmp_path_factory.mktemp("map") / "clip.mp4", spec)


@pytest.fixture(scope="module")
def whole(clip: Path) -> bytes:
    out = clip.with_name("whole.mp4")
    ff.map_video(clip, functions.invert, out, workers=0)
    return out.read_bytes()


@pytest.mark.slow
def test_errors_at_random_frames(clip: Path, whole: bytes, tmp_path: Path) -> None:
    for seed in range(12):
        chance = random.Random(seed)
        calls, out = tmp_path / f"calls{seed}", tmp_path / f"out{seed}.mp4"
        calls.mkdir()
        fates = dict.fromkeys(chance.sample(range(COUNT), 3), "raise")
        failed: list[int | None] = []
        while True:
            try:
                ff.map_video(clip, Recorded(calls, fates, times=1), out, workers=chance.randrange(4))
                break
            except ff.LoadError as error:
                failed.append(error.position)
        assert 1 <= len(failed) <= 3
        assert set(failed) <= set(fates)
        assert out.read_bytes() == whole
        assert set(Recorded(calls).calls()) == set(range(COUNT))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_processes_that_die_at_random_frames(clip: Path, whole: bytes, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    calls, out = tmp_path / "calls", tmp_path / "out.mp4"
    calls.mkdir()
    fates = dict.fromkeys(chance.sample(range(COUNT), 3), "die")
    ff.map_video(clip, Recorded(calls, fates, times=1), out, workers=2, kind="processes")
    assert out.read_bytes() == whole
    pids = {int(path.name.split("-")[2]) for path in calls.iterdir()}
    assert len(pids) > 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
