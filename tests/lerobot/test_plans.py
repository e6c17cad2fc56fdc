"""Plans of a camera: order, ranks, states, workers, and videos with times of their own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.lerobot import _tables
from framefeed.testing import ClipSpec, make_lerobot, read_stamps, write_clip
from tests.lerobot.cases import edit_column
from tests.makers import read_columns

TOP = "observation.images.top"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
Copy = Callable[..., Path]


def load(plan: ff.EpochPlan, **options: Any) -> dict[int, tuple[Any, dict[str, Any]]]:
    """What each position delivers: the numbers of the pictures of its camera, or of each, and its columns."""
    items = {}
    with ff.ClipLoader(plan, batch_size=4, **{"workers": 0, **options}) as loader:
        for batch in loader:
            for number, position in enumerate(batch.positions.tolist()):
                columns = {name: values[number].tolist() for name, values in batch.columns.items()}
                stamps = {key: read_stamps(clips[number].transpose(0, 2, 3, 1)) for key, clips in batch.data.items()}
                items[position] = stamps if len(stamps) > 1 else next(iter(stamps.values())), columns
    return items


@pytest.fixture
def robots(original: dict[str, Path]) -> Any:
    return ff.lerobot.open(original["3.0"])


def test_a_batch_has_the_frames_and_columns_of_its_rows(robots: Any) -> None:
    deltas = {TOP: [-0.1, 0.0, 1 / 30], "action": [0.0, 0.1], "task_index": [0.0]}
    plan = robots.plan(deltas, seed=0, columns=["index", "episode_index"])
    starts = [*robots.meta.episodes["dataset_from_index"], 35]
    items = load(plan)
    assert [plan.entry_at(position).source for position in range(35)] == [clip[TOP].source for clip in plan]
    assert sorted(items) == list(range(35))
    assert sorted(columns["index"] for _, columns in items.values()) == list(range(35))
    assert [items[position][1]["index"] for position in range(35)] != list(range(35))
    for stamps, columns in items.values():
        row, first, last = columns["index"], starts[columns["episode_index"]], starts[columns["episode_index"] + 1] - 1
        assert stamps == [min(max(row + step, first), last) for step in (-3, 0, 1)]
        assert [each[0] for each in columns["action"]] == [row, min(row + 3, last)]
        assert columns["action_is_pad"] == [False, row + 3 > last]
        assert columns["task_index"] == [columns["episode_index"] % 2]


def test_valid_is_false_where_rows_are_clamped(robots: Any) -> None:
    plan = robots.plan({TOP: [-0.1, 0.0, 0.1]}, seed=0, shuffle=False)
    assert plan[0][TOP].valid.tolist() == [False, True, True]
    assert plan[11][TOP].valid.tolist() == [True, True, False]
    assert plan[12][TOP].valid.tolist() == [False, True, True]
    assert np.isnan(plan[0][TOP].pick_error_seconds).tolist() == [True, False, False]


def test_cameras_of_a_clip_show_the_same_rows(robots: Any) -> None:
    deltas = {TOP: [-0.1, 0.0], "wrist": [0.0, 1 / 30, 0.1], "action": [0.0, 0.1]}
    plan = pickle.loads(pickle.dumps(robots.plan(deltas, seed=0, columns=["index", "episode_index"])))
    assert len(pickle.dumps(plan)) < 5000
    starts = [*robots.meta.episodes["dataset_from_index"], 35]
    for kind in ("threads", "processes"):
        with ff.ClipLoader(plan, batch_size=7, workers=1, kind=kind) as loader:
            for batch in loader:
                assert batch.rows.tolist() == batch["index"].tolist()
                for slot, row in enumerate(batch.rows.tolist()):
                    episode = int(batch["episode_index"][slot])
                    first, last = starts[episode], starts[episode + 1] - 1
                    for key, steps in ((TOP, (-3, 0)), ("wrist", (0, 1, 3))):
                        rows = [min(max(row + step, first), last) for step in steps]
                        assert read_stamps(batch.data[key][slot].transpose(0, 2, 3, 1)) == rows
                        assert batch.valid[key][slot].tolist() == [first <= row + step <= last for step in steps]


def test_epochs_ranks_and_states_are_those_of_a_plan(robots: Any) -> None:
    plan = robots.plan({TOP: [0.0], "action": [0.0]}, seed=3, columns=["index"])
    rows = [plan.columns_at(position)["index"] for position in range(35)]
    later = [plan.with_epoch(1).columns_at(position)["index"] for position in range(35)]
    for epoch, expected in ((0, rows), (1, later)):
        options: dict[str, Any] = {"seed": 3, "columns": ["index"], "epoch": epoch}
        alone = robots.plan_cameras({TOP: [0.0]}, **options)[TOP]
        for each in (alone, robots.plan({TOP: [0.0]}, **options)):
            assert [each.columns_at(position)["index"] for position in range(35)] == expected
    assert sorted(rows) == sorted(later)
    assert rows != later
    ranks = [
        robots.plan({TOP: [0.0], "action": [0.0]}, seed=3, columns=["index"], rank=rank, world_size=2)
        for rank in (0, 1)
    ]
    assert [len(each) for each in ranks] == [18, 18]
    assert [ranks[position % 2].columns_at(position // 2)["index"] for position in range(35)] == rows
    assert {each.fingerprint for each in ranks} == {plan.fingerprint}
    state = plan.without(10).state_dict()
    rest = plan.with_state(state)
    assert [rest.columns_at(position)["index"] for position in range(25)] == rows[10:]
    for other in ({TOP: [0.1], "action": [0.0]}, {"wrist": [0.0], "action": [0.0]}):
        with pytest.raises(ff.UsageError, match="belongs to another plan"):
            robots.plan(other, seed=3, columns=["index"]).with_state(state)
    assert plan.describe().clips == 35


def test_the_fingerprint_is_that_of_the_data_and_not_of_their_place(copy: Copy, original: dict[str, Path]) -> None:
    first, second = (ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0).fingerprint for root in (original["3.0"], copy()))
    assert first == second
    subset = ff.lerobot.open(original["3.0"]).plan({TOP: [0.0]}, seed=0, episodes=[0]).fingerprint
    assert subset != first


def test_a_pickled_plan_is_small_and_the_same(robots: Any) -> None:
    plan = robots.plan({TOP: [0.0, 0.1], "action": [0.0]}, seed=0, episodes=[0, 2], columns=["index"])
    data = pickle.dumps(plan)
    assert len(data) < 3000
    again = pickle.loads(data)
    assert (again.fingerprint, len(again), repr(again)) == (plan.fingerprint, len(plan), repr(plan))
    assert [again[number] for number in range(len(plan))] == list(plan)
    assert str(read_columns(again, [3, 1])) == str(read_columns(plan, [3, 1]))
    assert len(pickle.dumps(robots)) < 1000
    assert pickle.loads(pickle.dumps(robots)).meta.tasks.index == robots.meta.tasks.index


def test_plans_of_data_that_changed_are_stale(copy: Copy) -> None:
    root = copy()
    robots = ff.lerobot.open(root)
    data = pickle.dumps(robots.plan({TOP: [0.0]}, seed=0))
    info = root / "meta" / "info.json"
    info.write_text(info.read_text().replace('"robot_type": "framefeed"', '"robot_type": "other"'))
    with pytest.raises(ff.StaleSource, match="has changed since it was opened"):
        pickle.loads(data)


@pytest.mark.slow
def test_workers_in_processes_deliver_the_same(robots: Any) -> None:
    plan = robots.plan({TOP: [0.0, 0.1], "action": [0.0, 0.1]}, seed=0)
    assert load(plan, workers=1, kind="processes") == load(plan)


def test_large_columns_are_mapped_and_the_same(
    robots: Any, original: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = robots.column("action")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_tables, "_MAPPED_ROWS", 0)
    for _ in range(2):
        mapped = ff.lerobot.open(original["3.0"])
        assert np.array_equal(mapped.column("action"), expected)
        assert not mapped.column("action").flags.writeable
        plan = mapped.plan({TOP: [0.0], "action": [0.1]}, seed=0, episodes=[2])
        assert load(plan) == load(robots.plan({TOP: [0.0], "action": [0.1]}, seed=0, episodes=[2]))
    assert len(list((tmp_path / "cache" / "framefeed" / "columns").glob("*.npy"))) == 3


@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_files_of_other_episodes_may_be_missing(copy: Copy, version: str) -> None:
    root = copy(version)
    whole = load(ff.lerobot.open(root).plan({TOP: [0.0], "action": [0.1]}, seed=0, episodes=[2], columns=["index"]))
    for path in [*root.glob("data/**/*.parquet"), *root.glob("videos/**/*.mp4")]:
        if not path.stem.endswith("2" if version == "2.1" else "1"):
            path.unlink()
    robots = ff.lerobot.open(root)
    assert load(robots.plan({TOP: [0.0], "action": [0.1]}, seed=0, episodes=[2], columns=["index"])) == whole
    assert sorted(columns["index"] for _, columns in whole.values()) == list(range(20, 35))
    with pytest.raises(ff.MissingMedia, match="no such file"):
        robots.plan({TOP: [0.0]}, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_each_selection_of_one_data_set_has_its_own_pictures(version: str, tmp_path: Path) -> None:
    root = make_lerobot(
        tmp_path, version=version, episodes=(3, 3, 4), cameras=[TOP], image_keys=["side"], size=(32, 48)
    )
    robots = ff.lerobot.open(root)
    starts = [0, 3, 6, 10]
    for camera in (TOP, "side"):
        for chosen in ([0], [1], [0, 1], [1, 2], [0, 2]):
            items = load(robots.plan({camera: [0.0]}, seed=0, episodes=chosen, columns=["index"]))
            assert all(stamps == [columns["index"]] for stamps, columns in items.values())
            rows = [row for episode in chosen for row in range(starts[episode], starts[episode + 1])]
            assert sorted(columns["index"] for _, columns in items.values()) == rows


def test_episodes_may_be_given_in_any_order(robots: Any) -> None:
    plans = [robots.plan({TOP: [0.0]}, seed=0, episodes=each) for each in ([2, 0], np.array([0, 2]), iter((0, 2)))]
    assert {plan.fingerprint for plan in plans} == {plans[0].fingerprint}
    assert [len(plan) for plan in plans] == [27, 27, 27]


def test_times_are_on_the_timeline_of_the_video(copy: Copy) -> None:
    root = copy("2.1")
    write_clip(
        root / f"videos/chunk-000/{TOP}/episode_000000.mp4",
        ClipSpec(num_frames=12, width=48, height=32, pts=tuple(range(3, 15)), time_base=Fraction(1, 30)),
    )
    plan = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0, shuffle=False)
    with pytest.raises(ff.FrameNotFound, match=r"of 0\.000000 s, the time of row 0 .* is 0\.100000 s away"):
        plan[0]
    assert [plan[row][TOP].indices.tolist() for row in (3, 11)] == [[0], [8]]


def test_a_camera_of_another_rate_gives_the_nearest_frames(copy: Copy) -> None:
    root = copy("2.1")
    for episode, length in enumerate((12, 8, 15)):
        write_clip(
            root / f"videos/chunk-000/{TOP}/episode_{episode:06d}.mp4",
            ClipSpec(num_frames=2 * length, width=48, height=32, fps=60),
        )
    plan = ff.lerobot.open(root).plan({TOP: [0.0, 1 / 30]}, seed=0, shuffle=False)
    assert plan[3][TOP].indices.tolist() == [6, 8]


def test_size_and_crop_are_those_of_a_camera(robots: Any) -> None:
    plans = robots.plan_cameras(
        {TOP: [0.0], "wrist": [0.0, 0.1]}, seed=0, size={TOP: (16, 24)}, crop={"wrist": (0, 0, 8, 8)}
    )
    assert {name: plan.clip_shape for name, plan in plans.items()} == {TOP: (1, 3, 16, 24), "wrist": (2, 3, 8, 8)}
    positions = [[plan.columns_at(position) for position in range(3)] for plan in plans.values()]
    assert positions[0] == positions[1]


def test_pictures_in_tables_are_planned(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "pictures", episodes=(3, 4), cameras=(), image_keys=["side"], size=(32, 48))
    robots = ff.lerobot.open(root)
    for episodes, rows in ((None, [(0, 2)] * 3 + [(3, 6)] * 4), ([1], [(3, 6)] * 4)):
        plan = robots.plan(
            {"side": [-1 / 30], "action": [0.0]}, seed=0, shuffle=False, episodes=episodes, columns=["index"]
        )
        items = load(pickle.loads(pickle.dumps(plan)))
        for position, (first, _) in enumerate(rows):
            row = rows[0][0] + position
            stamps, columns = items[position]
            assert (stamps, columns["index"]) == ([max(row - 1, first)], row)
            assert plan[position]["side"].valid.tolist() == [row > first]


def test_a_damaged_picture_is_an_error_that_names_its_episode(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "pictures", episodes=(3, 4, 2), cameras=(), image_keys=["side"], size=(32, 48))
    edit_column(
        root / "data/chunk-000/file-000.parquet",
        "side",
        lambda pictures: [*pictures[:3], pictures[3] | {"bytes": b"no picture"}, *pictures[4:]],
    )
    robots = ff.lerobot.open(root)
    with pytest.raises(ff.MediaError, match="the camera 'side' has episode 1 there: "):
        robots.plan({"side": [0.0]}, seed=0)
    assert len(robots.plan({"side": [0.0]}, seed=0, episodes=[0, 2])) == 5


def test_tables_may_have_several_row_groups_and_episodes_several_tables(copy: Copy, robots: Any) -> None:
    root = copy()
    for path in root.glob("data/**/*.parquet"):
        pq.write_table(pq.read_table(path), path, row_group_size=7)
    table = pq.read_table(root / EPISODES)
    pq.write_table(table.slice(0, 1), root / EPISODES)
    pq.write_table(table.slice(1, 1), root / EPISODES.replace("file-000", "file-001"))
    (root / "meta/episodes/chunk-001").mkdir()
    pq.write_table(table.slice(2), root / EPISODES.replace("chunk-000", "chunk-001"))
    split = ff.lerobot.open(root)
    assert split.meta.episodes[2] == robots.meta.episodes[2]
    options: dict[str, Any] = {"seed": 0, "columns": ["index", "task_index"]}
    deltas = {TOP: [0.0], "action": [0.0, 0.1]}
    assert load(split.plan(deltas, **options)) == load(robots.plan(deltas, **options))


def test_files_of_older_versions_are_in_chunks_and_lines_in_any_order(copy: Copy, original: dict[str, Path]) -> None:
    root = copy("2.1")
    info = root / "meta/info.json"
    info.write_text(info.read_text().replace('"chunks_size": 1000', '"chunks_size": 2'))
    for path in [*root.rglob("episode_000002.*")]:
        moved = root / str(path.relative_to(root)).replace("chunk-000", "chunk-001")
        moved.parent.mkdir(parents=True)
        path.rename(moved)
    for name in ("episodes", "tasks"):
        path = root / f"meta/{name}.jsonl"
        path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    chunks, whole = ff.lerobot.open(root), ff.lerobot.open(original["2.1"])
    assert chunks.meta.tasks.index == whole.meta.tasks.index == ["pick the cube", "place the cube"]
    assert [each["length"] for each in chunks.meta.episodes] == [12, 8, 15]
    plans = [robots.plan({TOP: [0.0], "action": [0.1]}, seed=0, columns=["index"]) for robots in (chunks, whole)]
    assert load(plans[0]) == load(plans[1])


def test_ends_that_are_off_by_the_rounding_of_floats_are_no_overlap(copy: Copy) -> None:
    root = copy()
    edit_column(root / EPISODES, f"videos/{TOP}/from_timestamp", lambda starts: np.array(starts) - [0, 1e-5, 0])
    plan = ff.lerobot.open(root).plan({TOP: [0.0]}, seed=0, shuffle=False)
    assert plan[12][TOP].indices.tolist() == [12]


def test_the_tail_is_that_of_plans(robots: Any) -> None:
    options: dict[str, Any] = {"seed": 0, "world_size": 2}
    assert len(robots.plan({TOP: [0.0]}, **options, tail="drop")) == 17
    assert len(robots.plan({TOP: [0.0]}, **options, tail="pad")) == 18


def test_mixtures_data_sets_and_caches_take_these_plans(robots: Any, tmp_path: Path) -> None:
    plans = [robots.plan({TOP: [0.0], "action": [0.0]}, seed=seed, columns=["index"], size=(32, 48)) for seed in (1, 2)]
    mixture = ff.mix_plans([(plans[0], 1), (plans[1], 2)], num_clips=30, seed=0)
    for stamps, columns in load(mixture).values():
        assert stamps == [columns["index"]]
    with ff.FrameCache(tmp_path / "cache") as frames:
        assert ff.cache.build(plans[0], frames, workers=0).is_complete
        assert load(plans[0], cache=frames) == load(plans[0])


def test_items_for_pytorch_have_the_columns(robots: Any) -> None:
    pytest.importorskip("torch")
    plan = robots.plan({TOP: [-0.1, 0.0], "action": [0.0, 0.1]}, seed=0)
    item = ff.torch.ClipDataset(plan)[3]
    assert item["action"].shape == (2, 6)
    assert item["action"].tolist() == plan.columns_at(3)["action"].tolist()
    assert item["action_is_pad"].tolist() == plan.columns_at(3)["action_is_pad"].tolist()


def test_rows_are_read_without_pictures(robots: Any) -> None:
    reader = robots.rows({TOP: [0.0, 0.1], "action": [0.1]}, episodes=[1], columns=["index"])
    rows = reader.find_rows(range(len(reader)))
    assert rows.tolist() == list(range(12, 20))
    for each in (reader, pickle.loads(pickle.dumps(reader))):
        values = each.read(rows)
        assert set(values) == {"action", "action_is_pad", "index", f"{TOP}_is_pad"}
        assert values["index"].tolist() == rows.tolist()
        assert values["action"].shape == (8, 1, 6)
        assert values[f"{TOP}_is_pad"][:, 1].tolist() == [False] * 5 + [True] * 3
    with pytest.raises(IndexError, match="expected 0 to 7"):
        reader.find_rows([8])
    with pytest.raises(IndexError, match="expected 0 to 7"):
        reader.find_rows([-1])
    for given in ([True, False], [0, True], np.ones(8, np.bool_), [0.5], ["a"], 3):
        for read in (reader.find_rows, reader.read):
            with pytest.raises(ff.UsageError, match="expected a list of numbers of rows"):
                read(given)
    with pytest.raises(IndexError, match="rows: expected 0 to 34"):
        reader.read([35])
