"""ff.torch.DataLoader gives what torch's DataLoader gives, from threads of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data import DataLoader as TorchDataLoader

from framefeed.adapters.torch import DataLoader
from framefeed.adapters.torch._thread_context import ThreadContext
from framefeed.errors import LoadError, UsageError


class Pair(NamedTuple):
    number: int
    squares: torch.Tensor


class Items(Dataset[Any]):
    """Items of every kind that torch collates; the picture is large enough for recycled memory."""

    def __init__(self, count: int = 23) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        picture = torch.full((3, 128, 128), number, dtype=torch.float32)
        return {
            "picture": picture,
            "strided": picture.transpose(0, 2)[::2],
            "half": picture.to(torch.bfloat16),
            "array": np.full((128, 128), number, dtype=np.int16),
            "pair": Pair(number, torch.tensor([number**2])),
            "words": [str(number), b"bytes"],
            "scalars": (float(number), np.float32(number), number > 3, torch.tensor(number)),
        }


class Batched(Items):
    """Loads a batch at once."""

    def __getitems__(self, numbers: list[int]) -> list[Any]:
        return [torch.tensor([number, len(numbers)]) for number in numbers]


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        assert torch.equal(ours, theirs)
    elif isinstance(ours, Mapping):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert ours == theirs


class CustomBatches:
    """A batch sampler that is not torch's."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([3, 1], [2], [0, 0, 0])

    def __len__(self) -> int:
        return 3


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


CONFIGURATIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "defaults": dict,
    "batches": lambda: {"batch_size": 4},
    "drop_last": lambda: {"batch_size": 4, "drop_last": True},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "generator": lambda: {"batch_size": 4, "shuffle": True, "generator": generator()},
    "no batches": lambda: {"batch_size": None},
    "collate_fn": lambda: {"batch_size": 4, "collate_fn": len},
    "sampler": lambda: {"batch_size": 4, "sampler": [5, 2, 2, 8, 0]},
    "replacement": lambda: {"sampler": RandomSampler(Items(), True, 70, generator()), "batch_size": 9},
    "subset sampler": lambda: {"sampler": SubsetRandomSampler([1, 2, 3, 5, 8]), "batch_size": 2},
    "weights": lambda: {"sampler": WeightedRandomSampler([1.0, 2.0, 3.0], 11), "generator": generator()},
    "batch sampler": lambda: {"batch_sampler": BatchSampler(SequentialSampler(range(7)), 3, drop_last=False)},
    "own batch sampler": lambda: {"batch_sampler": CustomBatches()},
}


@pytest.mark.parametrize("workers", [0, *(pytest.param(few, marks=pytest.mark.test_all) for few in (1, 2)), 4])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_batches_are_those_of_torch(name: str, workers: int) -> None:
    make = CONFIGURATIONS[name]
    options = {"num_workers": workers, **({"prefetch_factor": 3} if workers == 2 else {})}
    runs = []
    for kind in (TorchDataLoader, DataLoader):
        torch.manual_seed(0)
        # Torch's order does not depend on its number of workers; its own processes would take seconds.
        ours = kind is DataLoader
        loader = kind(Items(), **make(), **(options if ours else {}))
        epochs = [list(loader) for _ in range(2)]
        runs.append((len(loader), epochs, None if "generator" in make() else torch.rand(1)))
    assert_same(runs[1], runs[0])


class Nested(Items):
    """Items of large tensors of one form, within each other under the same names and numbers."""

    def __getitem__(self, number: int) -> Any:
        a, b, c, d = (torch.full((128, 128), 4 * number + each, dtype=torch.int32) for each in range(4))
        return {"left": ((a, b), (c, d)), "right": ({"x": d}, {"x": c}), "x": a}


def test_tensors_within_each_other_are_not_mixed_up() -> None:
    batches = list(TorchDataLoader(Nested(12), batch_size=4))
    assert_same(list(DataLoader(Nested(12), batch_size=4, num_workers=1)), batches)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shuffled", "generator", "replacement", "weights"])
def test_draws_from_generators_are_in_the_order_of_torchs_workers(name: str) -> None:
    runs = []
    for kind in (TorchDataLoader, DataLoader):
        torch.manual_seed(0)
        loader = kind(Batched(), num_workers=2, **CONFIGURATIONS[name]())
        epochs = []
        for _ in range(2):
            # What the training loop draws meanwhile comes in between.
            epochs.append([(batch, torch.rand(1)) for batch in loader])
        runs.append((epochs, torch.rand(1)))
    assert_same(runs[1], runs[0])


class Counted:
    """A sampler that draws another order each time that it begins."""

    def __init__(self) -> None:
        self.begun = 0

    def __len__(self) -> int:
        return 23

    def __iter__(self) -> Iterator[int]:
        self.begun += 1
        return iter(torch.randperm(23, generator=torch.Generator().manual_seed(self.begun)).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("name", ["shuffled", "generator", "counted"])
def test_persistent_workers_draw_in_the_order_of_torch(name: str, in_order: bool) -> None:
    runs = []
    for kind in (TorchDataLoader, DataLoader):
        torch.manual_seed(0)
        options = {"batch_size": 4, "sampler": Counted()} if name == "counted" else CONFIGURATIONS[name]()
        loader = kind(Batched(), num_workers=1, persistent_workers=True, in_order=in_order, **options)
        # Torch draws a seed for the workers when it starts them, and in later epochs none.
        runs.append(([list(loader) for _ in range(3)], torch.rand(1)))
    assert_same(runs[1], runs[0])


class Where(Items):
    """Items that say where they were loaded."""

    def __getitem__(self, number: int) -> Any:
        info = get_worker_info()
        thread = threading.current_thread().name
        return os.getpid(), thread.startswith("framefeed-torch"), -1 if info is None else info.id


class Unsafe(Where):
    thread_safe = False


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from (os.getpid(), False, -1 if get_worker_info() is None else get_worker_info().id)


def say_nothing(worker: int) -> None:
    pass


def load_one(dataset: Dataset[Any], **options: Any) -> Any:
    (item,) = DataLoader(Subset(dataset, [0]), **{"batch_size": None, "num_workers": 1, **options})
    return tuple(item)


def test_threads_load_map_style_data_sets() -> None:
    assert load_one(Where()) == (os.getpid(), True, -1)
    assert load_one(Unsafe(), kind="threads") == (os.getpid(), True, -1)
    assert load_one(Where(), num_workers=0) == (os.getpid(), False, -1)


PROCESSES: dict[str, Callable[[], tuple[Dataset[Any], dict[str, Any]]]] = {
    "kind": lambda: (Where(), {"kind": "processes"}),
    "context": lambda: (Where(), {"multiprocessing_context": "fork"}),
    "worker_init_fn": lambda: (Where(), {"worker_init_fn": say_nothing}),
    "unsafe": lambda: (Unsafe(), {}),
    "subset": lambda: (Subset(Unsafe(), [1, 2]), {}),
    "concatenated": lambda: (ConcatDataset([Subset(Unsafe(), [0]), Where()]), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSES)
def test_processes_load_what_asks_for_them(name: str) -> None:
    dataset, options = PROCESSES[name]()
    process, _, worker = load_one(dataset, **options)
    assert process != os.getpid()
    assert worker == 0


class Plain:
    """A data set that is not of torch's class, which torch does not ask for."""

    thread_safe = False

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> int:
        return number


class Endless:
    """Has another data set each time that it is asked for it."""

    def __getitem__(self, number: int) -> int:
        return number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Endless()


def test_unsafe_data_sets_need_not_be_of_torchs_class() -> None:
    plain: Any = Plain()
    for dataset in (plain, Subset(plain, [0]), ConcatDataset([plain, plain]), Subset(Subset(plain, [0, 1]), [0])):
        assert DataLoader(dataset, num_workers=1)._choose_kind() == "processes"
    endless: Any = Endless()
    assert DataLoader(Subset(endless, [0]), num_workers=1)._choose_kind() == "threads"


def test_unsafe_data_sets_are_seen_in_stacks() -> None:
    for stack in (StackDataset(Items(), Unsafe()), StackDataset(a=Items(), b=Unsafe())):
        assert DataLoader(stack, num_workers=1)._choose_kind() == "processes"


@pytest.mark.slow
def test_iterable_data_sets_are_loaded_by_processes() -> None:
    process, _, worker = list(DataLoader(Stream(), batch_size=None, num_workers=1))
    assert (process != os.getpid(), worker) == (True, 0)


def test_threads_are_refused_where_processes_are_needed() -> None:
    for options in ({"worker_init_fn": say_nothing}, {"multiprocessing_context": "fork"}):
        with pytest.raises(UsageError, match=f'kind="threads" does not go with {next(iter(options))}'):
            DataLoader(Items(), num_workers=1, kind="threads", **options)
    with pytest.raises(UsageError, match="'threads' or 'processes'"):
        DataLoader(Items(), kind="thread")  # type: ignore[arg-type]


class Failing(Items):
    def __getitem__(self, number: int) -> Any:
        if number == 3:
            raise KeyError("three")
        if number == 5:
            raise StopIteration
        return number


def test_the_error_of_an_item_has_a_note_about_threads() -> None:
    iterator = iter(DataLoader(Failing(5), batch_size=None, num_workers=1))
    notes: list[str] = []
    for _ in range(5):
        try:
            next(iterator)
        except KeyError as error:
            notes += error.__notes__
    assert next(iterator, None) is None
    assert ["thread_safe = False" in note for note in notes] == [True]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_L05_an_error_comes_at_its_batch_and_the_next_batches_follow(workers: int, in_order: bool) -> None:
    iterator = iter(DataLoader(Failing(9), batch_size=None, num_workers=workers, in_order=in_order))
    got: list[Any] = []
    while True:
        try:
            got.append(next(iterator))
        except StopIteration:
            break
        except (KeyError, LoadError) as error:
            got.append(type(error))
    expected = [0, 1, 2, KeyError, 4, LoadError, 6, 7, 8]
    assert got == expected if in_order or not workers else sorted(map(str, got)) == sorted(map(str, expected))


@pytest.mark.parametrize("is_held", [False, True])
def test_workers_take_the_data_set_of_any_torch(is_held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From torch 2.14 on its loop takes the data set of a list; the order of arguments may change too."""
    own = torch.utils.data._utils.worker._worker_loop
    names = list(signature(own).parameters)
    name = "dataset_holder" if is_held else "dataset"

    def loop() -> None:
        raise AssertionError("threads do its work")

    turned = [name if each.startswith("dataset") and each != "dataset_kind" else each for each in reversed(names)]
    loop.__signature__ = Signature([Parameter(each, Parameter.POSITIONAL_ONLY) for each in turned])  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_loop", loop)
    lists: list[list[object]] = []

    class Context(ThreadContext):
        def Process(self, target: Any, args: tuple[Any, ...]) -> Any:
            given = dict(zip(names, args, strict=True))
            dataset = given["dataset_holder"].pop() if "dataset_holder" in given else given["dataset"]
            lists.append([dataset])
            arguments = given | {name: lists[-1] if is_held else dataset}
            return super().Process(target, tuple(arguments[each] for each in turned))

    loader = TorchDataLoader(Items(9), batch_size=None, num_workers=2, multiprocessing_context=Context())
    assert [int(item["pair"].number) for item in loader] == list(range(9))
    assert [len(each) for each in lists] == [not is_held] * 2
