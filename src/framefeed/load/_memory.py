"""The memory of a batch's pixels: one array, a stack of results, clips of any size, or memory of another process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framefeed._arrays import AnyArray
from framefeed.decode import Pixels
from framefeed.load._batch import ALIGNMENT, BufferPools, Form, SharedArray, get_form
from framefeed.load._normalise import Normaliser
from framefeed.parallel import Ok, catch_error
from framefeed.request import Size

MakeResult = Callable[[Pixels], AnyArray]
"""Calls the transform on a black clip."""


class ClipMemory:
    """Memory of one part of the clips of a batch; each slot is a clip, whose takes are written by one worker each."""

    _shared: SharedArray | Sequence[SharedArray | None] | None = None  # of each slot

    def __init__(self, shapes: Sequence[tuple[int, ...]], buffers: BufferPools) -> None:
        self._shapes = list(shapes)
        self._buffers = buffers

    @property
    def has_dtype(self) -> bool:
        """Whether the dtype of the batch is given, so that results of a transform may differ in their shape alone."""
        return self._buffers.dtype is not None

    @property
    def has_results(self) -> bool:
        """Whether it is for results of a transform, not for clips."""
        return self._buffers.clips is not None

    def lease_scratch(self, slot: int, num_frames: int, size: Size | None = None) -> Pixels:
        """Lend memory that frames are decoded into before they are finished, uint8 [T, C, H, W] of any content.

        Its pictures are of (height, width) ``size``; None if they have the size of the finished ones.
        """
        shape = self._shapes[slot]
        return self._buffers.scratch.lease((num_frames, shape[1], *(size or shape[2:])))

    def _find_form(self, result: AnyArray) -> Form:
        """Find shape and dtype of a result in the batch."""
        shape, dtype = get_form(result)
        return shape, self._buffers.dtype or dtype

    def _copy(self, result: AnyArray, normaliser: Normaliser | None) -> AnyArray:
        """Copy a result, normalised, to memory of its own."""
        copied = np.empty(*self._find_form(result))
        _write(result, copied, normaliser)
        return copied

    def lease(self, slot: int) -> Pixels:
        """Lend the memory that a clip is decoded into, uint8 [T, C, H, W] of any content."""
        raise NotImplementedError

    def share(self, slot: int) -> SharedArray | None:
        """Return the memory that a worker process writes a clip or its result to; None if it must send it."""
        return None if self._shared is None else self._shared[slot]

    def put(self, slot: int, result: AnyArray, normaliser: Normaliser | None = None) -> None:
        """Copy a result of the transform, or a clip, normalised if it is not yet, as those of worker processes are."""
        raise NotImplementedError

    def put_frames(self, slot: int, frames: slice, pixels: Pixels, normaliser: Normaliser) -> None:
        """Copy some frames of a clip, normalised, of clips that are equal in shape."""
        raise NotImplementedError

    def clear(self, slot: int) -> None:
        """Replace a clip that failed by zeros, unless ``finish`` does."""

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        """Expect a clip of another shape, if clips may differ in it."""

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the pixels of the batch, and the slots whose results do not fit into it.

        The clips of ``slots``, which ascend, did not fail. ``make_result`` is needed for the results of a transform.
        """
        raise NotImplementedError


def _write(result: AnyArray, out: AnyArray, normaliser: Normaliser | None) -> None:
    if normaliser is None:
        out[...] = result
    else:
        normaliser.write(result, out)


def make_memory(shapes: Sequence[tuple[int, ...]], buffers: BufferPools, *, unequal: bool) -> ClipMemory:
    """Make the memory of a batch, from the shape of each clip; all are the same unless ``unequal``."""
    kind = UnequalMemory if unequal else BatchMemory if buffers.clips is None else StackMemory
    return kind(shapes, buffers)


class BatchMemory(ClipMemory):
    """One array that the clips are decoded into."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], buffers: BufferPools) -> None:
        super().__init__(shapes, buffers)
        shape = (len(shapes), *shapes[0])
        self._array, self._shared = buffers.batches.lease_shared(shape, buffers.dtype or np.uint8)

    def lease(self, slot: int) -> Pixels:
        clip: Pixels = self._array[slot]
        return clip

    def put(self, slot: int, result: AnyArray, normaliser: Normaliser | None = None) -> None:
        _write(result, self._array[slot], normaliser)

    def put_frames(self, slot: int, frames: slice, pixels: Pixels, normaliser: Normaliser) -> None:
        _write(pixels, self._array[slot, frames], normaliser)

    def clear(self, slot: int) -> None:
        self._array[slot] = 0

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        return self._array, []


class StackMemory(ClipMemory):
    """Clips to be transformed, and one array [B, ...] of the results.

    The array is made for the form of the result that is ready first, which depends on chance, or for the form that a
    worker process is given. Results of another form are kept apart, and ``finish`` chooses the form of the first clip.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], buffers: BufferPools) -> None:
        super().__init__(shapes, buffers)
        self._count = len(shapes)
        self._array: AnyArray | None = None
        self._misfits: dict[int, AnyArray] = {}
        self._allocating = threading.Lock()

    def lease(self, slot: int) -> Pixels:
        assert self._buffers.clips is not None
        return self._buffers.clips.lease(self._shapes[slot])

    def _prepare(self, form: Form) -> AnyArray:
        """Make the array, for results of a form, if there is none."""
        with self._allocating:
            if self._array is None:
                shape, dtype = form
                self._array, self._shared = self._buffers.batches.lease_shared((self._count, *shape), dtype)
            return self._array

    def share(self, slot: int) -> SharedArray | None:
        """Return memory for a result of the form that the last result had."""
        if self._buffers.form is not None:
            self._prepare(self._buffers.form)
        return super().share(slot)

    def put(self, slot: int, result: AnyArray, normaliser: Normaliser | None = None) -> None:
        """Copy a result into the array, or keep it apart."""
        self._buffers.form = form = self._find_form(result)
        array = self._prepare(form)
        if form == get_form(array[0]):
            _write(result, array[slot, ...], normaliser)  # also where a result is one number
        else:
            self._misfits[slot] = result if normaliser is None else self._copy(result, normaliser)

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the array of the results, in the form of the first; zeros for clips that failed."""
        if not slots or self._array is None:
            return self._make_zeros(make_result), []
        array, forms = self._array, {slot: get_form(self._misfits.get(slot, self._array[0])) for slot in slots}
        shape, dtype = form = forms[slots[0]]
        fitting = [slot for slot in slots if forms[slot] == form]
        if form != get_form(array[0]):
            array = self._buffers.batches.lease((self._count, *shape), dtype)
            for slot in fitting:
                array[slot] = self._misfits[slot]
        for slot in set(range(self._count)).difference(fitting):
            array[slot] = 0
        return array, [slot for slot in slots if forms[slot] != form]

    def _make_zeros(self, make_result: MakeResult | None) -> AnyArray:
        # Every clip failed: the result for a black clip has the form of the missing ones.
        clip = self.lease(0)
        clip[...] = 0
        assert make_result is not None
        outcome = catch_error(make_result, clip)
        shape, dtype = self._find_form(outcome.value if isinstance(outcome, Ok) else clip)
        zeros = self._buffers.batches.lease((self._count, *shape), dtype)
        zeros[...] = 0
        return zeros


class UnequalMemory(ClipMemory):
    """Clips of any shape: parts of one block, which is used again as that of equal clips is; or any results."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], buffers: BufferPools) -> None:
        super().__init__(shapes, buffers)
        self._clips: list[AnyArray | None] = [None] * len(shapes)
        self._shared: list[SharedArray | None] = [None] * len(shapes)
        if self.has_results:  # which can have any form
            return
        dtype = np.dtype(buffers.dtype or np.uint8)
        starts = np.cumsum([0, *(-(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT for shape in shapes)])
        block, shared = buffers.batches.lease_shared((int(starts[-1]),))
        for slot, (start, shape) in enumerate(zip(starts.tolist(), shapes, strict=False)):
            self._clips[slot] = np.ndarray(shape, dtype, block, start)
            if shared is not None:
                self._shared[slot] = SharedArray(shared.block, tuple(shape), dtype, start)

    def lease(self, slot: int) -> Pixels:
        clip = self._clips[slot]
        if clip is None or self.has_results:
            clip = self._clips[slot] = self._buffers.singles.lease(self._shapes[slot])
        return clip

    def put(self, slot: int, result: AnyArray, normaliser: Normaliser | None = None) -> None:
        """Copy a result: a transform may use its array again."""
        clip = self._clips[slot]
        if clip is None or self.has_results:
            self._clips[slot] = self._copy(result, normaliser)
        else:
            _write(result, clip, normaliser)

    def clear(self, slot: int) -> None:
        self._clips[slot] = np.zeros(self._shapes[slot], self._buffers.dtype or np.uint8)

    def reshape(self, slot: int, shape: tuple[int, ...]) -> None:
        self._shapes[slot] = shape
        if not self.has_results:
            kind = self._buffers.dtype or np.uint8
            self._clips[slot], self._shared[slot] = self._buffers.singles.lease_shared(shape, kind)

    def finish(self, slots: list[int], make_result: MakeResult | None) -> tuple[Any, list[int]]:
        """Return the list of the clips; one that failed is zeros like the transform's result for a black clip."""
        if self.has_results and make_result is not None:
            for slot in set(range(len(self._clips))).difference(slots):
                outcome = catch_error(make_result, np.zeros(self._shapes[slot], np.uint8))
                if isinstance(outcome, Ok):
                    self._clips[slot] = np.zeros(*self._find_form(outcome.value))
        return self._clips, []


class TaskMemory(ClipMemory):
    """In a worker process: memory of the process that asked, and results that are sent to it.

    ``shared`` is memory for each clip or result, in the process that asked; None if it must be sent.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], shared: Sequence[SharedArray | None], buffers: BufferPools
    ) -> None:
        super().__init__(shapes, buffers)
        self._shared: Sequence[SharedArray | None] = shared
        self.results: dict[int, AnyArray] = {}

    def lease(self, slot: int) -> Pixels:
        shared = self._shared[slot]
        if self._buffers.clips is not None:
            return self._buffers.clips.lease(self._shapes[slot])
        if shared is not None:
            return shared.open()
        clip = self.results[slot] = self._buffers.singles.lease(self._shapes[slot])
        return clip

    def put(self, slot: int, result: AnyArray, normaliser: Normaliser | None = None) -> None:
        """Copy a result to where it is expected in this form, else keep it to be sent."""
        shared = self._shared[slot]
        if shared is not None and self._find_form(result) == (shared.shape, shared.dtype):
            _write(result, shared.open(), normaliser)
        else:
            # A copy: the transform may use its array again, for the next clip.
            self.results[slot] = self._copy(result, normaliser)

    def put_frames(self, slot: int, frames: slice, pixels: Pixels, normaliser: Normaliser) -> None:
        shared = self._shared[slot]
        assert shared is not None  # Without a transform, clips of one shape have shared memory.
        _write(pixels, shared.open()[frames], normaliser)

    def clear(self, slot: int) -> None:
        """Send nothing: the process that asked clears its memory."""
        self.results.pop(slot, None)
