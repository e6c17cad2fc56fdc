"""Read the bits of codecs' headers; what all readers of codecs share."""

from __future__ import annotations

_CHUNK_BYTES = 16
"""Bytes loaded first: most headers are shorter, and shifting a longer number takes longer."""
_MAX_BYTES = 1024
_LONGEST_ZEROS = 31


SHOWN, KEY_FRAME, EXISTING, OTHERWISE_PARSED = 1, 2, 4, 8
"""Flags of a packet's frame: it is output, it is a key frame, it was decoded earlier; of the packet: libav's parser,
which reads the first frame in it, says otherwise whether it is a key frame."""


class OddUnits(Exception):
    """Headers or packets have something that is not understood exactly; libav reads them then."""


class HeaderBits:
    """Reads numbers of a fixed count of bits, most significant first, and Exp-Golomb numbers (ITU-T H.264, 9.1).

    Args:
        data: The header and the bytes behind it.
        most: Most bytes of the header.

    Raises:
        OddUnits: Reading goes beyond its end, or a number is longer than 32 bits.
    """

    __slots__ = ("_data", "_left", "_most", "_size", "_value")

    def __init__(self, data: bytes | memoryview, most: int) -> None:
        self._data, self._most = data, most
        first = data[:_CHUNK_BYTES]
        self._value = int.from_bytes(first, "big")
        self._size = self._left = 8 * len(first)

    @classmethod
    def of_unit(cls, unit: bytes) -> HeaderBits:
        """Read the payload of a NAL unit without its header, in which there are emulation prevention bytes."""
        return cls(unit[:_MAX_BYTES].replace(b"\0\0\3", b"\0\0"), _MAX_BYTES)

    def read(self, count: int) -> int:
        """Read ``count`` bits: u(n)."""
        left = self._left - count
        if left < 0:
            left = self._load(count)
        self._left = left
        return self._value >> left & (1 << count) - 1

    def read_flag(self) -> bool:
        """Read one bit: u(1)."""
        left = self._left - 1
        if left < 0:
            left = self._load(1)
        self._left = left
        return self._value >> left & 1 == 1

    def skip(self, count: int) -> None:
        """Skip bits."""
        self.read(count)

    def align(self) -> tuple[int, int]:
        """Skip the bits up to the next byte; return its offset, and the number that they make."""
        rest = self.read(self._left % 8)
        return (self._size - self._left) // 8, rest

    def read_golomb(self) -> int:
        """Read an unsigned Exp-Golomb number: ue(v)."""
        left = self._load(0) if self._size == 8 * _CHUNK_BYTES else self._left
        rest = self._value & (1 << left) - 1
        zeros = left - rest.bit_length()
        self._left = left - (2 * zeros + 1)
        if zeros > _LONGEST_ZEROS or self._left < 0:
            raise OddUnits("a header with a number that is too long")
        return (rest >> self._left) - 1

    def read_signed_golomb(self) -> int:
        """Read a signed Exp-Golomb number: se(v)."""
        value = self.read_golomb()
        return (value + 1) // 2 if value & 1 else -(value // 2)

    def _load(self, count: int) -> int:
        """Load all bytes that may be read; return the bits left behind the next ``count``."""
        data = self._data[: self._most]
        left = self._left + 8 * len(data) - self._size - count
        if left < 0:
            raise OddUnits("a header that breaks off")
        self._value, self._size = int.from_bytes(data, "big"), 8 * len(data)
        return left
