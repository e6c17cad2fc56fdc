"""Fill memory of any content with a pattern, so that results show what was not written: fresh memory is often zeros."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

from framefeed.load._batch import BufferPool
from framefeed.load._remote import ClipProcess
from framefeed.parallel._lent_memory import LentBlock, LentMemory
from framefeed.parallel._shared_memory import SharedBlock

PATTERN = 0xA5
_MOST_BYTES = 2**24
"""Of a block: tests ask for more memory than the machine has, of which pages that nothing writes cost nothing."""

_empty = np.empty
_choose = LentMemory._choose
_take_block = BufferPool._take_block


@contextmanager
def poison() -> Iterator[None]:
    """Fill all memory that NumPy, loaders and lenders give without clearing it, also in worker processes of loaders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", _make_empty)
        patch.setattr(BufferPool, "_take_block", _take_filled)
        patch.setattr(LentMemory, "_choose", _choose_filled)
        patch.setattr(ClipProcess, "__reduce__", _reduce)
        yield


def _make_empty(*arguments: Any, **options: Any) -> Any:
    array = _empty(*arguments, **options)
    if not array.dtype.hasobject:
        _fill(array.ctypes.data, array.nbytes)
    return array


def _take_filled(pool: BufferPool, size: int) -> Any:
    block = _take_block(pool, size)
    _fill(ctypes.addressof(block.data) if isinstance(block, SharedBlock) else block.ctypes.data, block.nbytes)
    return block


def _choose_filled(memory: LentMemory, nbytes: int) -> LentBlock:
    block = _choose(memory, nbytes)
    block.write(memoryview(bytes([PATTERN]) * min(block.nbytes, _MOST_BYTES)), 0)
    return block


def _fill(address: int, nbytes: int) -> None:
    ctypes.memset(address, PATTERN, min(nbytes, _MOST_BYTES))


def _reduce(process: ClipProcess) -> tuple[Any, tuple[Any, Any]]:
    return _make_process, (process._plan, process._options)


def _make_process(plan: Any, options: Any) -> ClipProcess:
    _enter_in_worker()
    return ClipProcess(plan, options)


@cache
def _enter_in_worker() -> None:
    _worker_poison.__enter__()


_worker_poison = poison()
"""Of a worker process, for its life."""
