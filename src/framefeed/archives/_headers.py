"""Read the 512-byte headers of tar archives (POSIX.1-2017 pax, ustar; GNU tar; V7), many at once, and pax records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from framefeed._arrays import BoolArray, ByteArray
from framefeed.archives._tables import MemberKind

BLOCK = 512
"""Bytes of a header; data are padded to multiples."""
SIZE = slice(124, 136)
KIND = 156
NAME = slice(0, 100)
LINK = slice(157, 257)
_SUM = slice(148, 156)
_PREFIX = 345
_FIELDS = np.dtype({
    "names": ["name", "magic", "prefix"],
    "formats": ["S100", "S6", "S155"],
    "offsets": [0, 257, _PREFIX],
    "itemsize": BLOCK,
})  # fmt: skip
# With version 00 behind it. GNU tar's own headers have "ustar " there, and times where others have the prefix.
_POSIX = b"ustar"
_SUM_DIGITS = slice(148, 154)
_POWERS = 8 ** np.arange(5, -1, -1)

_KINDS = np.full(256, MemberKind.OTHER, np.uint8)
for _letters, _kind in (
    (b"\0" b"07", MemberKind.FILE), (b"1", MemberKind.HARD_LINK), (b"2", MemberKind.SYMLINK),
    (b"346", MemberKind.DEVICE), (b"5", MemberKind.FOLDER), (b"S", MemberKind.SPARSE),
):  # fmt: skip
    _KINDS[list(_letters)] = _kind
# The size of these says nothing about data: a folder's may be its quota, a hard link's that of its target.
WITHOUT_DATA = frozenset(b"123456")

_RECORD = re.compile(rb"(\d{1,20}) ([^=\n]*)=")
_PATH, _LINK_PATH, _SIZE_KEY, _SPARSE_NAME = b"path", b"linkpath", b"size", b"GNU.sparse.name"
_SPARSE = b"GNU.sparse."
_KEPT = frozenset({_PATH, _LINK_PATH, _SPARSE_NAME, _SIZE_KEY})


class OddHeader(Exception):
    """A header is not what the formats allow; the text says what is wrong."""


class Headers(NamedTuple):
    """What a run of headers says: columns of one length."""

    names: list[bytes]
    kind: ByteArray
    is_sound: BoolArray


def read_number(field: bytes) -> int:
    """Read a field of octal digits, or GNU tar's of base 256; `OddHeader` if it is neither."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    text = cut(field).strip(b" ")
    if text.strip(b"01234567"):
        raise OddHeader(f"a number reads {text[:20]!r}")
    return int(text or b"0", 8)


def cut(field: bytes) -> bytes:
    """Return the text before the first NUL."""
    return field.partition(b"\0")[0]


def has_right_sum(block: bytes) -> bool:
    """Whether a header has its checksum right, of unsigned bytes or, as old programs sum them, of signed ones."""
    if len(block) < BLOCK:
        return False
    try:
        claimed = read_number(block[_SUM])
    except OddHeader:
        return False
    others = block[: _SUM.start] + b" " * 8 + block[_SUM.stop :]
    total = sum(others)
    return claimed in (total, total - 256 * sum(byte > 127 for byte in others))


def read_headers(blocks: bytes) -> Headers:
    """Read names, kinds and checksums of headers that follow each other."""
    if not blocks:
        return Headers([], np.empty(0, np.uint8), np.empty(0, np.bool_))
    bytes_ = np.frombuffer(blocks, np.uint8).reshape(-1, BLOCK)
    # Six digits, as nearly all programs write it; other headers are summed again, one by one.
    digits = bytes_[:, _SUM_DIGITS] - np.uint8(ord("0"))
    others = bytes_.sum(1, np.uint32) - bytes_[:, _SUM].sum(1, np.uint32) + np.uint32(8 * ord(" "))
    ended = np.isin(bytes_[:, _SUM_DIGITS.stop], (0, ord(" ")))
    is_sound: BoolArray = ended & (digits < 8).all(1) & (digits @ _POWERS == others)
    for row in np.flatnonzero(~is_sound).tolist():
        is_sound[row] = has_right_sum(blocks[row * BLOCK : (row + 1) * BLOCK])
    fields = np.frombuffer(blocks, _FIELDS)
    names: list[bytes] = fields["name"].tolist()
    if b"\0" in b"".join(names):  # NumPy cuts only the last ones.
        names = list(map(cut, names))
    for row in np.flatnonzero((bytes_[:, _PREFIX] != 0) & (fields["magic"] == _POSIX)).tolist():
        names[row] = cut(fields["prefix"][row]) + b"/" + names[row]
    return Headers(names, _KINDS[bytes_[:, KIND]], is_sound)


def decode_names(names: list[bytes]) -> list[str]:
    """Decode names, none of which has a NUL; bytes that are no UTF-8 become surrogates."""
    return b"\0".join(names).decode("utf-8", "surrogateescape").split("\0") if names else []


def read_pax(payload: bytes) -> dict[bytes, bytes]:
    """Read those records of a pax header that say where a member is, and what; `OddHeader` if one is cut."""
    records: dict[bytes, bytes] = {}
    if _PATH not in payload and _SIZE_KEY not in payload and _SPARSE not in payload:
        return records  # Many have only times.
    at = 0
    while at < len(payload) and payload[at]:  # Some writers pad with NULs.
        match = _RECORD.match(payload, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(payload) or payload[end - 1] != ord("\n"):
            raise OddHeader(f"a pax record does not end where it says, {at} bytes into its header")
        key = match[2]
        if key in _KEPT:
            records[key] = payload[match.end() : end - 1]
        elif key.startswith(_SPARSE):
            records[_SPARSE] = b""
        at = end
    return records


def name_from(records: Mapping[bytes, bytes]) -> bytes | None:
    """Find a member's name in pax records; None if they do not say."""
    return cut(records.get(_SPARSE_NAME, records.get(_PATH, b""))) or None


def target_from(records: Mapping[bytes, bytes]) -> bytes | None:
    """Find a link's target in pax records; None if they do not say."""
    return cut(records.get(_LINK_PATH, b"")) or None


def size_from(records: Mapping[bytes, bytes]) -> int | None:
    """Find a member's size in pax records, None if they do not say; `OddHeader` if it is no number."""
    size = records.get(_SIZE_KEY, b"").strip()  # As tarfile does.
    if not size:
        return None
    if not size.isdigit() or len(size) > 20:
        raise OddHeader(f"a pax record says that the size is {size[:20]!r}")
    return int(size)


def has_holes(records: Mapping[bytes, bytes]) -> bool:
    """Whether pax records are of a sparse file."""
    return _SPARSE in records or _SPARSE_NAME in records
