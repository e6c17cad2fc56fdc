"""Small files that claim huge pictures, each by the number that its own format states them with."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PIL import Image

from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets
from tests.pathologies import bitstreams
from tests.pathologies.bitstreams import BitWriter, escape, join_units, split_units

SIDE = 100_000
SPEC = ClipSpec(num_frames=6, gop=3, b_frames=0)


def huge_sps() -> bytes:
    """H.264 sequence parameters of 100,000 x 100,000 samples (ITU-T H.264 7.3.2.1.1)."""
    writer = BitWriter().fixed(66, 8).fixed(0, 8).fixed(51, 8)
    writer.golomb(0, 0, 2, 1).fixed(0, 1)  # id, frame number bits - 4, order by decoding, one reference; no gaps
    writer.golomb(SIDE // 16 - 1, SIDE // 16 - 1)
    writer.fixed(1, 1).fixed(1, 1).fixed(0, 1).fixed(0, 1)  # frames only, direct 8x8, no cropping, no more
    return b"\x67" + escape(writer.payload())


def h264_stream() -> bytes:
    units = split_units(clip_bytes(SPEC, "h264"))
    return join_units([huge_sps() if unit[0] & 31 == 7 else unit for unit in units])


def h264_in_mp4() -> bytes:
    data = clip_bytes(SPEC, "mp4")
    old = bitstreams.read_payload(data, bitstreams.AVCC)
    size = int.from_bytes(old[6:8], "big")
    sps = huge_sps()
    new = old[:6] + len(sps).to_bytes(2, "big") + sps + old[8 + size :]
    return bitstreams.replace_box(data, bitstreams.AVCC, bitstreams.make_box("avcC", new))


def sample_entry(codec: str, kind: bytes) -> bytes:
    """MP4 or MOV whose sample entry claims 65535 x 65535: the field has 16 bits (ISO/IEC 14496-12 12.1.3)."""
    pixel_format = {"rawvideo": "rgb24", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    data = bytearray(clip_bytes(replace(SPEC, codec=codec, pixel_format=pixel_format, gop=None, b_frames=None), "mov"))
    at = bytes(data).index(kind, bytes(data).index(b"stsd"))
    struct.pack_into(">HH", data, at + 4 + 24, 65535, 65535)
    return bytes(data)


def avi(codec: str) -> bytes:
    """AVI whose BITMAPINFOHEADER claims 100,000 x 100,000."""
    data = bytearray(clip_bytes(replace(SPEC, codec=codec, pixel_format="yuv420p", gop=None, b_frames=None), "avi"))
    struct.pack_into("<ii", data, bytes(data).index(b"strf") + 12, SIDE, SIDE)
    return bytes(data)


def matroska() -> bytes:
    """Matroska whose PixelWidth and PixelHeight (elements B0 and BA) claim 255 times their size."""
    data = clip_bytes(replace(SPEC, codec="ffv1", gop=None, b_frames=None, height=256, width=256), "matroska")
    assert data.count(b"\xb0\x82\x01\x00\xba\x82\x01\x00") == 1
    return data.replace(b"\xb0\x82\x01\x00\xba\x82\x01\x00", b"\xb0\x82\xff\xff\xba\x82\xff\xff")


def _patched_packets(codec: str, patch: Callable[[bytes], bytes], path: Path) -> bytes:
    clip = clip_bytes(replace(SPEC, codec=codec, b_frames=None), "matroska")
    packets, time_base = take_packets(clip)
    put_packets(path, clip, [replace(packet, data=patch(packet.data)) for packet in packets], time_base)
    return path.read_bytes()


def vp9(path: Path) -> bytes:
    """VP9 key frames of 65536 x 65536: 16 bits each after marker, flags, sync code and colours."""

    def patch(data: bytes) -> bytes:
        bits = int.from_bytes(data, "big")
        above = len(data) * 8 - 36
        if data[1:4] != b"\x49\x83\x42":
            return data
        return (bits | (0xFFFFFFFF << (above - 32))).to_bytes(len(data), "big")

    return _patched_packets("libvpx-vp9", patch, path)


def vp8(path: Path) -> bytes:
    """VP8 key frames of 16383 x 16383 (RFC 6386 9.1)."""
    return _patched_packets(
        "libvpx",
        lambda data: data[:6] + b"\xff\x3f\xff\x3f" + data[10:] if data[3:6] == b"\x9d\x01\x2a" else data,
        path,
    )


def motion_jpeg(path: Path) -> bytes:
    """JPEG frames whose start-of-frame marker claims 65500 x 65500."""

    def patch(data: bytes) -> bytes:
        at = data.index(b"\xff\xc0")
        return data[: at + 5] + struct.pack(">HH", 65500, 65500) + data[at + 9 :]

    clip = clip_bytes(replace(SPEC, codec="mjpeg", pixel_format="yuvj420p", gop=None, b_frames=None), "matroska")
    packets, time_base = take_packets(clip)
    put_packets(path, clip, [Coded(patch(p.data), p.pts, p.dts, p.is_key) for p in packets], time_base)
    return path.read_bytes()


def y4m() -> bytes:
    return b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\nFRAME\n" % (SIDE, SIDE) + bytes(5000)


def ivf() -> bytes:
    frame = bytes(100)
    header = struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, b"VP80", 65535, 65535, 25, 1, 1, 0)
    return header + struct.pack("<IQ", len(frame), 0) + frame


def still(kind: str) -> bytes:
    """A still that claims far more than it holds."""
    small = io.BytesIO()
    Image.new("RGB", (8, 8)).save(small, kind)
    data = bytearray(small.getvalue())
    if kind == "PNG":
        struct.pack_into(">II", data, 16, SIDE, SIDE)
        struct.pack_into(">I", data, 29, zlib.crc32(data[12:29]))
    elif kind == "JPEG":
        struct.pack_into(">HH", data, bytes(data).index(b"\xff\xc0") + 5, 65500, 65500)
    elif kind == "GIF":
        struct.pack_into("<HH", data, 6, 65535, 65535)
    elif kind == "BMP":
        struct.pack_into("<ii", data, 18, SIDE, SIDE)
    return bytes(data)


def write_bombs(folder: Path) -> list[str]:
    """Write all of them; give their names."""
    scratch = folder / "scratch.mkv"
    bombs = {
        "stream.h264": h264_stream(),
        "avc.mp4": h264_in_mp4(),
        "jpeg.mov": sample_entry("mjpeg", b"jpeg"),
        "raw.mov": sample_entry("rawvideo", b"raw "),
        "mpeg4.mov": sample_entry("mpeg4", b"mp4v"),
        "raw.avi": avi("rawvideo"),
        "ffvhuff.avi": avi("ffvhuff"),
        "ffv1.mkv": matroska(),
        "vp9.mkv": vp9(scratch),
        "vp8.mkv": vp8(scratch),
        "mjpeg.mkv": motion_jpeg(scratch),
        "huge.y4m": y4m(),
        "huge.ivf": ivf(),
        **{f"still.{kind.lower()}": still(kind) for kind in ("PNG", "JPEG", "GIF", "BMP")},
    }
    scratch.unlink()
    for name, data in bombs.items():
        (folder / name).write_bytes(data)
    return sorted(bombs)
