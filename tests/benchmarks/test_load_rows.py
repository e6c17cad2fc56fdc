"""Rows of our own loaders, made small."""

import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from benchmarks.load import clips, frameworks, light
from framefeed.bench import Rounds, run_row
from framefeed.bench.baselines import Peers
from framefeed.errors import MissingMedia


@pytest.mark.slow
def test_one_slow_clip_is_measured_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "LIGHT_SECONDS", 0.001)
    with ExitStack() as stack:
        row = run_row(clips.slow_row(tmp_path, stack), Rounds(1))
    figures = row["comparisons"][0]["figures"]
    assert list(figures) == ["wall, first", "wall, in the middle", "wall, last"]
    assert all(figure["median"] > -1 for figure in figures.values())


def test_restoring_is_measured_far_from_the_beginning(tmp_path: Path) -> None:
    with ExitStack() as stack:
        row = run_row(clips.restore_row(tmp_path, stack), Rounds(3))
    assert {each["name"] for each in row["contenders"]} == {clips.FRESH, clips.RESTORED}
    assert row["comparisons"][0]["figures"]["wall"]["pairs"] == 3


@pytest.mark.test_all
def test_processes_are_measured_against_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "HELD_CLIPS", 16)
    with ExitStack() as stack:
        row = run_row(clips.lock_row(tmp_path, stack), Rounds(1))
    assert row["comparisons"][0]["figures"].keys() == {"CPU", "wall"}


def test_a_lock_is_held_for_about_as_long_as_asked() -> None:
    transform = clips.HoldLock.measure(0.005)
    clip = np.zeros(1, dtype=np.uint8)
    assert transform(clip, np.random.Generator(np.random.Philox(key=1))) is clip
    assert transform.turns > 1000


@pytest.mark.slow
def testlight_items_are_measured_where_torch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "SHAPE", (2, 3, 8, 8))
    monkeypatch.setattr(light, "BATCHES", 2)
    monkeypatch.setattr(light, "WORKERS", (0,))
    peers = Peers.find(["benchmarks.peers.torch"])
    if "torch" not in peers.modules:
        with ExitStack() as stack, pytest.raises(MissingMedia, match="torch"):
            light.light_row(peers, stack)
        return
    with ExitStack() as stack:
        row = run_row(light.light_row(peers, stack), Rounds(1))
    assert row["comparisons"][0]["figures"].keys() == {"wall, torch 0", "CPU, torch 0"}


@pytest.mark.slow
def test_aframeworks_loop_is_compared_with_the_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "VIDEOS", 4)
    monkeypatch.setattr(frameworks, "SIZE", 32)
    with ExitStack() as stack:
        row = frameworks.cached_row("tuple", "tuples", lambda loader: lambda: map(tuple, ([],)), tmp_path, stack, "1")
        result = run_row(row, Rounds(1))
    assert result["comparisons"][0]["figures"].keys() == {"wall", "CPU"}


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_a_row_of_a_framework_that_is_missing_is_left_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (f"benchmarks.peers.{name}", f"framefeed.adapters.{name}"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with ExitStack() as stack, pytest.raises(MissingMedia, match=f"it needs {name}: "):
        frameworks.frameworks_row(name, tmp_path, stack)
