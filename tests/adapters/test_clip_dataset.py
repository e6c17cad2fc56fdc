"""ClipDataset in PyTorch's own DataLoader: any workers, any start method, any sampler."""

from __future__ import annotations

import copy
import os
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
)

from framefeed.adapters.torch import to_device
from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.errors import CorruptMedia, FrameNotFound, LoadError, StaleSource, UsageError
from framefeed.load import ClipLoader
from framefeed.parallel import ordered_map
from framefeed.plan import AtIndices, EpochPlan, Uniform, mix_plans, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FlatDecoder
from tests.makers import assert_stamps, catalog, folder, plan_of

# Several passes without set_epoch are not the matter here, but of their own tests.
pytestmark = pytest.mark.filterwarnings("ignore:this ClipDataset delivered")

WORKERS = [(0, None), (1, "fork"), (2, "fork"), (4, "fork")]


def draw_number(clip: torch.Tensor) -> torch.Tensor:
    return torch.rand(3)


class Nesting(torch.utils.data.Dataset[list[int]]):
    """Loads and maps within an item: in a worker of PyTorch, which may have no children of multiprocessing's."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> list[int]:
        with ClipLoader(plan_of(), batch_size=5, workers=2) as loader:
            positions = [position for batch in loader for position in batch.positions.tolist()]
        return positions + list(ordered_map(abs, [-100, -101], workers=1, kind="processes", max_in_flight=2))


def raise_error(clip: torch.Tensor) -> torch.Tensor:
    raise KeyError("mean")


def decoder_threads(clip: torch.Tensor) -> torch.Tensor:
    """Threads of this process that libavcodec named."""
    names = [Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]
    return torch.tensor(sum(name.startswith("av:") for name in names))


def make_loader(dataset: ClipDataset, workers: int = 0, context: str | None = None, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, num_workers=workers, multiprocessing_context=context, **{"batch_size": 5, **options})


def check_epoch(plan: EpochPlan, batches: Iterator[Any] | DataLoader[Any], order: list[int] | None = None) -> None:
    """The batches hold these positions of a plan, frame by frame."""
    got: list[int] = []
    for batch in batches:
        for slot, position in enumerate(batch["position"].tolist()):
            assert_stamps(plan, position, batch["data"][slot])
            assert batch["source"][slot] == plan[position].source
            np.testing.assert_array_equal(batch["pts_seconds"][slot], plan[position].pts_seconds)
            assert batch["label"][slot] == plan.columns_at(position)["label"]
            got.append(position)
    assert got == (list(range(len(plan))) if order is None else order)


@pytest.mark.parametrize(("workers", "context"), WORKERS)
def test_any_number_of_workers_delivers_the_planned_frames(workers: int, context: str | None) -> None:
    plan = plan_of(shuffle=False)
    check_epoch(plan, make_loader(ClipDataset(plan), workers, context))


def test_an_item_is_a_clip_and_its_target() -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan, target="label")
    clip, target = dataset[3]
    assert (clip.shape, clip.dtype) == ((4, 3, 48, 64), torch.uint8)
    assert (target.dtype, target.shape, int(target)) == (torch.int64, (), int(plan.columns_at(3)["label"]))
    assert (dataset.classes, dataset.class_to_idx) == (["blue", "red"], {"blue": 0, "red": 1})
    assert dataset.classes[target] == Path(str(plan[3].source)).parent.name
    clips, targets = next(iter(make_loader(dataset)))
    assert (clips.shape, targets.dtype, targets.shape) == ((5, 4, 3, 48, 64), torch.int64, (5,))
    torch.nn.functional.cross_entropy(torch.zeros(5, 2), targets)


def test_an_item_without_a_target_is_a_dict() -> None:
    plan = plan_of(AtIndices([0, 29, 30]), shuffle=False, rank=1, world_size=2)
    item = ClipDataset(plan)[2]
    assert list(item) == [
        "data",
        "pts_seconds",
        "seconds",
        "end_seconds",
        "valid",
        "position",
        "row",
        "source",
        "ok",
        "label",
    ]
    assert (item["ok"].dtype, bool(item["ok"])) == (torch.bool, True)
    assert (item["position"].dtype, int(item["position"])) == (torch.int64, 5)
    assert (item["pts_seconds"].dtype, item["valid"].tolist()) == (torch.float64, [True, True, False])
    assert (item["label"].dtype, item["source"]) == (torch.int64, plan[2].source)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_row_of_an_item_is_that_of_its_source_on_any_rank(workers: int) -> None:
    part = catalog().take([5, 1, 3, 2])
    for rank in range(2):
        for shuffle in (True, "videos"):
            plan = plan_clips(part, Uniform(2), seed=7, shuffle=shuffle, clips_per_video=2, rank=rank, world_size=2)
            loader = DataLoader(ClipDataset(plan), batch_size=3, num_workers=workers)
            rows = torch.cat([batch["row"] for batch in loader])
            assert (rows.dtype, rows.tolist()) == (torch.int64, [plan[at].row for at in range(len(plan))])
            sources = [source for batch in loader for source in batch["source"]]
            assert [part[row].source for row in rows.tolist()] == sources


def test_the_row_of_an_item_of_requests_streams_and_mixtures_is_that_of_batches() -> None:
    asked = plan_requests([DecodeRequest(catalog().source(row), [0]) for row in (4, 2, 4)])
    streams = plan_clips(
        rule=Uniform(2), seed=0, streams={"a": catalog().take([2, 4]), "b": catalog().take([5, 1])}, on="stem"
    )
    plans = [plan_clips(catalog().take(rows), Uniform(1), seed=0, size=(32, 32)) for rows in ([0, 1], [2, 3, 4])]
    for plan in (asked, streams, mix_plans([(each, 1) for each in plans], num_clips=8, seed=0)):
        with ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
            (batch,) = loader
        items = list(ClipDataset(plan))
        assert [int(item["row"]) for item in items] == batch.rows.tolist()
    assert [int(item["row"]) for item in ClipDataset(asked)] == [0, 1, 0]


def test_the_source_of_an_item_is_a_name_and_not_the_encoded_bytes() -> None:
    data = Path(str(plan_of(shuffle=False)[0].source)).read_bytes()
    item = ClipDataset(plan_requests([DecodeRequest(data, [0])]))[0]
    assert item["source"] == f"<{len(data)} bytes>"


def test_positions_are_those_of_a_sequence() -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan)
    assert len(dataset) == len(list(dataset)) == 12
    for position in (-1, np.int64(11), torch.tensor(11)):
        assert int(dataset[position]["position"]) == 11
    assert [int(item["position"]) for item in dataset.__getitems__([7, 0, 7, -12])] == [7, 0, 7, 0]
    assert dataset.__getitems__([]) == []
    for wrong in (12, -13):
        with pytest.raises(IndexError, match="dataset of length 12"):
            dataset[wrong]


def test_clips_of_a_source_that_are_asked_for_together_are_decoded_together() -> None:
    decoder = FlatDecoder()
    plan = plan_of(shuffle=False)
    list(make_loader(ClipDataset(plan, backend=decoder), batch_size=6))
    assert [count for _, count in decoder.calls] == [2] * 6


SAMPLERS: dict[str, Any] = {
    "sequential": lambda dataset: SequentialSampler(dataset),
    "random": lambda dataset: RandomSampler(dataset, generator=torch.Generator().manual_seed(3)),
    "rank 1 of 2": lambda dataset: DistributedSampler(dataset, num_replicas=2, rank=1, seed=5),
    "weighted": lambda dataset: WeightedRandomSampler(
        [1.0 + number for number in range(len(dataset))], 20, generator=torch.Generator().manual_seed(4)
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_any_sampler(name: str, workers: int) -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan)
    order = list(SAMPLERS[name](dataset))
    check_epoch(plan, make_loader(dataset, workers, sampler=SAMPLERS[name](dataset)), order)


def test_a_batch_sampler_of_ones_own_and_no_batches_at_all() -> None:
    plan = plan_of(shuffle=False)
    batches = [[3, 3, 1], [11], [0, 5]]
    loader = DataLoader(ClipDataset(plan), batch_sampler=batches, num_workers=2)
    check_epoch(plan, loader, [3, 3, 1, 11, 0, 5])
    sampler = BatchSampler(SequentialSampler(ClipDataset(plan)), 5, drop_last=True)
    check_epoch(plan, DataLoader(ClipDataset(plan), batch_sampler=sampler), list(range(10)))
    single = DataLoader(Subset(ClipDataset(plan), [4, 2]), batch_size=None, num_workers=1)
    assert [int(item["position"]) for item in single] == [4, 2]


def check_epochs_of_persistent_workers(workers: int, context: str) -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan)
    loader = make_loader(dataset, workers, context, persistent_workers=True)
    for epoch in (0, 1, 4):
        dataset.set_epoch(epoch)
        check_epoch(plan.with_epoch(epoch), loader)
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")]


def test_L12_persistent_workers_see_the_epoch() -> None:
    check_epochs_of_persistent_workers(2, "fork")


@pytest.mark.parametrize("workers", [0, 1])
def test_L12_the_epoch_of_the_dataset_is_that_of_its_plan(workers: int) -> None:
    dataset = ClipDataset(plan_of(shuffle=False, epoch=3))
    assert (dataset.epoch, dataset.plan.epoch) == (3, 3)
    check_epoch(plan_of(shuffle=False, epoch=3), make_loader(dataset, workers))
    dataset.set_epoch(0)
    check_epoch(plan_of(shuffle=False), make_loader(dataset, workers))
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(UsageError):
            dataset.set_epoch(wrong)  # type: ignore[arg-type]
    assert dataset.epoch == 0


@pytest.mark.parametrize(("workers", "context"), [(1, "fork"), (3, "fork")])
def test_L11_draws_depend_on_seed_epoch_and_position_alone(workers: int, context: str | None) -> None:
    dataset = ClipDataset(plan_of(shuffle=False), target="label", transform=draw_number)
    draws = [dataset[position][0].tolist() for position in range(12)]
    assert len({tuple(draw) for draw in draws}) == 12
    assert [row for clips, _ in make_loader(dataset, workers, context) for row in clips.tolist()] == draws
    dataset.set_epoch(1)
    others = [dataset[position][0].tolist() for position in range(12)]
    assert not {tuple(draw) for draw in draws} & {tuple(draw) for draw in others}


def test_L11_a_trainers_own_draws_are_left_alone() -> None:
    dataset = ClipDataset(plan_of(shuffle=False), transform=draw_number)
    torch.manual_seed(1)
    expected = [torch.rand(2).tolist() for _ in range(3)]
    torch.manual_seed(1)
    before = (random.getstate(), torch.get_rng_state())
    first = dataset[0]["data"].tolist()
    assert (random.getstate(), torch.equal(torch.get_rng_state(), before[1])) == (before[0], True)
    got = []
    for _ in range(3):
        got.append(torch.rand(2).tolist())
        assert dataset[0]["data"].tolist() == first
    assert got == expected


@pytest.mark.parametrize(
    ("output", "received"),
    [
        ("tensor", r'a tensor, uint8 \[T, C, H, W\]; ClipDataset\(output="pil"\) gives PIL pictures'),
        ("numpy", r"a NumPy array, uint8 \[T, H, W, C\]"),
        ("pil", "a PIL picture for a clip of one frame, else a list"),
    ],
)
def test_the_error_of_a_transform_for_another_output_names_what_it_received(output: Any, received: str) -> None:
    def gray(picture: Any) -> Any:
        return picture.convert("L").no_such_method()

    plan = plan_of(shuffle=False)
    with pytest.raises(LoadError, match=f"AttributeError: .*received {received}"):
        ClipDataset(plan, transform=gray, output=output)[2]
    with pytest.raises(LoadError) as caught:
        ClipDataset(plan, transform=raise_error, output=output)[2]
    assert "received" not in str(caught.value)


def test_what_a_transform_raises_leaves_the_generators_as_they_were() -> None:
    state = torch.get_rng_state()
    with pytest.raises(LoadError, match=r"transform failed .* position 2: KeyError: 'mean'") as caught:
        ClipDataset(plan_of(shuffle=False), transform=raise_error)[2]
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.position, caught.value.stage) == (2, "transform")
    assert torch.equal(torch.get_rng_state(), state)


def test_L03_a_worker_decodes_with_one_thread() -> None:
    dataset = ClipDataset(plan_of(shuffle=False), target="label", transform=decoder_threads)
    assert {int(count) for counts, _ in make_loader(dataset, 2) for count in counts} == {0}


def test_L01_workers_forked_after_the_parent_has_decoded() -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan)
    for _ in range(3):
        assert_stamps(plan, 4, dataset[4]["data"])
        check_epoch(plan, make_loader(dataset, 3, "fork"))


def test_P14_kept_clips_stay_as_they_were() -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan)
    kept = [item["data"][1] for _ in range(3) for item in dataset.__getitems__(range(12))]
    copies = [frame.clone() for frame in kept]
    dataset.__getitems__(range(12))
    assert all(torch.equal(frame, clone) for frame, clone in zip(kept, copies, strict=True))


def test_it_travels_and_is_copied() -> None:
    plan = plan_of(shuffle=False)
    dataset = ClipDataset(plan, target="label", transform=draw_number)
    dataset.set_epoch(2)
    for other in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert (other.epoch, other.classes, len(other)) == (2, dataset.classes, 12)
        assert torch.equal(other[5][0], dataset[5][0])
        other.set_epoch(0)
        assert dataset.epoch == 2


def test_it_agrees_with_the_loader() -> None:
    plan = plan_of()
    with ClipLoader(plan, batch_size=5, workers=2) as loader:
        for ours, theirs in zip(loader, make_loader(ClipDataset(plan)), strict=True):
            assert np.array_equal(ours.data, theirs["data"])
            assert np.array_equal(ours.positions, theirs["position"])
            assert np.array_equal(ours.columns["label"], theirs["label"])


# --- errors -------------------------------------------------------------------------------------------


@pytest.fixture
def own_plan(tmp_path: Path) -> EpochPlan:
    """Eight frames of each of six videos that may be harmed."""
    shutil.copytree(folder(), tmp_path / "videos")
    return plan_clips(scan(tmp_path / "videos", workers=0), Uniform(8), seed=0, shuffle=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_L05_error_types_survive_a_worker(own_plan: EpochPlan, workers: int) -> None:
    name = str(own_plan[4].source)
    write_clip(name, ClipSpec(num_frames=31, height=48, width=64))
    batches = iter(make_loader(ClipDataset(own_plan), workers, batch_size=2))
    assert [next(batches)["position"].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(StaleSource, match="has changed since it was indexed") as caught:
        next(batches)
    assert name in str(caught.value)
    # PyTorch lets workers that an error met end after 5 seconds only, unless the iteration is seen through.
    assert not list(batches)


def test_L05_a_transforms_error_survives_a_worker() -> None:
    batches = iter(make_loader(ClipDataset(plan_of(shuffle=False), transform=raise_error), 1, batch_size=12))
    with pytest.raises(LoadError, match="KeyError: 'mean'"):
        next(batches)
    assert not list(batches)


def test_L05_a_frame_that_is_not_there_is_no_end_of_the_dataset() -> None:
    plan = plan_requests(
        [DecodeRequest(source=catalog()[row], indices=[40 if row == 3 else 1]) for row in range(6)], policy="error"
    )
    dataset = ClipDataset(plan)
    with pytest.raises(FrameNotFound):
        list(make_loader(dataset))
    with pytest.raises(FrameNotFound) as caught:
        list(dataset)
    assert caught.value.position == 3


def test_L05_the_first_error_of_a_batch_is_raised() -> None:
    plan = plan_of(AtIndices([0]), shuffle=False)
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled", frames=ordinals))
    with pytest.raises(CorruptMedia) as caught:
        ClipDataset(plan, backend=spoil).__getitems__([8, 3, 2])
    assert caught.value.position == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "name"}, r"no column 'name', only \['label'\]: plan with columns=\['name'\]"),
        ({"transform": 5}, "transform: expected a function"),
        ({"plan": [1, 2]}, "plan_clips"),
    ],
)
def test_wrong_arguments_raise_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClipDataset(**{"plan": plan_of(), **arguments})


def test_a_target_is_of_whole_numbers() -> None:
    requests = [DecodeRequest(source=catalog()[row], indices=[0]) for row in range(3)]
    plan = plan_requests(requests, columns={"weight": [0.5, 1.0, 2.0], "data": [1, 2, 3]})
    with pytest.raises(UsageError, match="integers, but 'weight' holds float64"):
        ClipDataset(plan, target="weight")
    with pytest.raises(UsageError, match=r"no column 'weights', only \[.*\]; did you mean 'weight'\?$"):
        ClipDataset(plan, target="weights")
    with pytest.raises(UsageError, match=r"no column 'label', only \[.*\]: plan with columns=\['label'\]$"):
        ClipDataset(plan, target="label")
    with pytest.raises(UsageError, match=r"\['data'\] have the same names as other keys of an item"):
        ClipDataset(plan)
    assert [int(target) for _, target in ClipDataset(plan, target="data")] == [1, 2, 3]


def test_names_of_a_later_version_raise_an_error() -> None:
    with pytest.raises(UsageError, match="not in this version"):
        to_device(None, "cpu")


def test_L25_loaders_and_worker_processes_run_within_a_worker_of_pytorch() -> None:
    loader = DataLoader(Nesting(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert list(loader) == [[*range(12), 100, 101]] * 2


def test_a_target_that_is_missing_is_never_made_up(tmp_path: Path) -> None:
    listed = tmp_path / "some.csv"
    videos = sorted(folder().glob("**/*.mp4"))[:3]
    listed.write_text(f"path,breed\n{videos[0]},a\n{videos[1]},b\n{videos[2]},\n")
    plan = plan_clips(scan(listed), Uniform(1), seed=0, columns=("breed",))
    with pytest.raises(UsageError, match=r"'breed' in each of 3 rows, found only 2 .*field\('breed'\).is_valid"):
        ClipDataset(plan, target="breed")
    with pytest.warns(UserWarning, match="no text of column 'breed' in 1 row, first of row 2"):
        assert len(ClipDataset(plan)) == 3
