"""JPEGs made to do harm, and what comes of them, in a process with little memory.

python -m tests.decode.hard_jpegs -> JSON: name -> "the picture of Pillow", "refused by both: TYPE",
"refused, and Pillow gives a picture", or what is wrong
"""

from __future__ import annotations

import io
import json
import re
import resource
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from framefeed.decode import VideoDecoder
from framefeed.errors import MediaError
from framefeed.request import StillQuality
from tests.pictures.made import exif, lossless_jpeg, saved, segment, with_segments

ROOM = 1 << 30
"""Address space beyond what the program has when it begins: some pictures of the largest allowed size."""
WIDTH, HEIGHT = 150, 100
SIZE = (20, 30)
_ADOBE = re.compile(rb"\xff\xee\0\x0eAdobe.{7}", re.DOTALL)


def photo(mode: str = "RGB", width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A smooth picture, of which all sizes are alike."""
    y, x = np.mgrid[:height, :width]
    channels = [128 + 100 * np.sin(x / width * 4 + k) * np.cos(y / height * 3 - k) for k in range(3)]
    return Image.fromarray(np.stack(channels, axis=2).astype(np.uint8)).convert(mode)


def hard_jpegs() -> Iterator[tuple[str, bytes]]:
    """(name, bytes)."""
    plain, progressive = saved(photo(), "JPEG"), saved(photo(), "JPEG", progressive=True)
    for name, data, marker in (("baseline", plain, b"\xc0"), ("progressive", progressive, b"\xc2")):
        at = data.index(b"\xff" + marker)
        yield f"{name} of 65500 x 65500", data[: at + 5] + struct.pack(">HH", 65_500, 65_500) + data[at + 9 :]
        yield f"{name} of 4096 x 1024", data[: at + 5] + struct.pack(">HH", 1024, 4096) + data[at + 9 :]
        yield f"{name} of height 0", data[: at + 5] + struct.pack(">HH", 0, WIDTH) + data[at + 9 :]
        for other in (b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\xc5", b"\xc9", b"\xca", b"\xcb"):
            yield f"{name} as process {other.hex()}", data[: at + 1] + other + data[at + 2 :]
        yield f"{name} of 12 bits", data[: at + 4] + b"\x0c" + data[at + 5 :]
        yield f"{name} twice a frame header", data[:at] + data[at : at + 19] + data[at:]
        for tenth in range(1, 10):
            yield f"{name}, {tenth} tenths", data[: tenth * len(data) // 10]
        scan = data.index(b"\xff\xda")
        chance = np.random.default_rng(1)
        yield f"{name}, random behind the header", data[: scan + 14] + chance.bytes(3000)
        yield f"{name}, zeros behind the header", data[: scan + 14] + bytes(3000)
    scans = progressive.rindex(b"\xff\xda")
    for mode in ("L", "RGB"):
        yield f"lossless {mode}", lossless_jpeg(photo(mode))
        yield f"lossless {mode}, half", lossless_jpeg(photo(mode))[: WIDTH * HEIGHT // 2]
        yield f"lossless {mode}, fill bytes", (made := lossless_jpeg(photo(mode)))[:2] + b"\xff\xff" + made[2:]
    yield "100 scans", progressive[:-2] + progressive[scans:-2] * 100 + b"\xff\xd9"
    yield "without an end", plain[:-2]
    yield "junk behind the end", plain + bytes(5000)
    restarts = saved(photo(), "JPEG", restart_marker_blocks=3)
    yield "restarts", restarts
    for number in (1, 4, 7):
        at = [match.start() for match in re.finditer(rb"\xff[\xd0-\xd7]", restarts)][number]
        yield f"restart {number} is another", restarts[: at + 1] + b"\xd7" + restarts[at + 2 :]
        yield f"restart {number} is missing", restarts[:at] + restarts[at + 2 :]
    for tag in (0, 9, 65_535):
        yield f"orientation {tag}", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(tag)))
    loop = b"II*\0" + struct.pack("<IH", 8, 2) + struct.pack("<HHII", 0x8769, 4, 1, 8)
    loop += struct.pack("<HHII", 0x0112, 3, 1, 6) + struct.pack("<I", 8)
    yield "EXIF whose directories are a loop", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + loop))
    yield "EXIF beyond its end", with_segments(plain, segment(0xFFE1, b"Exif\0\0II*\0" + struct.pack("<I", 1 << 31)))
    for number, count in ((2, 1), (1, 0), (1, 255)):
        profile = b"ICC_PROFILE\0" + bytes([number, count]) + bytes(100)
        yield f"ICC part {number} of {count}", with_segments(plain, segment(0xFFE2, profile))
    yield "a wrong ICC profile", saved(photo(), "JPEG", icc_profile=b"no profile" * 50)
    for subsampling in (0, 1, 2):
        yield f"1 x 1, subsampling {subsampling}", saved(photo("RGB", 1, 1), "JPEG", subsampling=subsampling)
    yield from hard_colours()


def hard_colours() -> Iterator[tuple[str, bytes]]:
    """CMYK and YCCK, with and without the marker that tells them apart; RGB that says it is not YCbCr."""
    cmyk = saved(photo("CMYK"), "JPEG")
    adobe = _ADOBE.search(cmyk)
    assert adobe is not None
    yield "CMYK with a marker", cmyk
    yield "CMYK without a marker", cmyk.replace(adobe[0], b"")
    for transform in (0, 1, 2):
        changed = adobe[0][:-1] + bytes([transform])
        yield f"four channels, transform {transform}", cmyk.replace(adobe[0], changed)
        yield f"three channels, transform {transform}", with_segments(saved(photo(), "JPEG"), changed)


def by_pillow(data: bytes) -> np.ndarray | None:
    """Decode by Pillow alone; None where it refuses the file."""
    with warnings.catch_warnings(action="ignore"):
        try:
            with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
                if image.width * image.height > 1 << 25:
                    return None
                image.load()
                return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            return None


def decode(data: bytes, **options: object) -> np.ndarray | str:
    """Decode by framefeed; the type of the error where it refuses the file."""
    try:
        with VideoDecoder(data, dimension_order="NHWC", **options) as decoder:  # type: ignore[arg-type]
            return decoder[0]
    except MediaError as error:
        return type(error).__name__


def judge(data: bytes) -> str:
    """Compare both qualities with Pillow."""
    expected, got = by_pillow(data), decode(data)
    qualities: tuple[StillQuality, ...] = ("exact", "scaled")
    small = {quality: decode(data, size=SIZE, still_quality=quality) for quality in qualities}
    if expected is None:
        kinds = {each if isinstance(each, str) else "a picture" for each in (got, *small.values())}
        return f"refused by both: {kinds.pop()}" if len(kinds) == 1 else f"refused by Pillow, and {kinds}"
    if {each if isinstance(each, str) else "" for each in (got, *small.values())} == {"CorruptMedia"}:
        return "refused, and Pillow gives a picture"
    if isinstance(got, str) or not np.array_equal(got, expected):
        return f"Pillow gives a picture, framefeed {got if isinstance(got, str) else 'another one'}"
    if any(isinstance(each, str) for each in small.values()):
        return f"a picture at full size, and {small}"
    # Random data are noise, of which a smaller picture says little.
    error = np.abs(small["exact"].astype(int) - small["scaled"]).mean()  # type: ignore[union-attr]
    return "the picture of Pillow" if error < 12 else f"scaled, it differs by {error:.1f} on average"


def main() -> dict[str, str]:
    made = list(hard_jpegs())
    status = re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert status is not None
    bytes_now = int(status[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (bytes_now + ROOM, bytes_now + ROOM))
    resource.setrlimit(resource.RLIMIT_CPU, (90, 90))
    return {name: judge(data) for name, data in made}


if __name__ == "__main__":
    print(json.dumps(main()))
