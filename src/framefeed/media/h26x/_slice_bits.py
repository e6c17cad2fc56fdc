"""Numbers at the same place of many slice headers at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from framefeed._arrays import BoolArray, ByteArray, IntArray, WordArray
from framefeed.media.h26x._bits import OddUnits
from framefeed.media.h26x._units import HEAD_BYTES

Set = TypeVar("Set")
_WORD = 8
_ZEROS_BITS = 16
AHEAD_BITS = 12
"""Bits that are looked up at once: most of what is behind the order of a picture."""
_TOO_LONG = 8 * HEAD_BYTES + 1
"""Bits of a number that is longer than those of any sound slice header: it ends beyond what is known."""
_MOST_NUMBERS = 1024
"""Of one header that are read: more than any loop over one allows."""
_SPARE_BYTES = _MOST_NUMBERS * (_TOO_LONG // 8 + 1)
"""Behind the last header: where numbers that are too long lead to."""
_PREVENTION = 3
_SEEN = np.array(57)
"""Bits that are known from any place on: a word of 64 that begins with the place's byte."""
# Arrays, for NumPy takes twice as long with numbers that it makes arrays of first.
_TOP = np.array(64 - _ZEROS_BITS, np.uint64)
_BEHIND_AHEAD = np.array(64 - AHEAD_BITS, np.uint64)
_THREE, _SEVEN = np.array(3), np.array(7)
_BIT = 128 >> np.arange(8)
_ONE = np.ones(1, np.int64)
_NONE = np.zeros(0, np.int64)


@lru_cache(maxsize=1)
def _make_golomb_tables() -> tuple[IntArray, WordArray]:
    """Give bits of the Exp-Golomb number that begins with each 16 bits, and how far it is to be shifted down to."""
    length = np.full(1 << _ZEROS_BITS, _TOO_LONG, np.int64)
    for zeros in range(_ZEROS_BITS):
        length[1 << (_ZEROS_BITS - 1 - zeros) : 1 << (_ZEROS_BITS - zeros)] = 2 * zeros + 1
    return length, (64 - np.minimum(length, 64)).astype(np.uint64)


def find_sets(number: IntArray, known: dict[int, Set]) -> list[Set]:
    """Find the picture parameter sets that slices name.

    Args:
        number: Which set each slice names, int64 [S], at least one.
        known: Sets by their numbers.

    Raises:
        OddUnits: Some slice names another one.
    """
    first = int(number[0])
    named = {first} if np.count_nonzero(number == first) == len(number) else set(number.tolist())
    if not named <= known.keys():
        raise OddUnits("slices of unknown parameter sets")
    return [known[one] for one in named]


def make_golomb_lengths() -> IntArray:
    """Give bits of the Exp-Golomb number that begins with each ``AHEAD_BITS``; more where it does not end in them."""
    length, _ = _make_golomb_tables()
    ahead: IntArray = length[np.arange(1 << AHEAD_BITS) << (_ZEROS_BITS - AHEAD_BITS)]
    return ahead


def make_list_lengths(numbers: Sequence[int | None], end: int) -> IntArray:
    """Give bits of the list that begins with each ``AHEAD_BITS``: numbers, each with others that belong to it.

    Args:
        numbers: How many others belong to each value; None of values that a list must not have.
        end: The value that ends a list.

    Returns:
        int64 [2**AHEAD_BITS]; 0 where the list does not end in these bits, or has values that are not known.
    """
    known = make_golomb_lengths()
    prefix = np.arange(1 << AHEAD_BITS)
    found, at, left = np.zeros_like(prefix), np.zeros_like(prefix), np.zeros_like(prefix)
    value = np.full_like(prefix, -1)
    others = np.array([-1 if count is None else count for count in numbers])
    while len(prefix):
        rest = shift_prefix(prefix, at)
        length = known[rest]
        value = np.where(left > 0, value, (rest >> np.maximum(AHEAD_BITS - length, 0)) - 1)
        at = at + length
        is_whole = (at <= AHEAD_BITS) & (value < len(numbers))
        prefix, at, value, left = prefix[is_whole], at[is_whole], value[is_whole], left[is_whole]
        left = np.where(left > 0, left - 1, others[value])
        is_end = (left == 0) & (value == end)
        found[prefix[is_end]] = at[is_end]
        goes_on = ~is_end & (left >= 0)
        prefix, at, value, left = prefix[goes_on], at[goes_on], value[goes_on], left[goes_on]
    return found


def shift_prefix(prefix: IntArray, at: IntArray) -> IntArray:
    """Give what follows ``at`` bits of some ``AHEAD_BITS``, and zeros behind it."""
    return prefix << np.minimum(at, AHEAD_BITS) & (1 << AHEAD_BITS) - 1


class SliceBits:
    """Reads on in some or all of the headers; each has its own place.

    A header that breaks off, or holds a number that is too long, gives whatever follows in memory: `check` says so.

    Args:
        head: First bytes of slices behind their NAL unit header, uint8 [S, HEAD_BYTES].
        head_bytes: How many of them are the slice's, int64 [S].
        begin: The bit from which on they are read.
    """

    def __init__(self, head: ByteArray, head_bytes: IntArray, begin: int = 0) -> None:
        self._data = data = np.zeros(head.size + _SPARE_BYTES, np.uint8)
        data[: head.size] = head.ravel()
        sizes = _remove_prevention(data[: head.size], head_bytes)
        self._words: WordArray = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        self._at = np.arange(begin, begin + head.size * 8, 8 * HEAD_BYTES)
        self._end = self._at + (8 * sizes - begin)
        self._length, self._shift = _make_golomb_tables()

    def __len__(self) -> int:
        return len(self._at)

    def fixed(self, count: int, rows: IntArray | None = None) -> IntArray:
        """Read a number of ``count`` bits, at most 32, in each of some headers: u(n)."""
        at = self._at if rows is None else self._at[rows]
        if not len(at):
            return _NONE
        self._move(rows, at + count)
        return (self._next(at) >> np.uint64(64 - count)).view(np.int64)

    def flags(self, rows: IntArray) -> BoolArray:
        """Read a flag in each of some headers: u(1)."""
        at = self._at[rows]
        self._at[rows] = at + _ONE
        set_bits: IntArray = self._data[at >> _THREE] & _BIT[at & _SEVEN]
        return set_bits.astype(bool)

    def golomb(self, rows: IntArray | None = None) -> IntArray:
        """Read an unsigned Exp-Golomb number in each of some headers: ue(v)."""
        at = self._at if rows is None else self._at[rows]
        if not len(at):
            return _NONE
        following = self._next(at)
        zeros = (following >> _TOP).view(np.int64)
        self._move(rows, at + self._length[zeros])
        value: IntArray = (following >> self._shift[zeros]).view(np.int64)
        value -= _ONE
        return value

    def two_golombs(self) -> tuple[IntArray, IntArray]:
        """Read two unsigned Exp-Golomb numbers in each header."""
        following = self._next(self._at)
        zeros = (following >> _TOP).view(np.int64)
        first = (following >> self._shift[zeros]).view(np.int64) - _ONE
        length = self._length[zeros]
        following <<= np.minimum(length, _SEEN).view(np.uint64)
        zeros = (following >> _TOP).view(np.int64)
        second = (following >> self._shift[zeros]).view(np.int64) - _ONE
        length = length + self._length[zeros]
        # Of a second number that goes on beyond the bits that are seen, only its end is known: it is too long.
        length[length > _SEEN] = _TOO_LONG
        self._at = self._at + length
        return first, second

    def ahead(self, rows: IntArray) -> IntArray:
        """Give the next ``AHEAD_BITS`` bits of some headers, int64; reads none."""
        return (self._next(self._at[rows]) >> _BEHIND_AHEAD).view(np.int64)

    def golomb_with(self, rows: IntArray, numbers: IntArray) -> IntArray:
        """Read an Exp-Golomb number in each of some headers, and pass over those that belong to it.

        Args:
            rows: Which headers.
            numbers: How many of them belong to each value, up to two, int64.
        """
        at = self._at[rows]
        if not len(at):
            return _NONE
        following = self._next(at)
        zeros = (following >> _TOP).view(np.int64)
        length = self._length[zeros]
        value: IntArray = (following >> self._shift[zeros]).view(np.int64) - _ONE
        left = numbers.take(value, mode="clip")
        self._at[rows] = at + self._behind(following, length, left, int(left.max()))
        return value

    def pass_golomb(self, rows: IntArray, count: int = 1) -> None:
        """Pass over up to two Exp-Golomb numbers in each of some headers: ue(v) or se(v)."""
        if len(rows):
            at = self._at[rows]
            following = self._next(at)
            length = self._length[(following >> _TOP).view(np.int64)]
            self._at[rows] = at + (length if count == 1 else self._behind(following, length, _ONE, 1))

    def _behind(self, following: WordArray, length: IntArray, left: IntArray, most: int) -> IntArray:
        """Give the bits up to behind some further numbers that follow the first one, of ``length`` bits."""
        for number in range(most):
            ahead = following << np.minimum(length, _SEEN).view(np.uint64)
            length = length + self._length[(ahead >> _TOP).view(np.int64)] * (left > number)
        if most and int(length.max()) > _SEEN:
            # What lies beyond the bits that are seen was not read right.
            length = np.where(length > _SEEN, _TOO_LONG, length)
        return length

    def signed(self, rows: IntArray | None = None) -> IntArray:
        """Read a signed Exp-Golomb number in each of some headers: se(v)."""
        value = self.golomb(rows)
        return np.where(value & 1, (value + 1) >> 1, -(value >> 1))

    def skip(self, count: IntArray | int, rows: IntArray) -> None:
        """Pass over a number of bits of its own in each of some headers."""
        self._at[rows] += count

    def zeros(self, rows: IntArray) -> IntArray:
        """Count the zeros that follow in each of some headers, up to 16."""
        length = self._length[(self._next(self._at[rows]) >> _TOP).view(np.int64)]
        zeros: IntArray = np.minimum(length >> 1, _ZEROS_BITS)
        return zeros

    def check(self) -> None:
        """Raise OddUnits if some header went on beyond what is known of it, or had a number that is too long."""
        if np.count_nonzero(self._at > self._end):
            raise OddUnits("slice headers that go on for long, or break off")

    def _next(self, at: IntArray) -> WordArray:
        """Give the 57 bits or more that follow."""
        words: WordArray = self._words[at >> _THREE].astype(np.uint64)
        words <<= (at & _SEVEN).view(np.uint64)
        return words

    def _move(self, rows: IntArray | None, at: IntArray) -> None:
        if rows is None:
            self._at = at
        else:
            self._at[rows] = at


def _remove_prevention(data: ByteArray, sizes: IntArray) -> IntArray:
    """Take out bytes against emulated start codes, H.264 7.4.1, in place; give how many bytes are left of each header.

    Args:
        data: Headers, one behind the other, uint8 [S * HEAD_BYTES].
        sizes: How many bytes of each are known, int64 [S].
    """
    at = (data == _PREVENTION).nonzero()[0]
    at = at[(data[at - 1] | data[at - 2]) == 0]
    # Two zeros at the end of a header are not those of the next one.
    at = at[(at % HEAD_BYTES > 1) & (at % HEAD_BYTES < sizes[at // HEAD_BYTES])] if len(at) else at
    if not len(at):
        return sizes
    rows = np.zeros(len(sizes), bool)
    rows[at // HEAD_BYTES] = True
    stored, sizes = data.tobytes(), sizes.copy()
    begins, known = rows.nonzero()[0] * HEAD_BYTES, sizes[rows].tolist()
    # Screens of one colour have several in nearly every header: bytes are replaced faster than NumPy moves them.
    payloads = [
        stored[begin : begin + size].replace(b"\0\0\3", b"\0\0")
        for begin, size in zip(begins.tolist(), known, strict=True)
    ]
    padded = b"".join([payload.ljust(HEAD_BYTES, b"\0") for payload in payloads])
    data.reshape(-1, HEAD_BYTES)[rows] = np.frombuffer(padded, np.uint8).reshape(-1, HEAD_BYTES)
    sizes[rows] = [len(payload) for payload in payloads]
    return sizes
