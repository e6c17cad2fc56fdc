"""H.264 and HEVC streams that no encoder here writes, made by editing packets: what a proof must not be wrong about."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
from av.video.frame import PictureType

from framefeed.testing import ClipSpec, Coded, clip_bytes, frames_of, put_packets, take_packets
from tests.pathologies.bitstreams import (
    BitReader,
    BitWriter,
    escape,
    join_units,
    remove_usability_information,
    skip_to_usability_flag,
    split_units,
    unescape,
)

Units = list[bytes]
Packets = list[Coded]

X264 = "scenecut=0:threads=1:keyint=30:min-keyint=30"
X265 = "scenecut=0:keyint=30:min-keyint=30:log-level=none:pools=none:frame-threads=1"
SIZE = {"height": 48, "width": 64}


@dataclass(frozen=True)
class Stream:
    """A coded stream: a file it came in, whose configuration it has, its packets, and their time base."""

    template: bytes
    packets: Packets
    time_base: Fraction

    def write(self, path: Path) -> Path:
        """Write it in the container that the ending says."""
        put_packets(path, self.template, self.packets, self.time_base)
        return path

    def with_packets(self, packets: Iterable[Coded]) -> Stream:
        """Take other packets."""
        return replace(self, packets=list(packets))


@lru_cache(maxsize=64)
def h264(params: str = "bframes=2:b-adapt=0", num_frames: int = 96) -> Stream:
    """Code a clip with x264; GOPs of 30 frames."""
    return _coded("libx264", {"x264-params": f"{X264}:{params}"}, num_frames)


@lru_cache(maxsize=64)
def hevc(params: str = "bframes=2:b-adapt=0", num_frames: int = 96) -> Stream:
    """Code a clip with x265; GOPs of 30 frames."""
    return _coded("libx265", {"x265-params": f"{X265}:{params}"}, num_frames)


def _coded(codec: str, options: dict[str, str], num_frames: int) -> Stream:
    spec = ClipSpec(num_frames=num_frames, gop=None, b_frames=None, codec=codec, codec_options=options, **SIZE)
    clip = clip_bytes(spec, "mp4")
    return Stream(clip, *take_packets(clip))


def split(data: bytes) -> Units:
    """Take a packet's NAL units, with lengths of four bytes, apart."""
    units, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        units.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return units


def join(units: Iterable[bytes]) -> bytes:
    """Put NAL units behind their lengths."""
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


def kind_of(unit: bytes, codec: str = "h264") -> int:
    """Give a NAL unit's type."""
    return unit[0] & 31 if codec == "h264" else unit[0] >> 1 & 63


def edit(stream: Stream, which: Iterable[int], change: Callable[[Units], Units]) -> Stream:
    """Change the NAL units of some packets."""
    numbers = set(which)
    return stream.with_packets(
        replace(packet, data=join(change(split(packet.data)))) if number in numbers else packet
        for number, packet in enumerate(stream.packets)
    )


def later(packets: Sequence[Coded], ticks: int) -> Iterator[Coded]:
    """Move times."""
    for packet in packets:
        assert packet.pts is not None
        assert packet.dts is not None
        yield replace(packet, pts=packet.pts + ticks, dts=packet.dts + ticks)


def span_of(stream: Stream) -> int:
    """Ticks from a stream's first frame to behind its last."""
    times = sorted(packet.pts or 0 for packet in stream.packets)
    return times[-1] - times[0] + times[1] - times[0]


def joined(first: Stream, second: Stream) -> Stream:
    """Put the packets of one encode behind those of another, whose configuration is kept."""
    assert first.time_base == second.time_base
    return first.with_packets([*first.packets, *later(second.packets, span_of(first))])


def end_of_sequence(codec: str) -> bytes:
    """Make the NAL unit that ends a sequence."""
    return b"\x0a" if codec == "h264" else bytes([36 << 1, 1])


def with_last(stream: Stream, data: bytes) -> Stream:
    """Add a packet behind all."""
    last = max(stream.packets, key=lambda packet: packet.pts or 0)
    assert last.pts is not None
    step = span_of(stream) // len(stream.packets)
    dts = (stream.packets[-1].dts or 0) + step
    return stream.with_packets([*stream.packets, replace(last, data=data, pts=last.pts + step, dts=dts, is_key=False)])


def turn(angle: int) -> bytes:
    """Make a message that turns pictures counter-clockwise, in 2**-16 of a circle: ITU-T H.264 D.2.27."""
    payload = BitWriter().fixed(0, 3).fixed(angle, 16).golomb(1).fixed(0, 1).payload()
    return b"\x06\x2f" + bytes([len(payload)]) + escape(payload) + b"\x80"


def bits_of(unit: bytes, header_bytes: int = 1) -> BitReader:
    """Read a slice behind its NAL unit header."""
    return BitReader(unescape(unit[header_bytes:]))


def with_bits(unit: bytes, place: int, taken: int, bits: str, header_bytes: int = 1) -> bytes:
    """Replace bits of a unit, such as a CAVLC slice; what follows moves."""
    payload = unescape(unit[header_bytes:])
    text = "".join(f"{byte:08b}" for byte in payload).rstrip("0")
    text = text[:place] + bits + text[place + taken :]
    whole = text.ljust(-(-len(text) // 8) * 8, "0")
    return unit[:header_bytes] + escape(int(whole, 2).to_bytes(len(whole) // 8, "big"))


def place_of_marks(unit: bytes, number_bits: int, order_bits: int) -> int:
    """Find adaptive_ref_pic_marking_mode_flag of a P slice of one reference without weights, H.264 7.3.3."""
    bits = bits_of(unit)
    assert (bits.golomb(), bits.golomb() % 5, bits.golomb()) == (0, 0, 0)
    bits.fixed(number_bits + order_bits)
    if bits.fixed(1):
        bits.golomb()
    assert bits.fixed(1) == 0
    return bits.num_read


def syntax_of(stream: Stream) -> tuple[int, int]:
    """Read the bits of frame_num and of the order from the configuration of an H.264 stream in MP4."""
    at = stream.template.index(b"avcC") + 4
    size = int.from_bytes(stream.template[at + 6 : at + 8], "big")
    return syntax_of_units([stream.template[at + 8 : at + 8 + size]])


def syntax_of_units(units: Units) -> tuple[int, int]:
    """Read the bits of frame_num and of the order from the first sequence parameter set."""
    bits = BitReader(unescape(next(unit for unit in units if kind_of(unit) == 7)[1:]))
    profile = bits.fixed(24) >> 16
    bits.golomb()
    if profile >= 100:
        for _ in range(3):
            bits.golomb()
        assert bits.fixed(2) == 0
    number_bits = bits.golomb() + 4
    return number_bits, bits.golomb() + 4 if bits.golomb() == 0 else 0


def with_reset(stream: Stream, number: int) -> Stream:
    """Let a P picture take all references back (MMCO 5); the order of the pictures behind it stays as it was."""

    def change(units: Units) -> Units:
        return [
            with_bits(unit, place_of_marks(unit, *syntax_of(stream)), 1, "1" + "00110" + "1")
            if kind_of(unit) == 1
            else unit
            for unit in units
        ]

    return edit(stream, [number], change)


@lru_cache(maxsize=64)
def late_b(codec: str = "libx264", plain: int = 75, num_frames: int = 120, b_frames: int = 3) -> Stream:
    """Code a clip whose first frames are not reordered and whose others are, as a stream of start codes.

    Args:
        codec: "libx264" or "libx265".
        plain: How many frames are not.
        num_frames: Of the clip.
        b_frames: In a row; three of them are reordered by two, fewer by one.
    """
    output = io.BytesIO()
    params = f"keyint=200:min-keyint=200:scenecut=0:b-adapt=0:bframes={b_frames}"
    params += ":weightp=0" if codec == "libx264" else ":log-level=none:pools=none:frame-threads=1"
    spec = ClipSpec(num_frames=num_frames, gop=None, b_frames=None, codec=codec, **SIZE)
    with av.open(output, "w", format="h264" if codec == "libx264" else "hevc") as container:
        encoder: Any = container.add_stream(codec, rate=25, options={f"x26{codec[-1]}-params": params})
        encoder.width, encoder.height, encoder.pix_fmt = SIZE["width"], SIZE["height"], "yuv420p"
        packets = []
        for number, frame in enumerate([*frames_of(spec), None]):
            if frame is not None and number < plain:
                frame.pict_type = PictureType.P if number else PictureType.I
            for packet in encoder.encode(frame):
                packets.append(Coded(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, 1))
                container.mux(packet)
    return Stream(output.getvalue(), packets, Fraction(1, 25))


def with_sets(stream: Stream, change: Callable[[bytes], bytes]) -> Stream:
    """Change the NAL units of the configuration, and of all packets, of a stream of start codes."""

    def changed(data: bytes) -> bytes:
        return join_units([change(unit) for unit in split_units(data)])

    return Stream(
        changed(stream.template),
        [replace(packet, data=changed(packet.data)) for packet in stream.packets],
        stream.time_base,
    )


def with_depth(depth: int, codec: str = "h264") -> Callable[[bytes], bytes]:
    """Make a change of sequence parameter sets: they declare this many pictures out of order."""

    def change(unit: bytes) -> bytes:
        if kind_of(unit, codec) != (7 if codec == "h264" else 33):
            return unit
        header = 1 if codec == "h264" else 2
        bits = BitReader(unescape(unit[header:]))
        if codec == "h264":
            _to_depth(bits)
        else:
            _to_hevc_depth(bits)
        begin = bits.num_read
        bits.golomb()
        code = f"{depth + 1:b}"
        return with_bits(unit, begin, bits.num_read - begin, "0" * (len(code) - 1) + code, header)

    return change


def _to_depth(bits: BitReader) -> None:
    skip_to_usability_flag(bits)
    assert bits.fixed(1) == 1
    if bits.fixed(1):
        assert bits.fixed(8) != 255
    if bits.fixed(1):
        bits.fixed(1)
    if bits.fixed(1):
        bits.fixed(4)
        if bits.fixed(1):
            bits.fixed(24)
    if bits.fixed(1):
        bits.golomb()
        bits.golomb()
    if bits.fixed(1):
        bits.fixed(65)
    assert bits.fixed(2) == 0
    bits.fixed(1)
    assert bits.fixed(1) == 1
    bits.fixed(1)
    for _ in range(4):
        bits.golomb()


def _to_hevc_depth(bits: BitReader) -> None:
    """H.265 7.3.2.2.1, of one sub-layer."""
    bits.fixed(4)
    assert bits.fixed(3) == 0
    bits.fixed(1 + 96)
    bits.golomb()
    assert bits.golomb() == 1
    bits.golomb()
    bits.golomb()
    if bits.fixed(1):
        for _ in range(4):
            bits.golomb()
    for _ in range(3):
        bits.golomb()
    bits.fixed(1)
    bits.golomb()


def without_usability(unit: bytes) -> bytes:
    """Take the usability information out of an H.264 sequence parameter set, and with it the declared depth."""
    if kind_of(unit) != 7:
        return unit
    return split_units(remove_usability_information(join_units([unit])))[0]


def cut_at(stream: Stream, number: int) -> Stream:
    """Leave out the packets before one."""
    return stream.with_packets(stream.packets[number:])


def find_kind(stream: Stream, kind: int, codec: str = "hevc") -> list[int]:
    """List the packets that hold a NAL unit of a type."""
    return [
        number
        for number, packet in enumerate(stream.packets)
        if any(kind_of(unit, codec) == kind for unit in split(packet.data))
    ]


def retyped(stream: Stream, packets: Iterable[int], old: int, new: int) -> Stream:
    """Give HEVC slices of one type another."""

    def change(units: Units) -> Units:
        return [bytes([new << 1]) + unit[1:] if kind_of(unit, "hevc") == old else unit for unit in units]

    return edit(stream, packets, change)


def with_orders(stream: Stream, step: int) -> Stream:
    """Set the order that the slices of an x264 clip of one GOP write: so much more from frame to frame."""
    number_bits, order_bits = syntax_of_units(split_units(stream.template))

    def changed(unit: bytes, order: int) -> bytes:
        if kind_of(unit) not in (1, 5):
            return unit
        bits = bits_of(unit)
        for _ in range(3):
            bits.golomb()
        bits.fixed(number_bits)
        if kind_of(unit) == 5:
            bits.golomb()
        payload = "".join(f"{byte:08b}" for byte in unescape(unit[1:]))
        written = f"{order % (1 << order_bits):0{order_bits}b}"
        payload = payload[: bits.num_read] + written + payload[bits.num_read + order_bits :]
        return unit[:1] + escape(int(payload, 2).to_bytes(len(payload) // 8, "big"))

    return stream.with_packets(
        replace(packet, data=join_units([changed(unit, step * (packet.pts or 0)) for unit in split_units(packet.data)]))
        for packet in stream.packets
    )
