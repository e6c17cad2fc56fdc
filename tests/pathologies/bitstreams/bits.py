"""Bits, Exp-Golomb codes and start codes of H.264."""

from __future__ import annotations

import re


class BitWriter:
    """Collects bits, most significant first."""

    def __init__(self) -> None:
        self._bits: list[int] = []

    def fixed(self, value: int, width: int) -> BitWriter:
        """Append a number in `width` bits: u(n)."""
        self._bits += [value >> shift & 1 for shift in range(width - 1, -1, -1)]
        return self

    def golomb(self, *values: int) -> BitWriter:
        """Append unsigned Exp-Golomb codes: ue(v)."""
        for value in values:
            width = (value + 1).bit_length()
            self.fixed(0, width - 1).fixed(value + 1, width)
        return self

    def raw(self, data: bytes) -> BitWriter:
        """Append whole bytes at the next byte border; the bits before it become zeros."""
        self._bits += [0] * (-len(self._bits) % 8)
        for byte in data:
            self.fixed(byte, 8)
        return self

    @property
    def size(self) -> int:
        """Number of bits so far."""
        return len(self._bits)

    def whole(self) -> bytes:
        """Get all bits as bytes; the last byte is filled up with zeros."""
        bits = [*self._bits, *[0] * (-len(self._bits) % 8)]
        return int("".join(map(str, bits)), 2).to_bytes(len(bits) // 8)

    def payload(self) -> bytes:
        """Append a stop bit, and get all bits as bytes: a raw byte sequence payload of H.264."""
        self.fixed(1, 1)
        return self.whole()


class BitReader:
    """Reads bits, most significant first.

    Attributes:
        num_read: Number of bits already read.
    """

    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data)
        self.num_read = 0

    def fixed(self, width: int) -> int:
        """Read a number of `width` bits: u(n)."""
        self.num_read += width
        return int(self._bits[self.num_read - width : self.num_read] or "0", 2)

    def golomb(self) -> int:
        """Read an unsigned Exp-Golomb code: ue(v)."""
        zeros = self._bits.index("1", self.num_read) - self.num_read
        self.num_read += zeros
        return self.fixed(zeros + 1) - 1

    def before(self) -> list[int]:
        """List all bits already read."""
        return [int(bit) for bit in self._bits[: self.num_read]]


def escape(payload: bytes) -> bytes:
    """Insert emulation prevention bytes, without which a payload could contain a start code."""
    return re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", payload)


def unescape(unit: bytes) -> bytes:
    """Remove emulation prevention bytes."""
    return unit.replace(b"\x00\x00\x03", b"\x00\x00")


def split_units(stream: bytes) -> list[bytes]:
    """Split a byte stream into NAL units without start codes."""
    return [unit.rstrip(b"\x00") for unit in re.split(rb"\x00\x00\x01", stream)[1:]]


def join_units(units: list[bytes]) -> bytes:
    """Join NAL units to a byte stream."""
    return b"".join(b"\x00\x00\x00\x01" + unit for unit in units)
