"""ClipBatch: what a loader delivers.

Recycled batch buffers: memory that was paged in once and is written again and again.

A fresh 39 MB batch costs more in page faults than in copying (10 ms against 4 ms on two x86-64 cores), so memory must
come back. But it may do so only when no view of it is left, and which are left is hard to know: a user keeps
``batch.data[0]``, whose base is the owner of the memory and not the batch; a tensor made by ``torch.from_numpy`` or
DLPack keeps that base too. So every lease gets a ``ctypes`` array of its own over the pooled memory, and the arrays are
made from that one: it dies with the last view of any kind, and takes the lease with it. A weak reference to the batch
array would give the memory back while views of it are alive.

Stack: the results of a transform as one array, copied there by the workers that made them.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import AnyArray
from framefeed.errors import FramefeedError, UsageError
from framefeed.parallel import allocate


@dataclass(frozen=True, slots=True, eq=False)
class ClipBatch:
    """A batch of B clips, each of T frames. The arrays keep their values for as long as you hold any view of them.

    Attributes:
        data: RGB pixels, uint8 [B, T, C, H, W]. With a transform, the stacked results of the transform, [B, ...]. Zeros
            for clips that failed. For a plan with ``unequal=True``, a list of B arrays: uint8 [T, C, H, W], or the
            results of the transform; a clip that failed is zeros, uint8 [T, C, H, W] of its own picture size.
        pts_seconds: Time of each frame in its stream, float64 [B, T]; NaN if unknown or if the clip failed.
        valid: False for frames that replace frames past the end of a video, and for clips that failed, bool [B, T].
        positions: Global positions in the epoch, int64 [B].
        columns: Columns of the plan by name, each [B]; integers and codes of text are int64.
        sources: Path, URL or bytes of each clip, a list of B; for an image sequence, its folder, or its first file and
            the number of further files.
        ok: Whether the clip could be loaded, bool [B].
        errors: Error of each clip, a list of B; None for clips that could be loaded.
    """

    data: Any
    pts_seconds: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]
    columns: Mapping[str, npt.NDArray[Any]]
    sources: list[str | bytes]
    ok: npt.NDArray[np.bool_]
    errors: list[FramefeedError | None]

    def __post_init__(self) -> None:
        columns = (self.data, self.pts_seconds, self.valid, *self.columns.values(), self.ok)
        lengths = {len(self.positions), len(self.sources), len(self.errors), *map(len, columns)}
        if len(lengths) != 1 or self.pts_seconds.shape != self.valid.shape:
            raise UsageError(f"expected parts of one length in a batch, got lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.columns)
        failed = f", {len(self) - int(self.ok.sum())} failed" if not self.ok.all() else ""
        if isinstance(self.data, list):
            return f"ClipBatch({len(self)} clips of any size{names}{failed})"
        return f"ClipBatch({self.data.shape} {self.data.dtype}{names}{failed})"


_ADVICE = "use a smaller batch_size or size, prefetch=1 or fewer workers"
_Block = npt.NDArray[np.uint8]


class BufferPool:
    """Lends memory for arrays and takes it back when the last view of it has died.

    No locks: memory comes back wherever the garbage collector happens to be, also in a thread that would hold one.

    Args:
        max_idle: Most blocks kept for later; what comes back beyond that is freed.
        use: What the memory is for, for messages.
    """

    def __init__(self, max_idle: int, use: str = "a batch") -> None:
        # Appending to a full deque drops its oldest block, in one atomic step.
        self._idle: deque[_Block] = deque(maxlen=max_idle)
        self._use = use

    def __repr__(self) -> str:
        return f"BufferPool({len(self._idle)} of at most {self._idle.maxlen} blocks idle, {self.idle_bytes} bytes)"

    @property
    def idle_bytes(self) -> int:
        """Bytes that wait for the next lease."""
        return sum(block.nbytes for block in tuple(self._idle))

    def lease(self, shape: Sequence[int], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Lend memory as an array of any content, C-contiguous and writable.

        Args:
            shape: Of the array; the block may be larger.
            dtype: Without Python objects.
        """
        kind, count = np.dtype(dtype), math.prod(shape)
        size = max(1, count * kind.itemsize)
        block = allocate(lambda: self._block(size), size, f"{self._use} {list(shape)} of {kind}", _ADVICE)
        memory = (ctypes.c_ubyte * block.nbytes).from_buffer(block.data)
        # The deque and not the pool: memory that outlives its pool is freed, not kept.
        weakref.finalize(memory, self._idle.append, block).atexit = False
        array: npt.NDArray[Any] = np.frombuffer(memoryview(memory), kind, count).reshape(shape)
        return array

    def _block(self, size: int) -> _Block:
        while self._idle:
            try:
                block = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            # A smaller one is dropped: batches have one size, and it was of an earlier one.
            if block.nbytes >= size:
                return block
        return np.empty(size, dtype=np.uint8)


Form = tuple[tuple[int, ...], np.dtype[Any]]


class Stack:
    """One array [B, ...] whose form the first result tells, whichever clip it is of.

    Which result comes first is a matter of chance, what is delivered must not be: results of another form are set
    aside, and ``finish`` decides by the order of the clips.

    Args:
        count: B.
        pool: Lends the memory.
    """

    def __init__(self, count: int, pool: BufferPool) -> None:
        self._count = count
        self._pool = pool
        self._array: AnyArray | None = None
        self._aside: dict[int, AnyArray] = {}
        self._begin = threading.Lock()

    def put(self, place: int, result: AnyArray) -> None:
        """Copy the result of one clip; called by workers, each for places of its own."""
        with self._begin:
            if self._array is None:
                self._array = self._lease(_form(result))
        if _form(result) == _form(self._array[0]):
            self._array[place] = result
        else:
            self._aside[place] = result

    def finish(self, places: list[int]) -> tuple[AnyArray | None, list[int]]:
        """Give the array, in the form of the first of some places, and those of them whose results have another.

        Args:
            places: Those that have a result, ascending. The others are zeros.
        """
        if not places or self._array is None:
            return None, []
        forms = {place: _form(self._aside.get(place, self._array[0])) for place in places}
        form = forms[places[0]]
        misfits = [place for place in places if forms[place] != form]
        array = self._array
        if form != _form(array[0]):
            array = self._lease(form)
            for place in places:
                if place not in misfits:
                    array[place] = self._aside[place]
        for place in set(range(self._count)).difference(places).union(misfits):
            array[place] = 0
        return array, misfits

    def zeros(self, like: AnyArray) -> AnyArray:
        """Make an array of zeros [B, ...] for results of a form."""
        array = self._lease(_form(like))
        array[...] = 0
        return array

    def _lease(self, form: Form) -> AnyArray:
        shape, dtype = form
        return self._pool.lease((self._count, *shape), dtype)


def _form(result: AnyArray) -> Form:
    return result.shape, result.dtype
