"""Whole rows, made small."""

import json
import shutil
from pathlib import Path

import pytest

from framefeed.bench._media import MediaStore
from framefeed.bench._runner import Reading, Rounds, Timings
from framefeed.bench._suites import BenchOptions, run_suite
from framefeed.bench.baselines import Method
from framefeed.bench.decode import DECODE
from framefeed.bench.decode._workloads import compare_methods, own_workloads
from framefeed.cli import main
from framefeed.testing import ClipSpec, write_clip


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
    shutil.copy(own / "a.mp4", tmp_path / "made_720p.mp4")
    assert [workload.key for workload in own_workloads(MediaStore((), tmp_path, Rounds()))] == ["own:made_720p.mp4-4"]


def test_media_without_a_long_video_are_left_out_with_the_reason(own: Path) -> None:
    report = run_suite(DECODE, BenchOptions(media=(own / "short.mp4",)))
    assert report["rows"] == []
    assert "65 frames" in report["skipped"]["own"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_command_measures_own_videos(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    words = ["bench", "decode", str(own), "--rows", "own", "--pairs", "1", "--json", str(out)]
    assert main(words) == 0
    assert "a.mp4, 16 frames 4 apart" in capsys.readouterr().out
    report = json.loads(out.read_text())
    assert [row["key"] for row in report["rows"]] == ["own:a.mp4-4"]
    assert str(own) not in out.read_text()


def make_method(name: str, *, resizes_itself: bool = True) -> Method:
    return Method(name, "NCHW", lambda video: pytest.fail("not opened"), resizes_itself=resizes_itself)


def test_ours_is_compared_with_the_fastest_of_some_methods() -> None:
    times = {"framefeed": (1.0, 2.0), "alpha exact": (3.0, 3.0), "alpha bare": (1.5, 5.0), "beta": (2.0, 2.5)}
    timings = Timings({name: {n: Reading(*took) for n in range(20)} for name, took in times.items()})
    methods = [make_method("alpha exact"), make_method("alpha bare", resizes_itself=False), make_method("beta")]
    rivals = {method.name: method for method in methods}
    every = compare_methods(timings, "framefeed", rivals)
    assert {name: (of.against, of.value.median) for name, of in every.items()} == {
        "CPU": ("alpha bare", 1.5),
        "CPU, libraries with their own resize": ("beta", 2.0),
        "wall": ("beta", 1.25),
    }
    assert compare_methods(timings, "framefeed", {"beta": rivals["beta"]})["CPU"].value.median == 2.0
    assert compare_methods(timings, "framefeed", {"gamma": make_method("gamma")}) == {}
