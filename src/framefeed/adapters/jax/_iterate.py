"""Give the batches of a loader as arrays of JAX, each put on its devices before it is asked for.

On the CPU, arrays are not copied: JAX takes the memory of a NumPy array that begins at a multiple of 64 bytes, as that
of a loader's batches does, and keeps it as long as an array needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from framefeed._checks import expected
from framefeed.adapters import refuse_texts
from framefeed.catalog import ListColumn
from framefeed.errors import UsageError
from framefeed.load import BatchSpec, ClipLoader, list_arrays, list_streams
from framefeed.parallel import ClosedByWith, Err, Ok, catch_error
from framefeed.plan import EpochPlan

Batch = dict[str, Any]
"""Arrays by name."""


def iterate(loader: ClipLoader, sharding: Any = None) -> DeviceBatches:
    """Iterate over one epoch of a loader, as dicts of ``jax.Array``.

    A dict has data (uint8 [B, T, C, H, W], or what the loader's transform and dtype give), pts_seconds ([B, T]), valid
    (bool [B, T]), positions ([B]), ok (bool [B]), and one key for each column of the plan; of several streams, the
    first three are dicts by stream. Unless ``jax_enable_x64`` is
    set, JAX has 32 bits for integers and floats: integers that need more are a UsageError, and seconds are rounded.

    One batch is loaded and put on its devices ahead of the one that you have. ``state_dict()`` of what this returns
    does not count it; that of the loader does.

    Example: ``for batch in ff.jax.iterate(loader): state = step(state, batch["data"], batch["label"])``

    Args:
        loader: An open `ClipLoader`, not of a plan with ``unequal=True``.
        sharding: A ``jax.sharding.Sharding`` or a device; None for JAX's default device. A `NamedSharding` is given
            for ``data``; arrays with fewer axes take the beginning of its partition spec. If its devices are those of
            several processes, each of these loads its own rank of the plan, and the arrays are of all of them.

    Raises:
        UsageError: The loader is closed, its clips have no common shape, or a batch does not divide by the sharding.
    """
    if not isinstance(loader, ClipLoader):
        raise expected("loader", "an ff.ClipLoader", loader)
    if not (sharding is None or isinstance(sharding, (Sharding, jax.Device))):
        raise expected("sharding", "a jax.sharding.Sharding, a jax.Device or None", sharding)
    spec = loader.describe_batches()
    refuse_texts(loader.plan, "JAX")
    _check_integers(loader.plan)
    if isinstance(sharding, Sharding):
        _check_division(loader, spec, sharding)
    return DeviceBatches(loader, sharding, spec.num_batches)


class DeviceBatches(ClosedByWith, Iterator[Batch]):
    """Batches of one epoch as dicts of ``jax.Array``; `iterate` makes it."""

    def __init__(self, loader: ClipLoader, sharding: Any, num_batches: int) -> None:
        self._loader = loader
        self._sharding = sharding
        self._num_batches = num_batches
        self._batches = iter(loader)
        self._ahead: Ok[tuple[Batch, dict[str, Any]]] | Err | None = None
        self._state: dict[str, Any] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"DeviceBatches({self._num_batches} batches, sharding={self._sharding}, {self._loader!r})"

    def __len__(self) -> int:
        """Number of batches of the iteration, those that were given included."""
        return self._num_batches

    def __next__(self) -> Batch:
        if self._is_closed:
            raise UsageError("this iterator is closed: call ff.jax.iterate(loader) again")
        current = self._ahead or catch_error(DeviceBatches._load, self)
        self._ahead = None
        if isinstance(current, Err):
            try:
                raise current.error
            finally:
                del current
        try:
            self._ahead = catch_error(DeviceBatches._load, self)
        except BaseException:  # Ctrl-C, after which the caller may go on
            self._ahead = current
            raise
        batch, self._state = current.value
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state after the batch that was given last; the one that is ahead does not count."""
        return self._loader.state_dict() if self._state is None else self._state

    def close(self) -> None:
        """End the iteration, and free the batch that is ahead; the loader stays open."""
        self._is_closed = True
        self._ahead = None
        self._batches.end("it was closed: call ff.jax.iterate(loader) again")

    def _load(self) -> tuple[Batch, dict[str, Any]]:
        """Load the next batch and put it on its devices; also return the state after it."""
        batch = next(self._batches)
        if not length_hint(self._batches):
            next(self._batches, None)  # the epoch of the loader increases, as for a loop that reaches its end
        return self._put(list_arrays(batch)), self._loader.state_dict()

    def _put(self, arrays: dict[str, Any]) -> Batch:
        if self._sharding is None or isinstance(self._sharding, jax.Device):
            return jax.device_put(arrays, self._sharding)  # type: ignore[no-any-return]
        shardings = jax.tree.map(lambda array: _cut_sharding(self._sharding, array.ndim), arrays)
        if self._sharding.is_fully_addressable:
            return jax.device_put(arrays, shardings)  # type: ignore[no-any-return]
        return jax.tree.map(jax.make_array_from_process_local_data, shardings, arrays)  # type: ignore[no-any-return]


def _cut_sharding(sharding: Sharding, ndim: int) -> Sharding:
    """Return the sharding of an array with so many axes."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > ndim:
        return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:ndim]), memory_kind=sharding.memory_kind)
    return sharding


def _check_integers(plan: EpochPlan) -> None:
    """Check that no integer would be cut off to 32 bits."""
    if jax.config.jax_enable_x64:
        return
    largest = {"positions": len(plan.whole) - 1}
    for clips in plan.clips.list_plain():
        for name, column in clips.columns.items():
            values: Any = column.values if isinstance(column, ListColumn) else column
            if column.dtype.kind in "iu" and values.size:
                largest[name] = max(largest.get(name, 0), int(values.max()), -1 - int(values.min()))
    for name, number in largest.items():
        if number > np.iinfo(np.int32).max:
            raise UsageError(
                f"{name} has integers of more than 32 bits, such as {number}, and JAX would cut them off: set "
                'jax.config.update("jax_enable_x64", True)'
            )


def _check_division(loader: ClipLoader, spec: BatchSpec, sharding: Sharding) -> None:
    """Check that every batch, also the last, divides by the parts of its first axis that this process has."""
    parts = _count_own_parts(loader.plan, spec, sharding)
    for length in spec.lengths:
        if length % parts == 0:
            continue
        if length == loader.batch_size:
            problem = f"batch_size={length} is no multiple of it: use one that is"
        else:
            problem = (
                f"the last batch has {length} clips (batch_size={loader.batch_size}): leave it out with "
                "ff.ClipLoader(..., drop_last=True)"
            )
        raise UsageError(f"sharding: it divides the batches of this process into {parts} parts, but {problem}")


def _count_own_parts(plan: EpochPlan, spec: BatchSpec, sharding: Sharding) -> int:
    # Any number of clips that certainly divides: each axis of a mesh divides the number of its devices.
    count = len(sharding.device_set)
    data: Any = list_streams(spec.arrays["data"])[0]
    shape = (count, *(length or count for length in data.shape[1:]))
    try:
        own_ranges = {indices[0].indices(count) for indices in sharding.addressable_devices_indices_map(shape).values()}
        parts: int = count // sharding.shard_shape(shape)[0]
    except ValueError as error:
        raise UsageError(f"sharding: it does not fit to batches {list(data.shape)}: {error}") from error
    num_processes = len({device.process_index for device in sharding.device_set})
    if num_processes == 1:
        return parts
    if len(own_ranges) * num_processes != parts:
        raise UsageError(
            f"sharding: expected it to divide the first axis over its {num_processes} processes, because each of them "
            f"loads clips of its own; it has {parts} parts, of which {len(own_ranges)} are of this process"
        )
    if plan.order.world_size != num_processes:
        raise UsageError(
            f"sharding: its devices are those of {num_processes} processes, and the plan has world_size="
            f"{plan.order.world_size}: plan with rank=jax.process_index(), world_size=jax.process_count()"
        )
    return len(own_ranges)
