"""Draft: a batch in the making, into which several workers write, each at places of its own.

Errors of one clip: framefeed's own keep their type and learn where they happened, all others become LoadErrors.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from traceback import format_exception
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.catalog import missing_hint
from framefeed.decode import Pixels, new_pixels
from framefeed.errors import FramefeedError, LoadError, MissingMedia, UsageError
from framefeed.load._batch import BufferPool, ClipBatch, Stack
from framefeed.media import ImageSequence, source_name
from framefeed.parallel import Err, Ok, outcome_of, resource_exhausted, shortage_in
from framefeed.plan import DecodeRequest, EpochPlan

_TO_A_LOADERS = "a NumPy array, uint8 [T, C, H, W], and a NumPy generator"
"""What a ClipLoader calls a transform with."""


def placed(
    error: Exception, *, position: int, source: str | None, stage: str, given: str = _TO_A_LOADERS
) -> FramefeedError:
    """Say of an error which clip it belongs to.

    Args:
        error: Whatever was raised.
        position: Global position of the clip.
        source: Name of its source.
        stage: What was being done; kept where the error itself knows better.
        given: What a transform received, which is told where it seems to be made for something else.

    Returns:
        The error itself, a copy of it where it has a position already, for one error may spoil several clips, or what
        it caused: ResourceExhausted where something ran out, else a LoadError.
    """
    # In the user's own function only what it could not handle itself.
    is_theirs = stage == "transform" and not isinstance(error, MemoryError)
    resource = None if isinstance(error, FramefeedError) or is_theirs else shortage_in(error)
    if resource is not None:
        shortage = resource_exhausted(resource, source or "a clip", stage)
        shortage.__cause__ = error
        error = shortage
    if not isinstance(error, FramefeedError):
        is_of_type = stage == "transform" and isinstance(error, (AttributeError, TypeError))
        return _wrapped(error, position, source, stage, f" (the transform received {given})" if is_of_type else "")
    if error.position not in (None, position):
        cause, traceback = error.__cause__, error.__traceback__
        error = copy.copy(error).with_traceback(traceback)
        error.__cause__ = cause
    if error.position is None:
        # In the message too: PyTorch's workers hand on nothing else of an error.
        error.args = (f"{error} (clip at position {position})",)
    error.position = position
    error.source = error.source or source
    error.stage = error.stage or stage
    return error


def _wrapped(error: Exception, position: int, source: str | None, stage: str, remark: str) -> LoadError:
    wrapped = LoadError(
        f"{source}: {stage} failed for the clip at position {position}: {type(error).__name__}: {error}{remark}",
        position=position,
        source=source,
        stage=stage,
        remote_traceback="".join(format_exception(error)),
    )
    wrapped.__cause__ = error
    return wrapped


def drop_tracebacks(error: BaseException) -> None:
    """Free what the frames of an error hold, which is whole batches; for errors that are kept, not raised."""
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None and link.__traceback__ is not None:
            link.__traceback__ = None
            links += [link.__cause__, link.__context__]


Transformed = Callable[[tuple[Pixels, int]], npt.NDArray[Any]]


class Memory:
    """The buffers of a loader.

    Args:
        batches: Most idle batches kept.
        clips: Most idle clips kept, where a transform makes the batches of them; None where clips are decoded straight
            into batches.
    """

    def __init__(self, batches: int, clips: int | None = None) -> None:
        self.batches = BufferPool(batches)
        self.clips = None if clips is None else BufferPool(clips, "a clip")


class Draft:
    """A batch in the making.

    Args:
        plan: At the epoch of the batch.
        positions: This rank's, one a place.
        memory: Where its pixels go.

    Attributes:
        positions: This rank's, one a place.
    """

    def __init__(self, plan: EpochPlan, positions: Sequence[int], memory: Memory) -> None:
        count = len(positions)
        self.positions = positions
        self._plan = plan
        self._planning = threading.Lock()
        self._requests: list[DecodeRequest | None] | None = None
        self._globally = plan.global_position(np.asarray(positions, dtype=np.int64))
        length = clip_length(plan, positions)
        # Of a plan with unequal pictures there is no one shape: each clip has memory of its own.
        self._clips: list[npt.NDArray[Any] | None] | None = None
        self._clip_shape: tuple[int, ...] = ()
        self._memory = memory
        self._pixels: Pixels | None = None
        self._stack: Stack | None = None
        if plan.options.unequal:
            self._clips = [None] * count
        else:
            self._clip_shape = (length, *plan.picture_shape)
            if memory.clips is None:
                self._pixels = memory.batches.lease((count, *self._clip_shape))
            else:
                self._stack = Stack(count, memory.batches)
        self._pts_seconds = np.full((count, length), np.nan)
        self._valid = np.zeros((count, length), dtype=np.bool_)
        self._columns: list[dict[str, np.generic]] = [{}] * count
        self._rows = [plan.row_at(position) for position in positions]
        self._sources = [plan.catalog.source(row) for row in self._rows]
        self._errors: list[FramefeedError | None] = [None] * count

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def places_by_row(self) -> dict[int, list[int]]:
        """Places of each source, by its row of the catalog, in the order in which the sources first appear."""
        places: dict[int, list[int]] = {}
        for place, row in enumerate(self._rows):
            places.setdefault(row, []).append(place)
        return places

    # --- what workers do ------------------------------------------------------------------------------

    def requests(self) -> list[DecodeRequest | None]:
        """Make the request of each place; None where it cannot be made.

        The first call makes them all: between two clips a worker's caches have forgotten what planning needs, and
        making one request takes as long as making several.
        """
        with self._planning:
            if self._requests is None:
                self._requests = [self._planned(place) for place in range(len(self))]
        return self._requests

    def _planned(self, place: int) -> DecodeRequest | None:
        position = self.positions[place]
        self._columns[place] = self._plan.columns_at(position)
        outcome = outcome_of(self._plan.__getitem__, position)
        if isinstance(outcome, Err):
            self.fail(place, outcome.error, "plan")
            return None
        self._pts_seconds[place] = outcome.value.pts_seconds
        self._valid[place] = outcome.value.valid
        return outcome.value

    def slot(self, place: int) -> Pixels:
        """Give the memory that a clip is to be decoded into, uint8 [T, C, H, W] of any content."""
        if self._clips is not None:
            shape = self._shape_at(place)
            clip = self._clips[place] = new_pixels(shape, f"a clip {list(shape)}")
            return clip
        if self._pixels is not None:
            slot: Pixels = self._pixels[place]
            return slot
        assert self._memory.clips is not None
        return self._memory.clips.lease(self._clip_shape)

    def put(self, place: int, result: npt.NDArray[Any]) -> None:
        """Take what the transform made of a clip."""
        if self._clips is not None:
            self._clips[place] = result
        else:
            assert self._stack is not None
            self._stack.put(place, result)

    def fail(self, place: int, error: BaseException, stage: str) -> None:
        """Note that a clip failed; a wish to stop (KeyboardInterrupt, SystemExit) is raised instead."""
        if not isinstance(error, Exception):
            raise error
        position, name = self.name_of(place)
        if isinstance(error, MissingMedia) and error.position is None:
            error.args = (f"{error}{missing_hint(self._plan.catalog, self._rows[place])}",)
        self._errors[place] = placed(error, position=position, source=name, stage=stage)
        self._pts_seconds[place] = np.nan
        self._valid[place] = False
        if self._pixels is not None:
            self._pixels[place] = 0
        if self._clips is not None:
            self._clips[place] = np.zeros(self._shape_at(place), np.uint8)

    def _shape_at(self, place: int) -> tuple[int, ...]:
        catalog, row = self._plan.catalog, self._rows[place]
        picture = self._plan.options.pictures.shape(int(catalog.heights[row]), int(catalog.widths[row]))
        return self._pts_seconds.shape[1], *picture

    # --- what the consumer does -----------------------------------------------------------------------

    def name_of(self, place: int) -> tuple[int, str]:
        """Global position of a clip, and its source's name for messages."""
        source = self._sources[place]
        return int(self._globally[place]), source_name(source)

    def finish(self, transformed: Transformed | None = None) -> ClipBatch:
        """Make the batch, once no worker has anything left to write.

        Args:
            transformed: Calls the transform on a clip at one of this rank's positions; needed with a stack.
        """
        self.requests()  # not made yet if no worker came to it
        if self._stack is not None:
            assert transformed is not None
            self._pixels = self._stacked(self._stack, transformed)
        errors, self._errors = self._errors, []
        # Given away, not shared: the frames that an error passed refer to the draft, and would so to all its errors.
        return ClipBatch(
            data=self._pixels if self._clips is None else self._clips,
            pts_seconds=self._pts_seconds,
            valid=self._valid,
            positions=self._globally,
            columns=_joined(self._columns),
            sources=[source.name if isinstance(source, ImageSequence) else source for source in self._sources],
            ok=np.array([error is None for error in errors]),
            errors=errors,
        )

    def _stacked(self, stack: Stack, transformed: Transformed) -> npt.NDArray[Any]:
        places = [place for place, error in enumerate(self._errors) if error is None]
        array, misfits = stack.finish(places)
        if array is None:
            return stack.zeros(self._example(transformed))
        for place in misfits:
            message = (
                f"transform: expected {array.dtype} {list(array.shape[1:])} as for the first clip of the batch, got "
                "another shape or dtype: return arrays of one shape and dtype"
            )
            self.fail(place, UsageError(message), "transform")
        return array

    def _example(self, transformed: Transformed) -> npt.NDArray[Any]:
        # Every clip failed, so that the form of the results is unknown: that of a black clip tells.
        clip = self.slot(0)
        clip[...] = 0
        outcome = outcome_of(transformed, (clip, self.positions[0]))
        return outcome.value if isinstance(outcome, Ok) else clip


def common_clip_length(plan: EpochPlan) -> int | None:
    """T if all clips of the plan have the same, else None."""
    try:
        return plan.num_frames_per_clip
    except UsageError:
        return None


def clip_length(plan: EpochPlan, positions: Sequence[int]) -> int:
    """T of the clips of a batch.

    Raises:
        UsageError: They differ.
    """
    common = common_clip_length(plan)
    if common is not None:
        return common
    # Of requests of different lengths those of a batch must agree. One that cannot be made has no say in it.
    lengths: dict[int, int] = {}
    for position in positions:
        outcome = outcome_of(plan.__getitem__, position)
        if isinstance(outcome, Ok):
            lengths.setdefault(len(outcome.value), position)
    if len(lengths) > 1:
        (one, here), (other, there) = list(lengths.items())[:2]
        raise UsageError(
            f"all clips of a batch must have the same number of frames, but position {here} of the plan has {one} and "
            f"position {there} has {other}: make one plan for each length, or repeat frames"
        )
    return next(iter(lengths), 1)


def _joined(columns: list[dict[str, np.generic]]) -> dict[str, npt.NDArray[Any]]:
    """Turn one dict a clip into one array [B] a column, whole numbers as int64."""
    joined = {name: np.array([values[name] for values in columns]) for name in columns[0]}
    return {name: column.astype(np.int64) if column.dtype.kind in "iu" else column for name, column in joined.items()}
