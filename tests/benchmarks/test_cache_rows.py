"""Rows of the frame cache that check ourselves, made small."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.cache import passes
from benchmarks.cache.exact import compare_exact, exact_row
from benchmarks.cache.suite import PEERS, ROWS, SUITE
from framefeed.bench import BenchOptions, BenchVideo, Reading, Rounds, Row, Timings, describe_row, run_row
from framefeed.bench.baselines import FileFormat, Peers
from framefeed.bench.cache import Scene, take_sample
from framefeed.cache import find_exact_codecs
from framefeed.decode import Pixels
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


# --- single frames --------------------------------------------------------------------------------


def run_exact(video: BenchVideo, folder: Path, peers: Peers) -> dict[str, Any]:
    sample = take_sample(video, 5, (16, 24), Rounds())
    with ExitStack() as stack:
        return run_row(exact_row(Scene(sample, folder, peers, Rounds(2, 2), 1), stack), Rounds(2, 2))


def test_exact_codecs_are_compared_with_all_of_theirs(video: BenchVideo, tmp_path: Path) -> None:
    peers = Peers.find(PEERS)
    row = run_exact(video, tmp_path, peers)
    assert [each["name"] for each in row["contenders"] if each["num_wrong"]] == []
    names = {each["name"] for each in row["contenders"]}
    layouts = {frame.layout for frame in take_sample(video, 5, (16, 24), Rounds()).frames}
    assert names >= {"framefeed lz4, RGB", *(f"framefeed {codec.name}, planes" for codec in find_exact_codecs(layouts))}
    if "joblib" in peers.modules:
        assert names >= {f"joblib lz4 {level}" for level in (1, 2, 3, 5)}
        assert row["comparisons"][0]["key"] == "speed of joblib lz4, its fastest level"
    assert {len(each["cpu_seconds"]) for each in row["contenders"]} == {2}
    assert all(each["facts"]["bytes_a_frame"] > 0 for each in row["contenders"])
    assert describe_row(row)


def save_array(path: str, rgb: Pixels) -> None:
    np.save(path, rgb)


def dropping_a_bit(path: str) -> Pixels:
    frame = np.load(path)
    frame[0, 0, 0] ^= 1
    return frame


def test_a_format_that_loses_a_bit_is_wrong_and_not_compared(video: BenchVideo, tmp_path: Path) -> None:
    forms = [
        FileFormat("joblib lz4 1", ".npy", True, save_array, np.load),
        FileFormat("PNG", ".npy", True, save_array, dropping_a_bit),
    ]
    row = run_exact(video, tmp_path, Peers({"made": SimpleNamespace(FORMATS=forms)}))
    assert [each["name"] for each in row["contenders"] if each["num_wrong"]] == ["PNG"]
    assert [each for each in row["comparisons"] if "PNG" in each["key"]] == []
    assert [each for each in row["comparisons"] if each["key"] == "speed of joblib lz4 1"]


def test_ours_are_compared_with_the_level_of_lz4_that_reads_fastest() -> None:
    seconds = {"joblib lz4 1": 4.0, "joblib lz4 5": 3.0, "PNG (OpenCV)": 30.0, "framefeed zstd, planes": 2.0,
               "framefeed lz4, RGB": 1.5}  # fmt: skip
    nbytes = {"joblib lz4 1": 80.0, "joblib lz4 5": 60.0, "PNG (OpenCV)": 30, "framefeed zstd, planes": 30.0,
              "framefeed lz4, RGB": 90.0}  # fmt: skip
    timings = Timings({name: {n: Reading(took, took) for n in range(3)} for name, took in seconds.items()})
    by_key = {comparison.key: comparison.figures for comparison in compare_exact(timings, nbytes).comparisons}
    speed = by_key["speed of joblib lz4, its fastest level"]["framefeed zstd, planes"]
    assert (speed.against, speed.value.median) == ("joblib lz4 5", 1.5)
    assert by_key["bytes of joblib lz4, its fastest level"]["framefeed zstd, planes"].value == 0.5
    assert list(by_key["speed of joblib lz4 1"]) == ["framefeed lz4, RGB", "framefeed zstd, planes"]
    assert list(by_key["speed of framefeed lz4, RGB"]) == ["framefeed zstd, planes"]
    assert "bytes of PNG (OpenCV)" in by_key
