"""Hold a batch of clips, and recycle its memory.

A fresh batch of 39 MB costs more in page faults than in copying (10 ms against 4 ms on two x86-64 cores), so memory is
used again. It must not be while a view of it is alive, and views are hard to know: the base of ``batch.data[0]``, and
of a tensor made by ``torch.from_numpy`` or DLPack, is the owner of the memory and not the batch. So every lease makes a
``ctypes`` array over the pooled memory, and the NumPy array from that: it is freed with the last view of any kind. A
weak reference to the NumPy array would return the memory while views of it are alive.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from framefeed._arrays import AnyArray
from framefeed._checks import WrongType
from framefeed._nearest import did_you_mean
from framefeed._shortage import count_free_memory
from framefeed._units import format_bytes
from framefeed.errors import FramefeedError, UsageError
from framefeed.parallel import SharedBlock, SharedMemory, SharedRange, allocate

T = TypeVar("T")
R = TypeVar("R")
ByStream: TypeAlias = T | dict[str, T]
"""A value of a batch: of one stream the value itself, of several a dict by stream."""
_TO_DEVICE = (
    "its arrays are of NumPy: use torch.from_numpy(batch.data).to(device), or ff.torch.ClipDataset, whose batches are "
    "tensors (ff.torch.to_device is not in this version)"
)


# Not frozen: Lightning's Trainer, which rebuilds each dataclass of a batch on its way to a device, refuses frozen ones.
@dataclass(slots=True, eq=False)
class ClipBatch:
    """A batch of B clips, each of T frames. The arrays keep their values for as long as you hold any view of them.

    ``batch["label"]`` is ``batch.columns["label"]``.

    Attributes:
        data: RGB pixels, uint8 [B, T, C, H, W]. With a transform, the stacked results of the transform, [B, ...]. With
            ``dtype``, ``mean`` or ``std`` of the loader, of that dtype; of bfloat16 a tensor of PyTorch. Zeros for
            clips that failed. For a plan with ``unequal=True``, a list of B arrays: uint8 [T, C, H, W], or the results
            of the transform; a clip that failed is zeros of its own shape, or like the transform's result for a black
            clip of that shape (of one frame, if its rule could not say how many it has).
        pts_seconds: Time of each frame in its stream, float64 [B, T]; NaN if unknown or if the clip failed. For a plan
            with ``unequal=True`` whose rule or requests give clips of any T, a list of B arrays [T].
        valid: False for frames that replace frames past the end of a video, and for clips that failed, bool [B, T], or
            a list of B arrays [T] as ``pts_seconds`` is.
        positions: Global positions in the epoch, int64 [B]. They look unshuffled in a shuffled plan too, because
            shuffling decides which clip is at a position, and not in which order the positions come.
        rows: Row of each clip in the catalog of the plan, int64 [B].
        columns: Columns of the plan by name, each [B]; integers, labels and codes are int64. Text is a list of B
            strings, None for null; of a column of lists of texts, a list of B lists.
        sources: Path, URL or bytes of each clip, a list of B; for an image sequence, its folder, or its first file and
            the number of further files.
        ok: Whether the clip could be loaded, bool [B].
        errors: Error of each clip, a list of B; None for clips that could be loaded.
        boxes: For a plan with a Letterbox, (top, left, height, width) of each clip's pictures in those of ``data``,
            int64 [B, 4], of a flipped clip where they lie after the flip; zeros for clips that failed. Else None.
        flipped: For a plan with a horizontal_flip, whether left and right of each clip are swapped, bool [B]; False for
            clips that failed. Else None.
        seconds: Times from each source's first frame, float64 like ``pts_seconds``: the requested times of rules and
            requests by time, else those of the frames.
        end_seconds: When the last picture of each clip leaves the screen, on the same clock, float64 [B]; NaN if it is
            not known, as of still pictures, or if the clip failed.
        draw: A number from 0 to below 1 for each clip, float64 [B], drawn from seed, epoch and global position alone:
            for a choice among captions, or to leave some out.
        bucket: For a plan of ``plan_buckets``, (T, H, W) of the batch. Else None.

    For a plan of several streams, ``data``, ``pts_seconds``, ``valid``, ``sources``, ``boxes``, ``seconds`` and
    ``end_seconds`` are dicts of such values by stream; a clip that fails in one stream has failed in all. ``rows`` are
    of the first stream's catalog.
    """

    data: Any
    pts_seconds: Any
    valid: Any
    positions: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    columns: Mapping[str, npt.NDArray[Any] | list[Any]]
    sources: Any
    ok: npt.NDArray[np.bool_]
    errors: list[FramefeedError | None]
    boxes: Any = None
    flipped: npt.NDArray[np.bool_] | None = None
    seconds: Any = None
    end_seconds: Any = None
    draw: npt.NDArray[np.float64] | None = None
    bucket: tuple[int, int, int] | None = None
    _find_keys: Callable[[], list[str]] | None = None

    def __post_init__(self) -> None:
        parts: list[Any] = [self.positions, self.rows, self.errors, self.ok, *self.columns.values()]
        of_streams = (self.data, self.pts_seconds, self.valid, self.sources, self.boxes, self.seconds, self.end_seconds)
        for part in (*of_streams, self.flipped):
            if part is not None:
                parts += list_streams(part)
        lengths = set(map(len, parts))
        times, valid = (map_streams(_find_shapes, part) for part in (self.pts_seconds, self.valid))
        if len(lengths) != 1 or times != valid:
            raise UsageError(f"expected parts of one length in a batch, got lengths {sorted(lengths)}")

    @property
    def keys(self) -> list[str]:
        """Key of each clip, as `PlannedClip.key`: what was computed from its frames can be stored by it. A list of B.

        Planned anew when it is asked for. A substitute has its own key, and a clip that failed that of its frames.

        Raises:
            UsageError: The batch was pickled, or not made by a loader.
            FrameNotFound: A clip of the batch cannot be planned.
        """
        if self._find_keys is None:
            raise UsageError("keys: this batch was pickled, or not made by a loader: ask for its keys before")
        return self._find_keys()

    def __reduce__(self) -> tuple[Any, ...]:
        return (ClipBatch, tuple(getattr(self, name) for name in self.__slots__[:-1]))

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.columns)
        failed = f", {len(self) - int(self.ok.sum())} failed" if not self.ok.all() else ""
        if isinstance(self.data, dict):
            each = ", ".join(f"{name}: {_describe(array)}" for name, array in self.data.items())
            return f"ClipBatch({len(self)} clips of {{{each}}}{names}{failed})"
        if isinstance(self.data, list):
            return f"ClipBatch({len(self)} clips of any size{names}{failed})"
        return f"ClipBatch({tuple(self.data.shape)} {self.data.dtype}{names}{failed})"

    # Without ``__iter__``, which would make a batch an ``Iterable``, unpacking asks for item 0.
    def __getitem__(self, name: str) -> Any:
        """Return a column: an array [B, ...], or of text a list of B.

        Raises:
            UsageError: There is no such column; for a number it names what gives pairs of clips and labels.
        """
        if isinstance(name, str) and name in self.columns:
            return self.columns[name]
        if isinstance(name, str):
            if isinstance(self.data, dict) and name in self.data:
                raise UsageError(f"{name} is not a column of the plan, but a stream: write batch.data[{name!r}]")
            if name in self.__slots__:
                raise UsageError(f"{name} is not a column of the plan, but an attribute: write batch.{name}")
            advice = did_you_mean(name, self.columns) or f"; for another one, plan with columns=[{name!r}]"
            raise UsageError(f"this batch has no column {name!r}, only {list(self.columns)}{advice}")
        raise WrongType(
            'a ClipBatch is no sequence: batch.data has the clips, and batch["label"] a column; for pairs, as in '
            '`for clips, labels in`, give ff.torch.ClipDataset(plan, target="label") to a DataLoader'
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            # An attribute that raises would be called: trainers move what has one to their device.
            advice = f": {_TO_DEVICE}" if name in ("to", "cuda", "pin_memory") else ""
            if name in ("label", "labels"):
                advice = ': write batch["label"]'
            raise AttributeError(f"'ClipBatch' object has no attribute {name!r}{advice}")


def map_streams(function: Callable[[T], R], value: ByStream[T]) -> ByStream[R]:
    """Call a function with a value of a batch or, if it is a dict by stream, with that of each stream."""
    return {name: function(each) for name, each in value.items()} if isinstance(value, dict) else function(value)


def list_streams(value: ByStream[T]) -> list[T]:
    """List a value of a batch of each stream; of one stream the value itself."""
    return list(value.values()) if isinstance(value, dict) else [value]


def _find_shapes(part: Any) -> Any:
    return list(map(np.shape, part)) if isinstance(part, list) else np.shape(part)


def _describe(data: Any) -> str:
    return "any size" if isinstance(data, list) else f"{tuple(data.shape)} {data.dtype}"


ALIGNMENT = 64
"""Bytes; TensorFlow (EIGEN_MAX_ALIGN_BYTES) and XLA on the CPU copy an array that begins at no multiple of it."""
_LARGE = 1 << 28
"""Bytes of a block for which the free memory is looked up, which takes 50 microseconds."""
_ADVICE = "use a smaller batch_size or size, prefetch=1 or fewer workers"
Form = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype of one result."""
_Block = npt.NDArray[np.uint8] | SharedBlock


@dataclass(frozen=True, slots=True, eq=False)
class SharedArray:
    """An array in shared memory, to be sent to a worker process; ``start`` is its first byte in the block."""

    block: SharedRange
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int = 0

    def __getitem__(self, number: int) -> SharedArray:
        """Return one element of the first axis."""
        shape = self.shape[1:]
        start = self.start + number * math.prod(shape) * self.dtype.itemsize
        return SharedArray(self.block, shape, self.dtype, start)

    def open(self) -> npt.NDArray[Any]:
        """Return the array, in a worker process."""
        memory = memoryview(self.block.open())
        return np.frombuffer(memory, self.dtype, math.prod(self.shape), self.start).reshape(self.shape)


class BufferPool:
    """Lends memory for arrays; the memory returns when the last view of it is freed.

    It takes no locks: the garbage collector returns memory in any thread, also in one that would hold the lock.
    ``max_idle`` idle blocks are kept, and further ones freed. Worker processes can write to ``shared`` memory.
    """

    def __init__(self, max_idle: int, use: str = "a batch", shared: SharedMemory | None = None) -> None:
        # Appending to a full deque drops its oldest block, in one atomic step.
        self._idle: deque[_Block] = deque(maxlen=max_idle)
        self._use = use
        self._shared = shared

    def __repr__(self) -> str:
        return (
            f"BufferPool({len(self._idle)} of at most {self._idle.maxlen} blocks idle, {format_bytes(self.idle_bytes)})"
        )

    @property
    def idle_bytes(self) -> int:
        """Bytes of the idle blocks."""
        return sum(block.nbytes for block in list(self._idle))

    def lease(self, shape: Sequence[int], dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """Lend memory as an array of any content, C-contiguous and writable; its block may be larger."""
        return self.lease_shared(shape, dtype)[0]

    def lease_shared(
        self, shape: Sequence[int], dtype: npt.DTypeLike = np.uint8
    ) -> tuple[npt.NDArray[Any], SharedArray | None]:
        """Lend memory as `lease` does; also return it for worker processes, if it is shared."""
        kind, count = np.dtype(dtype), math.prod(shape)
        size = max(1, count * kind.itemsize)
        block = allocate(lambda: self._take_block(size), size, f"{self._use} {list(shape)}", _ADVICE)
        memory = (ctypes.c_ubyte * block.nbytes).from_buffer(block.data)
        # The deque and not the pool: memory that outlives its pool is freed, not kept.
        weakref.finalize(memory, self._idle.append, block).atexit = False
        array: npt.NDArray[Any] = np.frombuffer(memoryview(memory), kind, count).reshape(shape)
        return array, SharedArray(block.shared, tuple(shape), kind) if isinstance(block, SharedBlock) else None

    def _take_block(self, size: int) -> _Block:
        while self._idle:
            try:
                block = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            # A smaller block is dropped: it was for batches of an earlier size.
            if block.nbytes >= size:
                return block
        # Linux promises memory that it has not, and ends a process that writes to it.
        if size >= _LARGE and (free := count_free_memory()) is not None and size > free:
            raise MemoryError
        return _allocate_aligned(size) if self._shared is None else self._shared.allocate(size)


def _allocate_aligned(size: int) -> npt.NDArray[np.uint8]:
    memory = np.empty(size + ALIGNMENT - 1, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


class BufferPools:
    """The buffers of a loader: of batches, of clips for a transform, of ``singles`` of any size, of unfinished clips.

    The numbers are those of idle blocks that are kept; no ``clips`` are needed if these are decoded into the batches
    themselves. Without ``dtype``, batches have that of the results that are put into them. ``form`` is that of the last
    result of the transform, None before the first.
    """

    def __init__(
        self,
        batches: int,
        clips: int | None = None,
        shared: SharedMemory | None = None,
        scratch: int = 2,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.batches = BufferPool(batches, shared=shared)
        self.clips = None if clips is None else BufferPool(clips, "a clip")
        self.singles = BufferPool(0, "a clip", shared)
        self.scratch = BufferPool(scratch, "a clip")
        self.form: Form | None = None
        self.dtype = dtype
        self._make = partial(BufferPools, batches, clips, shared, scratch, dtype)
        self._others: dict[int, BufferPools] = {}

    def of_stream(self, number: int) -> BufferPools:
        """Return the buffers of a stream of the clips: blocks of one size serve one stream."""
        if not number:
            return self
        # Of two threads, both get the pools that were stored first.
        return self._others.get(number) or self._others.setdefault(number, self._make())


def get_form(result: AnyArray) -> Form:
    """Return shape and dtype of a result."""
    return result.shape, result.dtype
