"""Rows of our own loaders, made small."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.load import clips, light
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
