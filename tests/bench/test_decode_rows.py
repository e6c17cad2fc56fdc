"""Whole rows, made small."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from framefeed.bench._frames import OUR_METHOD
from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import Reading, Rounds, Timings, run_row
from framefeed.bench._suites import BenchOptions, run_suite
from framefeed.bench.baselines import Method, Peers
from framefeed.bench.decode import DECODE, _loader, _workloads
from framefeed.bench.decode._loader import judge_memory, memory_row
from framefeed.bench.decode._workloads import compare_libraries, length_row, own_workloads, pays_after
from framefeed.cli import main
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.testing import ClipSpec, write_clip


def test_ready_clips_come_out_of_the_loader_as_they_are(tmp_path: Path) -> None:
    clips = _loader.ready_clips(3)
    plan = _loader.plan_of_files(tmp_path, 3, 6)
    with ClipLoader(plan, batch_size=3, workers=0, backend=_loader.CopyingDecoder(clips)) as batches:
        delivered = [batch.data.copy() for batch in batches]
    assert [(batch == clips).all() for batch in delivered] == [True, True]


def test_overhead_is_measured_against_decoding_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "OVERHEAD_CLIPS", 16)
    monkeypatch.setattr(_loader, "DECODE_SECONDS", 0.002)
    with ExitStack() as stack:
        row = run_row(_loader.overhead_row(tmp_path, stack), Rounds(2))
    figures = row["comparisons"][0]["figures"]
    assert list(figures) == ["wall, 1 threads", "wall, 2 threads", "wall, 8 threads"]
    assert -20 < figures["wall, 1 threads"]["median"] < 200


@pytest.mark.slow
def test_moving_is_measured_against_torch_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "MOVED_BATCHES", 2)
    monkeypatch.setattr(_loader, "READY_CLIPS", 4)
    peers = Peers.find(["torch"])
    with ExitStack() as stack:
        row = run_row(_loader.moving_row(tmp_path, stack, peers), Rounds(1))
    assert {each["name"] for each in row["contenders"]} >= {"framefeed 1", "framefeed 2"}
    assert bool(row["comparisons"]) == ("torch" in peers.modules)


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    video = BenchVideo(write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=40)))
    row = run_row(memory_row([video], tmp_path / "cat.parquet", stride=2, clips=40), Rounds(1))
    assert row["facts"]["batches"] == len(row["facts"]["resident_MB"]) == 3
    assert 20 < row["comparisons"][0]["figures"]["peak"]["median"] < 700


def test_memory_must_be_flat_once_settled() -> None:
    assert judge_memory([100.0] * 10 + [300.0] * 53).facts["is_flat_after_50"]
    assert not judge_memory([300.0] * 50 + [310.0]).facts["is_flat_after_50"]
    assert judge_memory([5.0]).facts == {"batches": 1, "is_flat_after_50": True, "resident_MB": [5.0]}


def test_a_long_video_is_compared_with_the_short_one_that_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_workloads, "LENGTH_CLIPS", 1)
    store = MediaStore((), tmp_path, Rounds(), test_frames=64, repeats=2)
    peer = Method("peer", "NCHW", OUR_METHOD.open)
    row = run_row(length_row(store.test_video, store.long_test_video, [peer], Rounds(4)), Rounds(4))
    assert {each["name"]: len(each["cpu_seconds"]) for each in row["contenders"]} == {
        "framefeed, short": 4, "framefeed, long": 4, "peer, short": 3, "peer, long": 3,
    }  # fmt: skip
    assert [comparison["key"] for comparison in row["comparisons"]] == ["ours", "peers"]
    assert row["facts"]["long_video"]["frames"] == 128


def test_rows_whose_media_are_missing_are_skipped_with_the_reason(tmp_path: Path) -> None:
    report = run_suite(DECODE, BenchOptions(rows=("trailer-4", "resize"), work=tmp_path))
    assert report["rows"] == []
    assert report["skipped"].keys() == {"trailer-4", "resize"}
    assert json.loads(json.dumps(report)) == report


def test_unknown_rows_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"rows: expected some of .*trailer-24.*got nothing"):
        run_suite(DECODE, BenchOptions(rows=("nothing",)))
    assert {"length", "own", "gop12-2"} <= DECODE.rows.keys()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_clip(folder / "a.mp4", ClipSpec(num_frames=100))
    (folder / "b.mp4").write_bytes(b"no video")
    write_clip(folder / "short.mp4", ClipSpec(num_frames=20))
    return folder


def test_own_videos_make_rows_if_they_are_long_enough(own: Path, tmp_path: Path) -> None:
    store = MediaStore([own], tmp_path, Rounds())
    assert [workload.key for workload in own_workloads(store)] == ["own:a.mp4-4"]
    assert own_workloads(MediaStore((), tmp_path, Rounds())) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_command_measures_own_videos(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    words = ["bench", "decode", str(own), "--rows", "own", "--pairs", "1", "--json", str(out)]
    assert main(words) == 0
    assert "a.mp4, 16 frames 4 apart" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert [row["key"] for row in report["rows"]] == ["own:a.mp4-4"]
    assert report["rows"][0]["facts"]["CPU_seconds_to_build_the_index"]["proof"] > 0
    assert str(own) not in out.read_text()


def test_missing_benches_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gpu"]) == 1
    assert "not in this version" in capsys.readouterr().err


def make_method(name: str, *, resizes_itself: bool = True) -> Method:
    return Method(name, "NCHW", lambda video: pytest.fail("not opened"), resizes_itself=resizes_itself)


def test_ours_is_compared_with_the_fastest_method_of_some_libraries() -> None:
    times = {"framefeed": (1.0, 2.0), "alpha exact": (3.0, 3.0), "alpha bare": (1.5, 5.0), "beta": (2.0, 2.5)}
    timings = Timings({name: {n: Reading(*took) for n in range(20)} for name, took in times.items()})
    methods = [
        OUR_METHOD,
        make_method("alpha exact"),
        make_method("alpha bare", resizes_itself=False),
        make_method("beta"),
    ]
    plays = {method.name: (method, "many files") for method in methods}
    every = compare_libraries(timings, plays, "many files", ())
    assert {name: (of.against, of.value.median) for name, of in every.items()} == {
        "CPU": ("alpha bare", 1.5),
        "CPU, libraries with their own resize": ("beta", 2.0),
        "wall": ("beta", 1.25),
    }
    assert compare_libraries(timings, plays, "many files", ("beta",))["CPU"].value.median == 2.0
    assert compare_libraries(timings, plays, "many files", ("gamma",)) == {}


def test_a_batch_of_one_file_is_one_call_for_us() -> None:
    times = {"framefeed, one call": 1.0, "framefeed, clip by clip": 4.0, "beta, clip by clip": 6.0}
    timings = Timings({name: {n: Reading(took, took) for n in range(6)} for name, took in times.items()})
    plays = {
        name: (make_method("beta") if name.startswith("beta") else OUR_METHOD, name.partition(", ")[2])
        for name in times
    }
    assert compare_libraries(timings, plays, "clip by clip", ())["CPU"].value.median == 6.0


@pytest.mark.parametrize(
    ("ours", "best", "clips"), [(0.25, 0.5, 2), (0.25, 0.45, 3), (0.2, 0.2, None), (0.3, 0.2, None)]
)
def test_an_index_pays_once_its_cost_is_saved(ours: float, best: float, clips: int | None) -> None:
    assert pays_after(0.5, ours, best) == clips
