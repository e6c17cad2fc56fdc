"""Numbers in the bits of a header."""

from __future__ import annotations

from framefeed.media.proving import Unproved

_CHUNK_BYTES = 16
"""Most headers are shorter, and shifting a longer number takes longer."""


class Bits:
    """Reads numbers of a fixed count of bits, most significant first.

    Args:
        data: The header, and what comes behind it.
        most: Bytes that it may take.

    Raises:
        Unproved: Reading goes beyond the end.
    """

    def __init__(self, data: memoryview, most: int) -> None:
        self._data, self._most = data, most
        first = data[:_CHUNK_BYTES]
        self._value = int.from_bytes(first, "big")
        self._size = self._left = 8 * len(first)

    @property
    def num_read(self) -> int:
        """Bits that were read."""
        return self._size - self._left

    def number(self, count: int) -> int:
        """Read ``count`` bits."""
        left = self._left - count
        if left < 0:
            left = self._grow(count)
        self._left = left
        return self._value >> left & (1 << count) - 1

    def flag(self) -> bool:
        """Read one bit."""
        left = self._left - 1
        if left < 0:
            left = self._grow(1)
        self._left = left
        return self._value >> left & 1 == 1

    def skip_zeros(self, count: int) -> bool:
        """Pass over ``count`` bits if all of them are 0."""
        left = self._left - count
        if left < 0 or self._value >> left & (1 << count) - 1:
            return False
        self._left = left
        return True

    def _grow(self, count: int) -> int:
        """Take all that may be read; give the bits that are left behind the next ``count``."""
        data = self._data[: self._most]
        left = self._left + 8 * len(data) - self._size - count
        if left < 0:
            raise Unproved("a header breaks off")
        self._value, self._size = int.from_bytes(data, "big"), 8 * len(data)
        return left
