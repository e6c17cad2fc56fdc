"""Read the clips of one source from a cache, decode what it lacks, and store that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
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
from framefeed.index import has_picture_files
from framefeed.pictures import reduce_size
from framefeed.request import OutputSpec

_STORE_BYTES = 16 << 20
"""About so many bytes of planes are stored together."""
OpenFrames = Callable[[OutputSpec], StreamFrames]
"""Opens the stored frames of one output, or the planes that it is made from."""


def decode_outputs(
    inner: BaseDecoder, open_frames: OpenFrames, by_output: Mapping[OutputSpec, Mapping[int, ClipSlot]], num_slots: int
) -> DecodeReport:
    """Read and decode clips of one source that are stored in the form of their output."""
    report = DecodeReport(errors=[None] * num_slots)
    for output, slots in by_output.items():
        frames = open_frames(output)
        layout = make_output_layout(output, *frames.index.stream.displayed)
        nbytes = layout.nbytes
        # The decoder raises the error of memory of another size.
        sized = [slot for slot in slots.values() if slot.out.nbytes == nbytes * len(slot.indices)]
        ordinals = np.concatenate([_NO_ORDINALS, *[slot.indices for slot in sized]])
        targets = [target for slot in sized for target in list_targets(slot.out, nbytes)]
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
            _decode_missing_outputs(inner, frames, layout, incomplete, report)
    return report


def list_targets(out: Pixels, nbytes: int) -> list[memoryview]:
    """List the memory of each frame of a clip."""
    if not out.flags.c_contiguous:
        return [frame.reshape(-1).data for frame in out]
    flat = out.reshape(-1).data
    return [flat[part] for part in _divide_evenly(len(flat), nbytes)]


@lru_cache(maxsize=64)
def _divide_evenly(total: int, nbytes: int) -> tuple[slice, ...]:
    return tuple(slice(start, start + nbytes) for start in range(0, total, nbytes))


_NO_ORDINALS = np.empty(0, np.int64)
_Incomplete = tuple[int, ClipSlot, npt.NDArray[np.bool_]]
"""Number of a slot, the slot, and which of its frames are missing."""


def _decode_missing_outputs(
    inner: BaseDecoder,
    frames: StreamFrames,
    layout: PlaneLayout,
    incomplete: Sequence[_Incomplete],
    report: DecodeReport,
) -> None:
    """Decode and store what the cache lacks of clips with the same output; errors are noted under their numbers."""
    parts = []
    for _, slot, missing in incomplete:
        part = slot
        if not missing.all():
            ordinals = np.unique(slot.indices[missing])
            memory = np.empty((len(ordinals), *slot.out.shape[1:]), dtype=np.uint8)
            part = ClipSlot(ordinals, slot.output, memory)
        parts.append(part)
    stamps = [frames.check.read_stamps(part.indices, are_lasting=True) for part in parts]
    decoded = inner.decode(frames.source, frames.index, parts)
    report.counts += decoded.counts
    stored: set[int] = set()
    for (number, slot, missing), part, part_stamps, error in zip(
        incomplete, parts, stamps, decoded.errors, strict=True
    ):
        report.errors[number] = error
        if error is not None:
            continue
        new, indices = [], []
        for i, ordinal in enumerate(part.indices.tolist()):
            frame = frames.apply_loss(NewFrame(ordinal, layout, part.out[i].reshape(-1)))
            if ordinal not in stored:
                stored.add(ordinal)
                new.append(frame)
                indices.append(i)
        report.counts.frames_stored += frames.store(new, part_stamps[indices])
        if part is not slot:
            part_indices = np.searchsorted(part.indices, slot.indices[missing])
            for i, part_index in zip(np.flatnonzero(missing).tolist(), part_indices.tolist(), strict=True):
                slot.out[i] = part.out[part_index]
            # A frame that the clip repeats was decoded once.
            report.counts.frames_delivered += int(np.count_nonzero(missing)) - len(part.indices)


def _is_regular(layout: PlaneLayout, frames: StreamFrames) -> bool:
    """Whether a picture has its stream's size, and its pixels follow from its planes.

    Pictures of other sizes are too few to be worth storing, and a stored one is not trusted.
    """
    stream = frames.index.stream
    size = stream.upright if has_picture_files(frames.index) else (stream.height, stream.width)
    is_of_size = (layout.height, layout.width) == reduce_size(*size, frames.reduction)
    return is_of_size and layout.is_convertible and layout.is_settled


def copy_planes_to_store(frames: StreamFrames, ordinal: int, picture: Any) -> tuple[NewFrame | None, Any]:
    """Copy the planes of a picture if they can be stored; return (new frame or None, picture to convert)."""
    try:
        layout = describe_layout(picture)
    except UsageError:  # too large to be stored
        return None, picture
    if not _is_regular(layout, frames):
        return None, picture
    planes = allocate_memory(layout.nbytes)
    copy_planes(picture, planes)
    frame = frames.apply_loss(NewFrame(ordinal, layout, planes))
    return frames.encode(frame), picture if frame.data is None else rebuild_picture(layout, planes)


def decode_planes(inner: BaseDecoder, open_frames: OpenFrames, slots: Sequence[ClipSlot]) -> DecodeReport:
    """Read and decode clips of one source, whose outputs are all made from the same stored planes."""
    frames = open_frames(slots[0].output)
    source, index = frames.source, frames.index
    report = DecodeReport(errors=[None] * len(slots))
    requests, counts = PendingFrames(slots, report, source), report.counts

    def fill(ordinal: int, picture: Any) -> None:
        name = name_picture(source, int(index.frame_packet[ordinal]))
        requests.fill(ordinal, make_writer(picture, index, name))

    waiting = requests.waiting
    for i, kind, data in frames.read(np.array(waiting, dtype=np.int64)):
        try:
            layout = PlaneLayout.parse(kind.layout)
            if data is None or not _is_regular(layout, frames):
                raise BrokenFrame(f"a picture of {layout.text} in this stream")
            picture = rebuild_picture(layout, find_codec(kind.codec).decode(data, layout))
        except (BrokenFrame, UsageError):
            frames.reject(waiting[i])
            continue
        before = counts.frames_delivered
        fill(waiting[i], picture)
        counts.frames_cached += counts.frames_delivered - before
    missing = np.array(requests.waiting, dtype=np.int64)
    if len(missing):
        counts.frames_stored += _decode_missing_planes(inner, frames, missing, counts, fill)
    for number in requests.slots_waiting():
        # Decoded again for this clip alone, because then the decoder's error is the most precise.
        again = inner.decode(source, index, [slots[number]])
        report.errors[number] = again.errors[0]
        report.counts += again.counts
    return report


def _decode_missing_planes(
    inner: BaseDecoder,
    frames: StreamFrames,
    missing: IntArray,
    counts: DecodeCounts,
    fill: Callable[[int, Any], None],
) -> int:
    """Decode frames, deliver and store them; return the number of stored frames."""
    stamps = dict(zip(missing.tolist(), frames.check.read_stamps(missing, are_lasting=True).tolist(), strict=True))
    num_stored, new = 0, list[NewFrame]()

    def store() -> int:
        return frames.store(new, np.array([stamps[frame.ordinal] for frame in new], dtype=np.uint64))

    for ordinal, picture in inner.iter_native(frames.source, frames.index, missing, counts):
        frame, shown = copy_planes_to_store(frames, ordinal, picture)
        if frame is not None:
            if new and (new[0].layout != frame.layout or len(new) * frame.layout.nbytes > _STORE_BYTES):
                num_stored += store()
                new.clear()
            new.append(frame)
        fill(ordinal, shown)
    return num_stored + store()
