"""Rows of decoders on this project's own media, made small."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.decode import length, loader
from benchmarks.media import OwnStore
from framefeed.bench import OUR_METHOD, BenchVideo, Rounds, run_row
from framefeed.bench.baselines import Method, Peers
from framefeed.load import ClipLoader
from framefeed.testing import ClipSpec, write_clip


def test_ready_clips_come_out_of_the_loader_as_they_are(tmp_path: Path) -> None:
    clips = loader.ready_clips(3)
    plan = loader.plan_of_files(tmp_path, 3, 6)
    with ClipLoader(plan, batch_size=3, workers=0, backend=loader.CopyingDecoder(clips)) as batches:
        delivered = [batch.data.copy() for batch in batches]
    assert [(batch == clips).all() for batch in delivered] == [True, True]


@pytest.mark.test_all
def test_moving_is_measured_against_torch_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "MOVED_BATCHES", 2)
    monkeypatch.setattr(loader, "READY_CLIPS", 4)
    peers = Peers.find(["benchmarks.peers.torch"])
    with ExitStack() as stack:
        row = run_row(loader.moving_row(tmp_path, stack, peers), Rounds(1))
    assert {each["name"] for each in row["contenders"]} >= {"framefeed 1", "framefeed 2"}
    assert bool(row["comparisons"]) == ("torch" in peers.modules)


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    video = BenchVideo(write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=40)))
    row = run_row(loader.memory_row([video], tmp_path / "cat.parquet", stride=2, clips=40), Rounds(1))
    assert row["facts"]["batches"] == len(row["facts"]["resident_MB"]) == 3
    assert 20 < row["comparisons"][0]["figures"]["peak"]["median"] < 700


@pytest.mark.test_all
def test_a_long_video_is_compared_with_the_short_one_that_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(length, "CLIPS", 1)
    store = OwnStore((), tmp_path, Rounds(), test_frames=64, repeats=2)
    peer = Method("peer", "NCHW", OUR_METHOD.open)
    row = run_row(length.length_row(store.test_video, store.long_test_video, [peer], Rounds(4)), Rounds(4))
    assert {each["name"]: len(each["cpu_seconds"]) for each in row["contenders"]} == {
        "framefeed, short": 4, "framefeed, long": 4, "peer, short": 3, "peer, long": 3,
    }  # fmt: skip
    assert [comparison["key"] for comparison in row["comparisons"]] == ["ours", "peers"]
    assert row["facts"]["long_video"]["frames"] == 128


def test_memory_must_be_flat_once_settled() -> None:
    assert loader.judge_memory([100.0] * 10 + [300.0] * 53).facts["is_flat_after_50"]
    assert not loader.judge_memory([300.0] * 50 + [310.0]).facts["is_flat_after_50"]
