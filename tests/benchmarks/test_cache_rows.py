"""Rows of the frame cache that check ourselves, made small."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.cache import passes
from benchmarks.cache.suite import ROWS, SUITE
from framefeed.bench import BenchOptions, BenchVideo, Rounds, Row, describe_row, run_row
from framefeed.bench.baselines import Peers
from framefeed.testing import ClipSpec, write_clip


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> BenchVideo:
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return BenchVideo(write_clip(path, ClipSpec(num_frames=40, height=48, width=64, gop=10)))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "OUTPUT_SIZE", (16, 24))
    for name in ("CLIPS", "FILLED_CLIPS", "REPEATS", "BATCHES", "BATCH_SIZE"):
        monkeypatch.setattr(passes, name, 2)


def run_on(make: Callable[[BenchVideo, Path, ExitStack], Row], video: BenchVideo, folder: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        return run_row(make(video, folder, stack), Rounds(2, 2))


def test_a_second_pass_reads_what_the_first_stored(video: BenchVideo, tmp_path: Path) -> None:
    row = run_on(passes.second_row, video, tmp_path)
    assert row["wrong"] == []
    assert row["facts"]["stored_bytes"] > 0
    assert len(row["contenders"]) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["filled"]


def test_filling_is_measured_in_both_forms(video: BenchVideo, tmp_path: Path) -> None:
    row = run_on(passes.filling_row, video, tmp_path)
    assert [len(comparison["figures"]) for comparison in row["comparisons"]] == [2, 2]
    assert "\n".join(describe_row(row)).count(": without") == 2


def test_batches_are_compared_with_memcpy(video: BenchVideo, tmp_path: Path) -> None:
    row = run_on(passes.batches_row, video, tmp_path)
    assert [each["num_wrong"] for each in row["contenders"]] == [0, 0, 0]
    assert [comparison["key"] for comparison in row["comparisons"]] == ["store", "loader"]
    assert "memcpy" in "\n".join(describe_row(row))


def test_batches_that_differ_are_wrong(video: BenchVideo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = passes.read_batch

    def read_wrongly(store: Any, number: int, memory: Any) -> None:
        read(store, number, memory)
        memory += np.uint8(number)

    monkeypatch.setattr(passes, "read_batch", read_wrongly)
    row = run_on(passes.batches_row, video, tmp_path)
    assert {each["name"]: each["num_wrong"] for each in row["contenders"]}[passes.STORE] == 1
    assert [comparison["key"] for comparison in row["comparisons"]] == ["loader"]


def test_every_row_of_the_suite_is_planned(video: BenchVideo, tmp_path: Path) -> None:
    assert [*SUITE.plan(BenchOptions((video.path,)), Peers(), tmp_path, print)] == [*ROWS]
