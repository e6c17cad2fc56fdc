"""Decoders that each break one rule, and the test of the exam that catches each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from framefeed.decode import ClipSlot, DecodeReport
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import CorruptMedia, FramefeedError, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource


class Right:
    """The protocol alone, around a decoder that is right."""

    name = "wrong"

    def __init__(self) -> None:
        self._inner = PyAVDecoder()

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return self._inner.decode(source, index, slots)

    def close(self) -> None:
        self._inner.close()


class Nameless(Right):
    name = ""


class AsksWrongly(Right):
    """Decodes other slots than the ones it was given, into the same memory."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return super().decode(source, index, [self.change(slot, len(index)) for slot in slots])

    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        raise NotImplementedError


class OffByOne(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return replace(slot, indices=np.minimum(slot.indices + 1, num_frames - 1))


class InOrderOfTheFile(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return replace(slot, indices=np.sort(slot.indices))


class NeedsFrames(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return replace(slot, indices=slot.indices + 0 * slot.indices[0])


class CropsOneRowTooHigh(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        if slot.output.crop is None:
            return slot
        top, left, height, width = slot.output.crop
        return replace(slot, output=replace(slot.output, crop=(max(top - 1, 0), left, height, width)))


class ResizesTheWholePicture(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return replace(slot, output=replace(slot.output, crop=None)) if slot.output.size else slot


class Repaints(Right):
    """Changes the pixels of slots that are right."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = super().decode(source, index, slots)
        for slot in slots:
            self.repaint(slot, index)
        return report

    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        raise NotImplementedError


class BlueForRed(Repaints):
    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        axis = 1 if slot.output.dimension_order == "NCHW" else 3
        slot.out[:] = np.flip(slot.out, axis)


class EachFrameOnce(Repaints):
    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        again = np.setdiff1d(np.arange(len(slot.indices)), np.unique(slot.indices, return_index=True)[1])
        slot.out[again] = 0


class UpsideDownInRows(Repaints):
    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        if slot.output.dimension_order == "NHWC":
            slot.out[:] = slot.out[:, ::-1]


class MirrorsTurnedPictures(Repaints):
    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        if index.stream.rotation:
            slot.out[:] = np.flip(slot.out, 3 if slot.output.dimension_order == "NCHW" else 2)


class KnowsOneFilter(AsksWrongly):
    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return replace(slot, output=replace(slot.output, filter="bilinear"))


class FirstSlotAlone(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        super().decode(source, index, slots[:1]).raise_first()
        return DecodeReport([None] * len(slots))


class BoundToItsThread(Right):
    """Gives black pictures in other threads than the one that it was made in."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = super().decode(source, index, slots)
        for slot in slots:
            slot.out[:] *= threading.get_ident() == self._thread
        return report


class SwallowsErrors(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        super().decode(source, index, slots)
        return DecodeReport([None] * len(slots))


class FailsAllSlots(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        errors = super().decode(source, index, slots).errors
        return DecodeReport([next(filter(None, errors), None)] * len(slots))


class FillsTheGap(Right):
    """Gives the frame before in the place of one that is lost."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = super().decode(source, index, slots)
        for number, error in enumerate(report.errors):
            if isinstance(error, CorruptMedia):
                slot = slots[number]
                before = replace(slot, indices=slot.indices - np.isin(slot.indices, error.frames))
                report.errors[number] = super().decode(source, index, [before]).errors[0]
        return report


class BlamesEveryFrame(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = super().decode(source, index, slots)
        for number, error in enumerate(report.errors):
            if isinstance(error, CorruptMedia):
                report.errors[number] = CorruptMedia(str(error), frames=range(len(index)), source=source.name)
        return report


class RaisesErrorsOfItsLibrary(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        try:
            report = super().decode(source, index, slots)
            report.raise_first()
        except FramefeedError as error:
            raise ValueError("error 17") from error
        return report


class BelievesThePath(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return super().decode(source, replace(index, identity=None), slots)


class BelievesOffsets(Right):
    """Reads every packet as a range of bytes of the file."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        return super().decode(source, replace(index, stream=replace(index.stream, contiguous=True)), slots)


class WorksOnce(Right):
    is_closed = False

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if self.is_closed:
            raise UsageError("the decoder is closed")
        return super().decode(source, index, slots)

    def close(self) -> None:
        self.is_closed = True


class StaysAtHome(Right):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class ReadsPathsAlone(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if source.kind != "path":
            raise UsageError(f"{source.kind} cannot be read")
        return super().decode(source, index, slots)


class StreamsLate(Right):
    """Its optional methods give each picture under the number of the frame before."""

    def iter_rgb(self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], *rest: Any) -> Iterator[Any]:
        return self._late(partial(self._inner.iter_rgb, source, index), ordinals, *rest)

    def iter_native(self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], *rest: Any) -> Iterator[Any]:
        return self._late(partial(self._inner.iter_native, source, index), ordinals, *rest)

    def _late(self, read: Callable[..., Iterator[Any]], ordinals: Sequence[int], *rest: Any) -> Iterator[Any]:
        for ordinal, picture in read([ordinal + 1 for ordinal in ordinals], *rest):
            yield ordinal - 1, picture


class AnotherRecipeEachTime(Right):
    _numbers = count()

    def recipe(self, index: FrameIndex) -> str:
        return f"wrong {next(self._numbers)}"


CAUGHT: list[tuple[type[Right], str]] = [
    (Nameless, "test_it_is_a_decoder"),
    (OffByOne, "test_frames_show_their_numbers"),
    (BlueForRed, "test_frames_show_their_numbers"),
    (InOrderOfTheFile, "test_any_order_gives_the_frames_of_sequential_reading"),
    (EachFrameOnce, "test_any_order_gives_the_frames_of_sequential_reading"),
    (NeedsFrames, "test_nothing_asked_for_gives_nothing"),
    (BelievesOffsets, "test_another_container"),
    (UpsideDownInRows, "test_dimension_orders"),
    (CropsOneRowTooHigh, "test_crops"),
    (ResizesTheWholePicture, "test_sizes"),
    (KnowsOneFilter, "test_filters"),
    (MirrorsTurnedPictures, "test_pictures_stand_upright"),
    (FirstSlotAlone, "test_slots_of_one_call"),
    (BoundToItsThread, "test_several_threads"),
    (SwallowsErrors, "test_a_lost_frame_fails_only_its_slots"),
    (FailsAllSlots, "test_a_lost_frame_fails_only_its_slots"),
    (FillsTheGap, "test_a_lost_frame_fails_only_its_slots"),
    (BlamesEveryFrame, "test_a_lost_frame_fails_only_its_slots"),
    (RaisesErrorsOfItsLibrary, "test_errors_are_of_framefeed"),
    (BelievesThePath, "test_a_file_that_is_gone_or_changed_is_an_error"),
    (WorksOnce, "test_it_works_again_after_close"),
    (StaysAtHome, "test_it_travels_to_another_process"),
    (ReadsPathsAlone, "test_bytes"),
    (ReadsPathsAlone, "test_file_objects"),
    (StreamsLate, "test_iter_rgb"),
    (StreamsLate, "test_iter_native"),
    (AnotherRecipeEachTime, "test_the_recipe_is_a_text_that_stays"),
]
