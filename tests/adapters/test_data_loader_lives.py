"""ff.torch.DataLoader stopped, abandoned, forked, nested and closed: no hang, no thread left, nothing on stderr."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset, Subset

from framefeed.adapters.torch import DataLoader
from framefeed.adapters.torch._collating import RecyclingCollate
from framefeed.adapters.torch._pool_iterator import MOST_BYTES, measure_bytes, weigh_batch
from framefeed.errors import DeadlineExceeded, UsageError
from tests.conftest import CHECKOUT
from tests.lengths import either
from tests.patience import PATIENCE_SECONDS
from tests.programs import running


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> Any:
        return number


class Threads(Numbers):
    """The thread of each item, and torch's number of threads there."""

    def __getitem__(self, number: int) -> Any:
        return threading.get_ident(), torch.get_num_threads()


class Gated(Numbers):
    """Item 0 waits until it is let through."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: list[int] = []
        self.came = threading.Semaphore(0)

    def __getitem__(self, number: int) -> Any:
        self.begun.append(number)
        self.came.release()
        if number == 0:
            assert self.gate.wait(PATIENCE_SECONDS)
        return number


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("framefeed-torch")}


def test_loaders_share_one_pool_whose_threads_stay_from_epoch_to_epoch() -> None:
    loaders = [DataLoader(Threads(), num_workers=2) for _ in range(3)]
    used: set[int] = set()
    for _ in range(3):
        iterators = [iter(loader) for loader in loaders]
        used |= {int(number) for batches in zip(*iterators, strict=True) for number, _ in batches}
        del iterators
    assert used <= {thread.ident for thread in our_threads()}
    assert len(used) <= 2
    del loaders[1:]
    used |= {int(number) for number, _ in loaders[0]}
    assert len(used) <= 2


def test_L03_operators_of_torch_use_one_thread_in_each_worker() -> None:
    before = torch.get_num_threads()
    assert {int(count) for _, count in DataLoader(Threads(), num_workers=2)} == {1}
    others: list[int] = []
    thread = threading.Thread(target=lambda: others.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *others] == [before, before]


def test_L16_a_loader_is_left_early_and_iterated_again_and_twice_at_once() -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2)
    for batch in loader:
        assert batch.tolist() == [0, 1, 2, 3]
        break
    first, second = iter(loader), iter(loader)
    pairs = [(one.tolist(), other.tolist()) for one, other in zip(first, second, strict=True)]
    assert pairs == [(list(range(n, n + 4)),) * 2 for n in range(0, 40, 4)]
    assert list(first) == []


def test_batches_begin_when_the_iterator_is_made_and_not_more_than_asked_for() -> None:
    dataset = Gated()
    iterator = iter(DataLoader(dataset, batch_size=None, num_workers=2, prefetch_factor=3))
    # The other thread loads all that may be ahead before a batch is asked for.
    for _ in range(6):
        assert dataset.came.acquire(timeout=PATIENCE_SECONDS)
    assert sorted(dataset.begun) == list(range(6))
    dataset.gate.set()
    assert next(iterator) == 0
    # Six ahead of the consumer, as torch; all of them end without being waited for.
    assert [next(iterator) for _ in range(3)] == [1, 2, 3]
    assert max(dataset.begun) <= 3 + 6


def test_in_order_false_delivers_what_is_ready() -> None:
    dataset = Gated()
    iterator = iter(DataLoader(dataset, batch_size=None, num_workers=2, in_order=False))
    first = [next(iterator) for _ in range(5)]
    assert 0 not in first
    dataset.gate.set()
    assert sorted(first + list(iterator)) == list(range(40))


def test_L16_an_abandoned_loader_in_a_cycle_ends_its_threads() -> None:
    loader = DataLoader(Numbers(), num_workers=3)
    iterator: Any = iter(loader)
    next(iterator)
    iterator.itself, iterator.loader = iterator, loader
    threads = our_threads()
    del loader, iterator
    gc.collect()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def test_a_loader_is_closed_and_left_by_with() -> None:
    dataset = Gated()
    with DataLoader(dataset, batch_size=None, num_workers=2) as loader:
        iterator = iter(loader)
        dataset.gate.set()
        assert next(iterator) == 0
    assert list(iterator) == []
    assert list(loader) == list(range(40))


def test_a_late_batch_is_an_error_of_both_kinds_and_the_loader_is_usable_again() -> None:
    dataset = Gated()
    loader = DataLoader(dataset, batch_size=None, num_workers=1, timeout=0.05)
    iterator = iter(loader)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds: batch 0") as caught:
            next(iterator)
    assert isinstance(caught.value, DeadlineExceeded)
    dataset.begun.clear()
    # In other threads: those of the first pool may never come back.
    patient = DataLoader(Subset(dataset, range(1, 40)), batch_size=None, num_workers=1)
    assert list(patient) == list(range(1, 40))
    dataset.gate.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "in_order": False},
        {"num_workers": 1, "kind": "processes"},
        {"num_workers": 1, "kind": "processes", "persistent_workers": True},
    ],
)
def test_an_iteration_that_was_closed_is_not_finished(options: dict[str, Any]) -> None:
    loader = DataLoader(Numbers(), batch_size=4, **options)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    assert list(iterator) == []
    if loader.in_order:
        assert loader.state_dict()["batches"] == 1
    assert not multiprocessing.active_children()
    assert len(list(loader)) == 10
    loader.close()


class Interrupted(Numbers):
    def __getitem__(self, number: int) -> int:
        if number == 2:
            raise KeyboardInterrupt
        return number


@pytest.mark.parametrize("workers", [0, 2])
def test_L15_an_iteration_that_was_interrupted_is_not_finished(workers: int) -> None:
    loader = DataLoader(Interrupted(), batch_size=None, num_workers=workers)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(2)] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert list(iterator) == []
    assert loader.state_dict()["batches"] == 2


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_a_late_batch_of_torchs_own_iterator_leaves_its_thread_to_no_other_loader(is_rebuilt: bool) -> None:
    dataset = Gated()
    loader: Any = DataLoader(dataset, batch_size=None, num_workers=1, timeout=0.05, in_order=False)
    if is_rebuilt:  # as Accelerate does
        context = loader.multiprocessing_context
        loader = TorchDataLoader(
            dataset, batch_size=None, num_workers=1, timeout=loader.timeout, multiprocessing_context=context
        )
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds") as caught:
        next(iter(loader))
    assert isinstance(caught.value, DeadlineExceeded)
    patient = DataLoader(Subset(dataset, range(1, 40)), batch_size=None, num_workers=1, timeout=PATIENCE_SECONDS)
    assert list(patient) == list(range(1, 40))
    dataset.gate.set()


@pytest.mark.parametrize(
    "options", [{"timeout": 1}, {"num_workers": 1, "prefetch_factor": 0}, {"num_workers": 1.5}], ids=str
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of torch's iterator
def test_numbers_that_torch_refuses_are_refused(options: dict[str, Any]) -> None:
    for kind in (TorchDataLoader, DataLoader):
        with pytest.raises((AssertionError, TypeError, UsageError), match=r"timeout|prefetch_factor|integer"):
            iter(kind(Numbers(), **options))


class Nested(Numbers):
    """Iterates over a loader of the same pool within an item."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> Any:
        return [batch.tolist() for batch in DataLoader(Numbers(), batch_size=20, num_workers=2)]


def test_L25_a_loader_within_an_item_of_a_loader_runs_in_its_thread() -> None:
    expected = [list(range(20)), list(range(20, 40))]
    assert list(DataLoader(Nested(), batch_size=None, num_workers=2)) == [expected] * 4


@pytest.mark.slow
def test_L25_a_loader_within_a_worker_process_of_torch_has_threads_of_its_own() -> None:
    expected = [list(range(20)), list(range(20, 40))]
    loader = DataLoader(Numbers(), num_workers=2)
    kept = iter(loader)
    next(kept)
    # Forked while the pool of this process has threads.
    nested = TorchDataLoader(Nested(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert list(nested) == [expected] * 4


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield 1


def do_nothing(worker: int) -> None:
    pass


def test_the_context_of_threads_refuses_what_needs_processes() -> None:
    context = DataLoader(Numbers(), num_workers=2).multiprocessing_context
    # As Accelerate makes it.
    rebuilt = TorchDataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=context)
    assert [number for batch in rebuilt for number in batch.tolist()] == list(range(40))
    for dataset, options in ((Stream(), {}), (Numbers(), {"worker_init_fn": do_nothing})):
        with pytest.raises(UsageError, match="use another multiprocessing_context"):
            iter(TorchDataLoader(dataset, num_workers=1, multiprocessing_context=context, **options))
    # Given back to our class, as Lightning does, it means threads.
    again = DataLoader(Threads(), num_workers=1, multiprocessing_context=context)
    assert again._choose_kind() == "threads"


def test_a_loader_is_pickled_with_its_arguments() -> None:
    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, snapshot_every_n_steps=3, kind="threads")
    next(iter(loader))
    copied = pickle.loads(pickle.dumps(loader))
    assert (copied.kind, copied.snapshot_every_n_steps) == ("threads", 3)
    assert [batch.tolist() for batch in copied] == [batch.tolist() for batch in loader]


class Large(Numbers):
    def __getitem__(self, number: int) -> Any:
        return torch.full((1 << 18,), number, dtype=torch.uint8)


def test_a_batch_is_the_callers_as_long_as_a_view_of_it_lives() -> None:
    kept = []
    for _ in range(3):
        for number, batch in enumerate(DataLoader(Large(), batch_size=4, num_workers=2)):
            kept.append((4 * number, batch[1], batch.numpy()[2]))
            del batch
    for first, tensor, array in kept:
        assert (tensor == first + 1).all()
        assert (array == first + 2).all()


def test_memory_of_batches_is_used_again() -> None:
    collate = RecyclingCollate(2)
    items = [torch.full((1 << 18,), number, dtype=torch.uint8) for number in range(4)]
    collate(items)
    addresses = {collate(items).data_ptr() for _ in range(5)}
    assert len(addresses) == 1
    # The last batch of an epoch is smaller, and takes the memory of a whole one.
    assert {collate(items[:3]).data_ptr(), collate(items).data_ptr()} == addresses
    # Nor does anything keep it that only the garbage collector would free.
    assert {collate.load(items, [3, 1, 0, 2]).data_ptr() for _ in range(5)} == addresses


def test_memory_of_items_of_ever_new_sizes_is_not_kept() -> None:
    collate = RecyclingCollate(2)
    for size in range(20):
        items = [torch.zeros((1 << 18) + size, dtype=torch.uint8)] * 2
        collate.load(items, [0, 1])
    assert sum(pools.batches.idle_bytes for pools in collate._pools.values()) == 0


def test_small_batches_are_loaded_farther_ahead_than_large_ones() -> None:
    for mebibytes, workers, most_ready in ((0.25, 2, 24), (20, 2, 6), (100, 2, 2), (100, 8, 8), (4096, 2, 1)):
        batch = torch.empty(1, dtype=torch.uint8).expand(int(mebibytes * (1 << 20)))
        weight = weigh_batch(workers, (batch, None))
        # The only one that may start is the next one, as soon as those that are ready weigh more than the limit.
        assert min(24, MOST_BYTES // weight + 1) == pytest.approx(most_ready, abs=1)
    # As many as there are workers, and no more: it may be a large one.
    assert [weigh_batch(workers, (object(), None)) for workers in (1, 8)] == [MOST_BYTES, MOST_BYTES // 8]
    assert weigh_batch(None, (object(), None)) == 0


class Mixed(Large):
    """Now and then an item of another shape, type or kind."""

    def __getitem__(self, number: int) -> Any:
        size = (1 << 17) + (number == 13)
        picture = torch.full((size,), number, dtype=torch.int16 if number == 22 else torch.uint8)
        return {
            "picture": picture.numpy() if number in (4, 5, 6, 7, 17) else picture,
            "rest": [picture[::2], (number, picture)],
        }


def test_unequal_items_are_the_errors_of_torch() -> None:
    outcomes = []
    for kind in (TorchDataLoader, DataLoader):
        iterator = iter(kind(Mixed(), batch_size=4, **({"num_workers": 2} if kind is DataLoader else {})))
        got: list[Any] = []
        for _ in range(10):
            try:
                batch = next(iterator)
                got.append([batch["picture"].dtype, batch["picture"].sum().item(), batch["rest"][1][1].shape])
            except (RuntimeError, TypeError) as error:
                got.append(str(error))
        outcomes.append(got)
    assert outcomes[1] == outcomes[0]
    assert "equal size" in outcomes[0][3]


def test_bytes_of_batches_are_those_of_their_tensors_arrays_and_texts() -> None:
    batch = {"a": torch.zeros(3, dtype=torch.int16), "b": [np.zeros(4), (torch.zeros(2, 2), "text")], "c": None}
    assert measure_bytes(batch) == 6 + 32 + 16 + 4
    assert measure_bytes([batch, 3, 2.5, True, np.float32(1), b"bytes"]) == 58 + 5
    # Objects of users may have pictures in them.
    assert measure_bytes([batch, object()]) is None


def test_pinning_without_an_accelerator_warns_as_torch_does() -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(DataLoader(Numbers(), num_workers=1, pin_memory=True))) == 40


PROGRAM = """
    import threading, torch
    from framefeed.torch import DataLoader
    class Items(torch.utils.data.Dataset):
        def __len__(self): return 10_000
        def __getitem__(self, number):
            if number > 8:
                threading.Event().wait(0.4)
            return torch.zeros(100_000)
    try:
        for batch in DataLoader(Items(), batch_size=4, num_workers=2):
            print("ready", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    class Quick(Items):
        def __getitem__(self, number): return torch.zeros(100_000)
    iterator = iter(DataLoader(Quick(), batch_size=4, num_workers=3))
    next(iterator)
"""


@pytest.mark.slow
@pytest.mark.long
def test_L15_L17_an_interrupt_ends_a_loop_and_the_interpreter_ends_while_batches_are_prefetched() -> None:
    """A loop over a slow data set, which would take more than half an hour."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    options = {"cwd": CHECKOUT, "env": {**os.environ, "PYTHONPATH": "src"}, "stdout": subprocess.PIPE, "text": True}
    for _ in range(either(short=1, long=50)):
        with running(command, stderr=subprocess.PIPE, **options) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        # The interrupt may come in the middle of a line.
        assert (output.endswith("interrupted\n"), errors, process.returncode) == (True, "", 0)
