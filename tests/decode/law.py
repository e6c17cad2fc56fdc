"""The law of exactness: whatever is asked for, in whatever order and way, is what reading the file in order gives.

`check_frames` takes anything that claims to read frames; tests/test_wrong_readers.py shows it some that are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

import numpy as np

from framefeed._values import MISSING_PTS
from framefeed.errors import CorruptMedia
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from tests.makers import slot_of
from tests.reference import Planes, Reference, ReferenceFrame, planes_of, rgb_digest


class Reader(Protocol):
    """Something that claims to know a file's frames and to give any of them."""

    def pts(self) -> list[int | None]:
        """Time of each frame, by ordinal."""

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        """The frames that come, by ordinal."""


@dataclass(frozen=True)
class Product:
    """framefeed itself; of its first ``limit`` frames, if not all are to be compared."""

    source: MediaSource
    index: FrameIndex
    decoder: Any
    limit: int | None = None

    def pts(self) -> list[int | None]:
        return known_pts(self.index)[: self.limit]

    def fetch(self, ordinals: Sequence[int]) -> dict[int, Planes]:
        pictures = self.decoder.iter_native(self.source, self.index, ordinals)
        return {ordinal: planes_of(frame) for ordinal, frame in pictures}


def known_pts(index: FrameIndex) -> list[int | None]:
    # Those of packets, which the reference has too, whatever the times of frames come from.
    own = np.where(index.frame_packet < 0, MISSING_PTS, index.packets.pts[index.frame_packet])
    return [None if pts == MISSING_PTS else pts for pts in own.tolist()]


def expected_frames(
    pts: Sequence[int | None], reference: Reference, *, may_promise_more: bool = False
) -> list[ReferenceFrame | None]:
    """What each ordinal must give; None for a frame that was promised and never comes.

    Args:
        pts: Time of each frame, as the reader has it.
        reference: What comes.
        may_promise_more: Some frames may never come; then the times say which.
    """
    if len(pts) == len(reference) or not may_promise_more:
        assert len(pts) == len(reference), f"{len(pts)} frames are promised, {len(reference)} come"
        assert list(pts) == reference.pts, f"times differ at {_first_difference(pts, reference.pts)}"
        return list(reference.frames)
    by_pts = {frame.pts: frame for frame in reference.frames}
    assert len(by_pts) == len(reference)
    assert len(set(pts)) == len(pts)
    assert set(by_pts) <= set(pts), f"{len(pts)} frames are promised, and of {len(reference)} not all are among them"
    return [by_pts.get(time) for time in pts]


def check_frames(
    reader: Reader, reference: Reference, requests: Sequence[Sequence[int]], *, may_promise_more: bool = False
) -> None:
    """Check (ordinal, pts, native planes) of each request.

    A frame that may refer to damage need not come (D01); if it comes, it is the sequential decode's.
    """
    expected = expected_frames(reader.pts(), reference, may_promise_more=may_promise_more)
    for request in requests:
        wanted = {ordinal: expected[ordinal] for ordinal in request}
        got = reader.fetch(request)
        wrong = [
            number for number, picture in got.items() if (right := wanted[number]) is None or picture != right.planes
        ]
        assert not wrong, f"asked for {list(request)}, wrong: {wrong}"
        missing = [number for number, right in wanted.items() if number not in got and right and not right.is_suspect]
        assert not missing, f"asked for {list(request)}, missing: {missing}"


def check_clips(
    reader: Product, reference: Reference, clips: Sequence[Sequence[int]], *, may_promise_more: bool = False
) -> None:
    """Check the RGB pixels of clips that are decoded together, each in its own slot.

    Where frames are missing, CorruptMedia names exactly those; the other clips are whole.
    """
    expected = expected_frames(reader.pts(), reference, may_promise_more=may_promise_more)
    forms = cycle([OutputSpec(), OutputSpec(dimension_order="NHWC")])
    slots = [slot_of(reader.index, clip, form) for clip, form in zip(clips, forms, strict=False)]
    report = reader.decoder.decode(reader.source, reader.index, slots)
    assert len(report.errors) == len(slots)
    for clip, slot, error in zip(clips, slots, report.errors, strict=True):
        never = {ordinal for ordinal in clip if expected[ordinal] is None}
        doubtful = {ordinal for ordinal in clip if (frame := expected[ordinal]) is not None and frame.is_suspect}
        if error is not None:
            assert isinstance(error, CorruptMedia), error
            assert list(error.frames) == sorted(set(error.frames))
            assert never <= set(error.frames) <= never | doubtful
            assert error.frames, "damage without a place"
            continue
        assert not never, f"promised frames {never} never come, and no error says so"
        shown = slot.out if slot.output.dimension_order == "NHWC" else slot.out.transpose(0, 2, 3, 1)
        right = [frame.rgb for ordinal in clip if (frame := expected[ordinal]) is not None]
        got = [rgb_digest(picture) for picture in shown]
        assert got == right, f"asked for {list(clip)}, wrong at {_first_difference(got, right)}"


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    return next(position for position, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
