"""Rows of decoders on this project's own media, made small."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.decode import length, loader
from benchmarks.decode.workloads import all_ordinals, batch_row, compare_batches, files_row, pays_after
from benchmarks.media import OwnStore
from framefeed.bench import OUR_METHOD, BenchVideo, Reading, Rounds, Timings, run_row
from framefeed.bench.baselines import Method, Peers
from framefeed.bench.decode import Workload
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


FEW = Workload("few", "few", lambda store: store.test_video, 1, 2)


@pytest.fixture(scope="module")
def tests_alone(tmp_path_factory: pytest.TempPathFactory) -> OwnStore:
    return OwnStore((), tmp_path_factory.mktemp("tests_alone"), Rounds(), test_frames=64)


def test_clips_of_many_files_are_compared_with_some_libraries_too(tests_alone: OwnStore) -> None:
    methods = [Method("alpha", "NCHW", OUR_METHOD.open), Method("beta", "NCHW", OUR_METHOD.open, resizes_itself=False)]
    made = files_row(FEW, tests_alone, methods, Rounds(2), [("alpha",), ("alpha", "beta")])
    kinds = ("all", "own resize", "('alpha',)", "('alpha', 'beta')")
    assert [each.groups for each in made.contenders] == [
        (), tuple(f"many files {kind}" for kind in kinds), ("many files all",)
    ]  # fmt: skip
    row = run_row(made, Rounds(2))
    assert [each["num_wrong"] for each in row["contenders"]] == [0, 0, 0]
    assert [each["key"] for each in row["comparisons"]] == [
        "many files", "many files: alpha", "many files: alpha + beta"
    ]  # fmt: skip
    assert row["facts"]["CPU_seconds_to_build_the_index"]["proof"] > 0
    assert row["facts"]["clips_of_a_file_after_which_the_index_has_paid"].keys() == {"proof", "none"}


def test_batches_of_one_file_are_read_by_both_rules(tests_alone: OwnStore) -> None:
    methods = [Method("alpha", "NCHW", OUR_METHOD.open), Method("spdl selected", "NCHW", OUR_METHOD.open)]
    row = run_row(batch_row(FEW, tests_alone, methods, Rounds(2), ("alpha",)), Rounds(2))
    assert {each["name"]: (each["rule"], each["num_wrong"]) for each in row["contenders"]} == {
        "framefeed, clip by clip": ("clip by clip", 0), "alpha, clip by clip": ("clip by clip", 0),
        "spdl selected, clip by clip": ("clip by clip", 0),
        "framefeed, one call": ("one call", 0), "alpha, one call": ("one call", 0),
    }  # fmt: skip
    assert [each["key"] for each in row["comparisons"]] == ["clip by clip", "one call", "one call: alpha"]
    assert {figure["ours"] for each in row["comparisons"] for figure in each["figures"].values()} == {
        "framefeed, one call"
    }
    assert row["rules"].keys() == {"clip by clip", "one call"}
    assert row["facts"] == {}


def test_a_call_for_a_batch_has_each_frame_once(tests_alone: OwnStore) -> None:
    batch = FEW.draw([tests_alone.test_video], 1)[0]
    ordinals = all_ordinals(batch)
    assert ordinals == sorted(set(ordinals)) == sorted({ordinal for clip in batch for ordinal in clip.ordinals})


def test_a_batch_of_one_file_is_one_call_for_us() -> None:
    times = {"framefeed, one call": 1.0, "framefeed, clip by clip": 4.0, "beta, clip by clip": 6.0}
    timings = Timings({name: {n: Reading(took, took) for n in range(6)} for name, took in times.items()})
    beta = Method("beta", "NCHW", lambda video: pytest.fail("not opened"))
    plays = {name: (beta if name.startswith("beta") else OUR_METHOD, name.partition(", ")[2]) for name in times}
    found = {comparison.key: comparison.figures for comparison in compare_batches(timings, plays)}
    assert found["clip by clip"]["CPU"].value.median == 6.0
    assert found["one call"] == {}


@pytest.mark.parametrize(
    ("ours", "best", "clips"), [(0.25, 0.5, 2), (0.25, 0.45, 3), (0.2, 0.2, None), (0.3, 0.2, None)]
)
def test_an_index_pays_once_its_cost_is_saved(ours: float, best: float, clips: int | None) -> None:
    assert pays_after(0.5, ours, best) == clips
