"""Engines that each do what an engine must not, and the status that the exam has to give them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence

import av
import numpy as np

from framefeed.decode import ClipSlot, DecodeReport
from framefeed.errors import CorruptMedia
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from tests.testing.wrong_decoders import AsksWrongly, OffByOne, Repaints, Right

__all__ = ["OffByOne", "Right"]

HARD, PLAIN = "edit_list.mp4", "base.mp4"
"""The file that some are wrong about, and one that they are right about."""


def is_hard(source: MediaSource) -> bool:
    """Whether a source is the hard file."""
    return source.name.endswith(HARD)


class RepeatsTheLast(AsksWrongly):
    """Gives the first half of the frames, and then the last of them again and again."""

    def change(self, slot: ClipSlot, num_frames: int) -> ClipSlot:
        return ClipSlot(np.minimum(slot.indices, num_frames // 2), slot.output, slot.out)


class GivesFewer(Repaints):
    """Leaves the memory as it was, where its library had no more frames."""

    def repaint(self, slot: ClipSlot, index: FrameIndex) -> None:
        slot.out[slot.indices >= len(index) - 2] = 0


class SaysThatItHasFewer(Right):
    """Blames the file for frames that its library does not give."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        report = super().decode(source, index, slots)
        for number, slot in enumerate(slots):
            lost = slot.indices[slot.indices >= len(index) - 2].tolist()
            if lost:
                report.errors[number] = CorruptMedia(f"{source.name}: frames {lost} did not come", frames=lost)
        return report


class IgnoresEditLists(Right):
    """Counts from the first packet that comes out of the decoder."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        pictures = list(self._read_all(str(source.path)))
        for slot in slots:
            slot.out[:] = np.stack([pictures[ordinal] for ordinal in slot.indices.tolist()])
        return DecodeReport([None] * len(slots))

    def _read_all(self, path: str) -> Iterator[np.ndarray]:
        with av.open(path, options={"ignore_editlist": "1"}) as container:
            yield from (frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))


class RaisesOthers(Right):
    """Lets errors of its library through."""

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            raise RuntimeError("error 17")
        return super().decode(source, index, slots)


class Prints(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            os.write(2, b"[h264 @ 0x0] mmco: unref short failure\n")
        return super().decode(source, index, slots)


class Aborts(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            os.abort()
        return super().decode(source, index, slots)


class ReadsNowhere(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            ctypes.string_at(0)
        return super().decode(source, index, slots)


class Leaves(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            os._exit(3)
        return super().decode(source, index, slots)


class WaitsForEver(Right):
    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        if is_hard(source):
            threading.Event().wait()
        return super().decode(source, index, slots)


CAUGHT: list[tuple[type[Right], str, str]] = [
    (Right, "exact", ""),
    (OffByOne, "wrong", "frame 1 in place of frame 0"),
    (RepeatsTheLast, "wrong", "in place of frame"),
    (GivesFewer, "unlike", "like no frame of the file"),
    (SaysThatItHasFewer, "caught", "CorruptMedia: "),
    (IgnoresEditLists, "wrong", "in place of frame"),
    (RaisesOthers, "untyped", "RuntimeError: error 17"),
    (Prints, "exact", ""),
    (Aborts, "crashed", "SIGABRT"),
    (ReadsNowhere, "crashed", "SIGSEGV"),
    (Leaves, "crashed", "status 3"),
]
"""What each is for the hard file, and a part of the reason."""
