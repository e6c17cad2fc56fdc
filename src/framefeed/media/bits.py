"""Numbers in the bits of a header."""

from __future__ import annotations

from framefeed.media.proving import Unproved


class Bits:
    """Reads numbers of a fixed count of bits, most significant first.

    Args:
        data: The header, and what comes behind it.

    Raises:
        Unproved: Reading goes beyond the end.
    """

    def __init__(self, data: memoryview) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    def number(self, count: int) -> int:
        """Read ``count`` bits."""
        self._left -= count
        if self._left < 0:
            raise Unproved("a header breaks off")
        return (self._value >> self._left) & ((1 << count) - 1)

    def flag(self) -> bool:
        """Read one bit."""
        return self.number(1) == 1
