"""Datasets of Ray: the rows of a plan, each once, in order, with the values that a loader in one process gives."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.adapters.ray import _dataset, _reading
from framefeed.load import ClipLoader
from tests.adapters.ray.conftest import Nodes
from tests.adapters.ray.decoders import EndsItsProcess, Meets
from tests.load import stream_media
from tests.load.test_lengths import list_requests, plan_lengths
from tests.load.test_texts import CAPTIONS, TAGS, write_table
from tests.makers import catalog, folder, plan_of
from tests.patience import PATIENCE_SECONDS

ray = pytest.importorskip("ray.data", reason="Ray is not installed: make ray runs this in .venv-ray")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("nodes")


def load(plan: ff.EpochPlan, **options: Any) -> dict[str, np.ndarray]:
    """Load all clips in this process: arrays by the names of the columns of rows."""
    with ClipLoader(plan, batch_size=max(1, len(plan)), workers=0, **options) as loader:
        (batch,) = loader
    own = {"data": batch.data, "pts_seconds": batch.pts_seconds, "valid": batch.valid}
    if isinstance(batch.data, dict):
        own = {f"{name}/{stream}": each for name, values in own.items() for stream, each in values.items()}
    else:
        own |= {} if batch.boxes is None else {"box": batch.boxes}
    own |= {} if batch.flipped is None else {"flipped": batch.flipped}
    return {**own, "position": batch.positions, "row": batch.rows, "ok": batch.ok, **batch.columns}


def read(plan: ff.EpochPlan, batch_size: int = 5, **options: Any) -> dict[str, np.ndarray]:
    """Read all rows of a dataset."""
    dataset = ff.ray.dataset(plan, batch_size=batch_size, **options)
    batches = list(dataset.iter_batches(batch_size=batch_size, batch_format="numpy"))
    assert [len(batch["position"]) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def as_array(values: Any) -> np.ndarray:
    return np.array(values, dtype=object) if isinstance(values, list) else values


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, texts_or_numbers in expected.items():
        values = as_array(texts_or_numbers)
        assert found[name].dtype == values.dtype, name
        assert np.array_equal(found[name], values, equal_nan=values.dtype.kind == "f"), name


def plan_ragged_streams() -> ff.EpochPlan:
    requests = [{"left": each, "right": ff.DecodeRequest(each.source, indices=[5, 6])} for each in list_requests()]
    return ff.plan_requests(requests, unequal=True)


UNEQUAL = {
    "lengths": lambda: plan_lengths(),
    "lengths and sizes": lambda: plan_lengths(size=ff.LongSide(40)),
    "one size": lambda: plan_of(unequal=True, size=(16, 24)),
    "streams": plan_ragged_streams,
}


def test_so_many_rows_of_a_plan_of_buckets_are_a_step() -> None:
    buckets = [(5, 32, 48), (9, 32, 48), (9, 24, 32)]
    plan = ff.plan_buckets(catalog(), buckets, fps=15, global_batch=2, seed=3, per_video="all", columns=("label",))
    with ClipLoader(plan, workers=0) as loader:
        steps = list(loader)
    rows = ff.ray.dataset(plan, batch_size=4).take_all()
    assert len(rows) == 2 * len(steps)
    for number, batch in enumerate(steps):
        own = rows[2 * number : 2 * number + 2]
        assert [row["position"] for row in own] == batch.positions.tolist()
        assert [row["label"] for row in own] == batch["label"].tolist()
        assert np.array_equal(np.stack([row["data"] for row in own]), batch.data)


@pytest.mark.parametrize("name", UNEQUAL)
def test_rows_of_clips_of_any_shape_are_those_of_a_loader(name: str) -> None:
    plan = UNEQUAL[name]()
    expected = load(plan)
    dataset = ff.ray.dataset(plan, batch_size=3)
    rows = dataset.take_all()
    assert [row["position"] for row in rows] == expected["position"].tolist()
    for slot, row in enumerate(rows):
        assert row.keys() == expected.keys()
        for key, values in expected.items():
            np.testing.assert_array_equal(np.asarray(row[key]), values[slot])
    assert dataset.schema().names == list(rows[0])


def test_texts_are_texts(tmp_path: Path) -> None:
    table = write_table(tmp_path / "list.parquet", caption=CAPTIONS, tags=TAGS)
    plan = ff.plan_clips(ff.scan(table, workers=0), ff.Uniform(1), seed=0, columns=("caption", "tags"))
    rows = ff.ray.dataset(plan, batch_size=4).take_all()
    assert [row["caption"] for row in rows] == [CAPTIONS[row["row"]] for row in rows]
    assert [None if row["tags"] is None else list(row["tags"]) for row in rows] == [TAGS[row["row"]] for row in rows]


PLANS = {
    "random frames": lambda: plan_of(),
    "another epoch": lambda: plan_of().with_epoch(3),
    "videos together": lambda: plan_of(shuffle="videos", clips_per_video=3),
    "a border": lambda: plan_of(size=ff.Letterbox((32, 32)), horizontal_flip=0.5),
    "random crops": lambda: plan_of(crop=ff.RandomResizedCrop((24, 24))),
    "every frame": lambda: plan_of(ff.EveryFrame(), clips_per_video=1, shuffle=False, size=(24, 32)),
    "streams": lambda: stream_media.plan_both(size=(24, 32)),
    "streams of a rank": lambda: stream_media.plan_both(size=(24, 32), rank=1, world_size=2),
    "a mixture of streams": lambda: ff.mix_plans(
        [(stream_media.plan_both(size=(24, 32)), 1), (stream_media.plan_both(size=(24, 32), seed=9), 1)],
        num_clips=9,
        seed=1,
    ),
    "a mixture": lambda: ff.mix_plans([(plan_of(), 2), (plan_of(seed=8), 1)], num_clips=15, seed=1),
    "bytes": lambda: ff.plan_requests(
        [ff.DecodeRequest(source=path.read_bytes(), indices=[0, 5, 29]) for path in sorted(folder().rglob("*.mp4"))[:3]]
    ),
    "requests with columns": lambda: ff.plan_requests(
        [ff.DecodeRequest(source=path, seconds=[0, 1]) for path in sorted(folder().rglob("*.mp4"))],
        columns={"name": ["a", "b", "a", "c", "b", "b"], "point": np.arange(12.0).reshape(6, 2)},
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_rows_are_those_of_one_process(name: str) -> None:
    plan = PLANS[name]()
    assert_same(read(plan), load(plan))


@pytest.mark.parametrize("name", ["random frames", "streams", "a mixture", "videos together"])
def test_rows_are_the_same_where_a_task_reads_several_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS[name]()
    monkeypatch.setattr(_dataset, "_LEAST_TASKS", 0.5)  # a task, for two CPUs
    assert make_source(plan, 2).count_tasks() == 1
    assert_same(read(plan, 2), load(plan))
    assert ff.ray.dataset(plan, batch_size=2).materialize().num_blocks() == -(-len(plan) // 2)


def make_source(plan: ff.EpochPlan, batch_size: int) -> _dataset.ClipSource:
    return _dataset.ClipSource(_reading.Reading(plan, batch_size, "auto", None, None, "raise", ()))


def test_tasks_last_seconds_fit_the_store_and_leave_work_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(clips_per_video=400)  # 2400 clips of 36864 bytes
    assert make_source(plan, 2).count_tasks() == 16  # 8 for each of two CPUs
    assert make_source(plan_of(), 2).count_tasks() == 6  # no less than a batch
    together = plan_of(shuffle="videos", clips_per_video=3)
    assert make_source(together, 2).count_tasks() == 3  # of two whole videos, as they are decoded together
    with monkeypatch.context() as patched:
        patched.setattr(_dataset, "_GOOD_SECONDS", plan.describe().predicted_cpu_seconds / 40)
        assert make_source(plan, 2).count_tasks() == 40
    with monkeypatch.context() as patched:
        patched.setattr(_dataset, "count_store_bytes", lambda: 8 * 2400 * 37_000 // 60)
        assert make_source(plan, 2).count_tasks() == 60
    monkeypatch.setattr(_dataset, "_MOST_TASKS", 8)
    assert make_source(plan, 2).count_tasks() == 8


@pytest.mark.parametrize("name", ["random frames", "streams"])
def test_files_of_all_clips_and_streams_are_looked_for(name: str) -> None:
    plan = PLANS[name]()
    files = {part.source for clip in plan for part in clip.parts.values()}
    assert set(_dataset._list_seen(plan)) == files


def test_both_nodes_read_at_once(tmp_path: Path) -> None:
    plan = plan_of()
    assert_same(read(plan, 1, backend=Meets(tmp_path, PATIENCE_SECONDS)), load(plan))
    assert (tmp_path / "met").exists()
    assert len([*tmp_path.glob("node *")]) == 2


def test_concurrency_is_the_most_tasks_at_once(tmp_path: Path) -> None:
    plan = plan_of()
    # In its first seconds Ray begins a second task only after some time: without concurrency=1, after 1 s here.
    assert_same(read(plan, 1, concurrency=1, backend=Meets(tmp_path, 3)), load(plan))
    assert not (tmp_path / "met").exists()


def test_the_schema_and_the_number_of_rows_are_known_without_a_task(tmp_path: Path) -> None:
    dataset = ff.ray.dataset(plan_of(), batch_size=4, on_error="skip", backend=EndsItsProcess(tmp_path, 1))
    schema = dataset.schema()
    assert dict(zip(schema.names, map(str, schema.types), strict=True)) == {
        "data": "ArrowTensorTypeV2(shape=(4, 3, 48, 64), dtype=uint8)",
        "pts_seconds": "ArrowTensorTypeV2(shape=(4,), dtype=double)",
        "valid": "ArrowTensorTypeV2(shape=(4,), dtype=bool)",
        "position": "int64", "row": "int64", "ok": "bool", "label": "int64", "error": "string",
    }  # fmt: skip
    assert dataset.count() == 12
    assert not (tmp_path / "end 0").exists()


def test_blocks_stay_as_they_are_while_others_are_read(nodes: Nodes) -> None:
    from ray import put

    plan = plan_of()
    reading = _reading.Reading(plan, 2, "auto", None, None, "raise", ())
    kept = list(_reading.read_run(put(reading), 0, 12))
    assert [block.num_rows for block in kept] == [2] * 6
    found = np.concatenate([block.column("data").combine_chunks().to_numpy_ndarray() for block in kept])
    assert np.array_equal(found, load(plan)["data"])


def test_a_process_keeps_the_loaders_of_the_datasets_that_it_read_last(nodes: Nodes) -> None:
    from ray import put

    reading = _reading.Reading(plan_of(), 2, "auto", None, None, "raise", ())
    refs = [put(reading) for _ in range(3)]
    first, second = (_reading.open_loader(ref)[1] for ref in refs[:2])
    assert _reading.open_loader(refs[0])[1] is first
    third = _reading.open_loader(refs[2])[1]
    assert [_reading.open_loader(ref)[1] for ref in (refs[0], refs[2])] == [first, third]
    with pytest.raises(ff.UsageError, match="is closed"):
        next(iter(second))


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_blocks_are_batches(batch_size: int) -> None:
    plan = plan_of()
    dataset = ff.ray.dataset(plan, batch_size=batch_size)
    assert dataset.count() == len(plan)
    assert dataset.schema().names == ["data", "pts_seconds", "valid", "position", "row", "ok", "label"]
    assert_same(read(plan, batch_size), load(plan))


@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_one_dataset_a_rank_has_the_plan_together(tail: Any) -> None:
    plans = [plan_of(clips_per_video=1, rank=rank, world_size=4, tail=tail) for rank in range(4)]
    positions = []
    for plan in plans:
        found = read(plan, 2)
        assert_same(found, load(plan))
        positions += found["position"].tolist()
    expected = [*range(6), 0, 1] if tail == "pad" else [*range(4)]
    assert sorted(positions) == sorted(expected)


def test_iterating_again_gives_the_same_epoch_and_leaves_the_context_alone() -> None:
    before = copy.deepcopy(ray.DataContext.get_current())
    dataset = ff.ray.dataset(plan_of(), batch_size=4)
    first, second = (
        [batch["data"].tobytes() for batch in dataset.iter_batches(batch_size=4, batch_format="numpy")]
        for _ in range(2)
    )
    assert first == second
    assert ray.DataContext.get_current() == before


def test_order_holds_through_other_operators() -> None:
    dataset = ff.ray.dataset(plan_of(), batch_size=2)
    mapped = dataset.map_batches(lambda batch: {"position": batch["position"]}, batch_size=2)
    assert [row["position"] for row in mapped.iter_rows()] == list(range(12))
    assert [row["position"] for row in dataset.limit(5).iter_rows()] == list(range(5))


@pytest.mark.parametrize("equal", [False, True])
def test_splits_have_each_row_once_in_order(equal: bool) -> None:
    splits = ff.ray.dataset(plan_of(), batch_size=2).streaming_split(2, equal=equal)
    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(lambda split: [row["position"] for row in split.iter_rows()], splits))
    assert sorted(parts[0] + parts[1]) == list(range(12))
    assert all(part == sorted(part) for part in parts)
    assert not equal or len(parts[0]) == len(parts[1])


def test_collate_gives_tensors_of_their_own_and_lists_of_text() -> None:
    plan = plan_of()
    dataset = ff.ray.dataset(plan, batch_size=4, on_error="skip").materialize()
    expected = load(plan)
    for _ in range(2):  # what is written to a batch is not what the next one has
        for number, batch in enumerate(dataset.iter_torch_batches(batch_size=4, collate_fn=ff.ray.collate)):
            rows = slice(4 * number, 4 * number + 4)
            assert batch["error"] == [None] * 4
            assert batch["valid"].dtype == torch.bool
            assert np.array_equal(batch["data"].numpy(), expected["data"][rows])
            assert np.array_equal(batch["label"].numpy(), expected["label"][rows])
            batch["data"][...] = 0
    with pytest.raises((TypeError, RuntimeError), match="object"):
        next(iter(dataset.iter_torch_batches(batch_size=4)))
    plain = next(iter(ff.ray.dataset(plan, batch_size=4).iter_torch_batches(batch_size=4)))
    assert np.array_equal(plain["data"].numpy(), expected["data"][:4])


@pytest.fixture
def damaged(tmp_path: Path) -> ff.Catalog:
    """Four videos, one of which cannot be read any more."""
    for number in range(4):
        path = tmp_path / f"{number}.mp4"
        path.write_bytes(sorted(folder().rglob("*.mp4"))[number].read_bytes())
    scanned = ff.scan(tmp_path, workers=0)
    whole = (tmp_path / "2.mp4").read_bytes()
    (tmp_path / "2.mp4").write_bytes(whole[:-2000] + bytes(2000))
    return scanned


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_clips_that_fail_are_as_in_the_loader(
    damaged: ff.Catalog, on_error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dataset, "_LEAST_TASKS", 1)  # tasks of several batches
    Path(damaged[0].source).unlink()
    plan = ff.plan_clips(damaged, ff.RandomSegments(4), seed=3, clips_per_video=5)
    expected = load(plan, on_error=on_error)
    found = read(plan, 3, on_error=on_error)
    errors = found.pop("error")
    assert_same(found, expected)
    assert [error is not None for error in errors] == [plan[position].row in (0, 2) for position in range(20)]
    kinds = {"StaleSource", "MissingMedia"}
    assert {error.partition(":")[0] for error in errors if error is not None} == kinds
    for error, ok in zip(errors, found["ok"].tolist(), strict=True):
        assert error is None or ("is in its place" in error) == ok
    gone = ff.plan_clips(damaged.take([0]), ff.Uniform(4), seed=0)
    with pytest.raises(ff.MissingMedia, match=r"0\.mp4: no such file \(on node "):
        read(gone)


def test_an_error_says_what_and_where(damaged: ff.Catalog) -> None:
    plan = ff.plan_clips(damaged, ff.Uniform(4), seed=0, shuffle=False)
    with pytest.raises(ff.StaleSource, match=r"2\.mp4") as caught:
        read(plan, 2)
    assert (caught.value.position, Path(caught.value.source).name) == (2, "2.mp4")
    assert "(on node " in str(caught.value)


def test_a_cache_is_shared_by_nodes_and_epochs(tmp_path: Path) -> None:
    plan = plan_of(ff.Uniform(4), clips_per_video=1)
    expected = load(plan)
    with ff.FrameCache(tmp_path / "cache") as cache:
        assert_same(read(plan, 2, cache=cache), expected)
    with ff.FrameCache(tmp_path / "cache") as cache:
        with ClipLoader(plan, batch_size=6, workers=0, cache=cache) as loader:
            list(loader)
        assert cache.stats().frames_missed == 0


def test_a_saved_catalog_travels_as_its_path_or_as_data(tmp_path: Path) -> None:
    saved = ff.scan(folder(), out=tmp_path / "cat.parquet", label_from="parent", workers=0)
    plan = ff.plan_clips(saved, ff.Uniform(4), seed=0, columns=["label"])
    expected = load(plan)
    assert_same(read(plan), expected)
    for path in tmp_path.glob("cat*"):
        path.rename(path.with_name("hidden-" + path.name))  # as if no node but this process saw it
    assert_same(read(plan), expected)
