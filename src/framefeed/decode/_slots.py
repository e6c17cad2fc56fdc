"""Write the frames of a call to memory: convert each once for each output form, and copy it to all its slots.

Convert a decoded picture of any kind of source to RGB in the caller's memory.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import ClipSlot, DecodeReport, Pixels, new_pixels
from framefeed.errors import CorruptMedia, FormatChanged, FramefeedError, ResourceExhausted
from framefeed.index import FrameIndex, StreamFacts, holds_pictures
from framefeed.media import MediaSource, SequenceSource
from framefeed.parallel import try_again_in_shortage
from framefeed.plan import OutputSpec

_LISTED_FRAMES = 8

E = TypeVar("E", bound=FramefeedError)
Write = Callable[[OutputSpec, Pixels], None]
"""Writes one picture in a form to memory."""


class Places:
    """The (slot, number in its clip) that each ordinal is written to.

    Args:
        slots: The clips to write.
        report: Receives errors and counts.
        source: For messages.
        chosen: Numbers of the slots to fill; None for all.
    """

    def __init__(
        self,
        slots: Sequence[ClipSlot],
        report: DecodeReport,
        source: MediaSource,
        chosen: Sequence[int] | None = None,
    ) -> None:
        self._slots = slots
        self._source = source
        self._report = report
        self._places: dict[int, list[tuple[int, int]]] = {}
        for number in range(len(slots)) if chosen is None else chosen:
            for position, ordinal in enumerate(slots[number].indices.tolist()):
                self._places.setdefault(ordinal, []).append((number, position))

    @property
    def waiting(self) -> list[int]:
        """Ordinals that were not filled yet, in the order in which they are first wanted."""
        return list(self._places)

    def fill(self, ordinal: int, write: Write) -> None:
        """Convert a picture once for each form that is wanted, and copy it to all its places."""
        done: dict[object, tuple[int, int]] = {}
        for number, position in self._places.pop(ordinal):
            slot = self._slots[number]
            twin = done.setdefault(slot.output, (number, position))
            if self._report.errors[number] is not None:
                continue
            if twin != (number, position) and self._report.errors[twin[0]] is None:
                slot.out[position] = self._slots[twin[0]].out[twin[1]]
            else:
                self._convert(write, (number, position))
            self._report.counts.frames_delivered += 1

    def _convert(self, write: Write, place: tuple[int, int]) -> None:
        slot = self._slots[place[0]]
        try:
            with naming(self._source):
                try_again_in_shortage(lambda: write(slot.output, slot.out[place[1]]), self._source.name, "convert")
            self._report.counts.frames_converted += 1
        except ResourceExhausted:  # no fact about this picture
            raise
        except FramefeedError as error:
            self._report.errors[place[0]] = error

    def slots_waiting(self) -> dict[int, list[int]]:
        """Ordinals that never came, ascending, by the number of the slot that waits for them."""
        missing: dict[int, set[int]] = {}
        for ordinal, places in self._places.items():
            for number, _ in places:
                missing.setdefault(number, set()).add(ordinal)
        return {number: sorted(ordinals) for number, ordinals in missing.items()}

    def report_missing(self, index: FrameIndex) -> None:
        """Give each slot that waits for a frame that never came its CorruptMedia."""
        for number, ordinals in self.slots_waiting().items():
            self._report.errors[number] = missing_frames(self._source, index, ordinals)


def converted(write: Write, output: OutputSpec, shape: tuple[int, ...], source: MediaSource) -> Pixels:
    """Convert one picture to memory of its own.

    Raises:
        ResourceExhausted: There is no memory for it.
        FramefeedError: As ``write`` does, with the source's name.
    """
    out = new_pixels(shape, f"{source.name}: a frame {list(shape)}", source=source.name)
    with naming(source):
        try_again_in_shortage(lambda: write(output, out), source.name, "convert")
    return out


@contextmanager
def naming(source: MediaSource) -> Iterator[None]:
    """Say in an error of conversion, which knows only a picture, whose picture it is."""
    try:
        yield
    except ResourceExhausted:
        raise
    except FramefeedError as error:
        if error.source is not None:
            raise
        raise retold(error, f"{source.name}: {error}", source.name) from error


def retold(error: E, message: str, name: str) -> E:
    """Copy an error of decoding with all that it carries, under another message and with the source's name."""
    other = copy.copy(error)
    other.args, other.source, other.stage = (message,), name, "decode"
    return other


def missing_frames(source: MediaSource, index: FrameIndex, ordinals: Sequence[int]) -> CorruptMedia:
    """Build the error for frames that the index lists and the decoder does not give."""
    listed = ", ".join(map(str, ordinals[:_LISTED_FRAMES])) + (", ..." if len(ordinals) > _LISTED_FRAMES else "")
    why = ", or the header of the file lists more frames than it has" if index.built_from == "packets" else ""
    return CorruptMedia(
        f"{source.name}: frame{'s' if len(ordinals) > 1 else ''} {listed} of {len(index)} cannot be decoded without "
        f"damage{why}; {next_step(index, ordinals)}",
        frames=ordinals,
        source=source.name,
        stage="decode",
    )


def next_step(index: FrameIndex, ordinals: Sequence[int]) -> str:
    """Say how to continue without frames that cannot be decoded."""
    if index.num_damaged_frames is None:
        return (
            "run ff.scan (or ff.build_index) with verify='full' to find such frames; plan_clips(..., "
            "on_damaged='skip') then skips them (on the command line: --on-damaged skip; for a catalog, framefeed scan "
            "--verify full before it)"
        )
    if index.is_damaged(np.array(ordinals, dtype=np.int64)).all():
        return (
            "plan_clips(..., on_damaged='skip') skips such frames, on_damaged='deliver' delivers them as decoded "
            "(on the command line: --on-damaged skip or --on-damaged deliver)"
        )
    return (
        "the frame index does not mark this damage: scan the file again with verify='full', or skip such clips with "
        "on_error='skip' (on the command line: framefeed scan --verify full --anew)"
    )


def writer_of(frame: Any, index: FrameIndex, name: str) -> Write:
    """Return a function that converts a decoded picture to any output form, as its backend does.

    Args:
        frame: A ``VideoFrame`` from the backend's ``frames``.
        index: Index of its source.
        name: Name of the picture's file, for messages.
    """
    if holds_pictures(index):
        return partial(write_still, frame, (index.stream, name))
    return partial(thread_converter().write, frame, index.stream)


def picture_name(source: MediaSource, number: int) -> str:
    """Name the file of one picture of a source."""
    return source.files().paths[number] if isinstance(source, SequenceSource) else source.name


def write_still(frame: Any, expected: tuple[StreamFacts, str], output: OutputSpec, out: Pixels) -> None:
    """Write a still picture, which is upright already; pictures of one sequence may differ in size.

    Raises:
        FormatChanged: The size differs from the first picture's, and ``output`` has no size, or has a crop.
    """
    stream, name = expected
    height, width = stream.displayed
    if (frame.height, frame.width) != (height, width) and (output.crop or not output.size):
        raise FormatChanged(
            f"{name}: expected a picture of {width}x{height} like the first of its sequence, got "
            f"{frame.width}x{frame.height}: give size=(height, width) without crop to resize all to one size "
            f"(on the command line: --size HEIGHTxWIDTH, such as --size {height}x{width})"
        )
    upright = replace(stream, width=frame.width, height=frame.height, rotation=0, mirrored=False)
    thread_converter().write(frame, upright, output, out)


class _Local(threading.local):
    """What each thread has of its own, made when it first asks."""

    def __init__(self) -> None:
        self.converter = Converter()


_local = _Local()


def thread_converter() -> Converter:
    """This thread's, which keeps swscale's set-up."""
    return _local.converter
