"""Collate in torch's worker processes into shared memory that is used again, with the results of torch's own collate.

Torch collates into fresh shared memory, whose page faults take twenty times as long as the copy. Here the memory of a
batch is used again when no process has it any more (see ``parallel``'s LentMemory). The batch is a tensor in shared
storage of torch's own kind, which torch sends, maps and frees as always: only the worker knows of this.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

from framefeed._per_process import PerProcess
from framefeed.adapters.torch._collating import are_large
from framefeed.parallel import LentMemory


def lend_batches() -> None:
    """Let ``default_collate`` of this process, a worker of torch, lend memory; a user's function in its table stays."""
    known = torch_collate.default_collate_fn_map
    if known.get(torch.Tensor) is torch_collate.collate_tensor_fn:
        known[torch.Tensor] = stack_tensors


def stack_tensors(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Stack tensors as torch's function does in a worker process, large ones in lent memory."""
    # The other strategy sends names of files, and would copy memory that has none.
    strategy: str = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    if strategy == "file_descriptor" and are_large(batch):
        stacked = _STACKER.value.stack(batch)
        if stacked is not None:
            return stacked
    return torch_collate.collate_tensor_fn(list(batch), collate_fn_map=collate_fn_map)


class _Stacker:
    """Stacks tensors in lent memory, as long as this system and this version of torch have it."""

    def __init__(self) -> None:
        self._memory: LentMemory | None = LentMemory()

    def stack(self, batch: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Stack tensors of one form; None if there is no memory for them."""
        if self._memory is None:
            return None
        first = batch[0]
        shape, nbytes = (len(batch), *first.shape), len(batch) * first.nbytes
        try:
            memory, descriptor = self._memory.lend(nbytes)
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
        # Written where it is mapped already: the storage has another mapping, without pages.
        out = torch.from_numpy(np.frombuffer(memoryview(memory), np.uint8, nbytes)).view(first.dtype).view(shape)
        torch.stack(list(batch), out=out)
        return torch.empty(0, dtype=first.dtype, device="cpu").set_(storage, 0, shape, out.stride())


_STACKER = PerProcess(_Stacker)
