"""The memory of a batch's pixels: one array, a stack of results, clips of any size, or memory of another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from framefeed._arrays import AnyArray
from framefeed.decode import Pixels
from framefeed.load._batch import BufferPool, BufferPools, SharedArray, Stack, get_form
from framefeed.parallel import Ok, catch_error

MakeResult = Callable[[Pixels], AnyArray]
"""Calls the transform on a black clip."""


class ClipMemory(Protocol):
    """Memory of a batch; each slot is written by one worker."""

    def lease(self, slot: int) -> Pixels:
        """Lend the memory that a clip is decoded into, uint8 [T, C, H, W] of any content."""

    def share(self, slot: int) -> SharedArray | None:
        """Return the memory that a worker process writes a clip or its result to; None if it must send it."""

    def put(self, slot: int, result: AnyArray) -> None:
        """Store a result of the transform, or a clip that a worker process sent."""

    def clear(self, slot: int) -> None:
        """Replace a clip that failed by zeros."""

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Expect a clip of another shape."""

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the pixels of the batch, and the slots whose results do not fit into it.

        Args:
            slots: Slots that did not fail, ascending.
            make_result: Needed for the results of a transform.
        """


def make_memory(shapes: Sequence[tuple[int, ...]], buffers: BufferPools, *, unequal: bool) -> ClipMemory:
    """Make the memory of a batch.

    Args:
        shapes: Shape of each clip; all the same unless ``unequal``.
        buffers: Buffers of the loader.
        unequal: Whether each clip has memory of its own.
    """
    if unequal:
        return UnequalMemory(shapes, buffers)
    if buffers.clips is None:
        return BatchMemory(len(shapes), shapes[0], buffers.batches)
    return StackMemory(len(shapes), shapes[0], buffers)


class BatchMemory:
    """One array that the clips are decoded into."""

    def __init__(self, count: int, shape: tuple[int, ...], pool: BufferPool) -> None:
        self._array, self._shared = pool.lease_shared((count, *shape))

    def lease(self, slot: int) -> Pixels:
        """Return the clip's part of the array."""
        clip: Pixels = self._array[slot]
        return clip

    def share(self, slot: int) -> SharedArray | None:
        """Return the clip's part of the array."""
        return None if self._shared is None else self._shared[slot]

    def put(self, slot: int, result: AnyArray) -> None:
        """Copy a clip into the array."""
        self._array[slot] = result

    def clear(self, slot: int) -> None:
        """Set a clip to zeros."""
        self._array[slot] = 0

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Do nothing: all clips have one shape, or the request has it."""

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the array."""
        return self._array, []


class StackMemory:
    """Clips to be transformed, and one array of the results."""

    def __init__(self, count: int, shape: tuple[int, ...], buffers: BufferPools) -> None:
        self._shape = shape
        self._buffers = buffers
        self._stack = Stack(count, buffers.batches)

    def lease(self, slot: int) -> Pixels:
        """Lend memory for a clip."""
        assert self._buffers.clips is not None
        return self._buffers.clips.lease(self._shape)

    def share(self, slot: int) -> SharedArray | None:
        """Return memory for a result of the form that the last result had."""
        shared = None if self._buffers.form is None else self._stack.prepare(self._buffers.form)
        return None if shared is None else shared[slot]

    def put(self, slot: int, result: AnyArray) -> None:
        """Copy a result into the array."""
        self._buffers.form = get_form(result)
        self._stack.put(slot, result)

    def clear(self, slot: int) -> None:
        """Do nothing: the slots without a result are set to zeros at the end."""

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Do nothing: all clips have one shape, or the request has it."""

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the array of the results."""
        array, misfits = self._stack.finish(slots)
        if array is not None:
            return array, misfits
        # Every clip failed: the result for a black clip has the form of the missing ones.
        clip = self.lease(0)
        clip[...] = 0
        assert make_result is not None
        outcome = catch_error(make_result, clip)
        return self._stack.zeros(outcome.value if isinstance(outcome, Ok) else clip), []


class UnequalMemory:
    """Memory of its own for each clip."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], buffers: BufferPools) -> None:
        self._shapes = list(shapes)
        self._buffers = buffers
        self._clips: list[AnyArray | None] = [None] * len(shapes)

    def lease(self, slot: int) -> Pixels:
        """Lend memory for a clip."""
        clip = self._clips[slot] = self._buffers.singles.lease(self._shapes[slot])
        return clip

    def share(self, slot: int) -> SharedArray | None:
        """Return memory for a clip; a result of a transform can have any form."""
        if self._buffers.clips is not None:
            return None
        self._clips[slot], shared = self._buffers.singles.lease_shared(self._shapes[slot])
        return shared

    def put(self, slot: int, result: AnyArray) -> None:
        """Copy a result: a transform may use its array again."""
        self._clips[slot] = result.copy()

    def clear(self, slot: int) -> None:
        """Replace a clip by zeros."""
        self._clips[slot] = np.zeros(self._shapes[slot], np.uint8)

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Expect a clip of another shape."""
        self._shapes[slot] = shape

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the list of the clips; one that failed is zeros like the transform's result for a black clip."""
        if self._buffers.clips is not None and make_result is not None:
            for slot in set(range(len(self._clips))).difference(slots):
                outcome = catch_error(make_result, np.zeros(self._shapes[slot], np.uint8))
                if isinstance(outcome, Ok):
                    self._clips[slot] = np.zeros_like(outcome.value)
        return self._clips, []


class TaskMemory:
    """In a worker process: memory of the process that asked, and results that are sent to it.

    Args:
        shapes: Shape of each clip.
        shared: Memory for each clip or result, in the process that asked; None if it must be sent.
        buffers: Buffers of this process.

    Attributes:
        results: Results to be sent, by slot.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], shared: Sequence[SharedArray | None], buffers: BufferPools
    ) -> None:
        self._shapes = shapes
        self._shared = shared
        self._buffers = buffers
        self.results: dict[int, AnyArray] = {}

    def lease(self, slot: int) -> Pixels:
        """Lend memory for a clip, or for a clip to be transformed."""
        shared = self._shared[slot]
        if self._buffers.clips is not None:
            return self._buffers.clips.lease(self._shapes[slot])
        if shared is not None:
            return shared.open()
        clip = self.results[slot] = self._buffers.singles.lease(self._shapes[slot])
        return clip

    def share(self, slot: int) -> SharedArray | None:
        """Return None: the process that asked has shared its memory."""

    def put(self, slot: int, result: AnyArray) -> None:
        """Copy a result to where it is expected in this form, else keep it to be sent."""
        shared = self._shared[slot]
        if shared is not None and get_form(result) == (shared.shape, shared.dtype):
            shared.open()[...] = result
        else:
            # A copy: the transform may use its array again, for the next clip.
            self.results[slot] = result.copy()

    def clear(self, slot: int) -> None:
        """Send nothing: the process that asked clears its memory."""
        self.results.pop(slot, None)

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Do nothing: all clips have one shape, or the request has it."""

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Mapping[int, AnyArray], list[int]]:
        """Return the results to be sent."""
        return self.results, []
