"""Read structs of Thrift's compact protocol (thrift-compact-protocol.md), in which Parquet has its metadata."""

from __future__ import annotations

from typing import Any

_MOST_DEPTH = 12
_MOST_SHIFT = 63
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS, _LISTS = (4, 5, 6), (9, 10)


class Incomplete(Exception):
    """A struct goes on behind the bytes that were read."""


class OddStruct(Exception):
    """Bytes are no struct; the text says what is wrong."""


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct: its values by the numbers of their fields, and the byte behind it."""
    fields: dict[int, Any] = {}
    field = 0
    while True:
        head, at = read_byte(data, at)
        if not head:
            return fields, at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _read_signed(data, at)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            fields[field] = kind == _TRUE
        else:
            fields[field], at = _read_value(data, at, kind, depth)


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _read_signed(data, at)
    if kind in (_TRUE, _FALSE, _BYTE):  # In lists, where booleans are bytes.
        return read_byte(data, at)
    if kind in (_BINARY, _DOUBLE):
        length, at = (8, at) if kind == _DOUBLE else read_varint(data, at)
        if at + length > len(data):
            raise Incomplete
        return data[at : at + length], at + length
    if depth == _MOST_DEPTH:
        raise OddStruct("structs within structs have no end")
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if kind not in _LISTS:
        raise OddStruct(f"a field is of kind {kind}")
    head, at = read_byte(data, at)
    length, at = (head >> 4, at) if head >> 4 < 15 else read_varint(data, at)
    values: list[Any] = []
    for _ in range(length):
        value, at = _read_value(data, at, head & 15, depth + 1)
        values.append(value)
    return values, at


def read_byte(data: bytes, at: int) -> tuple[int, int]:
    """Read a byte; give the position behind it too."""
    if at >= len(data):
        raise Incomplete
    return data[at], at + 1


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number without a sign; give the position behind it too."""
    value = shift = 0
    while shift <= _MOST_SHIFT:
        byte, at = read_byte(data, at)
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise OddStruct("a number does not end")


def _read_signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return value >> 1 ^ -(value & 1), at
