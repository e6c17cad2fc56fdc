"""Split H.264 and HEVC packets into NAL units, and read messages.

Sources: ITU-T H.264 (08/2021) table 7-1 and clause 7.4.1, D.2.8 (recovery point);
ITU-T H.265 (08/2021) tables 7-1 and clause 7.4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from framefeed.bitstreams._codecs import Codec, UnitTypes

MAX_PARAMETER_SETS = 256
"""Distinct ones of a stream that are kept: more than the two standards let a decoder know at once."""
HEVC_FIRST_IRAP, HEVC_LAST_IRAP = 16, 23
_RECOVERY_POINT = 6
TURNING = frozenset({47, 147})
"""Messages that change orientation or colours of what follows: ITU-T H.274 8.12 and 8.18."""
SEI_LIMIT = 4096
"""Bytes of one unit of messages that are read: captions and the like may come before the recovery point."""


def read_nal_length_size(codec: str, extradata: bytes | None) -> int:
    """Bytes of the length field before each NAL unit; 0 for start codes (Annex B), and for codecs without such units.

    ISO/IEC 14496-15: avcC byte 4 and hvcC byte 21 hold the size minus one in their low two bits.
    """
    units = Codec.of(codec).units
    if units is None or not extradata or extradata[0] != 1:
        return 0
    return (extradata[units.length_offset] & 3) + 1 if len(extradata) > units.length_offset else 0


def split_nal_units(packet: bytes, length_size: int) -> Iterator[memoryview]:
    """Yield the NAL units of one packet; stops quietly where a length runs past the end."""
    view = memoryview(packet)
    if length_size:
        at = 0
        while at + length_size < len(view):
            size = int.from_bytes(view[at : at + length_size], "big")
            at += length_size
            if size and at + size <= len(view):
                yield view[at : at + size]
            at += size
        return
    at = packet.find(b"\0\0\1")
    while at >= 0:
        end = packet.find(b"\0\0\1", at + 3)
        unit = view[at + 3 : end if end >= 0 else len(view)]
        if len(unit):
            yield unit
        at = end


def cut_first_slice(packet: bytes, codec: str, length_size: int, count: int) -> bytes:
    """Cut a packet behind the first ``count`` bytes of its first slice."""
    parts, types = list[bytes](), UnitTypes.of(codec)
    for unit in split_nal_units(packet, length_size):
        is_slice = types.find_type(unit) in types.slices
        data = bytes(unit[:count] if is_slice else unit)
        parts.append((len(data).to_bytes(length_size, "big") if length_size else b"\0\0\1") + data)
        if is_slice:
            break
    return b"".join(parts)


def has_turning_message(unit: bytes, codec: str) -> bool:
    """Whether a unit of messages (ITU-T H.264 7.3.2.3.1) changes the orientation or the colours of pictures."""
    data = unit.replace(b"\0\0\3", b"\0\0")
    at = UnitTypes.of(codec).header_bytes
    while at + 2 < len(data):
        kind, at = _read_sei_number(data, at)
        size, at = _read_sei_number(data, at)
        if kind in TURNING:
            return True
        at += size
    return False


def find_recovery_frames(sei: bytes) -> int | None:
    """Read recovery_frame_cnt of the first recovery point message (D.1.8); None if there is none."""
    sei = sei.replace(b"\0\0\3", b"\0\0")  # emulation prevention, clause 7.4.1
    at = 0
    while at + 2 <= len(sei):
        kind, at = _read_sei_number(sei, at)
        size, at = _read_sei_number(sei, at)
        if kind == _RECOVERY_POINT:
            return _read_exp_golomb(sei[at : at + size])
        at += size
    return None


def _read_sei_number(sei: bytes, at: int) -> tuple[int, int]:
    value = 0
    while at < len(sei) and sei[at] == 255:
        value, at = value + 255, at + 1
    return value + (sei[at] if at < len(sei) else 0), at + 1


def _read_exp_golomb(data: bytes) -> int:
    bits = int.from_bytes(data, "big")
    length = len(data) * 8
    zeros = length - bits.bit_length()
    if 2 * zeros + 1 > length:
        return 0
    return (bits >> (length - 2 * zeros - 1)) - 1
