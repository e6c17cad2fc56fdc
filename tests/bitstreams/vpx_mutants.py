"""VP8, VP9 and AV1 streams that no encoder here writes: packets of real encodes, edited, in IVF files."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from unittest.mock import patch

import av
from PIL import Image

from framefeed._values import DEFAULT_LIMITS
from framefeed.bitstreams import _av1, _vpx
from framefeed.bitstreams._bits import HeaderBits
from framefeed.bitstreams._vpx import Vp9Reader
from framefeed.testing import ClipSpec, clip_bytes
from tests.pathologies.bitstreams import BitWriter

Packets = list[bytes]
Unit = tuple[int, bytes, bytes]
"""Of AV1: its kind, its extension, its payload."""
GOP = 10
_CODECS = {"vp8": ("libvpx", b"VP80"), "vp9": ("libvpx-vp9", b"VP90"), "av1": ("libsvtav1", b"AV01")}
_IVF, _FRAME = struct.Struct("<4sHH4sHHIIII"), struct.Struct("<IQ")


def packets(codec: str, height: int = 96, pixel_format: str = "yuv420p") -> Packets:
    """Give the packets of a clip of thirty frames, with a key frame every ten."""
    return list(_packets(codec, height, pixel_format))


@lru_cache
def _packets(codec: str, height: int, pixel_format: str) -> Sequence[bytes]:
    spec = ClipSpec(30, height, 128, codec=_CODECS[codec][0], b_frames=None, gop=GOP, pixel_format=pixel_format)
    data, at, parts = clip_bytes(spec, "ivf"), _IVF.size, []
    # Not demuxed: AV1's would come without temporal delimiters.
    while at < len(data):
        size, _ = _FRAME.unpack_from(data, at)
        at += _FRAME.size + size
        parts.append(data[at - size : at])
    return tuple(parts)


def ivf(codec: str, stream: Packets, pts: Callable[[int], int] = int) -> bytes:
    """Write an IVF file; packet n has the time ``pts(n)``."""
    header = _IVF.pack(b"DKIF", 0, _IVF.size, _CODECS[codec][1], 128, 96, 25, 1, len(stream), 0)
    return header + b"".join(_FRAME.pack(len(data), pts(number)) + data for number, data in enumerate(stream))


def edit(stream: Packets, number: int, *new: bytes, taken: int = 1) -> Packets:
    """Put packets in the place of some from ``number`` on."""
    return [*stream[:number], *new, *stream[number + taken :]]


# --- VP8: RFC 6386 9.1 ------------------------------------------------------------------------------


def hidden_vp8(packet: bytes) -> bytes:
    """Say that a frame is not shown."""
    return bytes([packet[0] & ~0x10]) + packet[1:]


def sized_vp8(packet: bytes, width: int, height: int) -> bytes:
    """Say that a key frame has another size."""
    return packet[:6] + struct.pack("<HH", width, height) + packet[10:]


def first_partition_end(packet: bytes) -> int:
    """Where the first partition of an inter frame ends."""
    return 3 + (int.from_bytes(packet[:3], "little") >> 5)


# --- VP9: bitstream specification 6.2, annex B ------------------------------------------------------


def hidden_vp9(frame: bytes) -> bytes:
    """Say that a frame of profile 0 is not shown; of an inter frame, all behind it then means something else."""
    return bytes([frame[0] & ~0x02]) + frame[1:]


def started_vp9(frame: bytes, sync_code: int = 0x498342, space: int = 1) -> bytes:
    """Change what a key frame of profile 0 begins with: its start code, and the number of its colour space."""
    return frame[:1] + sync_code.to_bytes(3, "big") + bytes([frame[4] & 0x1F | space << 5]) + frame[5:]


def hidden_inter_vp9(frame: bytes) -> bytes:
    """Say that an inter frame of profile 0 is not shown, and not intra-only."""
    return _with_header(frame, lambda text: text[:6] + "0" + text[7] + "0" + text[8:])


def sized_inter_vp9(frame: bytes, width: int, height: int) -> bytes:
    """Say that an inter frame of profile 0 has a size of its own."""
    return _with_header(frame, lambda text: f"{text[:30]}000{width - 1:016b}{height - 1:016b}{text[31:]}")


def referring_vp9(frame: bytes, refreshed: int, slots: Sequence[int]) -> bytes:
    """Say which slots an inter frame of profile 0 is kept in, the first in the lowest bit, and to which it refers."""
    referred = "".join(f"{slot:03b}0" for slot in slots)
    return _with_header(frame, lambda text: f"{text[:10]}{refreshed:08b}{referred}{text[30:]}")


def padded_vp9(frame: bytes) -> bytes:
    """Set the bits behind a header that only fill its last byte, if there are any."""
    return _with_header(frame, lambda text: text + "1" * (-len(text) % 8))


class _SpiedBits(HeaderBits):
    """Keeps where the last header ended, and the number before that."""

    last, ended = 0, (0, 0)

    def read(self, count: int) -> int:
        self.last = super().read(count)
        return self.last

    def align(self) -> tuple[int, int]:
        _SpiedBits.ended = self._size - self._left, self.last
        return super().align()


def _header_of(frame: bytes) -> tuple[int, int]:
    """Find how many bits the header of a frame takes, and how many bytes the one behind it."""
    reader = Vp9Reader(DEFAULT_LIMITS)
    with patch.object(_vpx, "HeaderBits", _SpiedBits):
        for data in (packets("vp9")[0], frame):
            reader.read(memoryview(data))
    return _SpiedBits.ended


def _with_header(frame: bytes, change: Callable[[str], str]) -> bytes:
    end, _ = _header_of(frame)
    changed = change(_text(frame)[:end])
    changed += "0" * (-len(changed) % 8)
    return int(changed, 2).to_bytes(len(changed) // 8, "big") + frame[-(-end // 8) :]


def _text(data: bytes) -> str:
    return f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"


def headers_vp9(frame: bytes) -> bytes:
    """Leave out all but the two headers of a frame."""
    end, size = _header_of(frame)
    return frame[: -(-end // 8) + size]


def show(slot: int) -> bytes:
    """A frame that is one decoded earlier."""
    return bytes([0x88 | slot])


def superframe(*frames: bytes, length: int = 2, sizes: Sequence[int] | None = None, first: int | None = None) -> bytes:
    """Put frames into one packet; ``sizes`` and the ``first`` byte are what its index has where that is wrong."""
    marker = 0xC0 | (length - 1) << 3 | len(frames) - 1
    index = b"".join(size.to_bytes(length, "little") for size in sizes or map(len, frames))
    return b"".join(frames) + bytes([marker if first is None else first]) + index + bytes([marker])


def intra_only(key: bytes) -> bytes:
    """Make an intra-only frame, which is not shown, of a key frame of profile 0: all slots take its picture."""
    text = _text(key)
    sync, size = text[8:32], text[36:68]
    made = f"10000100100{sync}11111111{size}0" + text[69:]
    made += "0" * (-len(made) % 8)
    return int(made, 2).to_bytes(len(made) // 8, "big")


# --- AV1: bitstream specification 5.3 to 5.9 --------------------------------------------------------

SEQUENCE, DELIMITER, HEADER, TILES, FRAME, REPEATED, METADATA = 1, 2, 3, 4, 6, 7, 5
INTER, INTRA_ONLY, SELECTED = 1, 2, 2
_LAYERS_AT = 12
"""Bit of the sequence header where operating point 0 is, without timing."""


def units(packet: bytes) -> list[Unit]:
    """Split a packet."""
    at, parts = 0, []
    while at < len(packet):
        header, size, shift = packet[at], 0, 0
        at += 1
        extension = packet[at : at + 1] if header & 4 else b""
        at += len(extension)
        while True:
            byte = packet[at]
            at, size, shift = at + 1, size | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        parts.append((header >> 3 & 15, extension, packet[at : at + size]))
        at += size
    return parts


def join(parts: Sequence[Unit]) -> bytes:
    """Put a packet together."""
    return b"".join(_unit(*part) for part in parts)


def _unit(kind: int, extension: bytes, payload: bytes) -> bytes:
    size, rest = b"", len(payload)
    while rest >= 0x80:
        size, rest = size + bytes([rest & 0x7F | 0x80]), rest >> 7
    return bytes([kind << 3 | (4 if extension else 0) | 2]) + extension + size + bytes([rest]) + payload


def without(packet: bytes, kind: int) -> bytes:
    """Leave units of a kind out."""
    return join([unit for unit in units(packet) if unit[0] != kind])


def retyped(packet: bytes, old: int, new: int) -> bytes:
    """Call units of a kind another kind."""
    return join([(new if kind == old else kind, extension, payload) for kind, extension, payload in units(packet)])


def insert(packet: bytes, number: int, unit: Unit) -> bytes:
    """Put a unit before another."""
    parts = units(packet)
    return join([*parts[:number], unit, *parts[number:]])


def tiles_of(packet: bytes) -> bytes:
    """Give what is in a packet's frame as tiles of a frame, which they are not."""
    return join([(TILES, extension, payload) for kind, extension, payload in units(packet) if kind == FRAME])


def header_av1(
    sequence: _av1.Sequence, kind: int, order: int, refreshed: int, *, is_shown: bool, is_resilient: bool = False
) -> bytes:
    """A header of a frame that is no key frame, 5.9.2, up to the slots that keep it, and some bytes behind it."""
    writer = BitWriter().fixed(0, 1).fixed(kind, 2).fixed(is_shown, 1)
    writer.fixed(0, sequence.time_bits if is_shown else 1).fixed(is_resilient, 1).fixed(0, 1)
    has_tools = sequence.screen_tools
    if has_tools == SELECTED:
        has_tools = 0
        writer.fixed(0, 1)
    if has_tools and sequence.integer_motion == SELECTED:
        writer.fixed(0, 1)
    writer.fixed(0, sequence.id_bits + 1).fixed(order, sequence.order_bits)
    if kind == INTER and not is_resilient:
        writer.fixed(7, 3)
    return writer.fixed(refreshed, 8).fixed(0, 64).whole()


def show_av1(slot: int, kind: int = HEADER) -> bytes:
    """A packet that shows a frame decoded earlier."""
    return join([(DELIMITER, b"", b""), (kind, b"", bytes([0x80 | slot << 4 | 8]))])


def layered(packet: bytes, extension: int) -> bytes:
    """Say of which temporal (bits 5 to 7) and spatial (3 and 4) layer the frames of a packet are."""
    parts = [(kind, bytes([extension]) if kind in (HEADER, FRAME) else b"", data) for kind, _, data in units(packet)]
    return join(parts)


def with_layers(stream: Packets, layers: int) -> Packets:
    """Say which layers operating point 0 has."""
    return [join([_relayered(unit, layers) for unit in units(packet)]) for packet in stream]


def _relayered(unit: Unit, layers: int) -> Unit:
    kind, extension, payload = unit
    if kind != SEQUENCE:
        return unit
    text = _text(payload)
    text = f"{text[:_LAYERS_AT]}{layers:012b}{text[_LAYERS_AT + 12 :]}"
    return kind, extension, int(text, 2).to_bytes(len(payload), "big")


@lru_cache
def still_pictures() -> Sequence[bytes]:
    """Give packets with a reduced header for still pictures, as AVIF files have them."""
    parts = []
    for turn in range(3):
        file = io.BytesIO()
        Image.linear_gradient("L").resize((128, 96)).convert("RGB").rotate(turn).save(file, "AVIF")
        with av.open(io.BytesIO(file.getvalue())) as container:
            parts += [bytes(packet) for packet in container.demux(container.streams.video[0]) if packet.size]
    return tuple(parts)
