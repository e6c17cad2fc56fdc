"""Find and replace boxes of an MP4 file whose movie box comes last: offsets of data after it would be wrong."""

from __future__ import annotations

import struct

STBL = "moov.trak.mdia.minf.stbl"

AVCC = f"{STBL}.stsd.avc1.avcC"

# Bytes between a box's header and its children.
_PREFIX = {"stsd": 8, "avc1": 78}


def make_box(kind: str, payload: bytes) -> bytes:
    """Make a box of a four-letter kind."""
    return struct.pack(">I4s", len(payload) + 8, kind.encode()) + payload


def make_table(kind: str, *rows: tuple[int, ...], version: int = 0) -> bytes:
    """Make a full box of a count and rows of 32-bit numbers."""
    numbers = [number for row in rows for number in row]
    return make_box(kind, struct.pack(f">II{len(numbers)}I", version << 24, len(rows), *numbers))


def read_payload(data: bytes, path: str) -> bytes:
    """Read the payload of the first box at a dotted path such as ``"moov.trak"``."""
    start, end = find_box(data, path)
    return data[start + 8 : end]


def find_box(data: bytes, path: str) -> tuple[int, int]:
    """Find the range of the first box at a dotted path, with its header.

    Raises:
        KeyError: If there is none.
    """
    start, end = 0, len(data)
    offset = size = 0
    for kind in path.split("."):
        while offset + 8 <= end:
            size, name = struct.unpack_from(">I4s", data, offset)
            if name.decode("latin-1") == kind:
                break
            offset += max(size, 8)
        else:
            raise KeyError(f"there is no box {kind} on the path {path}")
        start, end = offset, offset + size
        offset += 8 + _PREFIX.get(kind, 0)
    return start, end


def replace_box(data: bytes, path: str, new: bytes) -> bytes:
    """Replace the box at a path by other bytes, and correct the sizes of the boxes around it."""
    start, end = find_box(data, path)
    kinds = path.split(".")
    grown = len(new) - (end - start)
    patched = bytearray(data)
    for depth in range(1, len(kinds)):
        outer, outer_end = find_box(data, ".".join(kinds[:depth]))
        struct.pack_into(">I", patched, outer, outer_end - outer + grown)
    patched[start:end] = new
    return bytes(patched)
