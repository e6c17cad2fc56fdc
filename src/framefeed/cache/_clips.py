"""Read the clips of one source from a cache, decode what it lacks, and store that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache._stream_frames import NewFrame, StreamFrames
from framefeed.cache.codecs._codec import BrokenFrame, allocate_memory
from framefeed.cache.codecs._registry import find_codec
from framefeed.decode import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    DecodeReport,
    PendingFrames,
    Pixels,
    PlaneLayout,
    copy_planes,
    describe_layout,
    make_output_layout,
    make_writer,
    name_picture,
    rebuild_picture,
)
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, has_picture_files
from framefeed.request import OutputSpec

_STORE_BYTES = 16 << 20
"""About so many bytes of planes are stored together."""
OpenFrames = Callable[[OutputSpec | None], StreamFrames]
"""Opens the stored frames of one output; None for planes."""


class OutputsDecode:
    """Read and decode clips of one source, stored in the form of their output.

    Args:
        inner: Decodes what the cache lacks.
        open_frames: Opens the stored frames.
        by_output: Clips by their numbers, of each output.
        num_slots: Number of all clips.
    """

    def __init__(
        self,
        inner: BaseDecoder,
        open_frames: OpenFrames,
        by_output: dict[OutputSpec, dict[int, ClipSlot]],
        num_slots: int,
    ) -> None:
        self._inner = inner
        self._open_frames = open_frames
        self._by_output = by_output
        self._num_slots = num_slots

    def decode(self) -> DecodeReport:
        """Fill all slots."""
        report = DecodeReport(errors=[None] * self._num_slots)
        for output, slots in self._by_output.items():
            frames = self._open_frames(output)
            layout = make_output_layout(output, *frames.index.stream.displayed)
            nbytes = layout.nbytes
            # The decoder raises the error of memory of another size.
            sized = [slot for slot in slots.values() if slot.out.nbytes == nbytes * len(slot.indices)]
            ordinals = np.concatenate([_NO_ORDINALS, *[slot.indices for slot in sized]])
            targets = [target for slot in sized for target in _list_targets(slot.out, nbytes)]
            is_read = np.zeros(len(ordinals), dtype=np.bool_)
            for i, kind, data in frames.read(ordinals, layout, targets):
                try:
                    if data is not None:
                        pixels = np.frombuffer(targets[i], np.uint8)
                        find_codec(kind.codec).decode_into(data, layout, pixels)
                    is_read[i] = True
                except (BrokenFrame, UsageError):
                    frames.reject(int(ordinals[i]))
            num_read = int(np.count_nonzero(is_read))
            report.counts.frames_cached += num_read
            report.counts.frames_delivered += num_read
            if num_read < sum([len(slot.indices) for slot in slots.values()]):
                incomplete, start = list[_Incomplete](), 0
                for number, slot in slots.items():
                    missing = np.ones(len(slot.indices), dtype=np.bool_)
                    if slot.out.nbytes == nbytes * len(missing):
                        missing = ~is_read[start : start + len(missing)]
                        start += len(missing)
                    if missing.any():
                        incomplete.append((number, slot, missing))
                _OutputFill(self._inner, frames, layout, report).decode_missing(incomplete)
        return report


def _list_targets(out: Pixels, nbytes: int) -> list[memoryview]:
    """List the memory of each frame of a clip."""
    if not out.flags.c_contiguous:
        return [frame.reshape(-1).data for frame in out]
    flat = out.reshape(-1).data
    return [flat[start : start + nbytes] for start in range(0, len(flat), nbytes)]


_NO_ORDINALS = np.empty(0, np.int64)
_Incomplete = tuple[int, ClipSlot, npt.NDArray[np.bool_]]
"""Number of a slot, the slot, and which of its frames are missing."""


class _OutputFill:
    """Decode and store what the cache lacks of clips with the same output.

    Args:
        inner: Decodes.
        frames: The stored frames.
        layout: Of their pixels.
        report: For counts and errors; errors are noted under the numbers of the slots.
    """

    def __init__(self, inner: BaseDecoder, frames: StreamFrames, layout: PlaneLayout, report: DecodeReport) -> None:
        self._inner = inner
        self._frames = frames
        self._layout = layout
        self._report = report

    def decode_missing(self, incomplete: Sequence[_Incomplete]) -> None:
        """Decode and store the missing frames."""
        parts = []
        for _, slot, missing in incomplete:
            part = slot
            if not missing.all():
                ordinals = np.unique(slot.indices[missing])
                memory = np.empty((len(ordinals), *slot.out.shape[1:]), dtype=np.uint8)
                part = ClipSlot(ordinals, slot.output, memory)
            parts.append(part)
        stamps = [self._frames.check.read_lasting_stamps(part.indices) for part in parts]
        decoded = self._inner.decode(self._frames.source, self._frames.index, parts)
        self._report.counts += decoded.counts
        stored: set[int] = set()
        for (number, slot, missing), part, part_stamps, error in zip(
            incomplete, parts, stamps, decoded.errors, strict=True
        ):
            self._report.errors[number] = error
            if error is None:
                self._report.counts.frames_stored += self._store(part, part_stamps, stored)
                if part is not slot:
                    _copy_part(part, slot, missing)
                    # A frame that the clip repeats was decoded once.
                    self._report.counts.frames_delivered += int(np.count_nonzero(missing)) - len(part.indices)

    def _store(self, slot: ClipSlot, stamps: WordArray, stored: set[int]) -> int:
        """Store the frames of a slot that are not in ``stored`` yet, and add them there; return their number."""
        new, indices = [], []
        for i, ordinal in enumerate(slot.indices.tolist()):
            frame = self._frames.apply_loss(NewFrame(ordinal, self._layout, slot.out[i].reshape(-1)))
            if ordinal not in stored:
                stored.add(ordinal)
                new.append(frame)
                indices.append(i)
        return self._frames.store(new, stamps[indices])


def _copy_part(part: ClipSlot, slot: ClipSlot, missing: npt.NDArray[np.bool_]) -> None:
    """Copy frames that were decoded into a part to the slot."""
    part_indices = np.searchsorted(part.indices, slot.indices[missing])
    for i, part_index in zip(np.flatnonzero(missing).tolist(), part_indices.tolist(), strict=True):
        slot.out[i] = part.out[part_index]


def _is_regular(layout: PlaneLayout, index: FrameIndex) -> bool:
    """Whether a picture has its stream's size, and its pixels follow from its planes.

    Pictures of other sizes are too few to be worth storing, and a stored one is not trusted.
    """
    stream = index.stream
    height, width = stream.displayed if has_picture_files(index) else (stream.height, stream.width)
    return (layout.height, layout.width) == (height, width) and layout.is_convertible and layout.is_settled


def copy_planes_to_store(frames: StreamFrames, ordinal: int, picture: Any) -> tuple[NewFrame | None, Any]:
    """Copy the planes of a picture if they can be stored; return (new frame or None, picture to convert)."""
    try:
        layout = describe_layout(picture)
    except UsageError:  # too large to be stored
        return None, picture
    if not _is_regular(layout, frames.index):
        return None, picture
    planes = allocate_memory(layout.nbytes)
    copy_planes(picture, planes)
    frame = frames.apply_loss(NewFrame(ordinal, layout, planes))
    return frames.encode(frame), picture if frame.data is None else rebuild_picture(layout, planes)


class PlanesDecode:
    """Read and decode clips of one source, stored as planes.

    Args:
        inner: Decodes what the cache lacks.
        open_frames: Opens the stored frames.
        slots: The clips.
    """

    def __init__(self, inner: BaseDecoder, open_frames: OpenFrames, slots: Sequence[ClipSlot]) -> None:
        self._inner = inner
        self._open_frames = open_frames
        self._slots = slots

    def decode(self) -> DecodeReport:
        """Fill all slots."""
        self._frames = frames = self._open_frames(None)
        self._source, self._index = frames.source, frames.index
        report = DecodeReport(errors=[None] * len(self._slots))
        requests, counts = PendingFrames(self._slots, report, self._source), report.counts
        waiting = requests.waiting
        for i, kind, data in frames.read(np.array(waiting, dtype=np.int64)):
            try:
                layout = PlaneLayout.parse(kind.layout)
                if data is None or not _is_regular(layout, self._index):
                    raise BrokenFrame(f"a picture of {layout.text} in this stream")
                picture = rebuild_picture(layout, find_codec(kind.codec).decode(data, layout))
            except (BrokenFrame, UsageError):
                frames.reject(waiting[i])
                continue
            before = counts.frames_delivered
            requests.fill(waiting[i], self._make_writer(picture, waiting[i]))
            counts.frames_cached += counts.frames_delivered - before
        missing = np.array(requests.waiting, dtype=np.int64)
        if len(missing):
            counts.frames_stored += self._decode_missing(missing, requests, counts)
        for number in requests.slots_waiting():
            # Decoded again for this clip alone, because then the decoder's error is the most precise.
            again = self._inner.decode(self._source, self._index, [self._slots[number]])
            report.errors[number] = again.errors[0]
            report.counts += again.counts
        return report

    def _decode_missing(self, missing: IntArray, requests: PendingFrames, counts: DecodeCounts) -> int:
        """Decode frames, and store them; return the number of stored frames."""
        stamps = dict(zip(missing.tolist(), self._frames.check.read_lasting_stamps(missing).tolist(), strict=True))
        num_stored, new = 0, list[NewFrame]()

        def store() -> int:
            return self._frames.store(new, np.array([stamps[frame.ordinal] for frame in new], dtype=np.uint64))

        for ordinal, picture in self._inner.iter_native(self._source, self._index, missing, counts):
            frame, shown = copy_planes_to_store(self._frames, ordinal, picture)
            if frame is not None:
                if new and (new[0].layout != frame.layout or len(new) * frame.layout.nbytes > _STORE_BYTES):
                    num_stored += store()
                    new.clear()
                new.append(frame)
            requests.fill(ordinal, self._make_writer(shown, ordinal))
        return num_stored + store()

    def _make_writer(self, picture: Any, ordinal: int) -> Any:
        name = name_picture(self._source, int(self._index.frame_packet[ordinal]))
        return make_writer(picture, self._index, name)
