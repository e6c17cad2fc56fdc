"""Collate large tensors and arrays into recycled memory, with the results of torch's ``default_collate``.

Fresh memory for a large batch costs more in page faults than the copy itself (see ``load``'s BufferPool). Everything
else is torch's own code: containers, small values, and all errors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

from framefeed.load import BufferPools

LEAST_BYTES = 256 << 10
"""Smaller batches are collated into fresh memory: the C library keeps that itself."""
_MOST_FORMS = 8
"""Forms of items whose memory is kept: a dict of several arrays has several."""


class RecyclingCollate:
    """Function that gives what ``default_collate`` gives, and takes the memory of batches that were freed.

    Args:
        most_idle: Most idle batches kept for each form of items.
    """

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        # No lock: two threads that add one form at once lose some idle memory, and nothing else.
        self._pools: OrderedDict[tuple[torch.Size, torch.dtype], BufferPools] = OrderedDict()

    def __call__(self, batch: list[Any]) -> Any:
        """Collate the items of a batch."""
        known = torch_collate.default_collate_fn_map
        replaced: dict[Any, Callable[..., Any]] = dict(known)
        # Users may replace functions of torch's table: theirs are called.
        if known.get(torch.Tensor) is torch_collate.collate_tensor_fn:
            replaced[torch.Tensor] = self._stack_tensors
        if known.get(np.ndarray) is torch_collate.collate_numpy_array_fn:
            replaced[np.ndarray] = self._stack_arrays
        return torch_collate.collate(batch, collate_fn_map=replaced)

    def _stack_arrays(self, batch: Sequence[Any], *, collate_fn_map: Any) -> Any:
        if all(type(array) is np.ndarray for array in batch) and batch[0].dtype.kind in "biufc":
            return self._stack_tensors([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)
        return torch_collate.collate_numpy_array_fn(list(batch), collate_fn_map=collate_fn_map)

    def _stack_tensors(self, batch: Sequence[Any], *, collate_fn_map: Any) -> Any:
        stacked = self._lease(batch) if _are_plain(batch) else None
        if stacked is None:
            return torch_collate.collate_tensor_fn(list(batch), collate_fn_map=collate_fn_map)
        for slot, tensor in enumerate(batch):
            # As bytes: NumPy copies without the interpreter lock, in this thread alone, whatever the type.
            np.copyto(_as_bytes(stacked[slot]), _as_bytes(tensor))
        return stacked

    def _lease(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        first = batch[0]
        form = first.shape, first.dtype
        pool = self._pools.pop(form, None)
        is_known = pool is not None
        if pool is None:
            pool = BufferPools(self._most_idle)
        self._pools[form] = pool
        while len(self._pools) > _MOST_FORMS:
            self._pools.popitem(last=False)
        # Items of ever new sizes would only fill the memory with blocks that do not fit.
        if not is_known:
            return None
        memory = pool.batches.lease((len(batch) * first.nbytes,))
        return torch.from_numpy(memory).view(first.dtype).view(len(batch), *first.shape)


def _are_plain(batch: Sequence[Any]) -> bool:
    first = batch[0]
    return (
        isinstance(first, torch.Tensor)
        and len(batch) * first.nbytes >= LEAST_BYTES
        and all(
            type(tensor) is torch.Tensor
            and tensor.device.type == "cpu"
            and tensor.layout is torch.strided
            and tensor.dtype is first.dtype
            and tensor.shape == first.shape
            and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
            for tensor in batch
        )
    )


def _as_bytes(tensor: torch.Tensor) -> Any:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy()
