"""Rows about whole loops, made small."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import Contender, Reading, Rounds, Timings, ready, run_row
from framefeed.bench.baselines import Peers
from framefeed.bench.load import LOAD, _clips, _epochs, _frameworks, _light, _programs
from framefeed.bench.load._programs import ClipSet, Loop, make_clip_set, run_loop, take_batches
from framefeed.errors import MissingMedia
from framefeed.testing import ClipSpec, write_clip

OWN = _epochs.OWN_LOOPS[0]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> ClipSet:
    folder = tmp_path_factory.mktemp("clips")
    videos = [BenchVideo(write_clip(folder / f"{name}.mp4", ClipSpec(num_frames=80))) for name in "ab"]
    return make_clip_set(videos, folder, {})


@pytest.mark.slow
def test_a_loop_is_read_at_its_marks_with_all_that_it_started(clips: ClipSet) -> None:
    marks = run_loop(OWN, clips.write(), watches=True)
    ready_at, first, done = (marks.of[mark] for mark in ("ready", "first", "done"))
    assert 0 < ready_at.cpu <= first.cpu <= done.cpu
    assert 0 < ready_at.wall <= first.wall <= done.wall
    assert marks.peak_megabytes > 20


@pytest.mark.slow
def test_our_loop_gives_the_clips_that_all_are_asked_for(clips: ClipSet) -> None:
    check, contender = _epochs.make_check(clips, [OWN]), Contender(OWN.name, ready(lambda number: None))
    assert check(contender) == []
    shifted = [
        (path, [min(ordinal + 1, 79) for ordinal in ordinals]) for path, ordinals in clips.specification["clips"]
    ]
    others = ClipSet(clips.plan, {**clips.specification, "clips": shifted}, clips.folder)
    assert _epochs.make_check(others, [OWN])(contender)


@pytest.mark.slow
def test_a_users_data_set_runs_under_our_class(clips: ClipSet, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # A library that gives black clips.
    (tmp_path / "decord.py").write_text(
        "import torch\n"
        "class bridge:\n    set_bridge = staticmethod(len)\n"
        "class VideoReader:\n"
        "    def __init__(self, path, **options): pass\n"
        "    def get_batch(self, numbers): return torch.zeros(len(numbers), 224, 224, 3, dtype=torch.uint8)\n"
    )
    path = f"sys.path.insert(0, {str(tmp_path)!r})"
    loop = Loop("decord2", "decord2", prelude=f"{path}; from framefeed.torch import DataLoader")
    kept = take_batches(loop, clips)
    assert kept.shape == (12, 16, 3, 224, 224)
    assert not kept.any()


def test_a_loop_that_fails_is_named(clips: ClipSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_programs, "_OWN", Path("nowhere.py"))
    with pytest.raises(subprocess.SubprocessError, match="framefeed ended with"):
        run_loop(OWN, clips.write())


def test_media_without_a_fitting_video_are_refused(tmp_path: Path) -> None:
    write_clip(tmp_path / "short.mp4", ClipSpec(num_frames=20))
    (tmp_path / "b.mp4").write_bytes(b"no video")
    with pytest.raises(MissingMedia, match=r"H\.264"):
        _epochs.choose_videos(MediaStore([tmp_path], tmp_path, Rounds()), [tmp_path])


def test_whole_videos_are_chosen(tmp_path: Path) -> None:
    fit = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=80))
    (tmp_path / "b.mp4").write_bytes(b"no video")
    chosen = _epochs.choose_videos(MediaStore([tmp_path], tmp_path, Rounds()), [tmp_path])
    assert [video.path for video in chosen] == [fit]


def test_ours_is_compared_with_the_fastest_loop_of_each_library() -> None:
    times = {"framefeed": (1.0, 2.0), "alpha exact": (3.0, 3.0), "alpha bare": (1.5, 5.0), "beta": (2.0, 2.5)}
    timings = Timings({name: {n: Reading(*took) for n in range(6)} for name, took in times.items()})
    found = _epochs.compare_libraries(timings, "framefeed")
    assert {
        library: {metric: (of.against, of.value.median) for metric, of in figures.items()}
        for library, figures in found.items()
    } == {
        "alpha": {"CPU": ("alpha bare", 1.5), "wall": ("alpha exact", 1.5)},
        "beta": {"CPU": ("beta", 2.0), "wall": ("beta", 1.25)},
    }


@pytest.mark.slow
def test_one_slow_clip_is_measured_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clips, "LIGHT_SECONDS", 0.001)
    with ExitStack() as stack:
        row = run_row(_clips.slow_row(tmp_path, stack), Rounds(1))
    figures = row["comparisons"][0]["figures"]
    assert list(figures) == ["wall, first", "wall, in the middle", "wall, last"]
    assert all(figure["median"] > -1 for figure in figures.values())


def test_restoring_is_measured_far_from_the_beginning(tmp_path: Path) -> None:
    with ExitStack() as stack:
        row = run_row(_clips.restore_row(tmp_path, stack), Rounds(3))
    assert {each["name"] for each in row["contenders"]} == {_clips.FRESH, _clips.RESTORED}
    assert row["comparisons"][0]["figures"]["wall"]["pairs"] == 3


@pytest.mark.slow
def test_processes_are_measured_against_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clips, "HELD_CLIPS", 16)
    with ExitStack() as stack:
        row = run_row(_clips.lock_row(tmp_path, stack), Rounds(1))
    assert row["comparisons"][0]["figures"].keys() == {"CPU", "wall"}


def test_a_lock_is_held_for_about_as_long_as_asked() -> None:
    transform = _clips.HoldLock.measure(0.005)
    clip = np.zeros(1, dtype=np.uint8)
    assert transform(clip, np.random.Generator(np.random.Philox(key=1))) is clip
    assert transform.turns > 1000


@pytest.mark.slow
def test_light_items_are_measured_where_torch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_light, "SHAPE", (2, 3, 8, 8))
    monkeypatch.setattr(_light, "BATCHES", 2)
    monkeypatch.setattr(_light, "WORKERS", (0,))
    peers = Peers.find(["torch"])
    if "torch" not in peers.modules:
        with ExitStack() as stack, pytest.raises(MissingMedia, match="torch"):
            _light.light_row(peers, stack)
        return
    with ExitStack() as stack:
        row = run_row(_light.light_row(peers, stack), Rounds(1))
    assert row["comparisons"][0]["figures"].keys() == {"wall, torch 0", "CPU, torch 0"}


@pytest.mark.slow
def test_a_frameworks_loop_is_compared_with_the_loaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frameworks, "CLIPS", 8)
    monkeypatch.setattr(_frameworks, "SIZE", 32)
    with ExitStack() as stack:
        row = _frameworks.adapter_row("tuple", "tuples", lambda loader: lambda: map(tuple, ([],)), tmp_path, stack, "1")
        result = run_row(row, Rounds(1))
    assert result["comparisons"][0]["figures"].keys() == {"wall", "CPU"}


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_a_row_of_a_framework_that_is_missing_is_left_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (f"framefeed.bench.baselines.{name}", f"framefeed.adapters.{name}"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with ExitStack() as stack, pytest.raises(MissingMedia, match=f"it needs {name}: "):
        _frameworks.frameworks_row(name, tmp_path, stack)


def test_every_row_says_what_it_measures() -> None:
    rows = "epoch memory start users light slow processes lock restore tensorflow jax simulation"
    assert set(rows.split()) == LOAD.rows.keys()
