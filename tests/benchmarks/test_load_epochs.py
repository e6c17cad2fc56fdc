"""Rows about whole loops, made small."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load import epochs
from benchmarks.load.programs import WATCH, ClipSet, Loop, make_clip_set, run_loop, take_batches
from framefeed.bench import BenchVideo, Contender, MediaStore, Reading, Rounds, Timings, ready
from framefeed.errors import MissingMedia
from framefeed.testing import ClipSpec, write_clip

OWN = epochs.OWN_LOOPS[0]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> ClipSet:
    folder = tmp_path_factory.mktemp("clips")
    videos = [BenchVideo(write_clip(folder / f"{name}.mp4", ClipSpec(num_frames=80))) for name in "ab"]
    return make_clip_set(videos, folder, {})


@pytest.mark.slow
def test_a_loop_is_read_at_its_marks_with_all_that_it_started(clips: ClipSet) -> None:
    marks = run_loop(OWN, clips.write(), watch=WATCH)
    ready_at, first, done = (marks.of[mark] for mark in ("ready", "first", "done"))
    assert 0 < ready_at.cpu <= first.cpu <= done.cpu
    assert 0 < ready_at.wall <= first.wall <= done.wall
    assert marks.peak_megabytes > 20


@pytest.mark.slow
def test_our_loop_gives_the_clips_that_all_are_asked_for(clips: ClipSet) -> None:
    check, contender = epochs.make_check(clips, [OWN]), Contender(OWN.name, ready(lambda number: None))
    assert check(contender) == []
    shifted = [
        (path, [min(ordinal + 1, 79) for ordinal in ordinals]) for path, ordinals in clips.specification["clips"]
    ]
    others = ClipSet(clips.plan, {**clips.specification, "clips": shifted}, clips.folder)
    assert epochs.make_check(others, [OWN])(contender)


@pytest.mark.test_all
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


def test_a_loop_that_fails_is_named(clips: ClipSet) -> None:
    with pytest.raises(subprocess.SubprocessError, match="framefeed ended with"):
        run_loop(replace(OWN, program=Path("nowhere.py")), clips.write())


def test_media_without_a_fitting_video_are_refused(tmp_path: Path) -> None:
    write_clip(tmp_path / "short.mp4", ClipSpec(num_frames=20))
    (tmp_path / "b.mp4").write_bytes(b"no video")
    with pytest.raises(MissingMedia, match=r"H\.264"):
        epochs.choose_videos(MediaStore([tmp_path], tmp_path, Rounds()), [tmp_path])


def test_whole_videos_are_chosen(tmp_path: Path) -> None:
    fit = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=80))
    (tmp_path / "b.mp4").write_bytes(b"no video")
    chosen = epochs.choose_videos(MediaStore([tmp_path], tmp_path, Rounds()), [tmp_path])
    assert [video.path for video in chosen] == [fit]


def test_ours_is_compared_with_the_fastest_loop_of_each_library() -> None:
    times = {"framefeed": (1.0, 2.0), "alpha exact": (3.0, 3.0), "alpha bare": (1.5, 5.0), "beta": (2.0, 2.5)}
    timings = Timings({name: {n: Reading(*took) for n in range(6)} for name, took in times.items()})
    found = epochs.compare_libraries(timings, "framefeed")
    assert {
        library: {metric: (of.against, of.value.median) for metric, of in figures.items()}
        for library, figures in found.items()
    } == {
        "alpha": {"CPU": ("alpha bare", 1.5), "wall": ("alpha exact", 1.5)},
        "beta": {"CPU": ("beta", 2.0), "wall": ("beta", 1.25)},
    }
