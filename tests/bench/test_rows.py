"""Whole rows, made small."""

import json
from pathlib import Path

import pytest

from framefeed.bench import _memory
from framefeed.bench._measuring import Rounds
from framefeed.bench._media import BenchVideo
from framefeed.bench._ready import CopyingDecoder, plan_of_files, ready_clips
from framefeed.bench.baselines import load_module
from framefeed.bench.decode import DecodeBench, _loader, known_rows, run_decode
from framefeed.bench.decode._owned import own_workloads
from framefeed.cli import main
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.testing import ClipSpec, write_clip


def test_ready_clips_come_out_of_the_loader_as_they_are(tmp_path: Path) -> None:
    clips = ready_clips(3)
    plan = plan_of_files(tmp_path, 3, 6)
    with ClipLoader(plan, batch_size=3, workers=0, backend=CopyingDecoder(clips)) as batches:
        delivered = [batch.data.copy() for batch in batches]
    assert [(batch == clips).all() for batch in delivered] == [True, True]


def test_overhead_is_measured_against_decoding_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "OVERHEAD_CLIPS", 16)
    monkeypatch.setattr(_loader, "DECODE_SECONDS", 0.002)
    row = _loader.loader_overhead(tmp_path, Rounds(2, 2))
    assert row["overhead"].keys() == {"1", "2", "8"}
    assert -0.2 < row["overhead"]["1"]["median"] < 2


@pytest.mark.slow
def test_moving_is_measured_against_torch_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "MOVED_BATCHES", 2)
    monkeypatch.setattr(_loader, "READY_CLIPS", 4)
    row = _loader.moving_batches(tmp_path, Rounds(1, 1))
    assert row["milliseconds"]["framefeed 2"] > 0
    assert ("torch 2" in row["wall"]) == (not isinstance(load_module("torch_loader"), str))


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    video = BenchVideo(write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=40)))
    row = _memory.feed_memory([video], tmp_path / "cat.parquet", stride=2, clips=40)
    assert row["batches"] == len(row["series_mb"]) == 3
    assert 20 < row["peak_mb"] < row["limit_mb"]


def test_rows_whose_media_are_missing_are_skipped_with_the_reason(tmp_path: Path) -> None:
    report = run_decode(DecodeBench(rows=("trailer-4", "resize"), work=tmp_path))
    assert report["rows"] == []
    assert report["skipped"].keys() == {"trailer-4", "resize"}
    assert json.loads(json.dumps(report)) == report


def test_unknown_rows_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"rows: expected some of .*trailer-24.*got nothing"):
        DecodeBench(rows=("nothing",))
    assert {"length", "own", "gop12-2"} <= known_rows()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_clip(folder / "a.mp4", ClipSpec(num_frames=100))
    (folder / "b.mp4").write_bytes(b"no video")
    write_clip(folder / "short.mp4", ClipSpec(num_frames=20))
    return folder


def test_own_videos_make_rows_if_they_are_long_enough(own: Path) -> None:
    assert [workload.key for workload in own_workloads([own])] == ["own:a.mp4-4"]
    assert own_workloads([]) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_command_measures_own_videos(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    words = ["bench", "decode", str(own), "--rows", "own", "--pairs", "1", "--json", str(out)]
    assert main(words) == 0
    assert "a.mp4, 16 frames 4 apart" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert [row["key"] for row in report["rows"]] == ["own:a.mp4-4"]
    assert report["index"][0]["cpu_seconds"]["ends"] > 0
    assert str(own) not in out.read_text()


def test_missing_benches_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gpu"]) == 1
    assert "not in this version" in capsys.readouterr().err
