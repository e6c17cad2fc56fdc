"""MP4 files of any tables, around the packets of one small clip: well-formed, odd and wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from framefeed.testing import ClipSpec, clip_bytes, take_packets
from tests.pathologies.bitstreams import make_box, make_table, read_payload

TIME_SCALE = 600
MOVIE_SCALE = 1000
_IDENTITY = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
_STSD = "moov.trak.mdia.minf.stbl.stsd"


@lru_cache(maxsize=4)
def coded(codec: str = "libx264") -> tuple[bytes, tuple[bytes, ...], tuple[int, ...], tuple[int, ...]]:
    """A small clip: sample description, packets in decode order, numbers (from 1) of key packets, times for display."""
    b_frames = 2 if codec in ("libx264", "libx265") else None
    clip = clip_bytes(ClipSpec(num_frames=24, gop=8, b_frames=b_frames, codec=codec), "mp4")
    packets, _ = take_packets(clip)
    keys = tuple(number for number, packet in enumerate(packets, 1) if packet.is_key)
    times = tuple(packet.pts for packet in packets)
    return make_box("stsd", read_payload(clip, _STSD)), tuple(packet.data for packet in packets), keys, times


def right_offsets(codec: str = "libx264") -> list[tuple[int, int]]:
    """A ctts table that shows the pictures of `coded` in their order, where each lasts for 20 ticks."""
    order = coded(codec)[3]
    ranks = {time: rank for rank, time in enumerate(sorted(order))}
    return [(1, 20 * (ranks[time] - number) + 40) for number, time in enumerate(order)]


@dataclass(frozen=True, slots=True)
class MovieSpec:
    """How to write a movie of one track.

    Attributes:
        stts: (count, step) of the times; None gives every packet 20 ticks.
        ctts: (count, offset), or None for no table.
        chunks: Packets of each chunk; None puts all in one.
        gap: Bytes between chunks.
        edits: (duration in the movie's scale, begin in the track's).
        sync: Numbers of the key packets, or None for no table.
        has_long_offsets: co64 rather than stco.
        size_bits: 32, or 4, 8, 16 for a compact table of sizes.
        matrix: The track's display matrix.
        header_first: moov before mdat.
        has_long_data: mdat with a 64-bit size.
        around: Boxes before the first, between, and after the last.
        brand: The ftyp box; empty for QuickTime without one.
        codec: Encoder of the packets.
        time_scale: Ticks a second.
        tables: Whole boxes in place of those that would be written, by kind.
    """

    stts: Sequence[tuple[int, int]] | None = None
    ctts: Sequence[tuple[int, int]] | None = None
    chunks: Sequence[int] | None = None
    gap: int = 0
    edits: Sequence[tuple[int, int]] = ()
    sync: Sequence[int] | None = (1,)
    has_long_offsets: bool = False
    size_bits: int = 32
    matrix: bytes = _IDENTITY
    header_first: bool = False
    has_long_data: bool = False
    around: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    brand: bytes = make_box("ftyp", b"isom\0\0\2\0isomiso2avc1mp41")
    codec: str = "libx264"
    time_scale: int = TIME_SCALE
    tables: dict[str, bytes] = field(default_factory=dict)

    @property
    def packets(self) -> tuple[bytes, ...]:
        """What the movie holds."""
        return coded(self.codec)[1]


def movie_bytes(spec: MovieSpec) -> bytes:
    """Write a movie."""
    chunks = list(spec.chunks or [len(spec.packets)])
    data, offsets = _data(spec, chunks)
    before, between, after = spec.around
    head = struct.pack(">I4sQ", 1, b"mdat", len(data) + 16) if spec.has_long_data else b""
    mdat = head + data if head else make_box("mdat", data)
    begin = len(mdat) - len(data)
    lead = spec.brand + before
    if not spec.header_first:
        moov = _moov(spec, chunks, [len(lead) + begin + offset for offset in offsets])
        return lead + mdat + between + moov + after
    size = len(_moov(spec, chunks, offsets))
    moov = _moov(spec, chunks, [len(lead) + size + len(between) + begin + offset for offset in offsets])
    return lead + moov + between + mdat + after


def _data(spec: MovieSpec, chunks: list[int]) -> tuple[bytes, list[int]]:
    data, offsets, at = b"", [], 0
    for count in chunks:
        offsets.append(len(data))
        data += b"".join(spec.packets[at : at + count]) + b"\xff" * spec.gap
        at += count
    return data + b"".join(spec.packets[at:]), offsets


def _moov(spec: MovieSpec, chunks: list[int], offsets: list[int]) -> bytes:
    ticks = sum(count * step for count, step in spec.stts or [(len(spec.packets), 20)])
    length = ticks * MOVIE_SCALE // spec.time_scale
    mvhd = struct.pack(">IIIIIIH10x", 0, 0, 0, MOVIE_SCALE, length, 65536, 256)
    tkhd = struct.pack(">IIIIII8x8x", 3, 0, 0, 1, 0, length) + spec.matrix + struct.pack(">II", 128 << 16, 96 << 16)
    mdhd = struct.pack(">IIIIIHH", 0, 0, 0, spec.time_scale, ticks, 0x55C4, 0)
    hdlr = struct.pack(">II4s12x", 0, 0, b"vide") + b"\0"
    dref = struct.pack(">II", 0, 1) + make_box("url ", struct.pack(">I", 1))
    minf = (
        make_box("vmhd", struct.pack(">I8x", 1))
        + make_box("dinf", make_box("dref", dref))
        + make_box("stbl", _stbl(spec, chunks, offsets))
    )
    mdia = make_box("mdhd", mdhd) + make_box("hdlr", hdlr) + make_box("minf", minf)
    edts = make_box("edts", _elst(spec)) if spec.edits else b""
    trak = make_box("trak", make_box("tkhd", tkhd) + edts + make_box("mdia", mdia))
    return make_box("moov", make_box("mvhd", mvhd + _IDENTITY + struct.pack(">24xI", 2)) + trak)


def _elst(spec: MovieSpec) -> bytes:
    rows = b"".join(struct.pack(">IiI", length, begin, 65536) for length, begin in spec.edits)
    return make_box("elst", struct.pack(">II", 0, len(spec.edits)) + rows)


def _stbl(spec: MovieSpec, chunks: list[int], offsets: list[int]) -> bytes:
    description, packets, _, _ = coded(spec.codec)
    boxes = {
        "stsd": description,
        "stts": make_table("stts", *(spec.stts or [(len(packets), 20)])),
        "stsc": make_table("stsc", *_runs(chunks)),
        "stsz": _sizes(spec.size_bits, [len(packet) for packet in packets]),
        "stco": make_table("stco", *((offset,) for offset in offsets)),
    }
    if spec.ctts is not None:
        boxes["ctts"] = make_table("ctts", *((count, offset & 0xFFFFFFFF) for count, offset in spec.ctts), version=1)
    if spec.sync is not None:
        boxes["stss"] = make_table("stss", *((number,) for number in spec.sync))
    if spec.has_long_offsets:
        boxes["stco"] = make_box("co64", struct.pack(f">II{len(offsets)}Q", 0, len(offsets), *offsets))
    return b"".join((boxes | spec.tables).values())


def _runs(chunks: list[int]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for number, count in enumerate(chunks, 1):
        if not runs or runs[-1][1] != count:
            runs.append((number, count, 1))
    return runs


def _sizes(bits: int, sizes: list[int]) -> bytes:
    if bits == 32:
        return make_box("stsz", struct.pack(f">III{len(sizes)}I", 0, 0, len(sizes), *sizes))
    kind = {8: "B", 16: "H"}[bits]
    return make_box("stz2", struct.pack(f">III{len(sizes)}{kind}", 0, bits, len(sizes), *sizes))
