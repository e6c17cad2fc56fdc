"""Pictures in the tables at several times: the frames of a clip have a source each, and batches have them joined."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.testing import make_lerobot, read_stamps
from tests.lerobot.conftest import TOP

SIDE, TIMES = "side", [-2 / 30, 0.0, 1 / 30]
DELTAS = {TOP: [0.0, 1 / 30], SIDE: TIMES, "action": [0.0, 0.1]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    return make_lerobot(folder / "data", episodes=(3, 5, 4), cameras=[TOP], image_keys=[SIDE], size=(32, 48))


def load(plan: ff.EpochPlan, **options: Any) -> list[ff.ClipBatch]:
    with ff.ClipLoader(plan, **{"batch_size": 5, "workers": 0, **options}) as loader:
        return list(loader)


def assert_same(ours: list[ff.ClipBatch], expected: list[ff.ClipBatch]) -> None:
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert one.sources == other.sources
        assert np.array_equal(one.positions, other.positions)
        for name in expected[0].data:
            assert np.array_equal(one.data[name], other.data[name])
            assert np.array_equal(one.valid[name], other.valid[name])
            assert np.array_equal(one.pts_seconds[name], other.pts_seconds[name], equal_nan=True)


@pytest.mark.parametrize("episodes", [None, [1], [0, 2]])
def test_each_time_is_that_of_a_plan_of_it_alone(root: Path, episodes: Any) -> None:
    robots = ff.lerobot.open(root)
    options: dict[str, Any] = {"seed": 3, "episodes": episodes, "columns": ["index", "episode_index"]}
    plan = robots.plan(DELTAS, **options)
    batches = load(plan)
    assert plan.frames_per_clip is None
    assert list(plan[0]) == [TOP, SIDE]
    assert [len(plan[0][name].takes) for name in (TOP, SIDE)] == [1, 3]
    for number, time in enumerate(TIMES):
        alone = load(robots.plan({SIDE: [time]}, **options))
        for batch, other in zip(batches, alone, strict=True):
            assert np.array_equal(batch.data[SIDE][:, number], other.data[SIDE][:, 0])
            assert np.array_equal(batch.valid[SIDE][:, number], other.valid[SIDE][:, 0])
            assert np.array_equal(batch.pts_seconds[SIDE][:, number], other.pts_seconds[SIDE][:, 0])
    starts = [*robots.meta.episodes["dataset_from_index"], len(robots)]
    for batch in batches:
        for clip, row, episode in zip(batch.data[SIDE], batch["index"], batch["episode_index"], strict=True):
            rows = np.clip(row + np.array([-2, 0, 1]), starts[episode], starts[episode + 1] - 1)
            assert read_stamps(clip.transpose(0, 2, 3, 1)) == rows.tolist()


def test_frames_of_several_sources_are_no_request(root: Path) -> None:
    clip = ff.lerobot.open(root).plan_cameras({SIDE: TIMES}, seed=0)[SIDE][0]
    for given in (clip, clip.parts[""]):
        with pytest.raises(ff.UsageError, match=r"request 0 .* has frames of several sources"):
            ff.plan_requests([given])


def swap(clips: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    assert {name: len(clip) for name, clip in clips.items()} == {TOP: 2, SIDE: 3}
    return {name: clip[::-1, :, :, : int(rng.integers(8, 9))] for name, clip in clips.items()}


def test_workers_and_transforms_join_the_same(root: Path) -> None:
    plan = ff.lerobot.open(root).plan(DELTAS, seed=0)
    expected = load(plan)
    assert_same(load(plan, workers=1), expected)
    for kind in ("threads", "processes"):
        given: dict[str, Any] = {"kind": kind, "workers": 1, "transform": swap, "dtype": "float32"}
        for batch, plain in zip(load(plan, **given), expected, strict=True):
            for name in (TOP, SIDE):
                assert np.allclose(batch.data[name], plain.data[name][:, ::-1, :, :, :8] / np.float32(255))
    for batch, plain in zip(load(plan, workers=1, dtype="float32"), expected, strict=True):
        assert np.allclose(batch.data[SIDE], plain.data[SIDE] / np.float32(255))


@pytest.mark.parametrize("several", ["front", SIDE])
def test_a_transform_of_two_cameras_gives_each_its_own_result(tmp_path: Path, several: str) -> None:
    robots = ff.lerobot.open(make_lerobot(tmp_path, episodes=(5,), cameras=[], image_keys=["front", SIDE]))
    plan = robots.plan({"front": [0.0], SIDE: [0.0], several: [0.0, 1 / 30]}, seed=0)
    assert_same(load(plan, transform=lambda clips, rng: clips), load(plan))


def test_frameworks_are_told_the_shapes_of_batches(root: Path) -> None:
    plan = ff.lerobot.open(root).plan(DELTAS, seed=0)
    for transform, width in ((None, 48), (swap, 8)):
        with ff.ClipLoader(plan, batch_size=5, workers=0, transform=transform) as loader:
            arrays = loader.describe_batches().arrays
        assert arrays["data"][SIDE].shape == (None, 3, 3, 32, width)
        assert (arrays["valid"][TOP].shape, arrays["pts_seconds"][SIDE].shape) == ((None, 2), (None, 3))


def test_states_ranks_pickles_and_caches(root: Path, tmp_path: Path) -> None:
    plan = ff.lerobot.open(root).plan(DELTAS, seed=0)
    expected = load(plan)
    assert_same(load(pickle.loads(pickle.dumps(plan))), expected)
    with ff.ClipLoader(plan, batch_size=5, workers=0) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ff.ClipLoader(plan, batch_size=5, workers=0) as loader:
        loader.load_state_dict(state)
        assert_same(list(loader), expected[1:])
    with ff.FrameCache(tmp_path / "cache") as cache:
        assert ff.cache.build(plan, cache, workers=0).is_complete
        assert_same(load(plan, cache=cache), expected)
        assert cache.stats().frames_missed == 0
    ranks = [
        batch for rank in (0, 1) for batch in load(ff.lerobot.open(root).plan(DELTAS, seed=0, rank=rank, world_size=2))
    ]
    shown = {int(at): clip for batch in ranks for at, clip in zip(batch.positions, batch.data[SIDE], strict=True)}
    for batch in expected:
        for position, clip in zip(batch.positions.tolist(), batch.data[SIDE], strict=True):
            assert np.array_equal(shown[position], clip)
    mixture = ff.mix_plans([(plan, 1), (plan.with_epoch(1), 1)], num_clips=8, seed=0)
    (batch,) = load(mixture, batch_size=8)
    assert {name: clips.shape[:2] for name, clips in batch.data.items()} == {TOP: (8, 2), SIDE: (8, 3)}


def test_a_border_is_that_of_all_pictures_of_a_clip(root: Path) -> None:
    robots = ff.lerobot.open(root)
    batches = [
        load(robots.plan({SIDE: times}, seed=0, size=ff.Letterbox((32, 32))), batch_size=12)[0]
        for times in (TIMES, TIMES[1:2])
    ]
    assert all(batch.boxes is not None for batch in batches)
    assert np.array_equal(batches[0].boxes[SIDE], batches[1].boxes[SIDE])
    assert len(np.unique(batches[0].boxes[SIDE], axis=0)) == 1


def test_a_damaged_picture_fails_the_clips_that_show_it(root: Path, tmp_path: Path) -> None:
    table = tmp_path / "data/data/chunk-000/file-000.parquet"
    make_lerobot(tmp_path / "data", episodes=(3, 5, 4), cameras=[], image_keys=[SIDE], size=(32, 48))
    rows = pq.read_table(table)
    pictures = rows.column(SIDE).to_pylist()
    data = pictures[4]["bytes"]
    pictures[4]["bytes"] = data[:-40] + bytes(20) + data[-20:]
    at = rows.column_names.index(SIDE)
    column = pa.chunked_array([pa.array(pictures, rows.schema.field(SIDE).type)])
    pq.write_table(rows.set_column(at, rows.schema.field(SIDE), column), table)
    plan = ff.lerobot.open(tmp_path / "data").plan({SIDE: TIMES}, seed=0, shuffle=False)
    with ff.ClipLoader(plan, batch_size=12, workers=0, on_error="skip") as loader:
        (batch,) = loader
        assert sorted(entry.position for entry in loader.ledger) == [3, 4, 6]
        assert all(f"(stream '{SIDE}')" in entry.reason for entry in loader.ledger)
    assert np.flatnonzero(~batch.ok).tolist() == [3, 4, 6]
    assert not batch.data[SIDE][~batch.ok].any()
    assert not batch.valid[SIDE][~batch.ok].any()
