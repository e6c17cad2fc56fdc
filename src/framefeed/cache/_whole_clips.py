"""Read clips of several sources together that a cache has whole and stored raw: most of a second epoch.

A picture is one frame of a source of its own, and what is done for each source alone takes longer than to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framefeed._arrays import IntArray
from framefeed.cache._keys import NO_CONTENT, SourceCheck
from framefeed.cache._state import CacheState
from framefeed.cache._stream_frames import RAW
from framefeed.cache.store._format import Kind
from framefeed.decode import PlaneLayout


@dataclass(frozen=True, slots=True, eq=False)
class RawFrames:
    """Frames of one source that a cache may have, stored raw."""

    key: bytes
    numbers: IntArray  # packet number of each frame, int64 [N]; N >= 1
    stamp: int
    check: SourceCheck
    targets: Sequence[memoryview]
    num_clips: int


def read_raw_frames(state: CacheState, layout: PlaneLayout, sources: Sequence[RawFrames]) -> list[bool]:
    """Read the frames of each source, if all of them are stored raw, of its file as it is now.

    Returns:
        Whether the frames of each source were read; if not, their memory has any content.
    """
    lengths = [len(each.numbers) for each in sources]
    keys: list[bytes] = []
    for each, length in zip(sources, lengths, strict=True):
        keys += [each.key] * length
    locations = state.store.find_each(keys, np.concatenate([each.numbers for each in sources]))
    usable, rows = locations.is_there, locations.rows
    if not usable.any():
        return [False] * len(sources)
    state.has_raw = any(kind.codec == RAW for kind in locations.kinds)
    raw, nbytes = Kind(RAW, layout.text), layout.nbytes
    is_raw = np.array([kind == raw for kind in locations.kinds])
    usable = usable & is_raw[np.where(usable, rows["kind"], 0)]
    usable &= (rows["nbytes"] == nbytes) & (rows["raw_nbytes"] == nbytes)
    has_stamp = rows["stamp"] == np.array([each.stamp for each in sources], dtype=np.uint64).repeat(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    if not has_stamp.all():
        # As those of a copy of the source: its fingerprint decides, unless there is a hash of the bytes themselves.
        is_doubtful = np.logical_or.reduceat(usable & ~has_stamp & (rows["content"] == NO_CONTENT), starts)
        are_same = [doubt and each.check.has_fingerprint() for each, doubt in zip(sources, is_doubtful, strict=True)]
        usable &= has_stamp | (np.array(are_same).repeat(lengths) & (rows["content"] == NO_CONTENT))
    is_whole = np.logical_and.reduceat(usable, starts)
    targets: list[memoryview] = []
    for each, has_all in zip(sources, is_whole.tolist(), strict=True):
        targets += each.targets if has_all else ()
    indices = np.flatnonzero(is_whole.repeat(lengths))
    sound = state.store.read(locations, indices, targets)
    if len(sound) == len(keys) and all(sound):
        return [True] * len(sources)
    is_sound = np.zeros(len(keys), dtype=np.bool_)
    is_sound[indices] = sound
    are_read: list[bool] = np.logical_and.reduceat(is_sound, starts).tolist()
    return are_read
