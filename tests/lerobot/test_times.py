"""Which frame a time means: ties, tolerances, late episodes, and plans of times that have changed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.testing import ClipSpec, make_lerobot, read_stamps, write_clip
from tests.lerobot.cases import edit_column

TOP = "observation.images.top"
EPISODES, TABLE = "meta/episodes/chunk-000/file-000.parquet", "data/chunk-000/file-000.parquet"
FILE = f"videos/{TOP}/chunk-000/file-{{:03d}}.mp4"
Copy = Callable[..., Path]


def put(path: Path, **columns: Callable[[list[Any]], Any]) -> None:
    """Change columns of a table; ``__`` of a name stands for ``/``, and ``TOP`` for the camera."""
    for key, change in columns.items():
        edit_column(path, key.replace("TOP", TOP).replace("__", "/"), change)


def test_of_two_frames_equally_near_the_first_is_taken_and_the_tolerance_is_meant_inclusively(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "eighths", version="2.1", episodes=(6,), cameras=[TOP], fps=8, size=(32, 48))
    video = root / f"videos/chunk-000/{TOP}/episode_000000.mp4"
    write_clip(video, ClipSpec(num_frames=6, width=48, height=32, fps=4))
    robots = ff.lerobot.open(root)
    plan = robots.plan({TOP: [0.0]}, seed=0, shuffle=False, tolerance_seconds=1 / 8)
    assert [plan[row][TOP].indices.tolist() for row in range(6)] == [[0], [0], [1], [1], [2], [2]]
    with pytest.raises(ff.FrameNotFound, match="row 1 "):
        robots.plan({TOP: [0.0]}, seed=0, shuffle=False, tolerance_seconds=0.1249)[1]


def test_the_tolerance_of_a_delta_is_in_seconds_and_not_in_rows(original: dict[str, Path]) -> None:
    plan = ff.lerobot.open(original["3.0"]).plan({TOP: [0.0333]}, seed=0, shuffle=False)  # 0.000033 s from 1/30 s
    assert plan[0][TOP].indices.tolist() == [1]


def test_times_of_late_episodes_are_summed_in_float64(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "late", episodes=(9,), cameras=[TOP], size=(32, 48))
    write_clip(root / FILE.format(0), ClipSpec(num_frames=9, width=48, height=32, fps=30, start_seconds=5000))
    put(root / EPISODES, videos__TOP__from_timestamp=lambda _: [5000.0], videos__TOP__to_timestamp=lambda _: [5000.3])
    plan = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0, shuffle=False)
    assert [plan[row][TOP].indices.tolist() for row in range(9)] == [[row] for row in range(9)]


def test_times_of_rows_are_the_float32_numbers_of_the_table(original: dict[str, Path]) -> None:
    plan = ff.lerobot.open(original["3.0"]).plan({TOP: [0.0]}, seed=0, shuffle=False)
    error = float(Fraction(11, 30) - Fraction(float(np.float32(11 / 30))))
    assert abs(error) > 1e-9
    assert plan[11][TOP].pick_error_seconds.tolist() == [error]


def test_each_frame_is_compared_with_the_tolerance(copy: Copy) -> None:
    root = copy()
    put(root / TABLE, timestamp=lambda values: np.float32([*values[:6], values[6] + 0.005, *values[7:]]))
    plan = ff.lerobot.open(root).plan({TOP: [-1 / 30, 0.0, 1 / 30]}, seed=0, shuffle=False)
    assert plan[4][TOP].indices.tolist() == [3, 4, 5]
    for row in (5, 6, 7):
        with pytest.raises(ff.FrameNotFound, match="the time of row 6 "):
            plan[row]


def test_plans_whose_episodes_moved_to_other_files_are_stale(copy: Copy) -> None:
    root = copy()
    pickled = pickle.dumps(ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0))
    put(root / EPISODES, videos__TOP__file_index=lambda _: [1, 1, 0])
    with pytest.raises(ff.StaleSource, match="changed since"):
        pickle.loads(pickled)


@pytest.mark.parametrize("file", [TABLE, EPISODES])
def test_plans_of_other_times_are_other_plans(copy: Copy, file: str) -> None:
    root = copy()
    plan = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0)
    pickled, state = pickle.dumps(plan), plan.state_dict()
    if file == TABLE:
        put(root / file, timestamp=lambda values: np.float32([*values[:-1], values[-1] + 1e-5]))
    else:
        put(root / file, videos__TOP__from_timestamp=lambda values: [values[0], values[1] + 1e-5, *values[2:]])
    with pytest.raises(ff.StaleSource, match="changed since"):
        pickle.loads(pickled)
    changed = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0)
    assert changed.fingerprint != plan.fingerprint
    with pytest.raises(ff.UsageError, match="belongs to another plan"):
        changed.with_state(state)


def test_videos_need_not_be_numbered_in_the_order_of_episodes(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "any", episodes=(3, 4, 5), cameras=[TOP], episodes_per_file=1, size=(32, 48))
    videos = root / f"videos/{TOP}"
    (videos / "chunk-002").mkdir()
    pairs = [(2, 1), (2, 2), (0, 1)]
    for number in (0, 1):
        (videos / f"chunk-000/file-{number:03d}.mp4").rename(videos / f"chunk-002/file-{number + 1:03d}.mp4")
    (videos / "chunk-000/file-002.mp4").rename(videos / "chunk-000/file-001.mp4")
    chunks, files = zip(*pairs, strict=True)
    put(root / EPISODES, videos__TOP__chunk_index=lambda _: chunks, videos__TOP__file_index=lambda _: files)
    plan = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0, shuffle=False)
    with ff.ClipLoader(plan, batch_size=12, workers=0) as loader:
        (batch,) = loader
    assert read_stamps(batch.data[TOP][:, 0].transpose(0, 2, 3, 1)) == list(range(12))
