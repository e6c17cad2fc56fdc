"""Find the rows of millions of frames by the keys of their streams and the numbers of their packets.

A *row reference* is a number made of a segment's number and a row in it; a newer row has a larger one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, IntArray
from framefeed.cache.store._format import KEY_BYTES, MISS, REF_BITS

MAX_GROUP = 512
"""Average frames of a group, at which there are made four times as many groups."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameList:
    """Frames of some streams in any order, of the same frame the newest first.

    Attributes:
        keys: Of the streams, 16 bytes each, joined.
        streams: Number of each frame's stream, int32 [N].
        numbers: Of the packets, int64 [N].
        refs: Of the rows, int64 [N].
    """

    keys: bytes
    streams: npt.NDArray[np.int32]
    numbers: IntArray
    refs: IntArray

    @classmethod
    def joined(cls, lists: Sequence[FrameList]) -> FrameList:
        """Join lists."""
        begins = accumulate([len(each.keys) // KEY_BYTES for each in lists], initial=0)
        return cls(
            b"".join([each.keys for each in lists]),
            np.concatenate([each.streams + begin for each, begin in zip(lists, begins, strict=False)]),
            np.concatenate([each.numbers for each in lists]),
            np.concatenate([each.refs for each in lists]),
        )

    def __len__(self) -> int:
        return len(self.refs)

    def select(self, which: BoolArray) -> FrameList:
        """Return some of the frames."""
        return FrameList(self.keys, self.streams[which], self.numbers[which], self.refs[which])


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The frames of some streams: one stream after the other, sorted by number, of equal numbers the newest first.

    Attributes:
        keys: Of the streams, 16 bytes each, joined.
        starts: Where the frames of each stream begin, and where those of the last end, int32 [S + 1].
        numbers: int64 [N].
        refs: int64 [N].
    """

    keys: bytes
    starts: npt.NDArray[np.int32]
    numbers: IntArray
    refs: IntArray

    def find(self, key: bytes) -> tuple[int, int]:
        """Return where the frames of a stream begin and end."""
        at = self.keys.find(key)
        while at > 0 and at % KEY_BYTES:
            at = self.keys.find(key, at + 1)
        if at < 0:
            return 0, 0
        stream = at // KEY_BYTES
        return int(self.starts[stream]), int(self.starts[stream + 1])

    def frames(self) -> FrameList:
        counts = np.diff(self.starts)
        return FrameList(self.keys, np.arange(len(counts), dtype=np.int32).repeat(counts), self.numbers, self.refs)


_NO_NUMBERS = np.empty(0, np.int64)
_EMPTY = _Group(b"", np.zeros(1, np.int32), _NO_NUMBERS, _NO_NUMBERS)


class Streams:
    """Row references by stream and packet number.

    The streams are divided into groups by their keys, which are hashes. A group for each stream would take eight times
    the memory where each frame is a stream, as pictures are. To add frames sorts the groups of their streams only.

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
        group = groups[int.from_bytes(key[:4], "little") % len(groups)]
        begin, end = group.find(key)
        if begin == end:
            return np.full(len(numbers), MISS)
        known = group.numbers[begin:end]
        at = known.searchsorted(numbers)
        refs = group.refs[begin:end].take(at, mode="clip")
        found = known.take(at, mode="clip")
        # Bytes are compared in a third of the time of arrays.
        return refs if found.tobytes() == numbers.tobytes() else np.where(found == numbers, refs, MISS)

    def add(self, lists: Sequence[FrameList]) -> None:
        """Add frames, the newest first; they are newer than all before."""
        if not lists:
            return
        self._num_frames += sum(map(len, lists))
        num_groups = len(self._groups)
        while self._num_frames > MAX_GROUP * num_groups:
            num_groups *= 4
        if num_groups > len(self._groups):
            groups = [_EMPTY] * num_groups
            for group in self._groups:
                for number, part in _sort(group.frames(), num_groups):
                    groups[number] = part
            self._groups = groups
        heads = np.frombuffer(b"".join([each.keys for each in lists]), "<u4")[:: KEY_BYTES // 4]
        touched = np.unique(heads % num_groups).tolist()
        self._replace(touched, [*lists, *(self._groups[number].frames() for number in touched)])

    def forget(self, key: bytes, ref: int) -> None:
        """Remove one row of a stream."""
        number = int.from_bytes(key[:4], "little") % len(self._groups)
        frames = self._groups[number].frames()
        self._replace([number], [frames.select(frames.refs != ref)])
        self._num_frames -= len(frames) - len(self._groups[number].refs)

    def remove(self, segments: Collection[int]) -> None:
        """Remove the rows of segments."""
        if not segments:
            return
        kept = {}
        # One more, for the rows of all later segments.
        is_kept = np.ones(max(segments) + 2, np.bool_)
        is_kept[list(segments)] = False
        for number, group in enumerate(self._groups):
            which = is_kept.take(group.refs >> REF_BITS, mode="clip")
            if not which.all():
                kept[number] = group.frames().select(which)
                self._num_frames -= len(which) - len(kept[number])
        if kept:
            self._replace(list(kept), list(kept.values()))

    def _replace(self, touched: Sequence[int], lists: Sequence[FrameList]) -> None:
        """Replace groups by those of these frames."""
        groups = dict(_sort(FrameList.joined(lists), len(self._groups)))
        for number in touched:
            self._groups[number] = groups.get(number, _EMPTY)


def _sort(frames: FrameList, num_groups: int) -> Iterator[tuple[int, _Group]]:
    """Divide frames into groups, and sort them; yield (number of the group, group)."""
    if not len(frames):
        return
    halves = np.frombuffer(frames.keys, "<u8").reshape(-1, 2)
    groups = halves[:, 0] % np.uint64(num_groups)
    # The same stream may be there several times.
    by_key = np.lexsort((halves[:, 1], halves[:, 0], groups))
    keys, groups = halves[by_key], groups[by_key]
    is_first = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    ranks = np.empty(len(keys), np.int32)
    ranks[by_key] = is_first.cumsum() - 1
    streams = ranks[frames.streams]
    counts = np.bincount(streams, minlength=int(is_first.sum()))
    # A stream without frames is left out; it has no part in the order of the frames.
    keys, groups = keys[is_first][counts > 0], groups[is_first][counts > 0]
    starts = np.append(0, counts[counts > 0].cumsum())
    order = np.lexsort((frames.numbers, streams))  # stable
    numbers, refs = frames.numbers[order], frames.refs[order]
    firsts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])).tolist()
    for first, last in zip(firsts, [*firsts[1:], len(groups)], strict=True):
        begin, end = int(starts[first]), int(starts[last])
        yield (
            int(groups[first]),
            _Group(
                keys[first:last].tobytes(),
                (starts[first : last + 1] - begin).astype(np.int32),
                # Copies, so that the whole is freed.
                numbers[begin:end].copy(),
                refs[begin:end].copy(),
            ),
        )
