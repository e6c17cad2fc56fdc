"""Store columns of int64 as bytes: as differences where these are narrower, in the narrowest integers, zstd over all.

All arithmetic is modulo 2**64, so that no number is too large.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import IntArray

_EVEN = 0
"""The column is its first number and the step to the next: constant-rate times, for example."""
_PLAIN = 1
"""The numbers as they are, in the integers of ``_WIDTHS[kind - _PLAIN]``."""
_DELTA = 5
"""The first number, then the differences, in the integers of ``_WIDTHS[kind - _DELTA]``."""
_WIDTHS = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))
_LIMITS = [np.iinfo(width) for width in _WIDTHS]
_FIRST = struct.Struct("<q")
_FIRST_AND_STEP = struct.Struct("<qq")
_LENGTH = struct.Struct("<Q")
_ZSTD = pa.Codec("zstd", compression_level=3)


class Damaged(ValueError):
    """Bytes that `pack` or `compress` did not write."""


def pack(values: IntArray) -> bytes:
    """Store a column, int64 [n]; n is not stored."""
    if not len(values):
        return b""
    words = values.view(np.uint64)
    steps: IntArray = (words[1:] - words[:-1]).view(np.int64)
    least, most = (int(steps.min()), int(steps.max())) if len(steps) else (0, 0)
    first = int(values[0])
    if least == most:
        return bytes([_EVEN]) + _FIRST_AND_STEP.pack(first, least)
    plain, delta = _choose_width(int(values.min()), int(values.max())), _choose_width(least, most)
    # Ascending numbers have the smaller differences even where both take as many bytes before compression.
    if delta < plain or (delta == plain and least >= 0):
        return bytes([_DELTA + delta]) + _FIRST.pack(first) + steps.astype(_WIDTHS[delta]).tobytes()
    return bytes([_PLAIN + plain]) + values.astype(_WIDTHS[plain]).tobytes()


def _choose_width(least: int, most: int) -> int:
    return next(number for number, limits in enumerate(_LIMITS) if limits.min <= least and most <= limits.max)


def compress(parts: Iterable[bytes]) -> bytes:
    """Compress packed columns together."""
    data = b"".join(parts)
    compressed: bytes = _ZSTD.compress(data, asbytes=True)
    return _LENGTH.pack(len(data)) + compressed


def decompress(data: memoryview, max_bytes: int) -> ByteCursor:
    """Read what `compress` wrote; ``max_bytes`` bounds the result, and is checked before memory is allocated."""
    if len(data) < _LENGTH.size:
        raise Damaged("its columns break off")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size])
    if length > max_bytes:
        raise Damaged(f"its columns claim {length} bytes, more than {max_bytes}")
    try:
        # Arrow's buffers are of signed bytes.
        return ByteCursor(memoryview(_ZSTD.decompress(data[_LENGTH.size :], decompressed_size=length)).cast("B"))
    except OSError as error:
        raise Damaged(f"its columns are not compressed as they should: {error}") from error


def bound_packed_bytes(counts: Iterable[int]) -> int:
    """Compute the most bytes that `pack` gives for columns of these lengths."""
    return sum(1 + _FIRST.size + _WIDTHS[-1].itemsize * max(1, count) for count in counts)


@dataclass(slots=True)
class ByteCursor:
    """Reader of numbers from untrusted bytes, from an offset on."""

    data: memoryview
    offset: int = 0

    def take(self, count: int) -> memoryview:
        stop = self.offset + count
        if stop > len(self.data):
            raise Damaged(f"it ends after {len(self.data)} bytes, and claims {stop}")
        part = self.data[self.offset : stop]
        self.offset = stop
        return part

    def fields(self, coder: struct.Struct) -> tuple[Any, ...]:
        return coder.unpack(self.take(coder.size))

    def column(self, count: int) -> IntArray:
        """Take a column that `pack` stored, a new array, int64 [n].

        The caller has checked that so many numbers may be allocated.
        """
        if not count:
            return np.empty(0, np.int64)
        kind = int(self.take(1)[0])
        if kind == _EVEN:
            first, step = self.fields(_FIRST_AND_STEP)
            if not step:
                return np.full(count, first, np.int64)
            return (np.arange(count, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(first % 2**64)).view(
                np.int64
            )
        if _PLAIN <= kind < _DELTA:
            return self._numbers(count, kind - _PLAIN).astype(np.int64)
        if kind >= _DELTA + len(_WIDTHS):
            raise Damaged(f"a column of the unknown kind {kind}")
        values = np.empty(count, np.int64)
        (values[0],) = self.fields(_FIRST)
        values[1:] = self._numbers(count - 1, kind - _DELTA)
        return np.cumsum(values, out=values)

    def _numbers(self, count: int, width: int) -> IntArray:
        kind = _WIDTHS[width]
        return np.frombuffer(self.take(count * kind.itemsize), kind)
