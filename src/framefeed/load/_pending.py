"""Batches that several workers fill, each at its own slots, and the errors of their clips."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from traceback import format_exception
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.catalog import explain_relative_path
from framefeed.decode import Pixels, allocate_pixels
from framefeed.errors import FramefeedError, LoadError, MissingMedia, UsageError
from framefeed.load._batch import BufferPool, ClipBatch, Stack
from framefeed.load._stats import Stopwatch
from framefeed.media import ImageSequence, source_name
from framefeed.parallel import Err, Ok, catch_outcome, find_shortage, make_shortage_error
from framefeed.plan import DecodeRequest, EpochPlan

_TRANSFORM_INPUT = "a NumPy array, uint8 [T, C, H, W], and a NumPy generator"
"""Arguments that a ClipLoader gives to a transform."""


def with_position(
    error: Exception, *, position: int, source: str | None, stage: str, given: str = _TRANSFORM_INPUT
) -> FramefeedError:
    """Add position, source and stage to the error of a clip.

    Args:
        error: Any exception.
        position: Global position of the clip.
        source: Name of its source.
        stage: "plan", "decode" or "transform"; an error that has a stage keeps it.
        given: Arguments of the transform, for the message about a transform made for other types.

    Returns:
        The error; a copy of it if it has another position already, because one error may end several clips;
        ResourceExhausted if something ran out; a LoadError for an exception that is not framefeed's.
    """
    # A shortage that the user's own function raises is its own, except one of memory.
    is_users_own = stage == "transform" and not isinstance(error, MemoryError)
    resource = None if isinstance(error, FramefeedError) or is_users_own else find_shortage(error)
    if resource is not None:
        shortage = make_shortage_error(resource, source or "a clip", stage)
        shortage.__cause__ = error
        error = shortage
    if not isinstance(error, FramefeedError):
        may_be_input = stage == "transform" and isinstance(error, (AttributeError, TypeError))
        hint = f" (the transform received {given})" if may_be_input else ""
        wrapped = LoadError(
            f"{source}: {stage} failed for the clip at position {position}: {type(error).__name__}: {error}{hint}",
            position=position,
            source=source,
            stage=stage,
            remote_traceback="".join(format_exception(error)),
        )
        wrapped.__cause__ = error
        return wrapped
    if error.position not in (None, position):
        cause, traceback = error.__cause__, error.__traceback__
        error = copy.copy(error).with_traceback(traceback)
        error.__cause__ = cause
    if error.position is None:
        # In the message too: PyTorch's workers send nothing else of an error.
        error.args = (f"{error} (clip at position {position})",)
    error.position = position
    error.source = error.source or source
    error.stage = error.stage or stage
    return error


def drop_tracebacks(error: BaseException) -> None:
    """Remove the tracebacks of an error that is kept, not raised: their frames hold whole batches."""
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None and link.__traceback__ is not None:
            link.__traceback__ = None
            links += [link.__cause__, link.__context__]


ApplyTransform = Callable[[tuple[Pixels, int]], npt.NDArray[Any]]
"""Calls the transform on (clip, position of this rank)."""


class BufferPools:
    """The buffers of a loader.

    Args:
        batches: Most idle batches kept.
        clips: Most idle clips kept, for a transform; None if clips are decoded into the batches themselves.
    """

    def __init__(self, batches: int, clips: int | None = None) -> None:
        self.batches = BufferPool(batches)
        self.clips = None if clips is None else BufferPool(clips, "a clip")


class PendingBatch:
    """A batch that workers fill; each slot is written by one worker.

    Args:
        plan: At the epoch of the batch.
        positions: Positions of this rank, one for each slot.
        buffers: Memory for the pixels.

    Attributes:
        positions: Positions of this rank, one for each slot.
    """

    def __init__(self, plan: EpochPlan, positions: Sequence[int], buffers: BufferPools) -> None:
        count = len(positions)
        self.positions = positions
        self._plan = plan
        self._planning = threading.Lock()
        self._requests: list[DecodeRequest | None] | None = None
        self._plan_seconds = 0.0
        self._global_positions = plan.global_position(np.asarray(positions, dtype=np.int64))
        length = _find_clip_length(plan, positions)
        # With unequal pictures each clip has memory of its own.
        self._clips: list[npt.NDArray[Any] | None] | None = None
        self._clip_shape: tuple[int, ...] = ()
        self._buffers = buffers
        self._pixels: Pixels | None = None
        self._stack: Stack | None = None
        if plan.options.unequal:
            self._clips = [None] * count
        else:
            self._clip_shape = (length, *plan.picture_shape)
            if buffers.clips is None:
                self._pixels = buffers.batches.lease((count, *self._clip_shape))
            else:
                self._stack = Stack(count, buffers.batches)
        self._pts_seconds = np.full((count, length), np.nan)
        self._valid = np.zeros((count, length), dtype=np.bool_)
        self._columns: list[dict[str, np.generic]] = [{}] * count
        self._rows = [plan.row_at(position) for position in positions]
        self._sources = [plan.catalog.source(row) for row in self._rows]
        self._errors: list[FramefeedError | None] = [None] * count

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def slots_by_row(self) -> dict[int, list[int]]:
        """Slots of each source, by its row of the catalog, in the order in which the sources first appear."""
        slots: dict[int, list[int]] = {}
        for slot, row in enumerate(self._rows):
            slots.setdefault(row, []).append(slot)
        return slots

    # --- called by workers ----------------------------------------------------------------------------

    def make_requests(self) -> list[DecodeRequest | None]:
        """Make the request of each slot; None where it cannot be made.

        The first call makes them all: decoding evicts from the CPU's caches the data that planning needs, so that one
        request later takes as long as several now.
        """
        with self._planning:
            if self._requests is None:
                watch = Stopwatch()
                self._requests = [self._make_request(slot) for slot in range(len(self))]
                self._plan_seconds = watch.lap()
        return self._requests

    def take_plan_seconds(self) -> float:
        """Return the seconds that the requests took to make; 0 after the first call, so that they count once."""
        with self._planning:
            seconds, self._plan_seconds = self._plan_seconds, 0.0
        return seconds

    def _make_request(self, slot: int) -> DecodeRequest | None:
        position = self.positions[slot]
        self._columns[slot] = self._plan.columns_at(position)
        outcome = catch_outcome(self._plan.__getitem__, position)
        if isinstance(outcome, Err):
            self.fail(slot, outcome.error, "plan")
            return None
        self._pts_seconds[slot] = outcome.value.pts_seconds
        self._valid[slot] = outcome.value.valid
        return outcome.value

    def lease_clip(self, slot: int) -> Pixels:
        """Lend the memory that a clip is decoded into, uint8 [T, C, H, W] of any content."""
        if self._clips is not None:
            shape = self._shape_at(slot)
            clip = self._clips[slot] = allocate_pixels(shape, f"a clip {list(shape)}")
            return clip
        if self._pixels is not None:
            pixels: Pixels = self._pixels[slot]
            return pixels
        assert self._buffers.clips is not None
        return self._buffers.clips.lease(self._clip_shape)

    def put_result(self, slot: int, result: npt.NDArray[Any]) -> None:
        """Store the transform's result for a clip."""
        if self._clips is not None:
            self._clips[slot] = result
        else:
            assert self._stack is not None
            self._stack.put(slot, result)

    def fail(self, slot: int, error: BaseException, stage: str) -> None:
        """Mark a clip as failed; KeyboardInterrupt and SystemExit are raised instead."""
        if not isinstance(error, Exception):
            raise error
        position, name = self.identify(slot)
        if isinstance(error, MissingMedia) and error.position is None:
            error.args = (f"{error}{explain_relative_path(self._plan.catalog, self._rows[slot])}",)
        self._errors[slot] = with_position(error, position=position, source=name, stage=stage)
        self._pts_seconds[slot] = np.nan
        self._valid[slot] = False
        if self._pixels is not None:
            self._pixels[slot] = 0
        if self._clips is not None:
            self._clips[slot] = np.zeros(self._shape_at(slot), np.uint8)

    def _shape_at(self, slot: int) -> tuple[int, ...]:
        catalog, row = self._plan.catalog, self._rows[slot]
        picture = self._plan.options.pictures.shape(int(catalog.heights[row]), int(catalog.widths[row]))
        return self._pts_seconds.shape[1], *picture

    # --- called by the consumer -----------------------------------------------------------------------

    def identify(self, slot: int) -> tuple[int, str]:
        """Return the global position of a clip, and its source's name for messages."""
        return int(self._global_positions[slot]), source_name(self._sources[slot])

    def finish(self, apply_transform: ApplyTransform | None = None) -> ClipBatch:
        """Make the batch, after the last worker has written.

        Args:
            apply_transform: Needed if results of a transform are stacked.
        """
        self.make_requests()  # not made yet if no worker began
        if self._stack is not None:
            assert apply_transform is not None
            self._pixels = self._stack_results(self._stack, apply_transform)
        columns = {name: np.array([values[name] for values in self._columns]) for name in self._columns[0]}
        for name, column in columns.items():
            if column.dtype.kind in "iu":
                columns[name] = column.astype(np.int64)
        # Moved, not shared: the traceback of one error refers to this object, and would keep all its errors alive.
        errors, self._errors = self._errors, []
        return ClipBatch(
            data=self._pixels if self._clips is None else self._clips,
            pts_seconds=self._pts_seconds,
            valid=self._valid,
            positions=self._global_positions,
            columns=columns,
            sources=[source.name if isinstance(source, ImageSequence) else source for source in self._sources],
            ok=np.array([error is None for error in errors]),
            errors=errors,
        )

    def _stack_results(self, stack: Stack, apply_transform: ApplyTransform) -> npt.NDArray[Any]:
        array, misfits = stack.finish([slot for slot, error in enumerate(self._errors) if error is None])
        if array is None:
            # Every clip failed: the result for a black clip has the form of the missing ones.
            clip = self.lease_clip(0)
            clip[...] = 0
            outcome = catch_outcome(apply_transform, (clip, self.positions[0]))
            return stack.zeros(outcome.value if isinstance(outcome, Ok) else clip)
        for slot in misfits:
            message = (
                f"transform: expected {array.dtype} {list(array.shape[1:])} as for the first clip of the batch, got "
                "another shape or dtype: return arrays of one shape and dtype"
            )
            self.fail(slot, UsageError(message), "transform")
        return array


def _find_clip_length(plan: EpochPlan, positions: Sequence[int]) -> int:
    if plan.frames_per_clip is not None:
        return plan.frames_per_clip
    # Requests may differ between batches, not within one; those that cannot be made are left out.
    lengths: dict[int, int] = {}
    for position in positions:
        outcome = catch_outcome(plan.__getitem__, position)
        if isinstance(outcome, Ok):
            lengths.setdefault(len(outcome.value), position)
    if len(lengths) > 1:
        (one, here), (other, there) = list(lengths.items())[:2]
        raise UsageError(
            f"all clips of a batch must have the same number of frames, but position {here} of the plan has {one} and "
            f"position {there} has {other}: make one plan for each length, or repeat frames"
        )
    return next(iter(lengths), 1)
