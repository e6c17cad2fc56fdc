"""Bits, Exp-Golomb codes and start codes, as H.264 writes them."""

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
        """Append whole bytes at the next byte border, filling up with zeros."""
        self._bits += [0] * (-len(self._bits) % 8)
        for byte in data:
            self.fixed(byte, 8)
        return self

    @property
    def size(self) -> int:
        """Bits so far."""
        return len(self._bits)

    def whole(self) -> bytes:
        """All bits, filled up with zeros to a whole byte."""
        bits = [*self._bits, *[0] * (-len(self._bits) % 8)]
        return int("".join(map(str, bits)), 2).to_bytes(len(bits) // 8)

    def payload(self) -> bytes:
        """All bits, closed by a stop bit and zeros: a raw byte sequence payload of H.264."""
        self.fixed(1, 1)
        return self.whole()


class BitReader:
    """Reads bits, most significant first."""

    def __init__(self, data: bytes) -> None:
        self._bits = "".join(f"{byte:08b}" for byte in data)
        self.place = 0

    def fixed(self, width: int) -> int:
        """Read a number of `width` bits: u(n)."""
        self.place += width
        return int(self._bits[self.place - width : self.place] or "0", 2)

    def golomb(self) -> int:
        """Read an unsigned Exp-Golomb code: ue(v)."""
        zeros = self._bits.index("1", self.place) - self.place
        self.place += zeros
        return self.fixed(zeros + 1) - 1

    def before(self) -> list[int]:
        """Every bit already read."""
        return [int(bit) for bit in self._bits[: self.place]]


def escape(payload: bytes) -> bytes:
    """Insert the bytes that keep a payload from looking like a start code."""
    return re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", payload)


def unescape(unit: bytes) -> bytes:
    """Take them out again."""
    return unit.replace(b"\x00\x00\x03", b"\x00\x00")


def split_units(stream: bytes) -> list[bytes]:
    """NAL units of a byte stream, without their start codes."""
    return [unit.rstrip(b"\x00") for unit in re.split(rb"\x00\x00\x01", stream)[1:]]


def join_units(units: list[bytes]) -> bytes:
    """A byte stream of NAL units."""
    return b"".join(b"\x00\x00\x00\x01" + unit for unit in units)
