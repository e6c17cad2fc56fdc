"""Our own method to get the frames of a clip, as the loader gets them: index from a catalog, pooled contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framefeed.bench._media import BenchVideo
from framefeed.bench._peer import SIZE, Method
from framefeed.decode import ClipSlot, DecodeCounts, Pixels
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.plan import OutputSpec

OURS = "framefeed"
OUTPUT = OutputSpec(size=(SIZE, SIZE))
_DECODER = PyAVDecoder()
_PLAIN = PyAVDecoder(skip=False, direct=False)


def decode_clips(video: BenchVideo, clips: Sequence[Sequence[int]]) -> tuple[list[Pixels], DecodeCounts]:
    """Decode some clips of one video in one call; uint8 [T, 3, 224, 224] each, and what it cost."""
    slots = [
        ClipSlot(np.array(clip, dtype=np.int64), OUTPUT, np.empty((len(clip), 3, SIZE, SIZE), dtype=np.uint8))
        for clip in clips
    ]
    report = _DECODER.decode(video.source, video.index, slots)
    report.raise_first()
    return [slot.out for slot in slots], report.counts


def decode_plainly(video: BenchVideo, ordinals: Sequence[int]) -> Pixels:
    """Decode frames through the container and with nothing left out: the reference of the equality check."""
    slot = ClipSlot(
        np.array(ordinals, dtype=np.int64), OUTPUT, np.empty((len(ordinals), 3, SIZE, SIZE), dtype=np.uint8)
    )
    _PLAIN.decode(video.source, video.index, [slot]).raise_first()
    return slot.out


class _Session:
    def __init__(self, video: BenchVideo) -> None:
        self._video = video

    def clip(self, ordinals: Sequence[int]) -> Pixels:
        return decode_clips(self._video, [ordinals])[0][0]

    def close(self) -> None:
        """Contexts stay in the pool, whatever file comes next."""


OUR_METHOD = Method(OURS, "NCHW", _Session, prepare=lambda video: video.index)
