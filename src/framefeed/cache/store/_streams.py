"""Find the rows of millions of frames by the keys of their streams and the numbers of their packets.

A *row reference* is a number made of a segment's number and a row in it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed.cache.store._format import MISS, REF_BITS

MAX_GROUP = 512
"""Average frames of a group, at which there are made four times as many groups."""
_HALVES = struct.Struct("<qq")
"""Of a key, 16 bytes."""
_EMPTY = np.empty((4, 0), np.int64)


def list_frames(keys: bytes, streams: IntArray, numbers: IntArray, refs: IntArray) -> IntArray:
    """List frames, int64 [4, N]: both halves of the stream's key, packet number and row reference of each."""
    halves = np.frombuffer(keys, "<i8").reshape(-1, 2)[streams]
    return np.stack([halves[:, 0], halves[:, 1], numbers, refs])


class Streams:
    """Row references by stream and packet number.

    The frames are divided into groups by the keys of their streams, which are hashes. A group is a list of frames,
    sorted by key and number, of equal ones the newest first. A dict of streams would take many times the memory where
    each frame is a stream, as pictures are. To add frames sorts the groups of their streams only.

    One thread at a time may change it. Searching needs no lock, because groups are replaced and never changed.
    """

    def __init__(self) -> None:
        self._groups = [_EMPTY]
        self._num_frames = 0

    def __len__(self) -> int:
        return self._num_frames

    def find(self, key: bytes, numbers: IntArray) -> IntArray:
        """Find the newest row of each frame of a stream, or ``MISS``; int64 [N]."""
        groups = self._groups
        first, second = _HALVES.unpack(key)
        group = groups[first % len(groups)]
        begin, end = group[0].searchsorted(first), group[0].searchsorted(first, "right")
        # Streams with the same first half are rare.
        if begin < end and not group[1, begin] == second == group[1, end - 1]:
            halves = group[1, begin:end]
            begin, end = begin + halves.searchsorted(second), begin + halves.searchsorted(second, "right")
        if begin == end:
            return np.full(len(numbers), MISS)
        known = group[2, begin:end]
        at = known.searchsorted(numbers)
        refs = group[3, begin:end].take(at, mode="clip")
        nearest = known.take(at, mode="clip")
        # Bytes are compared in a third of the time of arrays.
        return refs if nearest.tobytes() == numbers.tobytes() else np.where(nearest == numbers, refs, MISS)

    def find_one(self, key: bytes, number: int) -> int:
        """Find the newest row of one frame, or ``MISS``."""
        groups = self._groups
        first, second = _HALVES.unpack(key)
        group = groups[first % len(groups)]
        begin = int(group[0].searchsorted(first))
        # The first frame of its stream in most cases: of pictures, the only one.
        if begin < group.shape[1] and group[:3, begin].tolist() == [first, second, number]:
            return int(group[3, begin])
        return int(self.find(key, np.array([number]))[0])

    def add(self, lists: Sequence[IntArray]) -> None:
        """Add lists of frames, the newest first; they are newer than all before."""
        if not lists:
            return
        new = np.concatenate(lists, axis=1)
        self._num_frames += new.shape[1]
        num_groups = len(self._groups)
        while self._num_frames > MAX_GROUP * num_groups:
            num_groups *= 4
        if num_groups > len(self._groups):
            groups = [_EMPTY] * num_groups
            for group in self._groups:
                for number, part in _sort(group, num_groups):
                    groups[number] = part
            self._groups = groups
        touched = np.unique(new[0] % num_groups).tolist()
        for number, group in _sort(np.concatenate([new, *[self._groups[n] for n in touched]], axis=1), num_groups):
            self._groups[number] = group

    def forget(self, key: bytes, ref: int) -> None:
        """Remove one row of a stream."""
        number = _HALVES.unpack(key)[0] % len(self._groups)
        self._keep(number, self._groups[number][3] != ref)

    def remove(self, segments: Collection[int]) -> None:
        """Remove the rows of segments."""
        if not segments:
            return
        # One more, for the rows of all later segments.
        is_kept = np.ones(max(segments) + 2, np.bool_)
        is_kept[list(segments)] = False
        for number, group in enumerate(self._groups):
            self._keep(number, is_kept.take(group[3] >> REF_BITS, mode="clip"))

    def _keep(self, number: int, which: BoolArray) -> None:
        """Keep some frames of a group."""
        if not which.all():
            self._groups[number] = self._groups[number].compress(which, axis=1)
            self._num_frames -= int(np.count_nonzero(~which))


def _sort(frames: IntArray, num_groups: int) -> Iterator[tuple[int, IntArray]]:
    """Divide frames into groups, and sort them; yield (number of the group, group)."""
    groups = frames[0] % num_groups
    order = np.lexsort((frames[2], frames[1], frames[0], groups))  # stable
    frames, groups = frames.take(order, axis=1), groups[order]
    bounds = np.flatnonzero(np.diff(groups, prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(bounds):
        yield int(groups[begin]), frames[:, begin:end].copy()  # so that the whole is freed
