"""Units of work: the clips of one source in one batch, decoded together, so that each GOP is decoded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray
from framefeed._checks import shown
from framefeed.decode import ClipSlot, DecodeCounts, Decoder, DecodeReport, Pixels, new_pixels
from framefeed.errors import UsageError
from framefeed.load._batch import ClipBatch
from framefeed.load._drafts import Draft, Memory
from framefeed.load._options import Transform
from framefeed.load._stats import Stopwatch, WorkCost
from framefeed.media import MediaSource
from framefeed.parallel import Err, Ok, outcome_of
from framefeed.plan import DecodeRequest, EpochPlan


@dataclass(slots=True, repr=False)
class Unit:
    """The clips of one source in one batch.

    Attributes:
        draft: The batch.
        row: The source's row of the catalog.
        places: Of the clips in the batch.
        stage: What a worker is doing with it.
    """

    draft: Draft
    row: int
    places: list[int]
    stage: str = "plan"

    def __repr__(self) -> str:
        return f"{len(self.places)} clips of {self.draft.name_of(self.places[0])[1]}"

    def fail(self, error: BaseException) -> None:
        """Note that all its clips failed, for a reason that is not of one of them."""
        for place in self.places:
            self.draft.fail(place, error, self.stage)


def units_of(draft: Draft) -> list[Unit]:
    """Split a batch into units, in the order in which their sources first appear."""
    return [Unit(draft, row, places) for row, places in draft.places_by_row.items()]


class ClipWorker:
    """Plans, decodes and transforms the clips of a unit; called by several threads at once.

    Args:
        plan: At the epoch of the batches.
        decoder: Turns requests into pixels.
        transform: The user's function of (clip [T, C, H, W], rng).
    """

    def __init__(self, plan: EpochPlan, decoder: Decoder, transform: Transform | None = None) -> None:
        self._plan = plan
        self._decoder = decoder
        self._transform = transform

    def __call__(self, unit: Unit | None) -> WorkCost:
        """Do the work on a unit, if there is one; what fails is noted in its batch."""
        cost = WorkCost()
        if unit is None:
            return cost
        watch = Stopwatch()
        planned = unit.draft.requests()
        requests = {place: request for place in unit.places if (request := planned[place]) is not None}
        cost.plan = watch.lap()
        unit.stage = "decode"
        clips = self._decode(unit, requests, cost.counts)
        cost.decode = watch.lap()
        if self._transform is not None:
            unit.stage = "transform"
            cost.nbytes = self._transform_all(unit, clips)
            cost.transform = watch.lap()
        else:
            cost.nbytes = sum(clip.nbytes for clip in clips.values())
        return cost

    def transformed(self, clip_and_position: tuple[Pixels, int]) -> npt.NDArray[Any]:
        """Call the transform on the clip of one of this rank's positions."""
        clip, position = clip_and_position
        assert self._transform is not None
        returned = self._transform(clip, self._plan.generator_at(position))
        result = np.asarray(returned)
        if result.dtype.hasobject or result.dtype.kind in "SU":
            raise _no_array(returned, result)
        return result

    def _decode(self, unit: Unit, requests: dict[int, DecodeRequest], counts: DecodeCounts) -> dict[int, Pixels]:
        if not requests:
            return {}
        draft = unit.draft
        clips = {place: draft.slot(place) for place in requests}
        parts = [part for number, request in requests.items() for part in _parts_of(number, request, clips[number])]
        errors: list[Any] = []
        if parts:
            outcome = outcome_of(self._report, (unit.row, [part.slot for part in parts]))
            if isinstance(outcome, Err):
                errors = [outcome.error] * len(parts)
            else:
                counts += outcome.value.counts
                errors = list(outcome.value.errors)
        for part, error in zip(parts, errors, strict=True):
            if error is not None and part.number in clips:
                draft.fail(part.number, error, unit.stage)
                del clips[part.number]
        for part in parts:
            if part.frames is not None and part.number in clips:
                clips[part.number][part.frames] = part.slot.out
        for number, clip in clips.items():
            if (skipped := requests[number].skipped) is not None:
                clip[skipped] = 0
        return clips

    def _report(self, row_and_slots: tuple[int, Sequence[ClipSlot]]) -> DecodeReport:
        row, slots = row_and_slots
        catalog = self._plan.catalog
        return self._decoder.decode(MediaSource.of(catalog.source(row)), catalog.frame_index(row), slots)

    def _transform_all(self, unit: Unit, clips: dict[int, Pixels]) -> int:
        nbytes = 0
        for place in list(clips):
            # Popped, so that the memory of a clip comes back before the next one is transformed.
            outcome = outcome_of(self.transformed, (clips.pop(place), unit.draft.positions[place]))
            if isinstance(outcome, Ok):
                unit.draft.put(place, outcome.value)
                nbytes += outcome.value.nbytes
            else:
                unit.draft.fail(place, outcome.error, unit.stage)
        return nbytes


def _no_array(returned: object, result: npt.NDArray[Any]) -> UsageError:
    if returned is None:
        found = "None: end the function with `return` and the transformed clip"
    else:
        found = f"{shown(returned)}, which as an array has the type {result.dtype}"
    return UsageError(f"transform: expected it to return an array of numbers, got {found}")


class _Part(NamedTuple):
    """Frames of a clip that are decoded into one slot.

    Attributes:
        number: Of the clip in the batch.
        frames: Which frames of the clip, bool [T], where the slot has memory of its own; None where it is the clip's.
        slot: What the decoder is asked for.
    """

    number: int
    frames: BoolArray | None
    slot: ClipSlot


def _parts_of(number: int, request: DecodeRequest, clip: Pixels) -> Iterator[_Part]:
    """Ask for a clip as it is; or, where damaged frames are not an error, for the sound ones and the damaged ones."""
    if request.damaged is None or request.on_damaged == "error":
        yield _Part(number, None, ClipSlot(request.ordinals, request.output, clip))
        return
    for frames, accepts in ((~request.damaged, False), (request.damaged, True)):
        if frames.any() and (not accepts or request.on_damaged == "deliver"):
            shape = np.count_nonzero(frames), *clip.shape[1:]
            memory = new_pixels(shape, f"{shape[0]} frames of a clip {list(shape)}")
            yield _Part(number, frames, ClipSlot(request.ordinals[frames], request.output, memory, accepts))


def load_batch(plan: EpochPlan, positions: Sequence[int], decoder: Decoder, memory: Memory) -> ClipBatch:
    """Load some positions here and now, in this thread; the errors of clips are in the batch.

    Raises:
        IndexError: There is no such position.
        UsageError: The clips differ in their number of frames.
    """
    draft, work = Draft(plan, positions, memory), ClipWorker(plan, decoder)
    for unit in units_of(draft):
        work(unit)
    return draft.finish()
