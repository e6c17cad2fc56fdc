"""Run as a program: decode frames that somebody made up, with little more memory than their layouts ask for.

python -m tests.cache.codecs.bounded_decoding SEED       -> JSON on standard output

A crash, an error of another kind than BrokenFrame, or memory that a frame claims and its layout does not, ends it.
"""

from __future__ import annotations

import json
import re
import resource
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from framefeed.cache.codecs._codec import BrokenFrame, FrameCodec
from framefeed.cache.codecs._plain import compress_block
from framefeed.cache.codecs._registry import find_codec
from framefeed.decode import RGB_PLANAR, PlaneLayout
from tests.cache.codecs.pictures import CODECS, USUAL_FORMATS, content, damaged, natural, stored

ROOM = 96 << 20
"""Address space beyond what the program has when it begins; the bombs claim gigabytes."""
LAYOUT = PlaneLayout("yuv420p", 320, 240)
OUTPUT = PlaneLayout(RGB_PLANAR, 224, 224)
HUGE = 65_500


def hostile() -> Iterator[tuple[str, FrameCodec, PlaneLayout, bytes]]:
    """(name, codec, layout that is asked for, bytes) of frames made to do harm."""
    zeros = np.zeros(ROOM + (32 << 20), np.uint8)
    zstd, lz4 = find_codec("zstd"), find_codec("lz4")
    bomb_of_lz4 = compress_block(zeros, 1)
    bomb: bytes = pa.Codec("zstd").compress(zeros, asbytes=True)
    yield "zstd of more than there is room for", zstd, LAYOUT, bomb
    yield "lz4 of more than there is room for", lz4, LAYOUT, bomb_of_lz4
    yield "zstd that claims 2**62 bytes", zstd, LAYOUT, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + bytes(40)
    yield "zstd with a window of gigabytes", zstd, LAYOUT, b"\x28\xb5\x2f\xfd\x00\xff" + bytes(40)
    yield "lz4 with endless lengths", lz4, LAYOUT, bytes(8) + b"\xff" * 100_000
    yield "lz4 that repeats what is not there", lz4, LAYOUT, bytes(8) + b"\x1f\x00\xff\xff" + b"\xff" * 50_000
    magicyuv = find_codec("magicyuv")
    yield "magicyuv of 4 GiB", magicyuv, LAYOUT, struct.pack("<I", 0xFFFFFFFF) + bomb_of_lz4
    yield "magicyuv of more than there is room for", magicyuv, LAYOUT, struct.pack("<I", len(zeros)) + bomb_of_lz4
    yield from _magicyuv(magicyuv)
    yield from _jpeg()


def _magicyuv(codec: FrameCodec) -> Iterator[tuple[str, FrameCodec, PlaneLayout, bytes]]:
    packet = _packet(stored(codec, LAYOUT, natural(LAYOUT)))
    for name, offset, value in (
        ("width", 16, HUGE), ("height", 20, HUGE), ("slice width", 24, 1), ("slice height", 28, 1),
        ("slice height 0", 28, 0), ("width 0", 16, 0), ("header size", 4, 0xFFFFFFFF),
    ):  # fmt: skip
        changed = bytearray(packet)
        struct.pack_into("<I", changed, offset, value)
        yield f"magicyuv {name}", codec, LAYOUT, _stored_packet(bytes(changed))
    other = _packet(stored(codec, PlaneLayout("yuv444p", 900, 900), np.zeros(3 * 900 * 900, np.uint8)))
    yield "magicyuv of another picture", codec, LAYOUT, _stored_packet(other)
    yield "magicyuv without padding", codec, LAYOUT, _stored_packet(packet[:-64] + b"\xff" * 64)
    yield (
        "magicyuv of 4 GiB",
        codec,
        LAYOUT,
        struct.pack("<I", 0xFFFFFFFF) + compress_block(np.zeros(1 << 28, np.uint8), 1),
    )
    yield "magicyuv of nothing", codec, LAYOUT, _stored_packet(bytes(96))
    yield "magicyuv, header alone", codec, LAYOUT, _stored_packet(packet[:32] + bytes(64))
    # The offsets of slices follow the header; after them the tables of codes.
    for offset in range(32, 64):
        for value in (0, 255):
            changed = bytearray(packet)
            changed[offset] = value
            yield f"magicyuv byte {offset}", codec, LAYOUT, _stored_packet(bytes(changed))


def _packet(data: bytes) -> bytes:
    length = struct.unpack_from("<I", data)[0]
    block = pa.Codec("lz4_raw").decompress(data[12:], length + 8)
    return bytes(memoryview(block)[:-8])


def _stored_packet(packet: bytes) -> bytes:
    return struct.pack("<I", len(packet)) + compress_block(np.frombuffer(packet, np.uint8), 1)


def _jpeg() -> Iterator[tuple[str, FrameCodec, PlaneLayout, bytes]]:
    codec = find_codec("jpeg")
    for layout in (LAYOUT, OUTPUT):
        picture = stored(codec, layout, natural(layout))[4:]
        frame = picture.index(b"\xff\xc0")
        sized = picture[: frame + 5] + struct.pack(">HH", HUGE, HUGE) + picture[frame + 9 :]
        progressive = picture[: frame + 1] + b"\xc2" + picture[frame + 2 :]
        for name, changed in (("of 65500x65500", sized), ("progressive", progressive)):
            yield f"jpeg {name}", codec, layout, struct.pack("<I", len(changed)) + changed
        yield "jpeg that claims 4 GiB", codec, layout, struct.pack("<I", 0xFFFFFFFF) + picture
        large = PlaneLayout(layout.pixel_format, 900, 900)
        other = stored(codec, large, content("constant", large))
        yield "jpeg of another size", codec, layout, other
        many = picture[:-2] + picture[picture.index(b"\xff\xda") : -2] * 200 + b"\xff\xd9"
        yield "jpeg of many scans", codec, layout, struct.pack("<I", len(many)) + many


def outcome(codec: FrameCodec, layout: PlaneLayout, data: bytes) -> str:
    """What comes of decoding, both ways."""
    out = np.empty(layout.nbytes, np.uint8)
    try:
        codec.decode_into(memoryview(data), layout, out)
        planes = codec.decode(memoryview(data), layout)
    except BrokenFrame:
        return "broken"
    assert planes.shape == (layout.nbytes,)
    return "a picture"


def fuzz(seed: int) -> Counter[str]:
    """Outcomes of damaged frames, by codec."""
    chance = np.random.default_rng(seed)
    results: Counter[str] = Counter()
    for codec in CODECS:
        for name in USUAL_FORMATS:
            layout = PlaneLayout(name, int(chance.integers(1, 70)), int(chance.integers(1, 70)))
            if not codec.can_store(layout):
                continue
            for data in damaged(stored(codec, layout, content("steps", layout, seed)), chance):
                results[f"{codec.name}: {outcome(codec, layout, data)}"] += 1
            for garbage in (b"", b"\0" * 64, chance.bytes(500), zlib.compress(bytes(500))):
                results[f"{codec.name}: {outcome(codec, layout, garbage)}"] += 1
    return results


def limited() -> None:
    """From here on this program has little memory and little time."""
    before = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (before + ROOM, before + ROOM))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def main(seed: int) -> dict[str, object]:
    frames = list(hostile())
    limited()
    outcomes = [(name, outcome(codec, layout, data)) for name, codec, layout, data in frames]
    return {"is_limited": runs_out_of_memory(frames[0][3]), "hostile": outcomes, "damaged": fuzz(seed) + fuzz(seed + 1)}


def runs_out_of_memory(bomb: bytes) -> bool:
    """Whether the memory that a frame itself claims cannot be had."""
    try:
        pa.Codec("zstd").decompress(bomb, ROOM + (32 << 20))
    except MemoryError:
        return True
    return False


def _status(name: str) -> int:
    results = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert results
    return int(results[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
