"""Collate large tensors and arrays into recycled memory, with the results of torch's ``default_collate``.

Fresh memory for a large batch costs more in page faults than the copy itself (see ``load``'s BufferPool). Everything
else is torch's own code: containers, small values, and all errors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import _utils
from torch.utils.data._utils import collate as torch_collate

from framefeed._arrays import AnyArray
from framefeed.load import BufferPools

LEAST_BYTES = 256 << 10
"""Smaller batches are collated into fresh memory: the C library keeps that itself."""
Form = tuple[torch.Size, torch.dtype]
_MOST_FORMS = 8
"""Forms of items whose memory is kept: a dict of several arrays has several."""


class RecyclingCollate:
    """Gives what ``default_collate`` gives, in the memory of freed batches: some for each form of items are kept."""

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        # No lock: two threads that add one form at once lose some idle memory, and nothing else.
        self._pools: OrderedDict[Form, BufferPools] = OrderedDict()

    def __call__(self, batch: list[Any]) -> object:
        return _BatchMemory(self, len(batch)).collate(batch)

    def load(self, dataset: Any, indices: Sequence[Any]) -> object:
        """Load the items of a batch, and collate them.

        Large tensors are copied into the batch one after the other, so that the memory of each can serve for the next.
        """
        memory = _BatchMemory(self, len(indices))
        return memory.collate([memory.adopt(dataset[index], slot) for slot, index in enumerate(indices)])

    def lease(self, form: Form, count: int) -> torch.Tensor | None:
        """Lend memory for items of a form that was met before, as a tensor [count, ...]."""
        pool = self._pools.pop(form, None)
        self._pools[form] = pool or BufferPools(self._most_idle)
        while len(self._pools) > _MOST_FORMS:
            self._pools.popitem(last=False)
        # Items of ever new sizes would only fill the memory with blocks that do not fit.
        if pool is None:
            return None
        shape, dtype = form
        memory = pool.batches.lease((count * shape.numel() * dtype.itemsize,))
        return torch.from_numpy(memory).view(dtype).view(count, *shape)


class _BatchMemory:
    """The large tensors of one batch, of ``count`` items, in memory that ``recycling`` lends."""

    def __init__(self, recycling: RecyclingCollate, count: int) -> None:
        self._recycling = recycling
        self._count = count
        # By the keys that lead to them in an item; None for those whose memory is torch's.
        self._stacked: dict[tuple[Any, ...], torch.Tensor | None] = {}
        # Those that no batch had before.
        self._new_forms: set[Form] = set()
        # Users may replace functions of torch's table: theirs are called.
        known = torch_collate.default_collate_fn_map
        self._is_torchs = known.get(torch.Tensor) is torch_collate.collate_tensor_fn

    def collate(self, batch: list[Any]) -> object:
        """Collate the items, of which some tensors may be views of this memory already."""
        # No attribute: methods of this object in it would make a cycle, and keep the memory.
        functions: dict[Any, Callable[..., Any]] = dict(torch_collate.default_collate_fn_map)
        if self._is_torchs:
            functions[torch.Tensor] = self._stack_tensors
        if functions.get(np.ndarray) is torch_collate.collate_numpy_array_fn:
            functions[np.ndarray] = self._stack_arrays
        return torch_collate.collate(batch, collate_fn_map=functions)

    def adopt(self, item: Any, slot: int, keys: tuple[Any, ...] = ()) -> object:
        """Copy the large tensors of an item to their slot, and return the item with views of them in their place."""
        if type(item) is tuple or type(item) is list:
            return type(item)(self.adopt(each, slot, (*keys, number)) for number, each in enumerate(item))
        if type(item) is dict:
            return {key: self.adopt(each, slot, (*keys, key)) for key, each in item.items()}
        if not (self._is_torchs and _is_plain(item) and item.nbytes * self._count >= LEAST_BYTES):
            return item
        if keys not in self._stacked:
            self._stacked[keys] = self._lease((item.shape, item.dtype))
        stacked = self._stacked[keys]
        if stacked is None or stacked.shape[1:] != item.shape or stacked.dtype is not item.dtype:
            return item
        copy_tensor(item, stacked[slot])
        return stacked[slot]

    def _lease(self, form: Form) -> torch.Tensor | None:
        memory = None if form in self._new_forms else self._recycling.lease(form, self._count)
        if memory is None:
            self._new_forms.add(form)
        return memory

    def _stack_arrays(self, batch: Sequence[Any], *, collate_fn_map: Any) -> object:
        if all(type(array) is np.ndarray for array in batch) and batch[0].dtype.kind in "biufc":
            return self._stack_tensors([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)
        return torch_collate.collate_numpy_array_fn(list(batch), collate_fn_map=collate_fn_map)

    def _stack_tensors(self, batch: Sequence[Any], *, collate_fn_map: Any) -> object:
        first = batch[0]
        if not are_large(batch):
            return torch_collate.collate_tensor_fn(list(batch), collate_fn_map=collate_fn_map)
        form = first.shape, first.dtype
        for stacked in self._stacked.values():
            # Views of it, which `adopt` made.
            if stacked is not None and all(
                slot.data_ptr() == tensor.data_ptr() and (slot.shape, slot.dtype) == (tensor.shape, tensor.dtype)
                for slot, tensor in zip(stacked, batch, strict=False)
            ):
                return stacked
        stacked = self._lease(form)
        if stacked is None:
            return torch_collate.collate_tensor_fn(list(batch), collate_fn_map=collate_fn_map)
        for slot, tensor in enumerate(batch):
            copy_tensor(tensor, stacked[slot])
        return stacked


def are_large(batch: Sequence[Any]) -> bool:
    """Whether items are plain tensors of one form, and large enough together for memory that is used again."""
    first = batch[0]
    return (
        _is_plain(first)
        and len(batch) * first.nbytes >= LEAST_BYTES
        and all(_is_plain(each, (first.shape, first.dtype)) for each in batch)
    )


def _is_plain(item: Any, form: Form | None = None) -> bool:
    return (
        type(item) is torch.Tensor
        and item.device.type == "cpu"
        and item.layout is torch.strided
        and not item.is_nested
        and form in (None, (item.shape, item.dtype))
        and not (item.requires_grad or item.is_quantized or item.is_conj() or item.is_neg())
    )


def copy_tensor(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy a tensor to a contiguous one of its form, without the interpreter lock, in this thread alone."""
    # As bytes: NumPy does not have all of torch's types.
    np.copyto(_as_bytes(target), _as_bytes(source))


def _as_bytes(tensor: torch.Tensor) -> AnyArray:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy()


def make_fetch(dataset: Any, is_batch: bool, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function that loads and collates what the sampler gives: a batch of indices, or one index."""
    if isinstance(collate, RecyclingCollate) and is_batch and not getattr(dataset, "__getitems__", None):
        return partial(collate.load, dataset)
    fetcher: Any = _utils.fetch._MapDatasetFetcher
    fetch: Callable[[Any], Any] = fetcher(dataset, is_batch, collate, drop_last=False).fetch
    return fetch
