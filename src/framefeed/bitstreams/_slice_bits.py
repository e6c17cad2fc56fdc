"""Read the same number in many slice headers at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np

from framefeed._arrays import BoolArray, ByteArray, IntArray, WordArray
from framefeed.bitstreams._bits import OddUnits
from framefeed.bitstreams._units import HEAD_BYTES

Set = TypeVar("Set")
Headers = TypeVar("Headers")
_WORD = 8
_ZEROS_BITS = 16
_TOO_LONG = 8 * HEAD_BYTES + 1
"""Bits that stand for a number longer than any valid one: it ends beyond the known bytes."""
_MOST_NUMBERS = 1024
"""Numbers read of one header: more than any loop over one allows."""
_SPARE_BYTES = _MOST_NUMBERS * (_TOO_LONG // 8 + 1)
"""Bytes behind the last header, into which numbers that are too long lead."""
_PREVENTION = 3
_SEEN = np.array(57)
"""Bits known from any bit on: 64 from the beginning of its byte."""
# Arrays: NumPy takes twice as long with numbers, which it converts first.
_TOP = np.array(64 - _ZEROS_BITS, np.uint64)
_THREE, _SEVEN = np.array(3), np.array(7)
_BIT = 128 >> np.arange(8)
_ONE = np.ones(1, np.int64)
_NONE = np.zeros(0, np.int64)


@lru_cache(maxsize=1)
def _make_golomb_tables() -> tuple[IntArray, WordArray]:
    """Make tables by the next 16 bits: length of the Exp-Golomb number there, and the shift to its value."""
    length = np.full(1 << _ZEROS_BITS, _TOO_LONG, np.int64)
    for zeros in range(_ZEROS_BITS):
        length[1 << (_ZEROS_BITS - 1 - zeros) : 1 << (_ZEROS_BITS - zeros)] = 2 * zeros + 1
    return length, (64 - np.minimum(length, 64)).astype(np.uint64)


def find_sets(number: IntArray, known: dict[int, Set]) -> list[Set]:
    """Find the picture parameter sets that slices name.

    ``number``: number of the set that each slice names, int64 [S], at least one.
    """
    first = int(number[0])
    named = {first} if np.count_nonzero(number == first) == len(number) else set(number.tolist())
    if not named <= known.keys():
        raise OddUnits("slices of unknown parameter sets")
    return [known[name] for name in named]


class SliceBits:
    """Reads numbers in some or all of the headers; each has its own position.

    A header that breaks off, or has a number that is too long, gives the bytes that follow in memory: `check` raises.

    Args:
        head: First bytes of slices behind their NAL unit header, uint8 [S, HEAD_BYTES].
        head_bytes: Bytes of them that are the slice's, int64 [S].
        begin: First bit to read.
        removes_prevention: Whether emulation prevention bytes are removed; else a header ends at its first one.
    """

    def __init__(
        self, head: ByteArray, head_bytes: IntArray, begin: int = 0, *, removes_prevention: bool = True
    ) -> None:
        self._data = data = np.zeros(head.size + _SPARE_BYTES, np.uint8)
        data[: head.size] = head.ravel()
        prevention = _find_prevention(data[: head.size], head_bytes)
        self.is_cut = bool(len(prevention)) and not removes_prevention
        sizes = head_bytes
        if self.is_cut:
            sizes = head_bytes.copy()
            sizes[prevention[::-1] // HEAD_BYTES] = prevention[::-1] % HEAD_BYTES  # the last to be assigned remains
        elif len(prevention):
            sizes = _remove_prevention(data[: head.size], head_bytes, prevention)
        self._words: WordArray = np.ndarray((len(data) - _WORD + 1,), ">u8", data, strides=(1,))
        self._bit = np.arange(begin, begin + head.size * 8, 8 * HEAD_BYTES)
        self._end = self._bit + (8 * sizes - begin)
        self._length, self._shift = _make_golomb_tables()

    def __len__(self) -> int:
        return len(self._bit)

    def read_fixed(self, count: int, chosen: IntArray | None = None) -> IntArray:
        """Read a number of ``count`` bits, at most 32, in each of some headers: u(n)."""
        at = self._bit if chosen is None else self._bit[chosen]
        if not len(at):
            return _NONE
        self._move(chosen, at + count)
        return (self._peek_words(at) >> np.uint64(64 - count)).view(np.int64)

    def read_flags(self, chosen: IntArray) -> BoolArray:
        """Read a flag in each of some headers: u(1)."""
        at = self._bit[chosen]
        self._bit[chosen] = at + _ONE
        set_bits: IntArray = self._data[at >> _THREE] & _BIT[at & _SEVEN]
        return set_bits.astype(bool)

    def read_golomb(self, chosen: IntArray | None = None) -> IntArray:
        """Read an unsigned Exp-Golomb number in each of some headers: ue(v)."""
        at = self._bit if chosen is None else self._bit[chosen]
        if not len(at):
            return _NONE
        following = self._peek_words(at)
        zeros = (following >> _TOP).view(np.int64)
        self._move(chosen, at + self._length[zeros])
        value: IntArray = (following >> self._shift[zeros]).view(np.int64)
        value -= _ONE
        return value

    def read_two_golombs(self) -> tuple[IntArray, IntArray]:
        """Read two unsigned Exp-Golomb numbers in each header."""
        following = self._peek_words(self._bit)
        zeros = (following >> _TOP).view(np.int64)
        first = (following >> self._shift[zeros]).view(np.int64) - _ONE
        length = self._length[zeros]
        following <<= np.minimum(length, _SEEN).view(np.uint64)
        zeros = (following >> _TOP).view(np.int64)
        second = (following >> self._shift[zeros]).view(np.int64) - _ONE
        length = length + self._length[zeros]
        # A second number beyond the known bits counts as too long.
        length[length > _SEEN] = _TOO_LONG
        self._bit = self._bit + length
        return first, second

    def read_steps(self, chosen: IntArray, count: IntArray) -> IntArray:
        """Read some Exp-Golomb numbers in each of some headers, each plus one, and skip the bit behind each.

        ``count``: how many in each, int64.

        Returns:
            int64 [max(count), len(chosen)]; 0 where there is none.
        """
        # Headers with more numbers first, so that those that go on are the first ones. Short numbers sort faster.
        order = (-count).astype(np.int16).argsort(kind="stable")
        at = self._bit[chosen[order]]
        steps = np.zeros((int(count.max()), len(chosen)), np.int64)
        for number, row in enumerate(steps):
            going = slice(np.count_nonzero(count > number))
            following = self._peek_words(at[going])
            zeros = (following >> _TOP).view(np.int64)
            row[going] = (following >> self._shift[zeros]).view(np.int64)
            at[going] += self._length[zeros] + _ONE
        self._bit[chosen[order]] = at
        result = np.empty_like(steps)
        result[:, order] = steps
        return result

    def read_golomb_with_others(self, chosen: IntArray, numbers: IntArray) -> IntArray:
        """Read an Exp-Golomb number in each of some headers, and skip the others that belong to it.

        ``numbers``: count of the others that belong to each value, up to two, int64.
        """
        at = self._bit[chosen]
        if not len(at):
            return _NONE
        following = self._peek_words(at)
        zeros = (following >> _TOP).view(np.int64)
        length = self._length[zeros]
        value: IntArray = (following >> self._shift[zeros]).view(np.int64) - _ONE
        left = numbers.take(value, mode="clip")
        self._bit[chosen] = at + self._find_end(following, length, left, int(left.max()))
        return value

    def skip_golombs(self, chosen: IntArray, count: int = 1) -> None:
        """Skip one or two Exp-Golomb numbers in each of some headers: ue(v) or se(v)."""
        if len(chosen):
            at = self._bit[chosen]
            following = self._peek_words(at)
            length = self._length[(following >> _TOP).view(np.int64)]
            self._bit[chosen] = at + (length if count == 1 else self._find_end(following, length, _ONE, 1))

    def _find_end(self, following: WordArray, length: IntArray, left: IntArray, most: int) -> IntArray:
        """Compute the bits up to the end of ``left`` numbers that follow the first one of ``length`` bits."""
        for number in range(most):
            ahead = following << np.minimum(length, _SEEN).view(np.uint64)
            length = length + self._length[(ahead >> _TOP).view(np.int64)] * (left > number)
        if most and int(length.max()) > _SEEN:
            # Numbers beyond the known bits were read wrongly.
            length = np.where(length > _SEEN, _TOO_LONG, length)
        return length

    def read_signed(self, chosen: IntArray | None = None) -> IntArray:
        """Read a signed Exp-Golomb number in each of some headers: se(v)."""
        value = self.read_golomb(chosen)
        return np.where(value & 1, (value + 1) >> 1, -(value >> 1))

    def skip(self, count: IntArray | int, chosen: IntArray) -> None:
        """Skip bits in each of some headers: one count for all, or one for each."""
        self._bit[chosen] += count

    def count_zeros(self, chosen: IntArray) -> IntArray:
        """Count the zeros that follow in each of some headers, up to 16."""
        length = self._length[(self._peek_words(self._bit[chosen]) >> _TOP).view(np.int64)]
        zeros: IntArray = np.minimum(length >> 1, _ZEROS_BITS)
        return zeros

    def check(self) -> None:
        """Raise OddUnits if some header was read beyond its known bytes, or had a number that is too long."""
        if np.count_nonzero(self._bit > self._end):
            raise OddUnits("slice headers that go on for long, or break off")

    def _peek_words(self, at: IntArray) -> WordArray:
        """Return the next 57 bits or more."""
        words: WordArray = self._words[at >> _THREE].astype(np.uint64)
        words <<= (at & _SEVEN).view(np.uint64)
        return words

    def _move(self, chosen: IntArray | None, at: IntArray) -> None:
        if chosen is None:
            self._bit = at
        else:
            self._bit[chosen] = at


def read_headers(head: ByteArray, head_bytes: IntArray, read: Callable[[SliceBits], Headers]) -> Headers:
    """Read slice headers behind their first bit.

    Few headers are as long as their first emulation prevention byte: those bytes are removed only if one is.

    ``read``: reads them, and calls `SliceBits.check` at the end.
    """
    bits = SliceBits(head, head_bytes, 1, removes_prevention=False)
    try:
        return read(bits)
    except OddUnits:
        if not bits.is_cut:
            raise
    return read(SliceBits(head, head_bytes, 1))


def _find_prevention(data: ByteArray, sizes: IntArray) -> IntArray:
    """Find emulation prevention bytes, H.264 7.4.1.

    Args:
        data: Headers, one behind the other, uint8 [S * HEAD_BYTES].
        sizes: Known bytes of each, int64 [S].
    """
    at: IntArray = (data == _PREVENTION).nonzero()[0]
    at = at[(data[at - 1] | data[at - 2]) == 0]
    # Two zeros at the end of a header are not those of the next one.
    return at[(at % HEAD_BYTES > 1) & (at % HEAD_BYTES < sizes[at // HEAD_BYTES])] if len(at) else at


def _remove_prevention(data: ByteArray, sizes: IntArray, at: IntArray) -> IntArray:
    """Remove emulation prevention bytes in place; return the remaining bytes of each header.

    ``data``: headers, one behind the other, uint8 [S * HEAD_BYTES].
    ``sizes``: known bytes of each, int64 [S].
    """
    chosen = np.zeros(len(sizes), bool)
    chosen[at // HEAD_BYTES] = True
    stored, sizes = data.tobytes(), sizes.copy()
    begins, known = chosen.nonzero()[0] * HEAD_BYTES, sizes[chosen].tolist()
    # Screens of one colour have several in nearly every header: bytes are replaced faster than NumPy moves them.
    payloads = [
        stored[begin : begin + size].replace(b"\0\0\3", b"\0\0")
        for begin, size in zip(begins.tolist(), known, strict=True)
    ]
    padded = b"".join([payload.ljust(HEAD_BYTES, b"\0") for payload in payloads])
    data.reshape(-1, HEAD_BYTES)[chosen] = np.frombuffer(padded, np.uint8).reshape(-1, HEAD_BYTES)
    sizes[chosen] = [len(payload) for payload in payloads]
    return sizes
