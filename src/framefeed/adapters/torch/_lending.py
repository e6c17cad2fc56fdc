"""Collate in torch's worker processes into shared memory that is used again, with the results of torch's own collate.

Torch collates into fresh shared memory, whose page faults take twenty times as long as the copy. Here the memory of a
batch is used again when no process has it any more (see ``parallel``'s LentMemory). The batch is a tensor in shared
storage of torch's own kind, which torch sends, maps and frees as always: only the worker knows of this.

A dataset that makes numbers of pixels writes them to that memory itself, if its items go from torch's fetcher to the
collate function: the batch is then what its items are views of. They are written as to a file, so that the worker maps
none of its pages, and has no batch of numbers of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data import Subset, get_worker_info
from torch.utils.data._utils import collate as torch_collate

from framefeed._per_process import PerProcess
from framefeed.adapters.torch._collating import LEAST_BYTES, are_large
from framefeed.decode import Pixels
from framefeed.load import Normaliser
from framefeed.parallel import LentMemory

_Lent = TypeVar("_Lent")


def lend_batches() -> None:
    """Let ``default_collate`` of this process, a worker of torch, lend memory for the batch that is loaded next.

    A user's function in its table stays.
    """
    known = torch_collate.default_collate_fn_map
    if known.get(torch.Tensor) is torch_collate.collate_tensor_fn:
        known[torch.Tensor] = stack_tensors
    _STACKER.value.forget()


def can_lend_items(dataset: Any) -> bool:
    """Whether items of a dataset can be views of their batch: another dataset might keep them for a later batch."""
    worker = get_worker_info()
    fetched = None if worker is None else worker.dataset
    while type(fetched) is Subset:
        fetched = fetched.dataset
    return fetched is dataset and _sends_descriptors()


def write_batch(clips: Pixels, normaliser: Normaliser) -> torch.Tensor:
    """Normalise clips to the memory of the batch that is collated of them, or to other memory where there is none."""
    written = _STACKER.value.write(clips, normaliser)
    if written is None:
        array = np.empty(clips.shape, normaliser.array_dtype)
        for clip, out in zip(clips, array, strict=True):
            normaliser.write(clip, out)
        written = torch.from_numpy(array)
    return written


def stack_tensors(batch: Sequence[Any], *, collate_fn_map: Any = None) -> object:
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
        # What is not collated yet, by its address.
        self._written: dict[int, torch.Tensor] = {}

    def forget(self) -> None:
        """Give up what was written and never collated."""
        self._written.clear()

    def write(self, clips: Pixels, normaliser: Normaliser) -> torch.Tensor | None:
        """Normalise clips to lent memory; None if there is none, or if they are a small batch."""
        dtype = normaliser.array_dtype
        nbytes = clips.size * dtype.itemsize
        lent = self._lend(nbytes, LentMemory.lend_unmapped) if nbytes >= LEAST_BYTES else None
        if lent is None:
            return None
        block, storage = lent
        picture = np.empty((1, *clips.shape[2:]), dtype)
        for number, pixels in enumerate(clips.reshape(-1, *picture.shape)):
            normaliser.write(pixels, picture)
            block.write(picture.data.cast("B"), number * picture.nbytes)
        written = _view(storage, torch.from_numpy(picture).dtype, clips.shape)
        self._written[written.data_ptr()] = written
        return written

    def stack(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Stack tensors of one form; None if there is no memory for them."""
        first = batch[0]
        shape, nbytes = (len(batch), *first.shape), len(batch) * first.nbytes
        written = self._written.pop(first.data_ptr(), None)
        if written is not None and written.nbytes == nbytes:
            stacked = _view(written.untyped_storage(), first.dtype, shape)
            if all(map(torch.Tensor.is_set_to, batch, stacked)):
                return stacked
        lent = self._lend(nbytes, LentMemory.lend)
        if lent is None:
            return None
        memory, storage = lent
        # Written where it is mapped already: the storage has another mapping, without pages.
        out = torch.from_numpy(np.frombuffer(memoryview(memory), np.uint8, nbytes)).view(first.dtype).view(shape)
        torch.stack(list(batch), out=out)
        return _view(storage, first.dtype, shape)

    def _lend(
        self, nbytes: int, lend: Callable[[LentMemory, int], tuple[_Lent, int]]
    ) -> tuple[_Lent, torch.UntypedStorage] | None:
        """Lend memory in one of the ways of LentMemory, also as a storage; None if there is none."""
        if self._memory is None:
            return None
        try:
            memory, descriptor = lend(self._memory, nbytes)
            try:
                storage: torch.UntypedStorage = torch.UntypedStorage._new_shared_fd_cpu(descriptor, nbytes)  # type: ignore[attr-defined]
            finally:
                os.close(descriptor)
        except MemoryError:
            return None
        except (AttributeError, OSError, RuntimeError, TypeError):
            # The function is torch's own. Without it, and where files have no locks, torch collates.
            self._memory = None
            return None
        return memory, storage


def _view(storage: torch.UntypedStorage, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    # Without strides, which its type asks for, they are those of a contiguous tensor.
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape)  # type: ignore[call-overload,no-any-return]


_STACKER = PerProcess(_Stacker)
