"""Give the batches of a loader to the external source of a DALI pipeline.

Batches are not copied on their way in: with ``no_copy``, DALI keeps a reference to each array until the pipeline has
used it, and the memory returns to the loader after that. DALI asks for batches ahead of those that its pipeline gives,
so only who runs the pipeline knows how many were delivered.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any

import numpy as np
from nvidia.dali import types

from framefeed._checks import check_integer, expected
from framefeed.adapters import check_target, convert_target, find_target_dtype
from framefeed.errors import UsageError
from framefeed.load import BatchIterator, BatchSpec, ClipBatch, ClipLoader
from framefeed.media import source_name
from framefeed.parallel import ClosedByWith
from framefeed.plan import EpochPlan

FIRST_OUTPUTS = ("clip", "pts_seconds", "position", "ok")
"""Outputs that are no columns."""
_TYPES = {
    np.dtype(name): getattr(types, name.upper() if name != "float32" else "FLOAT")
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
        "float64",
    )
}  # fmt: skip
_KEPT = 256
"""Batches that are remembered. DALI fetches 2 ahead, unless it is given another ``prefetch_queue_depth``."""


def external_source(
    plan_or_loader: EpochPlan | ClipLoader, *, batch_size: int | None = None, target: str | None = None
) -> ClipSource:
    """Make a source of batches for ``nvidia.dali.fn.external_source``. Each epoch ends with StopIteration.

    The outputs are clip ([T, C, H, W] a sample, layout "FCHW"), pts_seconds ([T]), position, ok, and the columns of the
    plan in their order, or only the column ``target``; ``arguments`` has their number, dtypes, dimensions and layouts.

    Example: ``clips, pts_seconds, positions, ok, labels = fn.external_source(source=source, **source.arguments)``

    Args:
        plan_or_loader: A plan, for which the source makes a `ClipLoader` and closes it, or an open loader.
        batch_size: Number of clips in a batch, with a plan; that of the pipeline must be as large.
        target: Name of a column of numbers, or of text, which becomes codes. The target of a clip that failed is -100,
            or NaN in a column of floats.

    Raises:
        UsageError: batch_size is missing or too much, the loader is closed, or the plan has no such column.
    """
    if isinstance(plan_or_loader, ClipLoader):
        if batch_size is not None:
            raise UsageError(f"batch_size: the loader has its own, {plan_or_loader.batch_size}: leave it out")
        return ClipSource(plan_or_loader, target)
    if not isinstance(plan_or_loader, EpochPlan):
        raise expected("plan_or_loader", "an EpochPlan or an ff.ClipLoader", plan_or_loader)
    if batch_size is None:
        raise UsageError("batch_size: expected a number of clips, because a plan has none, as in batch_size=16")
    return ClipSource(ClipLoader(plan_or_loader, batch_size=batch_size), target, owns_loader=True)


class ClipSource(ClosedByWith):
    """Batches of a loader for a DALI pipeline; `external_source` makes it.

    Attributes:
        arguments: The other arguments of ``fn.external_source``.
        output_names: Names of the outputs.
        loader: The loader, whose own state counts what DALI has fetched.
        prepared: The epoch that was prepared last.
    """

    def __init__(self, loader: ClipLoader, target: str | None = None, *, owns_loader: bool = False) -> None:
        if target is not None:
            check_target(loader.plan, target)
        spec = loader.describe_batches(unequal=True)
        columns = _choose_columns(loader.plan, spec, target)
        self.loader = loader
        self.output_names = (*FIRST_OUTPUTS, *columns)
        self.arguments = _make_arguments(spec, columns, target)
        self._target = target
        self._owns_loader = owns_loader
        self._epoch: SourceEpoch | None = None
        self.prepared: SourceEpoch | None = None

    def __repr__(self) -> str:
        return f"ClipSource({', '.join(self.output_names)}, {self.loader!r})"

    def __iter__(self) -> SourceEpoch:
        """Prepare an epoch, which begins when DALI asks for its first batch."""
        self.prepared = SourceEpoch(self)
        return self.prepared

    def begin(self, epoch: SourceEpoch) -> BatchIterator:
        """Begin an epoch, which ends the one before it."""
        self._epoch = epoch
        return iter(self.loader)

    def make_outputs(self, batch: ClipBatch) -> list[Any]:
        """List the arrays of a batch in the order of the outputs."""
        arrays = [batch.data, batch.pts_seconds, batch.positions, batch.ok]
        for name in self.output_names[len(FIRST_OUTPUTS) :]:
            column = batch.columns[name]
            arrays.append(convert_target(column, batch.ok) if name == self._target else column)
        return arrays

    def state_dict(self, delivered: int) -> dict[str, Any]:
        """Return the state of the loader after some batches of the epoch; those that DALI fetched ahead do not count.

        Args:
            delivered: Number of batches that the pipeline has given since its epoch began, or since a state was loaded.

        Raises:
            UsageError: DALI has not fetched so many, or so many more that their states are no longer kept.
        """
        count = check_integer("delivered", delivered, least=0)
        if self._epoch is None:
            if count:
                raise UsageError(f"delivered: DALI has fetched no batch of this source yet, and you say {count}")
            return self.loader.state_dict()
        if not count and self._epoch.is_exhausted and self._epoch.num_fetched:
            raise UsageError(
                f"delivered: DALI has fetched all {self._epoch.num_fetched} batches of the epoch: say how many of them "
                f"you were given, {self._epoch.num_fetched} after its end"
            )
        return self._epoch.state_after(count)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Start the next epoch at a saved position, as `ClipLoader.load_state_dict` does.

        Raises:
            UsageError: DALI has fetched a part of an epoch, or the state is from another plan.
        """
        if self._epoch is not None and not self._epoch.is_exhausted:
            raise UsageError(
                f"DALI has fetched {self._epoch.num_fetched} batches of an epoch from this source: load the state "
                "into a new source, before its pipeline runs"
            )
        self.restore(state)

    def restore(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Load a state for pipelines that are not built yet."""
        self.loader.load_state_dict(state)
        self._epoch = None

    def close(self) -> None:
        """Close the loader, if the source made it from a plan."""
        if self._owns_loader:
            self.loader.close()


class SourceEpoch(Iterator[list[Any]]):
    """Arrays of the batches of one epoch, which ends with its last batch, whether or not one more is asked for.

    Attributes:
        number: Number of the epoch; None before it begins.
        num_fetched: Number of batches that DALI has fetched.
        is_exhausted: Whether DALI knows that there are no more.
    """

    def __init__(self, source: ClipSource) -> None:
        self._source = source
        self._process = os.getpid()
        self._batches: BatchIterator | None = None
        self._states: dict[int, dict[str, Any]] = {}
        self._clips: dict[int, tuple[list[int], list[str | bytes]]] = {}
        self.number: int | None = None
        self.num_fetched = 0
        self.is_exhausted = False

    def __next__(self) -> list[Any]:
        if os.getpid() != self._process:
            raise UsageError(
                "this DALI pipeline was built in another process, and its threads are not in this one: build it here"
            )
        if self._batches is None:
            self._batches = self._source.begin(self)
            self.number = self._source.loader.epoch
            self._remember_state()
        batch = next(self._batches, None)
        if batch is None:
            self.is_exhausted = True
            # After the last batch, errors that came in place of later ones, and in an epoch without batches.
            self._remember_state()
            raise StopIteration
        if not length_hint(self._batches):
            next(self._batches, None)
        outputs = self._source.make_outputs(batch)
        self.num_fetched += 1
        self._remember_state()
        self._clips[self.num_fetched] = batch.positions.tolist(), batch.sources
        for remembered in (self._states, self._clips):
            remembered.pop(self.num_fetched - _KEPT, None)
        return outputs

    def _remember_state(self) -> None:
        self._states[self.num_fetched] = self._source.loader.state_dict()

    def state_after(self, number: int) -> dict[str, Any]:
        """Return the state of the loader after so many batches."""
        if number not in self._states:
            raise UsageError(
                f"delivered: DALI has fetched {self.num_fetched} batches of this epoch, and the states of the last "
                f"{len(self._states)} are kept; you say {number}: count from the beginning of the epoch, and save "
                "the state before the next batch"
            )
        return self._states[number]

    def name_clips(self, number: int) -> tuple[list[int], list[str]]:
        """Return global positions and sources of a batch, counted from 1; nothing if it is not remembered."""
        positions, sources = self._clips.get(number, ([], []))
        return positions, [each if isinstance(each, str) else source_name(each) for each in sources]


def _choose_columns(plan: EpochPlan, spec: BatchSpec, target: str | None) -> list[str]:
    """List the columns that are outputs; warn of those that DALI has no type for."""
    clashing = [name for name in plan.columns if name in FIRST_OUTPUTS]
    if clashing:
        raise UsageError(f"columns {clashing} have the same names as other outputs: rename them")
    if target is not None:
        return [target]
    left_out = [name for name in plan.columns if spec.arrays[name].dtype not in _TYPES]
    if left_out:
        kinds = ", ".join(f"{name} ({spec.arrays[name].dtype})" for name in left_out)
        warnings.warn(f"DALI has no type for these columns, which are left out: {kinds}", UserWarning, stacklevel=4)
    return [name for name in plan.columns if name not in left_out]


def _make_arguments(spec: BatchSpec, columns: Sequence[str], target: str | None) -> dict[str, Any]:
    arrays = [spec.arrays[name] for name in ("data", "pts_seconds", "positions", "ok", *columns)]
    dtypes = [each.dtype for each in arrays]
    if target is not None:
        dtypes[-1] = find_target_dtype(dtypes[-1])
    for name, dtype in zip((*FIRST_OUTPUTS, *columns), dtypes, strict=True):
        if dtype not in _TYPES:
            raise UsageError(f"{name}: DALI has no type for {dtype}: return another one from transform")
    clip = spec.arrays["data"].shape
    is_picture = len(clip) == 5 and clip[2] == 3
    return {
        "num_outputs": len(arrays),
        "batch": True,
        "cycle": "raise",
        "no_copy": True,
        "dtype": [_TYPES[dtype] for dtype in dtypes],
        "ndim": [len(each.shape) - 1 for each in arrays],
        "layout": ["FCHW" if is_picture else "", *[""] * (len(arrays) - 1)],
    }
