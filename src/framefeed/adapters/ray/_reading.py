"""Read clips in a task of Ray: what it needs stays in the worker process for its next task."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data.extensions.tensor_extension import ArrowTensorArray, ArrowVariableShapedTensorArray

from framefeed._arrays import IntArray
from framefeed._per_process import PerProcess
from framefeed._values import Limits
from framefeed.adapters.ray._nodes import check_retries, get_node_name
from framefeed.cache import FrameCache
from framefeed.decode import Decoder
from framefeed.errors import FramefeedError, MissingMedia, StaleSource, UsageError
from framefeed.load import ClipBatch, ClipLoader, LedgerEntry, OnError, list_arrays
from framefeed.plan import EpochPlan

_NAMES = {"positions": "position", "boxes": "box"}
"""Columns of rows are named as the keys of items are."""
_MOST_ENTRIES = 5_000
"""Of the ledger of a loader, which lists twice as many."""
_MOST_LOADERS = 2
"""Of a process: that of this epoch, and that of a dataset beside it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read and how; it is put into the object store once."""

    plan: EpochPlan
    batch_size: int  # most clips of a block
    backend: str | Decoder
    limits: Limits | None
    cache: FrameCache | None
    on_error: OnError
    seen: tuple[str, ...]  # some of its files, which the process that made the dataset can see

    def open(self) -> ClipLoader:
        """Make the loader of this process, which decodes in the calling thread."""
        for path in self.seen:
            if not os.path.exists(path):
                raise UsageError(
                    f"node {get_node_name()} cannot see {path}, which the process that made the dataset can: mount the "
                    "storage on all nodes at the same path, or plan over URLs"
                )
        return ClipLoader(
            self.plan, batch_size=self.batch_size, workers=0, backend=self.backend, limits=self.limits,
            cache=self.cache, on_error=self.on_error,
        )  # fmt: skip


_LOADERS = PerProcess(OrderedDict[str, tuple[Reading, ClipLoader]])


def open_loader(ref: Any) -> tuple[Reading, ClipLoader]:
    """Open a `Reading` in the object store and its loader, or return those of this process's last task."""
    loaders, key = _LOADERS.value, ref.hex()
    if key in loaders and len(loaders[key][1].ledger) > _MOST_ENTRIES:
        loaders.pop(key)[1].close()
    if key not in loaders:
        reading: Reading = ray.get(ref)
        loaders[key] = reading, reading.open()
        while len(loaders) > _MOST_LOADERS:
            loaders.popitem(last=False)[1][1].close()
    loaders.move_to_end(key)
    return loaders[key]


def explain_unreadable(refs: Sequence[Any]) -> str | None:
    """Open the loader of a `Reading` as a task will, or say why it cannot be; None if it can."""
    try:
        open_loader(refs[0])
    except (FramefeedError, ray.exceptions.RayError, OSError) as error:
        return str(error) if str(error).startswith("node ") else f"node {get_node_name()}: {error}"
    return None


def read_run(ref: Any, first: int, last: int) -> Iterator[pa.Table]:
    """Read the clips at positions from ``first``, a multiple of the batch size, to before ``last``: a block a batch.

    ``ref`` is that of a `Reading`.
    """
    reading, loader = open_loader(ref)
    begin, end = reading.plan.global_position(first), reading.plan.global_position(last - 1)
    advice = "A ClipLoader over them finds it: plan without it"
    check_retries(f"the clips at positions {begin} to {end}", advice, begin)
    batches = loader.iterate_run(first, last)
    known = len(loader.ledger)
    try:
        while (batch := next(batches, None)) is not None:
            errors = None if reading.on_error == "raise" else _list_errors(batch, loader.ledger[known:])
            known = len(loader.ledger)
            block = make_block(list_arrays(batch), batch.rows, errors)
            del batch  # its memory serves the next one, once the block is in the object store
            yield block
            del block
    except (MissingMedia, StaleSource) as error:
        error.args = (f"{error.plain_message} (on node {get_node_name()})",)
        raise


def _list_errors(batch: ClipBatch, entries: Sequence[LedgerEntry]) -> list[str | None]:
    """List what failed in each clip of a batch, and what was done."""
    errors = [None if error is None else f"{type(error).__name__}: {error}" for error in batch.errors]
    slots = {position: slot for slot, position in enumerate(batch.positions.tolist())}
    for entry in entries:
        if entry.substitute is not None:
            errors[slots[entry.position]] = f"{entry.reason}; the clip at position {entry.substitute} is in its place"
    return errors


def _make_column(values: Any) -> pa.Array:
    """Make a column of an array [B, ...], or of a list of B arrays that differ in shape, or of B texts."""
    if not isinstance(values, list):
        return ArrowTensorArray.from_numpy(values) if values.ndim > 1 else pa.array(values)
    is_tensors = isinstance(values[0], np.ndarray) and values[0].ndim > 1
    return ArrowVariableShapedTensorArray.from_numpy(values) if is_tensors else pa.array(values)


def make_block(arrays: Mapping[str, Any], rows: IntArray, errors: Sequence[str | None] | None) -> pa.Table:
    """Make a table of the arrays [B, ...] of a batch, a row for each clip, without a copy of the pixels.

    Of several streams, the arrays of a dict become columns ``data/NAME``. With ``errors`` there is a column of them.
    Clips that differ in shape are copied.
    """
    columns: dict[str, Any] = {}
    for name, value in arrays.items():
        named = _NAMES.get(name, name)
        each = value if isinstance(value, dict) else {None: value}
        columns |= {named if stream is None else f"{named}/{stream}": array for stream, array in each.items()}
        if name == "positions":
            columns["row"] = rows
    made = {name: _make_column(array) for name, array in columns.items()}
    if errors is not None:
        made["error"] = pa.array(errors, pa.string())
    return pa.table(made)
