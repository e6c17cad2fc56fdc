"""Read the bits of a raw byte sequence payload, ITU-T H.264 clause 7.2 and 9.1; what all readers of codecs share."""

from __future__ import annotations

_MAX_BYTES = 1024
_LONGEST_ZEROS = 31


SHOWN, KEY_FRAME, EXISTING, OTHERWISE_PARSED = 1, 2, 4, 8
"""Flags of a packet's frame: it is output, it is a key frame, it was decoded earlier; of the packet: libav's parser,
which reads the first frame in it, says otherwise whether it is a key frame."""


class OddUnits(Exception):
    """Headers or packets have something that is not understood exactly; libav reads them then."""


class HeaderBits:
    """Reads fixed-length and Exp-Golomb numbers.

    Args:
        unit: A NAL unit behind its header, with its emulation prevention bytes.

    Raises:
        OddUnits: Reading goes beyond its end, or a number is longer than 32 bits.
    """

    def __init__(self, unit: bytes) -> None:
        payload = unit[:_MAX_BYTES].replace(b"\0\0\3", b"\0\0")
        self._bits = int.from_bytes(payload, "big")
        self._left = len(payload) * 8

    @property
    def left(self) -> int:
        """Bits that are not read yet."""
        return self._left

    def read(self, count: int) -> int:
        """Read ``count`` bits, most significant first: u(n)."""
        self._left -= count
        if self._left < 0:
            raise OddUnits("parameter sets that break off")
        return (self._bits >> self._left) & ((1 << count) - 1)

    def read_flag(self) -> bool:
        """Read one bit: u(1)."""
        return bool(self.read(1))

    def skip(self, count: int) -> None:
        """Skip bits."""
        self._left -= count
        if self._left < 0:
            raise OddUnits("parameter sets that break off")

    def read_golomb(self) -> int:
        """Read an unsigned Exp-Golomb number: ue(v)."""
        rest = self._bits & ((1 << self._left) - 1)
        zeros = self._left - rest.bit_length()
        if zeros > _LONGEST_ZEROS or self._left < 2 * zeros + 1:
            raise OddUnits("parameter sets with a number that is too long")
        self._left -= 2 * zeros + 1
        return (rest >> self._left) - 1

    def read_signed_golomb(self) -> int:
        """Read a signed Exp-Golomb number: se(v)."""
        value = self.read_golomb()
        return (value + 1) // 2 if value & 1 else -(value // 2)
