"""Batches that several workers fill, each at its own slots, and the errors of their clips."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from traceback import format_exception
from typing import Any

import numpy as np

from framefeed.catalog import Catalog, explain_relative_path
from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LoadError,
    MissingMedia,
    ResourceExhausted,
    TimeUnavailable,
    UsageError,
)
from framefeed.load._batch import ClipBatch
from framefeed.load._memory import ClipMemory
from framefeed.load._stats import Stopwatch
from framefeed.media import ImageSequence, source_name
from framefeed.parallel import SAYS_NOTHING_OF_FILES, Err, Ok, catch_error, find_shortage, make_shortage_error
from framefeed.plan import EpochPlan, locate_row
from framefeed.request import DecodeRequest

_TRANSFORM_INPUT = "a NumPy array, uint8 [T, C, H, W], and a NumPy generator"
"""Arguments that a ClipLoader gives to a transform."""


def with_position(
    error: Exception, *, position: int, source: str | None, stage: str, given: str = _TRANSFORM_INPUT, where: str = ""
) -> FramefeedError:
    """Add position, source and stage to the error of a clip.

    An error that has a stage keeps it. ``given`` are the arguments of the transform, for the message about one that is
    made for other types; ``where`` is what failed with an exception that is not framefeed's: " in the decoder 'mine'".

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
            f"{source}: {stage} failed{where} for the clip at position {position}: {type(error).__name__}: "
            f"{error}{hint}",
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
    if error.position is None or error.late_position is not None:
        error.late_position = position
    error.position = position
    error.source = error.source or source
    error.stage = error.stage or stage
    return error


def is_always_raised(error: FramefeedError | None) -> bool:
    """Whether the error of a clip is raised, whatever ``on_error`` is: it says nothing about the file.

    So are shortages, and wrong calls and missing packages that are found when the clip is planned or read.
    """
    if not isinstance(error, SAYS_NOTHING_OF_FILES):
        return False
    return error.stage != "transform" or isinstance(error, ResourceExhausted)


def suggest_skipping(error: FramefeedError) -> FramefeedError:
    """Name ``on_error`` as a next step in the message of an error that is raised for a damaged or untimed clip."""
    if isinstance(error, CorruptMedia | TimeUnavailable) and "on_error=" not in error.plain_message:
        advice = "to go on without such clips, give on_error='skip' (zeros) or 'substitute' (another clip)"
        error.args = (f"{error.plain_message}; {advice}",)
    return error


def drop_tracebacks(error: BaseException) -> None:
    """Remove the tracebacks of an error that is kept, not raised: their frames hold whole batches."""
    links: list[BaseException | None] = [error]
    while links:
        link = links.pop()
        if link is not None and link.__traceback__ is not None:
            link.__traceback__ = None
            links += [link.__cause__, link.__context__]


ApplyTransform = Callable[[tuple[Any, int]], Any]
"""Calls the transform on (clip, position of the plan); clips and results of several streams are dicts."""


class BatchFrames:
    """Times and boxes of the clips of one stream of a batch.

    Attributes:
        pts_seconds: Time of each frame, float64 [B, T]; NaN if unknown or if the clip failed.
        valid: False for frames that replace others, and for clips that failed, bool [B, T].
        boxes: Of a plan with a border, where pictures lie in those that are delivered, int64 [B, 4]; else None.
        flipped: Of a plan with flips, whether left and right of each clip are swapped, bool [B]; else None.
    """

    def __init__(self, plan: EpochPlan, count: int, length: int) -> None:
        self.pts_seconds = np.full((count, length), np.nan)
        self.valid = np.zeros((count, length), dtype=np.bool_)
        self.boxes = np.zeros((count, 4), dtype=np.int64) if plan.options.has_boxes else None
        self.flipped = np.zeros(count, dtype=np.bool_) if plan.options.has_flips else None

    def note(self, slot: int, request: DecodeRequest) -> None:
        """Note the frames of a clip."""
        self.pts_seconds[slot] = request.pts_seconds
        self.valid[slot] = request.valid
        if self.boxes is not None and request.box is not None:
            self.boxes[slot] = request.box
        if self.flipped is not None:
            self.flipped[slot] = request.flipped

    def clear(self, slot: int) -> None:
        """Note that a clip failed."""
        self.pts_seconds[slot] = np.nan
        self.valid[slot] = False
        if self.boxes is not None:
            self.boxes[slot] = 0
        if self.flipped is not None:
            self.flipped[slot] = False

    def copy_from(self, other: BatchFrames, slots: Sequence[int]) -> None:
        """Copy those of some slots, in their order in another batch."""
        self.pts_seconds[slots] = other.pts_seconds
        self.valid[slots] = other.valid
        if self.boxes is not None and other.boxes is not None:
            self.boxes[slots] = other.boxes
        if self.flipped is not None and other.flipped is not None:
            self.flipped[slots] = other.flipped


class PendingBatch:
    """A batch that workers fill; each slot is written by one worker.

    ``positions`` are those of the plan, which is at the epoch of the batch; of a substitute, its own. ``lengths`` and
    ``frames`` have one number of frames, and the times and boxes, for each stream. There are no ``streams`` if a clip
    has one without a name.
    """

    streams: tuple[str, ...] = ()
    transform_input = _TRANSFORM_INPUT

    def __init__(self, plan: EpochPlan, positions: Sequence[int], memory: ClipMemory, lengths: Sequence[int]) -> None:
        self.positions = list(positions)
        self.memory = memory
        self.lengths = list(lengths)
        self.count = len(positions)
        self._plan = plan
        self._planning = threading.Lock()
        self._requests: list[DecodeRequest | None] | None = None
        self._plan_seconds = 0.0
        self._global_positions = np.array([plan.global_position(each) for each in positions], dtype=np.int64)
        parts = plan.streams.values() or [plan]
        self.frames = [BatchFrames(part, self.count, length) for part, length in zip(parts, self.lengths, strict=True)]
        self.rows = [plan.row_at(position) for position in positions]
        self.errors: list[FramefeedError | None] = [None] * self.count

    def __len__(self) -> int:
        """Number of slots: of a batch of several streams, one for each stream of each clip."""
        return len(self.positions)

    def find_clips(self, slots: Sequence[int]) -> list[int]:
        """Find the clips, below ``count``, that some slots are of."""
        return list(slots)

    def list_slots(self, clips: Sequence[int]) -> list[int]:
        """List the slots of some clips: those of all streams, one stream after the other."""
        return list(clips)

    def join_clips(self, clips: Sequence[Any]) -> Any:
        """Make what a transform gets of the decoded clips [T, ...] of one clip: of several streams a dict."""
        (clip,) = clips
        return clip

    def split_result(self, clip: int, result: Any) -> dict[int, Any]:
        """Split the result of a transform by the slots that it is put into."""
        return {clip: result}

    def find_error(self, clip: int) -> FramefeedError | None:
        """Return the error of a clip."""
        return self.errors[clip]

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

    def make_request(self, slot: int) -> DecodeRequest | None:
        """Make the request of one slot, if not all are made; None where it cannot be made."""
        if self._requests is not None:
            return self._requests[slot]
        outcome = catch_error(self._plan.__getitem__, self.positions[slot])
        return outcome.value if isinstance(outcome, Ok) else None

    def take_plan_seconds(self) -> float:
        """Return the seconds that the requests took to make; 0 after the first call, so that they count once."""
        with self._planning:
            seconds, self._plan_seconds = self._plan_seconds, 0.0
        return seconds

    def _make_request(self, slot: int) -> DecodeRequest | None:
        outcome = catch_error(self._plan.__getitem__, self.positions[slot])
        if isinstance(outcome, Err):
            self.fail(slot, outcome.error, "plan")
            return None
        self._note_frames(slot, outcome.value)
        return outcome.value

    def _note_frames(self, slot: int, request: DecodeRequest) -> None:
        self.frames[0].note(slot, request)

    def fail(self, slot: int, error: BaseException, stage: str, where: str = "") -> None:
        """Mark a clip as failed; KeyboardInterrupt and SystemExit are raised instead."""
        if not isinstance(error, Exception):
            raise error
        position, name = self.identify(slot)
        if isinstance(error, MissingMedia) and error.position is None:
            error.args = (f"{error}{explain_relative_path(*locate_row(self._plan.catalog, self.rows[slot]))}",)
        given = self.transform_input
        self.set_error(
            slot, with_position(error, position=position, source=name, stage=stage, given=given, where=where)
        )

    def set_error(self, slot: int, error: FramefeedError) -> None:
        """Mark a clip as failed with an error that has its position."""
        self.errors[slot] = error
        self.frames[0].clear(slot)
        self.memory.clear(slot)

    # --- called by the consumer -----------------------------------------------------------------------

    def substitute(self, slot: int, position: int) -> bool:
        """Expect another clip in a slot that failed; the slot keeps its own position in the batch.

        Returns:
            Whether there is such a clip; it may fail when it is decoded.
        """
        outcome = catch_error(self._plan.__getitem__, position)
        if isinstance(outcome, Err) or len(outcome.value) != self.lengths[0]:
            return False
        self._set_clip(slot, position)
        self.errors[slot] = None
        self._note_frames(slot, outcome.value)
        if self._requests is not None:
            self._requests[slot] = outcome.value
        return True

    def restore(self, slot: int, error: FramefeedError) -> None:
        """Give up on substitutes: the slot has its own clip again, which failed with an error."""
        self._set_clip(slot, int(self._global_positions[slot]))
        self.set_error(slot, error)

    def _set_clip(self, slot: int, position: int) -> None:
        self.positions[slot] = position
        self.rows[slot] = self._plan.row_at(position)
        if self._requests is not None:
            self._requests[slot] = None
        self.memory.reshape(slot, find_shapes(self._plan, self._plan.catalog, [self.rows[slot]], self.lengths[0])[0])

    def count_pixels(self, row: int) -> int | None:
        """Count the pixels of a source that is one frame, of clips of one frame; None for others."""
        catalog = self._plan.catalog
        if self.lengths != [1] or catalog.num_frames[row] != 1:
            return None
        return int(catalog.heights[row]) * int(catalog.widths[row])

    def get_source(self, slot: int) -> Any:
        """Return what opens the source of a clip."""
        # That of a request is at hand; the catalog has to find it.
        request = None if self._requests is None else self._requests[slot]
        return self._plan.catalog.source(self.rows[slot]) if request is None else request.source

    def identify(self, slot: int) -> tuple[int, str]:
        """Return the global position of a clip, and its source's name for messages."""
        return int(self._global_positions[slot]), source_name(self.get_source(slot))

    def finish(self, apply_transform: ApplyTransform | None = None) -> ClipBatch:
        """Make the batch, after the last worker has written; results of a transform may need ``apply_transform``."""
        make_result = None if apply_transform is None else lambda clip: apply_transform((clip, self.positions[0]))
        slots = [slot for slot, error in enumerate(self.errors) if error is None]
        data, misfits = self.memory.finish(slots, make_result)
        for slot in misfits:
            # A loader that has a dtype makes all results of it.
            dtype, what = ("", "shape") if self.memory.has_dtype else (f"{data.dtype} ", "shape and dtype")
            message = (
                f"transform: expected {dtype}{list(data.shape[1:])} as for the first clip of the batch, got "
                f"another {what.replace('and', 'or')}: return arrays of one {what}"
            )
            self.fail(slot, UsageError(message), "transform")
        # Moved, not shared: the traceback of one error refers to this object, and would keep all its errors alive.
        errors, self.errors = self.errors, []
        (frames,) = self.frames
        return ClipBatch(
            data=data,
            pts_seconds=frames.pts_seconds,
            valid=frames.valid,
            positions=self._global_positions,
            rows=self._plan.name_rows(self.positions),
            columns=self._plan.columns_of(self.positions),
            sources=[self.show_source(slot) for slot in range(len(self))],
            ok=np.array([error is None for error in errors]),
            errors=errors,
            boxes=frames.boxes,
            flipped=frames.flipped,
        )

    def show_source(self, slot: int) -> Any:
        """Return the source of a slot as batches have it."""
        source = self.get_source(slot)
        return source.name if isinstance(source, ImageSequence) else source


def find_shapes(plan: EpochPlan, catalog: Catalog, rows: Sequence[int], length: int) -> list[tuple[int, ...]]:
    """Find the shapes of clips of so many frames, of sources in some rows of a catalog."""
    if not plan.options.unequal:
        return [(length, *plan.picture_shape)] * len(rows)
    sizes = [(int(catalog.heights[row]), int(catalog.widths[row])) for row in rows]
    return [(length, *plan.options.pictures.shape(*size)) for size in sizes]


def find_clip_length(plan: EpochPlan, positions: Sequence[int], stream: str | None = None) -> int:
    """Find the number of frames of each clip of a batch, of one of its streams if it has several."""
    known = (plan if stream is None else plan.streams[stream]).frames_per_clip
    if known is not None:
        return known
    # Requests may differ between batches, not within one; those that cannot be made are left out.
    lengths: dict[int, int] = {}
    for position in positions:
        outcome = catch_error(plan.__getitem__, position)
        if isinstance(outcome, Ok):
            request: Any = outcome.value
            lengths.setdefault(len(request if stream is None else request[stream]), position)
    if len(lengths) > 1:
        (one, here), (other, there) = list(lengths.items())[:2]
        raise UsageError(
            f"all clips of a batch must have the same number of frames, but position {here} of the plan has {one} and "
            f"position {there} has {other}: make one plan for each length, or repeat frames"
        )
    return next(iter(lengths), 1)
