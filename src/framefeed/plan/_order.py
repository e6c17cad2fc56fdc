"""Map positions to clips: shuffle, and the clip of each unshuffled position; no list of positions.

The permutation is a Feistel network over pairs (left, right) of numbers below about sqrt(n), applied until the result
is below n (Black and Rogaway: Ciphers with arbitrary finite domains, 2002). There are fewer than n + sqrt(n) pairs, so
that one application is nearly always enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import NamedTuple, Protocol, overload

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed.errors import UsageError
from framefeed.request import ORDER, WORD, hash_words

MOST_POSITIONS = (1 << 62) - 1
_ROUNDS = 16
"""With 16, all orders of 2 to 6 positions are equally frequent; for large sets 8 would be enough."""
_FIRST = 0xFF51AFD7ED558CCD
_SECOND = 0xC4CEB9FE1A85EC53
"""Multipliers of MurmurHash3's 64-bit finalizer (Appleby)."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """A keyed bijection of the integers below ``size`` onto themselves."""

    size: int
    left_size: int  # values of the left half, about sqrt(size)
    right_size: int  # values of the right half: left_size * right_size >= size
    keys: tuple[int, ...]  # one 64-bit number for each round

    @overload
    def __call__(self, position: int) -> int: ...
    @overload
    def __call__(self, position: IntArray) -> IntArray: ...
    def __call__(self, position: int | IntArray) -> int | IntArray:
        """Map one position, or an array of them, each in [0, size)."""
        return self._map_many(position) if isinstance(position, np.ndarray) else self._map_one(int(position))

    def _map_one(self, position: int) -> int:
        while True:
            position = self._encrypt(position)
            if position < self.size:
                return position

    def _encrypt(self, position: int) -> int:
        left_size, right_size = self.left_size, self.right_size
        left, right = divmod(position, right_size)
        keys = iter(self.keys)
        for key in keys:
            word = (right ^ key) * _FIRST & WORD
            word = (word ^ word >> 32) * _SECOND & WORD
            left = (left + ((word >> 32) * left_size >> 32)) % left_size
            word = (left ^ next(keys)) * _FIRST & WORD
            word = (word ^ word >> 32) * _SECOND & WORD
            right = (right + ((word >> 32) * right_size >> 32)) % right_size
        return left * right_size + right

    def _map_many(self, positions: IntArray) -> IntArray:
        # The same as `_map_one`, for arrays.
        values = self._encrypt_many(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(values >= self.size)):
            values[outside] = self._encrypt_many(values[outside])
        return values.astype(np.int64)

    def _encrypt_many(self, positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left_size, right_size = np.uint64(self.left_size), np.uint64(self.right_size)
        left, right = positions // right_size, positions % right_size
        for odd, even in zip(self.keys[::2], self.keys[1::2], strict=True):
            left = (left + _scatter(right, odd, left_size)) % left_size
            right = (right + _scatter(left, even, right_size)) % right_size
        values: npt.NDArray[np.uint64] = left * right_size + right
        return values


def _scatter(values: npt.NDArray[np.uint64], key: int, below: np.uint64) -> npt.NDArray[np.uint64]:
    half = np.uint64(32)
    words = (values ^ np.uint64(key)) * np.uint64(_FIRST)
    words = (words ^ words >> half) * np.uint64(_SECOND)
    scaled: npt.NDArray[np.uint64] = (words >> half) * below >> half
    return scaled


@lru_cache(maxsize=64)
def make_permutation(size: int, seed: int, epoch: int) -> Permutation:
    """Make the permutation of [0, size) that belongs to (seed, epoch); size up to `MOST_POSITIONS`."""
    if not 1 <= size <= MOST_POSITIONS:
        raise UsageError(f"a permutation needs from 1 to 2**62 - 1 positions, not {size}")
    right_size = isqrt(size - 1) + 1
    keys = tuple(hash_words(seed, epoch, ORDER, number) for number in range(_ROUNDS))
    return Permutation(size, -(-size // right_size), right_size, keys)


class ClipLocation(NamedTuple):
    """The clip at one position of the unshuffled epoch."""

    row: int  # of the catalog
    number: int  # of the clip or frame in its video, or of the request
    line: int  # of the plan's columns


class Layout(Protocol):
    """The unshuffled epoch, in memory that grows with the rows, not with the positions."""

    def __len__(self) -> int: ...

    def locate(self, position: int) -> ClipLocation:
        """Find the clip at an unshuffled position in [0, len)."""

    def find_rows(self, positions: IntArray) -> IntArray:
        """Find the rows of the catalog of the clips at unshuffled positions."""

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        """Find the clips at unshuffled positions, int64 [N]; the same as `locate` of each."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoClips:
    """The same number of clips of each row, int64 [V]: position p is clip p % c of video p // c."""

    rows: IntArray
    clips_per_video: int

    def __len__(self) -> int:
        return len(self.rows) * self.clips_per_video

    def locate(self, position: int) -> ClipLocation:
        video, number = divmod(position, self.clips_per_video)
        row = int(self.rows[video])
        return ClipLocation(row, number, row)

    def find_rows(self, positions: IntArray) -> IntArray:
        return self.rows[positions // self.clips_per_video]

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        videos, numbers = np.divmod(positions, self.clips_per_video)
        rows = self.rows[videos].tolist()
        return map(ClipLocation, rows, numbers.tolist(), rows)


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrames:
    """Every frame of each row; ``starts`` has the position of each row's first frame, and last their sum, [V + 1]."""

    rows: IntArray
    starts: IntArray

    @classmethod
    def of(cls, rows: IntArray, counts: IntArray) -> VideoFrames:
        """Lay out ``counts`` frames of each row, int64 [V]."""
        return cls(rows, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, position: int) -> ClipLocation:
        video = int(self.starts.searchsorted(position, side="right")) - 1
        row = int(self.rows[video])
        return ClipLocation(row, position - int(self.starts[video]), row)

    def find_rows(self, positions: IntArray) -> IntArray:
        return self.rows[self.starts.searchsorted(positions, side="right") - 1]

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        videos = self.starts.searchsorted(positions, side="right") - 1
        rows = self.rows[videos].tolist()
        return map(ClipLocation, rows, (positions - self.starts[videos]).tolist(), rows)


@dataclass(frozen=True, slots=True, eq=False)
class RequestRows:
    """The user's own requests, one for each position, by their rows of the catalog, int64 [R]."""

    rows: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def locate(self, position: int) -> ClipLocation:
        return ClipLocation(int(self.rows[position]), position, position)

    def find_rows(self, positions: IntArray) -> IntArray:
        return self.rows[positions]

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        numbers = positions.tolist()
        return map(ClipLocation, self.rows[positions].tolist(), numbers, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class FollowingRows:
    """The clips of a layout, each in the row of another catalog that follows its own, int64 [R]; -1 where none does."""

    leader: Layout
    followers: IntArray

    def __len__(self) -> int:
        return len(self.leader)

    def locate(self, position: int) -> ClipLocation:
        row, number, line = self.leader.locate(position)
        return ClipLocation(int(self.followers[row]), number, line)

    def find_rows(self, positions: IntArray) -> IntArray:
        return self.followers[self.leader.find_rows(positions)]

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        for row, number, line in self.leader.locate_many(positions):
            yield ClipLocation(int(self.followers[row]), number, line)


@dataclass(frozen=True, slots=True, eq=False)
class StreamClips:
    """The clips of several streams: row and line of the first; the number of a clip is its unshuffled position."""

    first: Layout

    def __len__(self) -> int:
        return len(self.first)

    def locate(self, position: int) -> ClipLocation:
        row, _, line = self.first.locate(position)
        return ClipLocation(row, position, line)

    def find_rows(self, positions: IntArray) -> IntArray:
        return self.first.find_rows(positions)

    def locate_many(self, positions: IntArray) -> Iterator[ClipLocation]:
        for position, (row, _, line) in zip(positions.tolist(), self.first.locate_many(positions), strict=True):
            yield ClipLocation(row, position, line)
