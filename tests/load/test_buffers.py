"""Recycled memory returns when the last view of any kind is freed, and not before (P14, S14)."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pytest
import torch

from framefeed import _shortage
from framefeed._shortage import count_free_memory
from framefeed.errors import ResourceExhausted
from framefeed.load import _batch
from framefeed.load._batch import BufferPool
from framefeed.load._options import LoaderOptions
from framefeed.parallel import register_releasable

SHAPE = (2, 3, 4)


class Lender(Protocol):
    def lease(self, shape: Sequence[int], dtype: Any = np.uint8) -> Any: ...


class WeakPool:
    """Wrong on purpose: takes the memory back when the batch array dies, whatever is left of it."""

    def __init__(self) -> None:
        self._idle: list[Any] = []

    def lease(self, shape: Sequence[int], dtype: Any = np.uint8) -> Any:
        memory = self._idle.pop() if self._idle else np.empty(int(np.prod(shape)), dtype=dtype)
        array = memory.reshape(shape)
        weakref.finalize(array, self._idle.append, memory).atexit = False
        return array


VIEWS: dict[str, Callable[[Any], Any]] = {
    "first item": lambda batch: batch[0],
    "strided part": lambda batch: batch[:, ::2, 1:],
    "reshaped": lambda batch: batch.reshape(-1)[3:],
    "other type": lambda batch: batch.view(np.int32),
    "memoryview": lambda batch: memoryview(batch),
    "tensor": torch.from_numpy,
    "tensor of a view": lambda batch: torch.from_numpy(batch[1]),
    "view of a tensor": lambda batch: torch.from_numpy(batch)[1],
    "DLPack": torch.from_dlpack,
    "capsule": lambda batch: batch.__dlpack__(),
}


def assert_views_keep_their_content(pool: Lender, view: Callable[[Any], Any]) -> None:
    """Lease batch after batch, keep one view of each and nothing else, and read all of them at the end."""
    kept, written = [], []
    for number in range(8):
        batch = pool.lease(SHAPE)
        batch[...] = number + 1
        kept.append(view(batch))
        written.append(number + 1)
        del batch
    values = [_get_values(item) for item in kept]
    assert values == [{number} for number in written]


def _get_values(kept: Any) -> set[int]:
    array = np.asarray(torch.from_dlpack(kept) if type(kept).__name__ == "PyCapsule" else kept)
    return set(np.ascontiguousarray(array).view(np.uint8).ravel().tolist())


@pytest.mark.parametrize("name", VIEWS)
def test_P14_a_view_keeps_its_batch(name: str) -> None:
    assert_views_keep_their_content(BufferPool(4), VIEWS[name])


def test_a_pool_that_watches_the_batch_array_is_caught() -> None:
    with pytest.raises(AssertionError):
        assert_views_keep_their_content(WeakPool(), VIEWS["first item"])


def _get_address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("name", VIEWS)
def test_memory_comes_back_with_the_last_view(name: str) -> None:
    pool = BufferPool(1)
    batch = pool.lease(SHAPE)
    address, view = _get_address(batch), VIEWS[name](batch)
    del batch
    assert pool.idle_bytes == 0
    del view
    assert pool.idle_bytes == 24
    assert _get_address(pool.lease(SHAPE)) == address


def test_S05_sizes_beyond_32_bits_are_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # Asked for, not touched: the system gives no page of it but the last.
    monkeypatch.setattr(_batch, "count_free_memory", lambda: None)
    batch = BufferPool(1).lease((3, 1 << 30))
    assert batch.nbytes == 3 << 30 > 1 << 31
    batch[2, -1] = 7
    assert batch.reshape(-1)[-1] == 7
    assert LoaderOptions(batch_size=1, prefetch=5).batches_ahead(1 << 40) == 1


@pytest.mark.parametrize("shape", [(1,), (3, 5, 7), (64, 1024, 17)])
def test_memory_begins_where_frameworks_take_it_without_a_copy(shape: tuple[int, ...]) -> None:
    pool = BufferPool(2)
    kept = [pool.lease(shape, dtype) for dtype in (np.uint8, np.float64) for _ in range(3)]
    assert [array.ctypes.data % 64 for array in kept] == [0] * len(kept)
    assert len({array.ctypes.data for array in kept}) == len(kept)


def test_a_batch_that_the_memory_cannot_hold_is_refused_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "count_free_memory", lambda: 1 << 28)
    assert BufferPool(1).lease((1 << 28,)).nbytes == 1 << 28
    with pytest.raises(
        ResourceExhausted, match=r"a batch \[2, 134217729\]: ran out of memory for .*: use a smaller batch_size"
    ):
        BufferPool(1).lease((2, (1 << 27) + 1))


def test_free_memory_is_that_of_the_system_or_less() -> None:
    free = count_free_memory()
    assert free is not None
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free <= total


def test_the_control_group_bounds_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    group = {"memory.max": "5000\n", "memory.current": "4000\n", "memory.stat": "anon 7\ninactive_file 300\n"}
    monkeypatch.setattr(_shortage, "read_group", group.__getitem__)
    assert count_free_memory() == 1300
    group["memory.max"] = "max\n"
    assert (count_free_memory() or 0) > 1 << 20


def test_idle_memory_is_bounded() -> None:
    pool = BufferPool(2)
    batches = [pool.lease(SHAPE) for _ in range(5)]
    assert pool.idle_bytes == 0
    del batches
    assert pool.idle_bytes == 2 * 24
    assert repr(pool) == "BufferPool(2 of at most 2 blocks idle, 48 bytes)"


def test_a_smaller_batch_takes_a_larger_block_and_not_the_other_way_round() -> None:
    pool = BufferPool(2)
    address = _get_address(pool.lease(SHAPE))
    small = pool.lease((1, 3, 4))
    assert (_get_address(small), small.shape) == (address, (1, 3, 4))
    del small
    large = pool.lease((3, 3, 4), np.float32)
    assert (large.shape, large.dtype, large.flags.c_contiguous, large.flags.writeable) == ((3, 3, 4), "f4", True, True)
    assert pool.idle_bytes == 0


def test_memory_that_outlives_its_pool_is_freed() -> None:
    pool = BufferPool(2)
    batch = pool.lease(SHAPE)
    idle = weakref.ref(pool)
    del pool
    gc.collect()
    assert idle() is None
    batch[...] = 5
    assert set(batch.ravel().tolist()) == {5}


def test_memory_that_the_collector_comes_upon_is_not_lent_again() -> None:
    """A finaliser in the same garbage may bring a view back to life, after the memory was taken for dead."""
    pool = BufferPool(2)
    revived: list[np.ndarray] = []

    class Reviving:
        def __init__(self, view: np.ndarray) -> None:
            self.view = view
            self.me = self

        def __del__(self) -> None:
            revived.append(self.view)

    Reviving(pool.lease((8,)))
    gc.collect()
    revived[0][:] = 1
    pool.lease((8,))[:] = 2
    assert revived[0].tolist() == [1] * 8


def test_what_is_idle_is_released_before_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        released = 0

        def release_idle(self) -> None:
            self.released += 1

    idle, empty = Idle(), np.empty
    register_releasable(idle)

    def empty_once_released(*arguments: Any, **options: Any) -> Any:
        if not idle.released:
            raise MemoryError
        return empty(*arguments, **options)

    monkeypatch.setattr(np, "empty", empty_once_released)
    assert BufferPool(1).lease((2, 3)).shape == (2, 3)
    assert idle.released == 1
