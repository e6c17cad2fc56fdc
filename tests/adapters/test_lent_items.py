"""Pictures of LeRobotDataset that workers write straight to the memory of a batch are those of the program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, default_collate

import framefeed as ff
from framefeed.adapters.torch._data_loader import DataLoader as OwnDataLoader
from framefeed.adapters.torch._lerobot_dataset import LeRobotDataset
from framefeed.testing import ClipSpec, make_lerobot, write_clip
from tests.adapters.test_lent_batches import (
    CHANGES,
    assert_same,
    find_memory,
    send_names,
    take_files,
    take_locks,
    take_memory,
)

pytestmark = pytest.mark.filterwarnings("ignore:this LeRobotDataset delivered")
TOP, WRIST, SIDE = "observation.images.top", "observation.images.wrist", "observation.images.side"
# Two pictures of float32 are more than LEAST_BYTES; the last batch has one.
BATCH = 4
OPTIONS: dict[str, dict[str, Any]] = {
    "one time": {},
    "several times": {"delta_timestamps": {TOP: [-0.1, 0.0], WRIST: [0.0, 0.1, 0.2], "action": [0.0, 0.1]}},
    "one delta": {"delta_timestamps": {TOP: [0.1], SIDE: [0.0, 0.1]}},
}


@pytest.fixture(scope="module", autouse=True)
def in_own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lerobot(
        tmp_path_factory.mktemp("robots"), episodes=(12, 9, 8), cameras=[TOP, WRIST, SIDE], image_keys=[SIDE]
    )


def open_dataset(root: Path, **options: Any) -> LeRobotDataset:
    return LeRobotDataset("me/data", root, **options)


def collate_and_compare(items: list[Any]) -> Any:
    """Collate, and say of which cameras the items are in shared memory, and of which in that of the batch."""
    are_shared = [key for key in (TOP, WRIST, SIDE) if items[0][key].is_shared()]
    batch = default_collate(items)
    return batch, are_shared, [key for key in (TOP, WRIST, SIDE) if items[0][key].data_ptr() == batch[key].data_ptr()]


def assert_equal(dataset: Any, cameras: list[str]) -> None:
    """Batches of a worker are those of the program, and items of these cameras, and no others, share their memory."""
    options: dict[str, Any] = {"batch_size": BATCH, "collate_fn": collate_and_compare}
    loader: Any = DataLoader(dataset, num_workers=1, **options)
    for (batch, *shared), (other, *unshared) in zip(loader, DataLoader(dataset, **options), strict=True):
        assert_same(batch, other)
        assert unshared == [[], []]
        assert shared == [[key for key in cameras if batch[key].nbytes >= 256 << 10]] * 2


@pytest.mark.parametrize("how", OPTIONS)
def test_batches_of_workers_are_those_of_the_program(root: Path, how: str) -> None:
    assert_equal(open_dataset(root, **OPTIONS[how]), [TOP, WRIST, SIDE])


def test_batches_of_parts_and_of_repeated_rows(root: Path) -> None:
    part: Any = Subset(open_dataset(root, episodes=[0, 2]), [3, 3, 1, 0, 19, 3, 3, 18, 5, 6])
    assert_equal(part, [TOP, WRIST, SIDE])
    again: Any = Subset(part, [0, 1, 9, 8])
    assert_equal(again, [TOP, WRIST, SIDE])


def test_batches_of_our_loader(root: Path) -> None:
    dataset = open_dataset(root)
    loader = OwnDataLoader(dataset, batch_size=BATCH, num_workers=2, kind="processes")
    for batch, other in zip(loader, DataLoader(dataset, batch_size=BATCH), strict=True):
        assert_same(batch, other)


def test_items_without_batches(root: Path) -> None:
    dataset = open_dataset(root, **OPTIONS["several times"])
    for item, other in zip(DataLoader(dataset, batch_size=None, num_workers=1), dataset, strict=True):
        assert_same(item, other)


def test_epochs_of_a_program_that_keeps_and_edits_its_batches(root: Path) -> None:
    dataset = open_dataset(root)
    expected = list(DataLoader(dataset, batch_size=BATCH))
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, persistent_workers=True)
    kept: list[dict[str, Any]] = []
    files = set()
    for epoch in range(4):
        for number, batch in enumerate(loader):
            assert_same(batch, expected[number])
            if batch[TOP].nbytes >= 256 << 10:
                files.update(find_memory({key: batch[key]}) for key in (TOP, WRIST))
            if epoch == 0:
                kept.append(batch)
            elif epoch == 1:
                kept[number][TOP].fill_(-1)
            batch[WRIST].fill_(number)
    assert {is_lent for _, is_lent in files} == {True}
    for number, batch in enumerate(kept):
        assert bool((batch[TOP] == -1).all())
        assert bool((batch[WRIST] == number).all())
        assert torch.equal(batch[SIDE], expected[number][SIDE])


class Keeping(Dataset[Any]):
    """A user's data set, which keeps its items and gives them again."""

    def __init__(self, dataset: LeRobotDataset) -> None:
        self.dataset = dataset
        self.kept: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> Any:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        self.kept.update(zip(numbers, self.dataset.__getitems__(numbers), strict=True))
        return [self.kept[number] for number in numbers]


class KeepingLeRobotDataset(LeRobotDataset):
    """A user's class, which keeps its items and gives them again."""

    def __getitems__(self, indices: Any) -> list[Any]:
        kept = self.__dict__.setdefault("kept", {})
        if not set(indices) <= kept.keys():
            kept.update(zip(indices, super().__getitems__(indices), strict=True))
        return [kept[number] for number in indices]


def make_keeping(root: Path, kind: str) -> Any:
    return {
        "wrapper": lambda: Keeping(open_dataset(root, episodes=[1])),
        "subclass": lambda: KeepingLeRobotDataset("me/data", root, episodes=[1]),
        "joined": lambda: ConcatDataset([open_dataset(root, episodes=[1]), open_dataset(root, episodes=[2])]),
    }[kind]()


@pytest.mark.parametrize("kind", ["wrapper", "subclass", "joined"])
def test_data_sets_that_may_keep_items_share_no_memory(root: Path, kind: str) -> None:
    expected = list(DataLoader(make_keeping(root, kind), batch_size=BATCH))
    options: dict[str, Any] = {"num_workers": 1, "persistent_workers": True, "collate_fn": collate_and_compare}
    loader = DataLoader(make_keeping(root, kind), batch_size=BATCH, **options)
    for _ in range(2):
        for (batch, *shared), other in zip(loader, expected, strict=True):
            assert_same(batch, other)
            assert shared == [[], []]
            # What the program does to a batch is not in the next epoch.
            batch[TOP].fill_(7)


def darken(pictures: torch.Tensor) -> torch.Tensor:
    return pictures / 2


@pytest.mark.parametrize("options", [{"image_transforms": darken}, {"return_uint8": True}], ids=["transform", "uint8"])
def test_pictures_that_are_not_written_to_the_batch(root: Path, options: dict[str, Any]) -> None:
    assert_equal(open_dataset(root, **options), [])


def test_a_transform_that_is_set_later(root: Path) -> None:
    dataset = open_dataset(root)
    assert_equal(dataset, [TOP, WRIST, SIDE])
    dataset.image_transforms = darken
    assert_equal(dataset, [])
    dataset.image_transforms = None
    assert_equal(dataset, [TOP, WRIST, SIDE])


def is_shared(pictures: torch.Tensor) -> torch.Tensor:
    return torch.tensor(pictures.is_shared())


def test_a_transform_gets_memory_of_the_worker(root: Path) -> None:
    loader = DataLoader(open_dataset(root, image_transforms=is_shared), batch_size=BATCH, num_workers=1)
    assert not any(bool(batch[key].any()) for batch in loader for key in (TOP, WRIST, SIDE))


def replace_one(items: list[Any]) -> Any:
    """The first one is as it was."""
    items[-1][TOP] = items[-1][TOP].clone() + 1
    items[len(items) // 2][WRIST] = items[0][WRIST]
    return default_collate(items)


def edit_one(items: list[Any]) -> Any:
    items[-1][TOP] += 1
    return default_collate(items)


def flip(items: list[Any]) -> Any:
    """The memory of each is that of its slot, in another order."""
    return default_collate([{**item, TOP: item[TOP].transpose(-1, -2), WRIST: item[WRIST].flatten()} for item in items])


def collate_twice(items: list[Any]) -> Any:
    one, other = default_collate(items), default_collate(items)
    one[TOP] += 1
    return one, other


def pass_on(items: list[Any]) -> Any:
    return items


COLLATES: dict[str, Callable[[list[Any]], Any]] = {
    "reversed": lambda items: default_collate(items[::-1]),
    "without the first": lambda items: default_collate(items[1:] or items),
    "without the last": lambda items: default_collate(items[:-1] or items),
    "one replaced": replace_one,
    "one repeated": lambda items: default_collate([*items, items[0]]),
    "one edited": edit_one,
    "flipped": flip,
    "bits": lambda items: default_collate([item[TOP].view(torch.int32) for item in items]),
    "twice": collate_twice,
    "parts": lambda items: (default_collate(items[:2]), default_collate(items[2:] or items)),
    "items": pass_on,
}


@pytest.mark.parametrize("how", COLLATES)
def test_a_users_collate_gives_what_it_gives_in_the_program(root: Path, how: str) -> None:
    dataset = open_dataset(root, episodes=[1])
    options: dict[str, Any] = {"batch_size": BATCH, "collate_fn": COLLATES[how]}
    got = list(DataLoader(dataset, num_workers=1, **options))
    for batch, other in zip(got, DataLoader(dataset, **options), strict=True):
        assert_same(batch, other)


class KeepingCollate:
    """A user's collate, which keeps items or copies of them, and says what they are in the next batch."""

    def __init__(self, *, copies: bool) -> None:
        self.copies = copies
        self.kept: list[torch.Tensor] = []

    def __call__(self, items: list[Any]) -> Any:
        before = [picture.clone() for picture in self.kept]
        self.kept = [item[TOP].clone() if self.copies else item[TOP] for item in items]
        return default_collate(items), before


@pytest.mark.parametrize("copies", [True, False])
def test_a_collate_copies_what_it_keeps(root: Path, copies: bool) -> None:
    dataset = open_dataset(root)
    expected = list(DataLoader(dataset, batch_size=BATCH))
    collate = KeepingCollate(copies=copies)
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, collate_fn=collate, prefetch_factor=1)
    batches = list(itertools.islice(loader, len(expected) - 1))
    for (_, before), (batch, _), other in zip(batches[1:], batches, expected, strict=False):
        # No other batch is written there, as long as they are kept.
        assert_same(batch, other)
        assert torch.equal(torch.stack(before), other[TOP])


def edit_batch(items: list[Any]) -> Any:
    batch = default_collate(items)
    before = items[0][TOP].clone()
    batch[TOP][0] += 1
    return torch.equal(items[0][TOP], before), torch.equal(items[0][TOP], batch[TOP][0])


def test_items_share_memory_with_the_batch_in_workers_alone(root: Path) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "sampler": range(BATCH), "collate_fn": edit_batch}
    dataset = open_dataset(root)
    assert list(DataLoader(dataset, **options)) == [(True, False)]
    assert list(DataLoader(dataset, num_workers=1, **options)) == [(False, True)]


@pytest.mark.parametrize("spoil", [*CHANGES, take_locks, take_memory, take_files, send_names])
def test_without_such_memory_torch_collates(root: Path, spoil: Callable[[int], None]) -> None:
    dataset = open_dataset(root, episodes=[1])
    expected = list(DataLoader(dataset, batch_size=BATCH))
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, worker_init_fn=spoil, collate_fn=collate_and_compare)
    for number, ((batch, *shared), other) in enumerate(zip(loader, expected, strict=True)):
        assert_same(batch, other)
        assert shared == [[], []], number


def test_an_error_of_an_item_is_raised_and_later_batches_are_right(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path / "short", version="2.1", episodes=(5,), cameras=[WRIST, TOP])
    video = ClipSpec(num_frames=5, width=128, height=96, pts=(0, 4, 5, 6, 7), time_base=Fraction(1, 30))
    write_clip(root / f"videos/chunk-000/{TOP}/episode_000000.mp4", video)
    dataset = open_dataset(root)
    rows = [[0, 4], [4, 1, 3], [4, 0]]
    for workers in (0, 1):
        batches = iter(DataLoader(dataset, batch_sampler=rows, num_workers=workers))
        for numbers in rows:
            if 1 in numbers:
                with pytest.raises(ff.FrameNotFound, match="the time of row 1 "):
                    next(batches)
            else:
                assert_same(next(batches), default_collate(dataset.__getitems__(numbers)))
        assert not list(batches)  # or torch waits for the worker for 5 s


def test_memory_of_items_that_are_not_collated_is_used_again(root: Path) -> None:
    dataset = open_dataset(root)
    expected = [dataset.__getitems__(range(first, first + BATCH)) for first in range(0, 28, BATCH)]
    options: dict[str, Any] = {"num_workers": 1, "persistent_workers": True, "collate_fn": pass_on}
    loader = DataLoader(dataset, batch_size=BATCH, drop_last=True, **options)
    files = []
    for _ in range(3):
        for items, others in zip(loader, expected, strict=True):
            assert_same(items, others)
            files.append(find_memory(items[0][TOP]))
    assert all(is_lent for _, is_lent in files)
    assert len(set(files)) < len(files)
