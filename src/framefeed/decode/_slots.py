"""Write decoded frames to the slots of a call: convert each once for each output form, then copy it.

Also for callers with a picture of their own, such as a cache: convert it as its backend does.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from framefeed._shortage import try_again_in_shortage
from framefeed.decode._convert import Converter
from framefeed.decode._decoder import ClipSlot, DecodeReport, Pixels, allocate_pixels
from framefeed.decode._reduction import find_reduction, fit_to_proxy, reduce_crop
from framefeed.errors import CorruptMedia, FormatChanged, FramefeedError, ResourceExhausted
from framefeed.index import FrameIndex, has_picture_files
from framefeed.media import MediaSource, SequenceSource
from framefeed.pictures import reduce_size
from framefeed.request import OutputSpec

_LISTED_FRAMES = 8
WHOLE_PICTURE = "bgr24"
"""Pixel format of still pictures of full size among reduced ones, which are rgb24."""

E = TypeVar("E", bound=FramefeedError)
R = TypeVar("R")
# Converts one picture to an output form, in the given memory.
Write = Callable[[OutputSpec, Pixels], None]


class PendingFrames:
    """The frames of a call that have not been written yet, each with its targets: (slot, number in the clip).

    ``numbers`` are those of the slots to write; None for all. ``report`` receives errors and counts.
    """

    def __init__(
        self,
        slots: Sequence[ClipSlot],
        report: DecodeReport,
        source: MediaSource,
        numbers: Iterable[int] | None = None,
    ) -> None:
        self._slots = slots
        self._source = source
        self._report = report
        self._targets: dict[int, list[tuple[int, int]]] = {}
        for slot in range(len(slots)) if numbers is None else numbers:
            for number, ordinal in enumerate(slots[slot].indices.tolist()):
                self._targets.setdefault(ordinal, []).append((slot, number))

    @property
    def waiting(self) -> list[int]:
        """Ordinals of the frames, in the order of the slots."""
        return list(self._targets)

    def fill(self, ordinal: int, write: Write) -> None:
        """Convert a frame once for each output form, and copy it to all its targets; it waits on if that fails."""
        first_targets: dict[object, tuple[int, int]] = {}
        errors, counts = self._report.errors, self._report.counts
        for slot, number in self._targets[ordinal]:
            output, out = self._slots[slot].output, self._slots[slot].out[number]
            first = first_targets.setdefault(output, (slot, number))
            if errors[slot] is not None:
                continue
            counts.frames_delivered += 1
            if first != (slot, number) and errors[first[0]] is None:
                out[:] = self._slots[first[0]].out[first[1]]
                continue
            try:
                _try_converting(partial(write, output, out), self._source)
                counts.frames_converted += 1
            except ResourceExhausted:  # not an error of this picture
                raise
            except FramefeedError as error:
                errors[slot] = error
        del self._targets[ordinal]

    def slots_waiting(self) -> dict[int, list[int]]:
        """Group the ordinals by slot, ascending."""
        missing: dict[int, set[int]] = {}
        for ordinal, targets in self._targets.items():
            for slot, _ in targets:
                missing.setdefault(slot, set()).add(ordinal)
        return {slot: sorted(ordinals) for slot, ordinals in missing.items()}


def convert_picture(
    write: Write,
    output: OutputSpec,
    shape: tuple[int, ...],
    source: MediaSource,
    convert: Callable[[OutputSpec], Pixels | None] | None = None,
) -> Pixels:
    """Convert one picture to new memory, with ``write``; by ``convert`` where that gives memory of its own."""
    if convert is not None and (pixels := _try_converting(partial(convert, output), source)) is not None:
        return pixels
    out = allocate_pixels(shape, f"{source.name}: a frame {list(shape)}", source=source.name)
    write_frame(write, output, out, source)
    return out


def write_frame(write: Write, output: OutputSpec, out: Pixels, source: MediaSource) -> None:
    """Convert one picture to memory of the caller, in a shortage twice; errors get the source's name."""
    _try_converting(partial(write, output, out), source)


def _try_converting(convert: Callable[[], R], source: MediaSource) -> R:
    try:
        return try_again_in_shortage(convert, source.name, "convert")
    except ResourceExhausted:
        raise
    except FramefeedError as error:
        if error.source is not None:
            raise
        raise copy_error(error, f"{source.name}: {error}", source.name) from error


def copy_error(error: E, message: str, name: str) -> E:
    """Copy an error of decoding, with another message and the source's name."""
    other = copy.copy(error)
    other.args, other.source, other.stage = (message,), name, "decode"
    return other


def make_missing_error(source: MediaSource, index: FrameIndex, ordinals: Sequence[int]) -> CorruptMedia:
    """Make the error for frames that are in the index and do not come out of the decoder."""
    listed = ", ".join(map(str, ordinals[:_LISTED_FRAMES])) + (", ..." if len(ordinals) > _LISTED_FRAMES else "")
    why = ", or the header of the file lists more frames than it has" if index.built_from == "packets" else ""
    return CorruptMedia(
        f"{source.name}: frame{'s' if len(ordinals) > 1 else ''} {listed} of {len(index)} cannot be decoded without "
        f"damage{why}; {suggest_next_step(index, ordinals)}",
        frames=ordinals,
        source=source.name,
        stage="decode",
    )


def suggest_next_step(index: FrameIndex, ordinals: Sequence[int]) -> str:
    """Suggest how to continue without frames that cannot be decoded."""
    if index.num_damaged_frames is None:
        return (
            "run ff.scan (or ff.build_index) with verify='full' to find such frames; plan_clips(..., "
            "on_damaged='skip') then skips them (on the command line: --on-damaged skip; for a catalog, framefeed scan "
            "--verify full before it)"
        )
    if index.is_damaged(np.array(ordinals, dtype=np.int64)).all():
        return (
            "plan_clips(..., on_damaged='skip') skips such frames, on_damaged='deliver' delivers them as decoded, "
            "if the decoder gives them at all (on the command line: --on-damaged skip or --on-damaged deliver)"
        )
    return (
        "the frame index does not mark this damage: scan the file again with verify='full', or skip such clips with "
        "on_error='skip' (on the command line: framefeed scan --verify full --anew)"
    )


def make_writer(frame: Any, index: FrameIndex, name: str) -> Write:
    """Make a function that converts a picture of ``iter_native`` to any output form, as its backend does."""
    if has_picture_files(index):
        return partial(write_still, frame, index, name)
    return partial(get_thread_converter().write, frame, index.stream)


def name_picture(source: MediaSource, number: int) -> str:
    """Name the file of one picture of a source."""
    return source.files().paths[number] if isinstance(source, SequenceSource) else source.name


def write_still(frame: Any, index: FrameIndex, name: str, output: OutputSpec, out: Pixels) -> None:
    """Convert a still picture, which is upright already, and may be reduced; those of a sequence may differ in size."""
    height, width = index.stream.upright
    reduction = find_reduction(index, output)
    output = fit_to_proxy(output, index.stream)
    is_reduced = reduction > 1 and frame.format.name != WHOLE_PICTURE
    if is_reduced and (frame.height, frame.width) == reduce_size(height, width, reduction):
        output = reduce_crop(output, reduction, index.stream)
    elif (frame.height, frame.width) != (height, width) and (output.crop or not output.size):
        raise FormatChanged(
            f"{name}: expected a picture of {width}x{height} like the first of its sequence, got "
            f"{frame.width}x{frame.height}: give size=(height, width) without crop to resize all to one size "
            f"(on the command line: --size HEIGHTxWIDTH, such as --size {height}x{width})"
        )
    upright = replace(
        index.stream, width=frame.width, height=frame.height, rotation=0, mirrored=False, shown_width=0, shown_height=0
    )
    get_thread_converter().write(frame, upright, output, out)


class _ThreadState(threading.local):
    """State of one thread, made at its first use."""

    def __init__(self) -> None:
        self.converter = Converter()


_local = _ThreadState()


def get_thread_converter() -> Converter:
    """Get the converter of this thread, which keeps swscale's set-up."""
    return _local.converter
