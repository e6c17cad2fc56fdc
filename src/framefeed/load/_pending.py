"""Batches that several workers fill, each at its own slots, and the errors of their clips."""

from __future__ import annotations

import copy
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from traceback import format_exception
from typing import Any, TypeAlias, TypeVar

import numpy as np

from framefeed._arrays import AnyArray
from framefeed.catalog import explain_relative_path
from framefeed.decode import Pixels
from framefeed.errors import (
    CorruptMedia,
    FramefeedError,
    LoadError,
    MissingMedia,
    ResourceExhausted,
    TimeUnavailable,
    UsageError,
)
from framefeed.load._batch import BufferPools, ByStream, ClipBatch
from framefeed.load._memory import ClipMemory, make_memory
from framefeed.load._stats import Stopwatch
from framefeed.media import ImageSequence, source_name
from framefeed.parallel import SAYS_NOTHING_OF_FILES, Err, Ok, catch_error, find_shortage, make_shortage_error
from framefeed.plan import ClipPart, EpochPlan, PlannedClip, PlannedClips, Shape, Take, iterate_takes
from framefeed.request import draw_numbers

T = TypeVar("T")
Outcome: TypeAlias = Ok[PlannedClip] | Err
"""What planning a clip gave."""
_TRANSFORM_INPUT = "a NumPy array, uint8 [T, C, H, W], and a NumPy generator"
"""Arguments that a ClipLoader gives to a transform."""
_TRANSFORM_INPUTS = f"a dict by stream of NumPy arrays, {_TRANSFORM_INPUT.partition(', ')[2]}"
"""The same of several streams."""


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
    if isinstance(error, CorruptMedia | TimeUnavailable) and "on_error=" not in str(error):
        error.advice = "to go on without such clips, give on_error='skip' (zeros) or 'substitute' (another clip)"
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
"""Calls the transform on (clip, global position); clips and results of several streams are dicts."""


class BatchFrames:
    """Times and boxes of the clips of one part of a batch, as a `ClipBatch` has them."""

    def __init__(self, lengths: Sequence[int], *, is_ragged: bool, has_boxes: bool, has_flips: bool) -> None:
        count, self._is_ragged = len(lengths), is_ragged

        def make(fill: float | bool) -> Any:
            if is_ragged:
                return [np.full(length, fill) for length in lengths]
            return np.full((count, lengths[0]), fill)

        self.pts_seconds, self.seconds, self.valid = make(np.nan), make(np.nan), make(False)
        self.end_seconds = np.full(count, np.nan)
        self.boxes = np.zeros((count, 4), dtype=np.int64) if has_boxes else None
        self.flipped = np.zeros(count, dtype=np.bool_) if has_flips else None

    def note(self, clip: int, part: ClipPart) -> None:
        """Note the frames of a clip."""
        frames = part.takes[0] if len(part.takes) == 1 else part
        times, seconds, valid = frames.pts_seconds, frames.seconds, frames.valid
        if self._is_ragged:  # those of plans are shared
            times, seconds, valid = times.copy(), seconds.copy(), valid.copy()
        self.pts_seconds[clip], self.seconds[clip], self.valid[clip] = times, seconds, valid
        self.end_seconds[clip] = frames.end_seconds
        if self.boxes is not None and part.box is not None:
            self.boxes[clip] = part.box
        if self.flipped is not None:
            self.flipped[clip] = part.flipped

    def clear(self, clip: int) -> None:
        """Note that a clip failed."""
        self.pts_seconds[clip][...] = self.seconds[clip][...] = self.end_seconds[clip] = np.nan
        self.valid[clip][...] = False
        for array in (self.boxes, self.flipped):
            if array is not None:
                array[clip] = 0

    def resize(self, clip: int, length: int) -> None:
        """Expect another T of a clip, if clips may differ in it."""
        if self._is_ragged:
            self.pts_seconds[clip], self.seconds[clip] = np.full(length, np.nan), np.full(length, np.nan)
            self.valid[clip] = np.zeros(length, dtype=np.bool_)

    def copy_from(self, other: BatchFrames, clips: Sequence[int]) -> None:
        """Copy those of some clips, in their order in another batch."""
        for own, others in zip(self._list_arrays(), other._list_arrays(), strict=True):
            if isinstance(own, np.ndarray):
                own[clips] = others
            else:
                for clip, each in zip(clips, others, strict=True):
                    own[clip] = each

    def _list_arrays(self) -> list[Any]:
        arrays = (self.pts_seconds, self.seconds, self.valid, self.end_seconds, self.boxes, self.flipped)
        return [each for each in arrays if each is not None]


class PendingBatch:
    """A batch of B clips of K takes that workers fill: slot k * B + b is take k of clip b, and has one worker.

    ``plan`` is that of the whole epoch on one rank, at the epoch of the batch. A clip fails as a whole.
    """

    def __init__(
        self,
        plan: EpochPlan,
        found: PlannedClips,
        memories: Sequence[ClipMemory],
        shapes: Sequence[Sequence[Shape]],
        planned: Sequence[Outcome] | None = None,
    ) -> None:
        forms = plan.clips.forms
        self.plan = plan
        self.positions: list[int] = found.positions.tolist()  # global ones; of a substitute its own
        self.memories = list(memories)  # of each part: a take writes to its frames of a part
        self.shapes = [list(of_part) for of_part in shapes]  # (T, C, H, W) of each clip, a list of B for each part
        self.count = len(found)
        self.names = tuple(forms)  # of the parts; "" for that of clips of one stream
        self.has_streams = self.names != ("",)
        self._found = found
        self._global_positions = found.positions
        self._planned = planned
        self._uncertain = [number for number, form in enumerate(forms.values()) if form.num_frames is None]
        self._planning = threading.Lock()
        self._takes: list[Take | None] | None = None
        self._plan_seconds = 0.0
        self._source_of: dict[int, str | bytes | ImageSequence] = {}  # by row
        self._parts: list[int] = []  # of each take
        self.places: list[tuple[int, int, slice]] = []  # part, clip, and frames of the part, of each slot
        self.frames: list[BatchFrames] = []
        for part, (form, of_part) in enumerate(zip(forms.values(), self.shapes, strict=True)):
            lengths, has_flips = list(map(itemgetter(0), of_part)), plan.clips.has_flips
            options = {"is_ragged": form.is_ragged, "has_boxes": form.has_boxes, "has_flips": has_flips}
            self.frames.append(BatchFrames(lengths, **options))
            self._parts += [part] * len(form.takes)
            if len(form.takes) == 1:
                stretches = map(slice, lengths) if form.is_ragged else repeat(slice(lengths[0]))
                self.places += zip(repeat(part), range(self.count), stretches, strict=False)
            else:
                start = 0
                for own in form.takes:
                    frames = slice(start, start := start + (own or 0))
                    self.places += zip(repeat(part), range(self.count), repeat(frames), strict=False)
        # Number of each slot's source among those of the plan.
        self.rows: list[int] = list(chain.from_iterable(found.rows))
        self.errors: list[FramefeedError | None] = [None] * len(self.rows)

    def __len__(self) -> int:
        """Number of slots."""
        return len(self.rows)

    def find_clips(self, slots: Sequence[int]) -> list[int]:
        """Find the clips that some slots are of."""
        return list(dict.fromkeys(slot % self.count for slot in slots))

    def list_slots(self, clips: Sequence[int]) -> list[int]:
        """List the slots of some clips: those of all takes, one take after the other."""
        return [number * self.count + clip for number in range(len(self._parts)) for clip in clips]

    def join_parts(self, parts: Sequence[T]) -> ByStream[T]:
        """Make what a transform gets of the decoded parts [T, ...] of a clip: of several streams a dict."""
        return dict(zip(self.names, parts, strict=True)) if self.has_streams else parts[0]

    def split_result(self, result: Any) -> list[AnyArray]:
        """Split the result of a transform into those of the parts."""
        return [result[name] for name in self.names] if self.has_streams else [result]

    def find_error(self, clip: int) -> FramefeedError | None:
        """Return the error of a clip: of the first take that failed."""
        errors = (self.errors[slot] for slot in range(clip, len(self.errors), self.count))
        return next((error for error in errors if error is not None), None)

    # --- called by workers ----------------------------------------------------------------------------

    def plan_takes(self) -> list[Take | None]:
        """Plan the take of each slot; None where its clip cannot be planned.

        The first call plans them all: decoding evicts from the CPU's caches the data that planning needs, so that one
        clip later takes as long as several now.
        """
        with self._planning:
            if self._takes is None:
                watch = Stopwatch()
                takes: list[Take | None] = [None] * len(self)
                for clip in range(self.count):
                    outcome = catch_error(self._found.plan, clip) if self._planned is None else self._planned[clip]
                    if self._uncertain and isinstance(outcome, Ok):
                        outcome = self._check_length(clip, outcome)
                    if isinstance(outcome, Ok):
                        self._set_takes(takes, clip, outcome.value)
                    else:
                        for slot in self.list_slots([clip]):
                            self.fail(slot, outcome.error, "plan")
                self._planned = None
                self._takes = takes
                self._plan_seconds = watch.lap()
        return self._takes

    def _check_length(self, clip: int, planned: Ok[PlannedClip]) -> Outcome:
        """Check that a clip has the frames that its memory is for; of most rules it has."""
        for number in self._uncertain:
            part, length = list(planned.value.parts.values())[number], self.shapes[number][clip][0]
            if len(part) != length:
                return Err(
                    UsageError(
                        f"{part.name}: the clip rule chose {length} frames, and {len(part)} when it was asked again: "
                        "`choose` must depend on its arguments alone"
                    )
                )
        return planned

    def _set_takes(self, takes: list[Take | None], clip: int, planned: PlannedClip) -> None:
        takes[clip :: self.count] = iterate_takes(planned)
        for frames, part in zip(self.frames, planned.parts.values(), strict=True):
            frames.note(clip, part)

    def plan_take(self, slot: int) -> Take | None:
        """Plan the take of one slot, if not all are planned; None where it cannot be planned."""
        if self._takes is not None:
            return self._takes[slot]
        take, clip = divmod(slot, self.count)
        outcome = catch_error(self._found.plan, clip)
        return list(iterate_takes(outcome.value))[take] if isinstance(outcome, Ok) else None

    def pop_plan_seconds(self) -> float:
        """Return the seconds that planning took; 0 after the first call, so that they count once."""
        with self._planning:
            seconds, self._plan_seconds = self._plan_seconds, 0.0
        return seconds

    def fail(self, slot: int, error: BaseException, stage: str, where: str = "") -> None:
        """Mark a clip as failed; KeyboardInterrupt and SystemExit are raised instead."""
        if not isinstance(error, Exception):
            raise error
        position, name = self.identify(slot)
        if isinstance(error, MissingMedia) and error.position is None:
            error.advice = explain_relative_path(*self.plan.clips.sources.locate(self.rows[slot]))
        given = _TRANSFORM_INPUTS if self.has_streams else _TRANSFORM_INPUT
        failed = with_position(error, position=position, source=name, stage=stage, given=given, where=where)
        if self.has_streams and failed.stage != "transform" and "(stream " not in failed.plain_message:
            failed.stream = failed.stream or self.names[self.places[slot][0]]
        self.set_error(slot, failed)

    def set_error(self, slot: int, error: FramefeedError) -> None:
        """Mark the take of a clip as failed with an error that has its position; the others follow in `finish`."""
        part, clip, _ = self.places[slot]
        self.errors[slot] = error
        self.frames[part].clear(clip)
        self.memories[part].clear(clip)

    # --- called by the consumer -----------------------------------------------------------------------

    def substitute(self, clip: int, position: int) -> bool:
        """Expect another clip in place of one that failed, and say whether there is one, which may fail in its turn.

        The clip keeps its own position in the batch.
        """
        found = self.plan.clips_at(np.array([position]))
        outcome = catch_error(found.plan, 0)
        if isinstance(outcome, Err):
            return False
        for form, of_part, part in zip(
            self.plan.clips.forms.values(), self.shapes, outcome.value.parts.values(), strict=True
        ):
            if not form.is_ragged and len(part) != of_part[clip][0]:
                return False
        self._set_clip(clip, position, found)
        for slot in self.list_slots([clip]):
            self.errors[slot] = None
        if self._takes is not None:
            self._set_takes(self._takes, clip, outcome.value)
        return True

    def restore(self, clip: int, error: FramefeedError) -> None:
        """Give up on substitutes: the clip is its own again, which failed with an error."""
        position = int(self._global_positions[clip])
        self._set_clip(clip, position, self.plan.clips_at(np.array([position])))
        for slot in self.list_slots([clip]):
            self.set_error(slot, error)

    def _set_clip(self, clip: int, position: int, found: PlannedClips) -> None:
        self.positions[clip] = position
        self.rows[clip :: self.count] = [rows[0] for rows in found.rows]
        shapes, _ = resolve_shapes(self.plan, found)
        for part, (shape,) in enumerate(shapes):
            if self.plan.clips.forms[self.names[part]].unequal:
                self.shapes[part][clip] = shape
                self.memories[part].reshape(clip, shape)
                self.frames[part].resize(clip, shape[0])
                if len(self.names) == len(self._parts):
                    self.places[part * self.count + clip] = (part, clip, slice(shape[0]))
        if self._takes is not None:
            self._takes[clip :: self.count] = [None] * len(self._parts)

    def count_pixels(self, row: int) -> int | None:
        """Count the pixels of a source that is one frame, of clips of one frame; None for others."""
        sources = self.plan.clips.sources
        if self.has_streams or self.plan.clips.forms[""].num_frames != 1 or sources.num_frames[row] != 1:
            return None
        return int(sources.heights[row]) * int(sources.widths[row])

    def get_source(self, slot: int) -> str | bytes | ImageSequence:
        """Return what opens the source of a slot."""
        row = self.rows[slot]
        source = self._source_of.get(row)
        if source is None:
            # That of a take is at hand; the catalog has to find it.
            take = None if self._takes is None else self._takes[slot]
            source = self.plan.clips.sources.source(row) if take is None else take.source
            self._source_of[row] = source
        return source

    def identify(self, slot: int) -> tuple[int, str]:
        """Return the global position of a slot, and its source's name for messages."""
        return int(self._global_positions[slot % self.count]), source_name(self.get_source(slot))

    def finish(self, apply_transform: ApplyTransform | None = None) -> ClipBatch:
        """Make the batch, after the last worker has written; results of a transform may need ``apply_transform``."""
        errors: list[FramefeedError | None] = [None] * self.count
        ok, good = np.ones(self.count, np.bool_), list(range(self.count))
        if any(self.errors):
            errors = list(map(self.find_error, good))
            good = [clip for clip in good if errors[clip] is None]
            for clip in set(range(self.count)).difference(good):
                ok[clip] = False
                self._clear(clip)
        data, misfits = self._finish_parts(good, apply_transform)
        for clip, message in misfits.items():
            self.fail(clip, UsageError(message), "transform")
            errors[clip], ok[clip] = self.errors[clip], False
            self._clear(clip)
            if self.has_streams:
                for each in data:
                    each[clip][...] = 0
        # Moved, not shared: the traceback of one error refers to this object, and would keep all its errors alive.
        self.errors = []
        is_own = np.array_equal(self.positions, self._global_positions)
        found = self._found if is_own else self.plan.clips_at(np.array(self.positions, dtype=np.int64))
        boxes = {name: each.boxes for name, each in zip(self.names, self.frames, strict=True) if each.boxes is not None}
        own = ("pts_seconds", "valid", "seconds", "end_seconds")
        order, buckets = self.plan.order, self.plan.clips.buckets
        return ClipBatch(
            **{name: self.join_parts(list(map(attrgetter(name), self.frames))) for name in own},
            data=self.join_parts(data),
            positions=self._global_positions,
            rows=found.name_rows(),
            columns=found.read_columns(),
            sources=self.join_parts(list(map(self._show_sources, range(len(self.names))))),
            ok=ok,
            errors=errors,
            boxes=(boxes or None) if self.has_streams else boxes.get(""),
            flipped=self.frames[0].flipped,
            draw=draw_numbers(order.seed, order.epoch, self._global_positions),
            bucket=(self.shapes[0][0][0], *self.shapes[0][0][2:]) if buckets else None,
            _find_keys=found.list_keys,
        )

    def _clear(self, clip: int) -> None:
        """Replace a clip that failed by zeros, in all parts."""
        for frames, memory in zip(self.frames, self.memories, strict=True):
            frames.clear(clip)
            memory.clear(clip)

    def _show_sources(self, part: int) -> list[Any]:
        """Return the source of each clip of a part; of several takes, the first and the number of others."""
        first, stop = bisect_left(self._parts, part), bisect_right(self._parts, part)
        shown_takes = [
            list(map(self._show_source, range(take * self.count, (take + 1) * self.count)))
            for take in range(first, stop)
        ]
        if len(shown_takes) == 1:
            return shown_takes[0]
        shown = [list(dict.fromkeys(of_clip)) for of_clip in zip(*shown_takes, strict=True)]
        return [f"{first} and {len(others)} more" if others else first for first, *others in shown]

    def _show_source(self, slot: int) -> object:
        source = self.get_source(slot)
        return source.name if isinstance(source, ImageSequence) else source

    def _finish_parts(
        self, good: list[int], apply_transform: ApplyTransform | None
    ) -> tuple[list[Any], dict[int, str]]:
        """Return the pixels of each part, and the messages about clips whose results do not fit."""
        data, misfits = list[Any](), dict[int, str]()

        def make_result(part: int, black: Pixels) -> AnyArray:
            assert apply_transform is not None
            parts = [np.zeros(shape, np.uint8) for shape, *_ in self.shapes]
            parts[part] = black
            return self.split_result(apply_transform((self.join_parts(parts), self.positions[0])))[part]

        for part, (name, memory) in enumerate(zip(self.names, self.memories, strict=True)):
            each, wrong = memory.finish(good, None if apply_transform is None else partial(make_result, part))
            data.append(each)
            for clip in wrong:
                # A loader that has a dtype makes all results of it.
                dtype, what = ("", "shape") if memory.has_dtype else (f"{each.dtype} ", "shape and dtype")
                where = f" for the stream {name!r}" if name else ""
                misfits[clip] = (
                    f"transform: expected {dtype}{list(each.shape[1:])}{where} as for the first clip of the batch, got "
                    f"another {what.replace('and', 'or')}: return arrays of one {what}"
                )
        return data, misfits


def resolve_shapes(plan: EpochPlan, found: PlannedClips) -> tuple[list[list[Shape]], list[Outcome] | None]:
    """Find the shapes of some clips, a list of B for each part; those whose T is not known are planned for it.

    Returns:
        The shapes, and what was planned; None if it was not needed. T of a clip that cannot be planned may be 1.

    Raises:
        UsageError: Clips of one batch differ in T.
    """
    forms, shapes = plan.clips.forms, found.find_shapes()
    if all(form.num_frames is not None for form in forms.values()):
        return shapes, None
    planned: list[Outcome] | None = None
    if any(length < 0 for of_part in shapes for length, *_ in of_part):
        planned = [catch_error(found.plan, slot) for slot in range(len(found))]
        for name, of_part in zip(forms, shapes, strict=True):
            for slot, (outcome, shape) in enumerate(zip(planned, of_part, strict=True)):
                if shape[0] < 0 and isinstance(outcome, Ok):
                    of_part[slot] = outcome.value.parts[name].shape
    for form, of_part in zip(forms.values(), shapes, strict=True):
        if not form.is_ragged:
            length = _find_common_length(found, of_part)
            of_part[:] = [(length, *shape[1:]) for shape in of_part]
        elif planned is not None:
            of_part[:] = [(max(1, length), *rest) for length, *rest in of_part]  # type: ignore[misc]
    return shapes, planned


def _find_common_length(found: PlannedClips, shapes: Sequence[Shape]) -> int:
    """Find T of clips that must agree in it. Those that cannot be planned have no frames."""
    slots = [slot for slot, shape in enumerate(shapes) if shape[0] >= 0]
    if len({shapes[slot][0] for slot in slots}) > 1:
        slots = [slot for slot in slots if isinstance(catch_error(found.plan, slot), Ok)]
    others = [slot for slot in slots if shapes[slot][0] != shapes[slots[0]][0]]
    if others:
        one, other = slots[0], others[0]
        raise UsageError(
            f"all clips of a batch must have the same number of frames, but position {found.positions[one]} of the "
            f"plan has {shapes[one][0]} and position {found.positions[other]} has {shapes[other][0]}: plan with "
            "unequal=True, which makes each batch a list of clips (in torch, collate with ff.torch.pad_clips), or make "
            "one plan for each length, or repeat frames"
        )
    return shapes[slots[0]][0] if slots else 1


def begin_batch(plan: EpochPlan, found: PlannedClips, buffers: BufferPools) -> PendingBatch:
    """Begin a batch in memory of a loader; ``plan`` is of the whole epoch."""
    shapes, planned = resolve_shapes(plan, found)
    memories = [
        make_memory(each, buffers.of_stream(number), unequal=form.unequal)
        for number, (each, form) in enumerate(zip(shapes, plan.clips.forms.values(), strict=True))
    ]
    return PendingBatch(plan, found, memories, shapes, planned)
