"""Batches that torch's worker processes collate into lent memory are those that torch collates."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, default_collate
from torch.utils.data._utils import collate as torch_collate

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._data_loader import DataLoader as OwnDataLoader
from framefeed.adapters.torch._lending import lend_batches
from framefeed.errors import CorruptMedia
from tests.adapters.test_special_tensors import KINDS, describe
from tests.fakes import SlopedDecoder
from tests.makers import plan_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:this ClipDataset delivered"),
    pytest.mark.filterwarnings("ignore:Sparse .*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
]
# Two clips of 4 frames are more than LEAST_BYTES; the last batch has one.
SIZE = (128, 128)
BATCH = 4


def fail_some(ordinals: list[int]) -> CorruptMedia | None:
    return CorruptMedia("spoiled") if sum(ordinals) % 3 == 0 else None


def halves(clip: torch.Tensor) -> torch.Tensor:
    return clip.float() / 2 + 1


def dataset_of(clips_per_video: int = 3, **options: Any) -> ClipDataset:
    plan = plan_of(clips_per_video=clips_per_video, size=SIZE, horizontal_flip=0.5, shuffle=False)
    return ClipDataset(plan, **{"backend": SlopedDecoder(), **options})


FORMS: dict[str, dict[str, Any]] = {
    "pixels": {},
    "target": {"target": "label"},
    "float32": {"target": "label", "dtype": "float32"},
    "float16": {"dtype": "float16", "mean": 0.5, "std": 0.25},
    "bfloat16": {"dtype": torch.bfloat16},
    "arrays": {"output": "numpy", "target": "label"},
    "transform": {"transform": halves},
    "normalised after": {"transform": torch.Tensor.contiguous, "dtype": "float16"},
    "skip": {"on_error": "skip", "backend": SlopedDecoder(spoil=fail_some)},
    "substitute": {"on_error": "substitute", "target": "label", "backend": SlopedDecoder(spoil=fail_some)},
}
LOADERS: dict[str, dict[str, Any]] = {
    "fork": {"num_workers": 2, "multiprocessing_context": "fork"},
    "persistent": {"num_workers": 1, "persistent_workers": True},
}


def flatten(batch: Any) -> Iterator[Any]:
    """Yield the parts of a batch."""
    if isinstance(batch, dict):
        batch = [*batch, *batch.values()]
    if isinstance(batch, (list, tuple)):
        for part in batch:
            yield from flatten(part)
    else:
        yield batch


def assert_same(batch: Any, expected: Any) -> None:
    """Both have the same types, and the same numbers, bit for bit, laid out in the same way."""
    assert type(batch) is type(expected)
    for part, other in zip(flatten(batch), flatten(expected), strict=True):
        assert type(part) is type(other)
        if isinstance(other, torch.Tensor):
            assert (part.dtype, part.shape, part.stride()) == (other.dtype, other.shape, other.stride())
            assert not part.requires_grad
            bits = [np.ascontiguousarray(each.view(-1).view(torch.uint8).numpy()) for each in (part, other)]
            np.testing.assert_array_equal(*bits)
        else:
            assert part == other


def find_memory(batch: Any) -> tuple[int, bool]:
    """Return which file the pixels of a batch are in, and whether it was lent."""
    data = max((part for part in flatten(batch) if isinstance(part, torch.Tensor)), key=lambda part: part.nbytes)
    assert data.is_shared()
    descriptor, _ = data.untyped_storage()._share_fd_cpu_()
    return os.fstat(descriptor).st_ino, os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:framefeed")


def are_lent(batches: list[Any]) -> set[bool]:
    return {find_memory(batch)[1] for batch in batches}


CASES = [
    *((form, "fork") for form in FORMS),
    ("float32", "persistent"),
    ("substitute", "persistent"),
]


@pytest.mark.parametrize(("form", "how"), CASES)
def test_batches_of_workers_are_those_of_the_program(form: str, how: str) -> None:
    dataset = dataset_of(**FORMS[form])
    expected = list(DataLoader(dataset, batch_size=BATCH))
    loader = DataLoader(dataset, batch_size=BATCH, **LOADERS[how])
    for _ in range(2 if loader.persistent_workers else 1):
        got = list(loader)
        for batch, other in zip(got, expected, strict=True):
            assert_same(batch, other)
        assert are_lent(got) == {True}
    # The program's own table is as it was.
    assert torch_collate.default_collate_fn_map[torch.Tensor] is torch_collate.collate_tensor_fn


def test_batches_of_parts_and_repeated_positions_and_of_our_loader() -> None:
    dataset = dataset_of(target="label")
    part: Any = Subset(dataset, [3, 3, 1, 0, 5, 5, 17, 16, 15])
    loader = OwnDataLoader(part, batch_size=4, num_workers=1, kind="processes")
    expected = list(DataLoader(part, batch_size=4))
    got = list(loader)
    for batch, other in zip(got, expected, strict=True):
        assert_same(batch, other)
    # One clip is no large batch.
    assert [find_memory(batch)[1] for batch in got] == [True, True, False]


def test_memory_is_used_again_and_not_before_the_program_has_freed_it() -> None:
    dataset = dataset_of(clips_per_video=16)
    expected = list(DataLoader(dataset, batch_size=2))
    loader = DataLoader(dataset, batch_size=2, num_workers=1)
    kept = list(loader)
    assert len(kept) == len(expected) == 48
    assert len({find_memory(batch) for batch in kept}) == 48
    files = set()
    for number, batch in enumerate(loader):
        assert_same(batch, expected[number])
        files.add(find_memory(batch))
        # Memory that is used again is written in full.
        batch["data"].fill_(number)
    # Those that are ready, two that the program has, and a few whose senders were late.
    assert len(files) <= 24
    views = []
    for batch in loader:
        views.append(batch["data"].numpy()[1, 2:])
        del batch
    for batch, view, other in zip(kept, views, expected, strict=True):
        assert_same(batch, other)
        np.testing.assert_array_equal(view, other["data"][1, 2:])


class Keeping:
    """A user's collate, which keeps what it had, and looks at it in the next batch."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, items: list[Any]) -> Any:
        pixels = [item["data"] for item in items]
        batch = default_collate(items)
        self.kept.append((pixels, batch["data"], [pixel.clone() for pixel in pixels]))
        for before, data, copies in self.kept:
            assert all(map(torch.equal, before, copies))
            assert torch.equal(data, torch.stack(copies))
        return batch, [type(pixel) for pixel in pixels], type(batch["data"])


def test_items_and_batches_that_a_collate_keeps_in_the_worker_stay_as_they_are() -> None:
    dataset = dataset_of(dtype="float32")
    expected = list(DataLoader(dataset, batch_size=BATCH))
    got = list(DataLoader(dataset, batch_size=BATCH, num_workers=1, collate_fn=Keeping()))
    for (batch, types, kind), other in zip(got, expected, strict=True):
        assert_same(batch, other)
        assert {*types, kind} == {torch.Tensor}
        assert find_memory(batch)[1]


def darken(items: list[Any]) -> Any:
    items[0]["data"][:] = 0
    return default_collate(items)


def stack_reversed(items: list[Any]) -> torch.Tensor:
    return torch.stack([item["data"] for item in items[::-1]])


def pass_on(items: list[Any]) -> list[Any]:
    return items


@pytest.mark.parametrize("collate", [darken, stack_reversed, pass_on])
def test_a_users_collate_gets_items_that_it_may_change_or_pass_on(collate: Callable[[list[Any]], Any]) -> None:
    dataset = dataset_of()
    options: dict[str, Any] = {"batch_size": BATCH, "collate_fn": collate}
    for batch, other in zip(DataLoader(dataset, num_workers=2, **options), DataLoader(dataset, **options), strict=True):
        assert_same(batch, other)


def test_items_without_batches_are_sent_as_they_are() -> None:
    dataset = dataset_of(target="label")
    for item, other in zip(DataLoader(dataset, batch_size=None, num_workers=1), dataset, strict=True):
        assert_same(tuple(item), other)


def add_one(batch: list[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    return torch.stack(batch) + 1


def put_add_one(number: int) -> None:
    torch_collate.default_collate_fn_map[torch.Tensor] = add_one


def test_a_function_that_users_put_in_the_table_is_called() -> None:
    dataset = dataset_of()
    expected = [batch["data"] + 1 for batch in DataLoader(dataset, batch_size=BATCH)]
    got = list(DataLoader(dataset, batch_size=BATCH, num_workers=1, worker_init_fn=put_add_one))
    for batch, other in zip(got, expected, strict=True):
        assert_same(batch["data"], other)


def send_names(number: int) -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]


def change_function(error: Exception, number: int) -> None:
    def fail(descriptor: int, nbytes: int) -> None:
        raise error

    torch.UntypedStorage._new_shared_fd_cpu = fail  # type: ignore[attr-defined]


def take_locks(number: int) -> None:
    fcntl.flock = lambda descriptor, operation: None  # type: ignore[assignment]


def take_memory(number: int) -> None:
    def run_out(*arguments: int) -> None:
        raise OSError(28, "no space")

    os.posix_fallocate = run_out


def take_files(number: int) -> None:
    def fail(name: str) -> int:
        raise PermissionError(1, "no such call here")

    os.memfd_create = fail  # type: ignore[assignment]


CHANGES = [partial(change_function, error("another torch")) for error in (AttributeError, TypeError, RuntimeError)]


@pytest.mark.parametrize("spoil", [*CHANGES, take_locks, take_memory, take_files])
def test_without_such_memory_torch_collates(spoil: Callable[[int], None]) -> None:
    dataset = dataset_of()
    expected = list(DataLoader(dataset, batch_size=BATCH))
    got = list(DataLoader(dataset, batch_size=BATCH, num_workers=1, worker_init_fn=spoil))
    for batch, other in zip(got, expected, strict=True):
        assert_same(batch, other)
    assert are_lent(got) == {False}


def count_lent_files() -> int:
    """Files that this process has lent or has mapped."""
    with open("/proc/self/maps") as maps:
        return sum("memfd:framefeed" in line for line in maps)


def collate_and_count(items: list[Any]) -> Any:
    return default_collate(items), count_lent_files()


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_a_worker_that_sends_names_of_files_lends_none(strategy: str) -> None:
    dataset = dataset_of()
    init = send_names if strategy == "file_system" else None
    expected = list(DataLoader(dataset, batch_size=BATCH))
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=1, collate_fn=collate_and_count, worker_init_fn=init)
    for (batch, lent), other in zip(loader, expected, strict=True):
        assert_same(batch, other)
        assert (lent == 0) == (strategy == "file_system")


class Lending(Dataset[Any]):
    """Tensors by kind and number, in a worker that lends memory, or does not."""

    def __init__(self, make: Callable[[str, int], torch.Tensor], *, lends: bool) -> None:
        self.make = make
        self.lends = lends

    def __getitem__(self, key: tuple[str, int]) -> torch.Tensor:
        if self.lends:
            lend_batches()
        return self.make(*key)


def describe_collated(items: list[Any]) -> Any:
    """What a worker collates, or the error; not each kind can be sent."""
    try:
        return describe(default_collate(items))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


def collate_in_worker(
    make: Callable[[str, int], torch.Tensor], batches: list[list[tuple[str, int]]], *, lends: bool
) -> dict[tuple[str, int], Any]:
    """What one worker collates of each batch, by its first item."""
    loader: Any = DataLoader(
        Lending(make, lends=lends), batch_sampler=batches, num_workers=1, collate_fn=describe_collated  # type: ignore[arg-type]
    )  # fmt: skip
    return dict(zip([batch[0] for batch in batches], loader, strict=True))


def make_kind(name: str, number: int) -> torch.Tensor:
    return KINDS[name](number)


def test_tensors_of_every_kind_are_collated_as_torch_collates_them() -> None:
    batches = [[(name, first + number) for number in range(3)] for name in KINDS for first in (0, 3)]
    expected = collate_in_worker(make_kind, batches, lends=False)
    assert collate_in_worker(make_kind, batches, lends=True) == expected


class Forking(Dataset[Any]):
    """Forks within a worker after its memory was lent and freed; both processes collate."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> list[bool]:
        lend_batches()
        freed = find_memory(collate_numbers(0))
        to_child, to_parent = os.pipe(), os.pipe()
        child = os.fork()
        if child:
            os.read(to_parent[0], 1)
        batch = collate_numbers(1 if child else 2)
        found = [find_memory(batch) == freed]
        if not child:
            os.write(to_parent[1], b"x")
            os.read(to_child[0], 1)
            os._exit(0 if bool((batch == 2).all()) and found == [False] else 1)
        found += [bool((batch == 1).all())]
        batch = collate_numbers(3)
        os.write(to_child[1], b"x")
        found += [os.waitpid(child, 0)[1] == 0, bool((batch == 3).all())]
        for descriptor in (*to_child, *to_parent):
            os.close(descriptor)
        return found


def collate_numbers(number: int) -> Any:
    return default_collate([torch.full((1 << 20,), number)])


def test_a_process_that_a_worker_forks_has_memory_of_its_own() -> None:
    assert list(DataLoader(Forking(), batch_size=None, num_workers=1)) == [[True] * 4]


class Tagged(torch.Tensor):
    """What torch makes of it is of this class too."""


UNLIKE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "shape": lambda tensor: tensor[1:],
    "dtype": torch.Tensor.double,
    "class": lambda tensor: tensor.as_subclass(Tagged),
    "gradient": lambda tensor: tensor.requires_grad_(),
    "conjugate": lambda tensor: (tensor * 1j).conj(),
}


def make_unlike(name: str, number: int) -> torch.Tensor:
    tensor = torch.eye(300) * (number + 1)
    return UNLIKE[name](tensor) if number == 2 else tensor


def test_tensors_that_are_unlike_the_first_are_collated_as_torch_collates_them() -> None:
    batches = [[(name, first + number) for number in range(3)] for name in UNLIKE for first in (0, 3)]
    expected = collate_in_worker(make_unlike, batches, lends=False)
    assert collate_in_worker(make_unlike, batches, lends=True) == expected
