"""Store one frame index as bytes with a checksum; values that follow from other columns are not stored.

Layout, little-endian: checksum, flags, the header's claims if any, fixed fields, lengths of texts, texts, columns (see
``_pack_columns``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._values import DEFAULT_LIMITS, PacketTable
from framefeed.catalog._arrow import Ragged
from framefeed.catalog._frame_numbers import ByteCursor, Damaged, bound_packed_bytes, compress, decompress, pack
from framefeed.errors import LimitExceeded, UsageError
from framefeed.index import BuiltFrom, FrameIndex, StreamFacts, TimesFrom, share_still_timeline
from framefeed.media import SourceIdentity

MOST_ITEMS = DEFAULT_LIMITS.max_packets
"""Most frames or packets of one row. An even column takes 17 bytes, so the bytes of a row do not limit its memory."""

_SHOWN_FIELDS = ("shown_width", "shown_height")
"""Fields of StreamFacts that only rows of proxies have, behind their texts."""
_STREAM = {field.name: str(field.type) for field in fields(StreamFacts)}
"""Fields of StreamFacts and their types as written there."""
NUMBER_FIELDS: Mapping[str, type[int]] = {
    name: bool if kind == "bool" else int
    for name, kind in _STREAM.items()
    if kind in ("int", "bool") and name not in _SHOWN_FIELDS
}
"""Fields of StreamFacts that are columns, to be asked for of all rows at once: a new field becomes one by itself."""
NUMBERS = np.dtype([("present", "<i4"), *((name, "<i4") for name in NUMBER_FIELDS)])
"""The same with ``present``, which is 1 in each row; side by side, so that those of a row are one read."""
_NUMBERS = struct.Struct(f"<{1 + len(NUMBER_FIELDS)}i")
_TEXT_FIELDS = tuple(name for name in _STREAM if name not in NUMBER_FIELDS and name not in _SHOWN_FIELDS)

_PRESENT, _CLAIMS, _IDENTITY, _MTIME, _CHAINED, _SCATTERED, _STEPPED, _RESIZED, _SHOWN = (1 << bit for bit in range(9))
_CHECKSUM = struct.Struct("<I")
"""CRC-32 of the row's numbers and of all bytes after it."""
_FLAGS = struct.Struct("<H")
"""Which of the above."""
_CLAIMED = struct.Struct("<qdd")
_SHOWN_SIZE = struct.Struct("<qq")
_FIXED = struct.Struct("<BBqqqqqIIII")
"""Built from, times from and their shift, time base, identity's bytes and time, frames, packets, key frames, damaged
frames."""
_LENGTHS = struct.Struct(f"<{len(_TEXT_FIELDS) + 1}q")
_BUILT_FROM: tuple[BuiltFrom, ...] = get_args(BuiltFrom)
_TIMES_FROM: tuple[TimesFrom, ...] = get_args(TimesFrom)
_NONE = -1
_FINGERPRINT = "fingerprint"


@dataclass(frozen=True, slots=True)
class HeaderClaims:
    """Claims of the header about the frames, which a built index does not contain; None for no claim."""

    num_frames: int | None = None
    duration_seconds: float | None = None
    average_fps: float | None = None


def pack_row(index: FrameIndex, claims: HeaderClaims) -> tuple[bytes, bytes]:
    """Store the row of one source: its numbers, as ``NUMBERS``, and the rest, with a checksum of both."""
    predictions, columns = _pack_columns(index)
    flags, parts = _PRESENT | predictions | _RESIZED * index.changes_size, list[bytes]()
    if claims != HeaderClaims():
        flags |= _CLAIMS
        values = (claims.num_frames, claims.duration_seconds, claims.average_fps)
        absent = (-1, np.nan, np.nan)
        parts.append(_CLAIMED.pack(*(no if value is None else value for value, no in zip(values, absent, strict=True))))
    if index.identity is not None:
        flags |= _IDENTITY | _MTIME * (index.identity.mtime_ns is not None)
    try:
        numbers = _NUMBERS.pack(1, *(int(getattr(index.stream, name)) for name in NUMBER_FIELDS))
    except struct.error as error:
        raise UsageError(f"{index.stream} cannot be stored: its numbers must fit into 32 bits") from error
    given = [getattr(index.stream, name) for name in _TEXT_FIELDS]
    given.append("" if index.identity is None else index.identity.fingerprint)
    texts = [text.encode() if isinstance(text, str) else text for text in given]
    lengths = _LENGTHS.pack(*(_NONE if text is None else len(text) for text in texts))
    parts += [_pack_fixed_fields(index), lengths, *(text for text in texts if text)]
    if index.stream.is_proxy:
        flags |= _SHOWN
        parts.append(_SHOWN_SIZE.pack(*(getattr(index.stream, name) for name in _SHOWN_FIELDS)))
    parts.append(columns)
    body = _FLAGS.pack(flags) + b"".join(parts)
    return numbers, _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(numbers))) + body


def read_claims(numbers: bytes, data: memoryview) -> HeaderClaims:
    """Read the claims of a row, as `pack_row` gave it; a damaged one is a ValueError."""
    return _open_row(numbers, data)[2]


def read_index(numbers: bytes, data: memoryview) -> FrameIndex:
    """Read the index of a row, as `pack_row` gave it, each number checked that could lead a reader out of its tables.

    A damaged row is a ValueError.
    """
    cursor, flags, _ = _open_row(numbers, data)
    if not flags & _PRESENT:
        raise Damaged("it has no index")
    values = zip(NUMBER_FIELDS.items(), _NUMBERS.unpack(numbers)[1:], strict=True)
    facts: dict[str, Any] = {name: kind(value) for (name, kind), value in values}
    built_from, times_from, shift, numerator, denominator, size, mtime, *counts = cursor.fields(_FIXED)
    num_frames, num_packets, *_ = counts
    if numerator < 1 or denominator < 1:
        raise Damaged(f"time base {numerator}/{denominator}")
    if built_from >= len(_BUILT_FROM) or times_from >= len(_TIMES_FROM):
        raise Damaged(f"built from {built_from}, times from {times_from}")
    if max(counts) > MOST_ITEMS:
        raise Damaged(f"it claims {num_frames} frames and {num_packets} packets, more than {MOST_ITEMS}")
    if facts["rotation"] not in (0, 90, 180, 270):
        raise Damaged(f"rotation {facts['rotation']}")
    texts, fingerprint = _read_texts(cursor)
    if flags & _SHOWN:
        shown = cursor.fields(_SHOWN_SIZE)
        if min(shown) < 1:
            raise Damaged(f"an original of {shown[0]} x {shown[1]} pixels")
        facts |= dict(zip(_SHOWN_FIELDS, shown, strict=True))
    columns = _read_columns(data[cursor.offset :], flags, counts)
    index = FrameIndex(
        **columns,
        time_base=Fraction(numerator, denominator),
        built_from=_BUILT_FROM[built_from],
        stream=StreamFacts(**texts, **facts),
        identity=SourceIdentity(size, mtime if flags & _MTIME else None, fingerprint) if flags & _IDENTITY else None,
        times_from=_TIMES_FROM[times_from],
        time_shift=shift,
        changes_size=bool(flags & _RESIZED),
    )
    return share_still_timeline(index) if flags & _SHOWN else index


def read_built_from_codes(rows: Ragged) -> IntArray:
    """Read ``built_from`` of many rows without reading the rest, as numbers of ``BuiltFrom``, int64 [R].

    A damaged row is a ValueError.
    """
    starts, ends = rows.offsets[:-1], rows.offsets[1:]
    body = _CHECKSUM.size + _FLAGS.size
    if len(starts) and (starts.min() < 0 or ends.max() > len(rows.values) or (ends - starts).min() < body):
        raise Damaged("a row breaks off")
    flags = rows.values[starts + _CHECKSUM.size]
    offsets = starts + body + np.where(flags & _CLAIMS, _CLAIMED.size, 0)
    if not (flags & _PRESENT).all() or (offsets >= ends).any():
        raise Damaged("a row breaks off")
    codes: IntArray = rows.values[offsets].astype(np.int64)
    if codes.max(initial=-1) >= len(_BUILT_FROM):
        raise Damaged(f"built from {codes.max()}")
    return codes


def _open_row(numbers: bytes, data: memoryview) -> tuple[ByteCursor, int, HeaderClaims]:
    cursor = ByteCursor(data)
    (checksum,) = cursor.fields(_CHECKSUM)
    if zlib.crc32(data[_CHECKSUM.size :], zlib.crc32(numbers)) != checksum:
        raise Damaged("its checksum is another")
    (flags,) = cursor.fields(_FLAGS)
    if not flags & _CLAIMS:
        return cursor, flags, HeaderClaims()
    num_frames, duration, fps = cursor.fields(_CLAIMED)
    return cursor, flags, HeaderClaims(
        None if num_frames < 0 else num_frames,
        None if np.isnan(duration) else duration,
        None if np.isnan(fps) else fps,
    )  # fmt: skip


# --- what is not a column ---------------------------------------------------------------------------


def _pack_fixed_fields(index: FrameIndex) -> bytes:
    counts = (len(index), len(index.packets), len(index.key_frame_indices), len(index.damaged_frame_indices))
    if max(counts) > MOST_ITEMS:
        raise LimitExceeded(
            f"a frame table holds up to {MOST_ITEMS} frames or packets of a video (max_packets), not {max(counts)}: "
            "index this one with build_index, or cut it into several",
            limit="max_packets",
        )
    time_base, identity = index.time_base, index.identity
    stamp = (0, 0) if identity is None else (identity.bytes, identity.mtime_ns or 0)
    origin = (_BUILT_FROM.index(index.built_from), _TIMES_FROM.index(index.times_from), index.time_shift)
    try:
        return _FIXED.pack(*origin, time_base.numerator, time_base.denominator, *stamp, *counts)
    except struct.error as error:
        raise UsageError(f"an index with time base {time_base} and identity {identity} cannot be stored") from error


def _read_texts(cursor: ByteCursor) -> tuple[dict[str, Any], str]:
    """Read the text fields of the stream, and the identity's fingerprint."""
    lengths = cursor.fields(_LENGTHS)
    if min(lengths) < _NONE:
        raise Damaged("a text of negative length")
    texts = [None if length == _NONE else bytes(cursor.take(length)) for length in lengths]
    read: dict[str, Any] = {}
    for name, text in zip((*_TEXT_FIELDS, _FINGERPRINT), texts, strict=True):
        if _STREAM.get(name) == "bytes | None":
            read[name] = text
        elif text is None:
            raise Damaged("a text is missing")
        else:
            read[name] = text.decode()
    return read, read.pop(_FINGERPRINT)


# --- columns ----------------------------------------------------------------------------------------


def _pack_columns(index: FrameIndex) -> tuple[int, bytes]:
    """Pack the columns: flags for the predictions of some of them, and the bytes."""
    packets, flags = index.packets, 0
    duration = pack(index.duration)
    # With varying durations, most frames last until the next one.
    stepped = pack(index.duration - _compute_steps(index.pts))
    if len(stepped) <= len(duration):
        flags, duration = flags | _STEPPED, stepped
    offset = pack(packets.offset)
    # Most packets begin at the end of the packet before, except for bytes of other streams between them.
    ends = np.zeros(len(packets), np.int64)
    ends[1:] = packets.offset[:-1] + packets.size[:-1]
    chained = pack(packets.offset - ends)
    if len(chained) <= len(offset):
        flags, offset = flags | _CHAINED, chained
    pts = pack(packets.pts)
    # The time of a packet is mostly that of its frame.
    scattered = pack(packets.pts - _scatter_times(index.pts, index.frame_packet, len(packets)))
    if len(scattered) <= len(pts):
        flags, pts = flags | _SCATTERED, scattered
    columns = [
        pack(index.key_frame_indices),
        pack(index.frame_packet - np.arange(len(index))),
        pack(index.pts),
        duration,
        pack(index.frame_start),
        pack(packets.size),
        offset,
        pts,
        pack(packets.flags.astype(np.int64)),
        pack(index.damaged_frame_indices),
    ]
    return flags, compress(columns)


def _read_columns(data: memoryview, flags: int, counts: Sequence[int]) -> dict[str, Any]:
    num_frames, num_packets, num_keys, num_damaged = counts
    if num_damaged > num_frames:
        raise Damaged(f"{num_damaged} damaged frames of {num_frames}")
    cursor = decompress(data, bound_packed_bytes([num_keys, *[num_frames] * 4, *[num_packets] * 4, num_damaged]))
    keys = _check_range("a key frame", cursor.column(num_keys), 0, num_frames)
    frame_packet = cursor.column(num_frames)
    frame_packet += np.arange(num_frames)
    _check_range("the packet of a frame", frame_packet, -1, num_packets)
    pts = cursor.column(num_frames)
    duration = cursor.column(num_frames)
    if flags & _STEPPED:
        duration += _compute_steps(pts)
    frame_start = _check_range("the first packet for a frame", cursor.column(num_frames), 0, max(1, num_packets))
    size = _check_range("a packet's size", cursor.column(num_packets), 0, 2**62)
    offset = cursor.column(num_packets)
    if flags & _CHAINED:
        offset[1:] += size[:-1]
        np.cumsum(offset, out=offset)
    _check_range("a packet's place", offset, -1, 2**62)
    packet_pts = cursor.column(num_packets)
    if flags & _SCATTERED:
        packet_pts += _scatter_times(pts, frame_packet, num_packets)
    packet_flags = _check_range("a packet's flags", cursor.column(num_packets), 0, 256).astype(np.uint8)
    packets = PacketTable(offset, size, packet_pts, packet_flags)
    for column in (offset, size, packet_pts, packet_flags):
        column.flags.writeable = False
    return {
        "pts": pts,
        "duration": duration,
        "key_frame_indices": keys,
        "frame_packet": frame_packet,
        "frame_start": frame_start,
        "packets": packets,
        "damaged_frame_indices": cursor.column(num_damaged),
    }


def _compute_steps(pts: IntArray) -> IntArray:
    """Compute the distance of each frame to the next, modulo 2**64; that of the last frame repeats the one before."""
    steps = np.zeros(len(pts), np.int64)
    if len(pts) > 1:
        steps[:-1] = pts[1:] - pts[:-1]
        steps[-1] = steps[-2]
    return steps


def _scatter_times(pts: IntArray, frame_packet: IntArray, num_packets: int) -> IntArray:
    """Compute the time of each packet's frame; 0 for a packet without one."""
    times = np.zeros(num_packets, np.int64)
    if len(frame_packet) and not 0 <= int(frame_packet.min()) <= int(frame_packet.max()) < num_packets:
        known = (frame_packet >= 0) & (frame_packet < num_packets)
        frame_packet, pts = frame_packet[known], pts[known]
    times[frame_packet] = pts
    return times


def _check_range(what: str, values: npt.NDArray[np.int64], low: int, high: int) -> npt.NDArray[np.int64]:
    if len(values) and not (low <= int(values.min()) and int(values.max()) < high):
        raise Damaged(f"{what} lies outside of {low} .. {high}")
    return values
