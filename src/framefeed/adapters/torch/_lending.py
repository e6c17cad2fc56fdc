"""Collate in torch's worker processes into shared memory that is used again, with the results of torch's own collate.

Torch collates into fresh shared memory, whose page faults take twenty times as long as the copy. Here the memory of a
batch is used again when no process has it any more (see ``parallel``'s LentMemory). The batch is a tensor in shared
storage of torch's own kind, which torch sends, maps and frees as always: only the worker knows of this.

A dataset whose items go from torch's fetcher to the collate function can have them in that memory already: the batch is
then what its items are views of. They are written to it as to a file, so that this process maps none of its pages: a
batch that is normalised elsewhere, copied, and mapped is three times as much memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

import numpy as np
import torch
from torch.utils.data import Subset, get_worker_info
from torch.utils.data._utils import collate as torch_collate

from framefeed._arrays import AnyArray
from framefeed._per_process import PerProcess
from framefeed.adapters.torch._collating import LEAST_BYTES, are_large
from framefeed.load import Form, WriteClip
from framefeed.parallel import LentMemory

_Lent = TypeVar("_Lent")


def lend_batches() -> None:
    """Let ``default_collate`` of this process, a worker of torch, lend memory; a user's function in its table stays."""
    known = torch_collate.default_collate_fn_map
    if known.get(torch.Tensor) is torch_collate.collate_tensor_fn:
        known[torch.Tensor] = stack_tensors


def is_fetched(dataset: Any) -> bool:
    """Whether torch's fetcher itself has the items of a dataset: other datasets might keep them for a later batch."""
    worker = get_worker_info()
    fetched = None if worker is None else worker.dataset
    while type(fetched) is Subset:
        fetched = fetched.dataset
    return fetched is dataset


def lend_batch(form: Form) -> tuple[AnyArray, WriteClip] | None:
    """Lend memory for a batch that is collated next, and what its items are written with; None if there is none."""
    return _STACKER.value.lend(form) if _sends_descriptors() else None


def stack_tensors(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Stack tensors as torch's function does in a worker process, large ones in lent memory."""
    if _sends_descriptors() and are_large(batch):
        stacked = _STACKER.value.stack(batch)
        if stacked is not None:
            return stacked
    return torch_collate.collate_tensor_fn(list(batch), collate_fn_map=collate_fn_map)


def _sends_descriptors() -> bool:
    # The other strategy sends names of files, and would copy memory that has none.
    strategy: str = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    return strategy == "file_descriptor"


class _Stacker:
    """Stacks tensors in lent memory, as long as this system and this version of torch have it."""

    def __init__(self) -> None:
        self._memory: LentMemory | None = LentMemory()
        # Batches that are not collated yet, by the address of their first item.
        self._written: WeakValueDictionary[int, torch.Tensor] = WeakValueDictionary()

    def lend(self, form: Form) -> tuple[AnyArray, WriteClip] | None:
        """Lend memory for a large batch, and what its items are written with; None if there is none."""
        shape, dtype = form
        nbytes = math.prod(shape) * dtype.itemsize
        lent = None if nbytes < LEAST_BYTES else self._attempt(partial(_lend_file, nbytes))
        if lent is None:
            return None
        storage, file = lent
        array = _view(storage, torch.from_numpy(np.empty(0, dtype)).dtype, shape).numpy()
        # The tensor that the array keeps: it lives as long as any item.
        kept: Any = array.base
        self._written[array.ctypes.data] = kept
        return array, file.write

    def stack(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Stack tensors of one form; None if there is no memory for them."""
        first = batch[0]
        shape, nbytes = (len(batch), *first.shape), len(batch) * first.nbytes
        written = self._written.pop(first.data_ptr(), None)
        if written is not None and _are_all_items(batch, written):
            return _view(written.untyped_storage(), first.dtype, shape)
        lent = self._attempt(partial(_lend_mapped, nbytes))
        if lent is None:
            return None
        storage, memory = lent
        # Written where it is mapped already: the storage has another mapping, without pages.
        out = torch.from_numpy(np.frombuffer(memory, np.uint8, nbytes)).view(first.dtype).view(shape)
        torch.stack(list(batch), out=out)
        return _view(storage, first.dtype, shape)

    def _attempt(self, lend: Callable[[LentMemory], _Lent]) -> _Lent | None:
        if self._memory is None:
            return None
        try:
            return lend(self._memory)
        except MemoryError:
            return None
        except (AttributeError, OSError, RuntimeError, TypeError):
            # The function is torch's own. Without it, and where files have no locks, torch collates.
            self._memory = None
            return None


class _File:
    """A lent file, open as long as it is written to.

    Args:
        descriptor: Of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        finalize(self, os.close, descriptor).atexit = False

    def write(self, slot: int, item: AnyArray) -> None:
        """Write an item to its slot."""
        rest, start = memoryview(item.reshape(-1).view(np.uint8).data), slot * item.nbytes
        while rest:
            # Linux writes at most 2 GiB at once.
            written = os.pwrite(self._descriptor, rest, start)
            rest, start = rest[written:], start + written


def _lend_file(nbytes: int, memory: LentMemory) -> tuple[torch.UntypedStorage, _File]:
    file = _File(descriptor := memory.lend_file(nbytes))
    return _make_storage(descriptor, nbytes), file


def _lend_mapped(nbytes: int, memory: LentMemory) -> tuple[torch.UntypedStorage, memoryview]:
    data, descriptor = memory.lend(nbytes)
    try:
        return _make_storage(descriptor, nbytes), memoryview(data)
    finally:
        os.close(descriptor)


def _make_storage(descriptor: int, nbytes: int) -> torch.UntypedStorage:
    storage: torch.UntypedStorage = torch.UntypedStorage._new_shared_fd_cpu(descriptor, nbytes)  # type: ignore[attr-defined]
    return storage


def _view(storage: torch.UntypedStorage, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape, strides)


def _are_all_items(items: Sequence[torch.Tensor], batch: torch.Tensor) -> bool:
    """Whether tensors of one form are the items of a batch, one after the other."""
    start, nbytes = batch.data_ptr(), items[0].nbytes
    return (
        len(items) * nbytes == batch.nbytes
        and items[0].dtype == batch.dtype
        and all(each.is_contiguous() and each.data_ptr() == start + i * nbytes for i, each in enumerate(items))
    )


_STACKER = PerProcess(_Stacker)
