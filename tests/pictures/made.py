"""Pictures of every kind that Pillow writes, and some that it only reads."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
import PIL
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import ImageFileDirectory_v2

WIDTH, HEIGHT = 37, 21
PILLOW_READS_XMP = WRITES_MPO = int(PIL.__version__.split(".")[0]) >= 11
"""Pillow 10 looks for an orientation in the XMP of PNG alone, and writes MPO files that it does not read."""
Image.init()
WRITES_AVIF = "AVIF" in Image.SAVE
XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'


def picture(mode: str = "RGB", width: int = WIDTH, height: int = HEIGHT, seed: int = 1) -> Image.Image:
    """Noise, which no coder makes small."""
    noise = random.Random(seed).randbytes(3 * width * height)
    return Image.frombytes("RGB", (width, height), noise).convert(mode)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation: int, *, order: str = "<", padding: int = 0) -> bytes:
    """EXIF without its JPEG marker: a description of ``padding`` bytes, and an orientation."""
    entries = [(0x010E, 2, padding, 38)] if padding else []
    entries.append((0x0112, 3, 1, orientation if order == "<" else orientation << 16))
    directory = b"".join(struct.pack(order + "HHII", *entry) for entry in entries)
    start = b"II*\0" if order == "<" else b"MM\0*"
    body = struct.pack(order + "IH", 8, len(entries)) + directory + bytes(4)
    return (start + body).ljust(38, b"\0") + b"d" * padding


def lossless_jpeg(image: Image.Image) -> bytes:
    """Encode a grey or RGB picture by the lossless process of T.81, annex H, each sample predicted by its left one."""
    channels, width, height = len(image.getbands()), *image.size
    samples = np.asarray(image, dtype=np.int64).reshape(height, width, channels)
    predicted = np.full_like(samples, 128)
    predicted[:, 1:] = samples[:, :-1]
    predicted[1:, 0] = samples[:-1, 0]
    # 17 categories with codes of 5 bits, then the bits of the difference.
    bits = []
    for difference in (samples - predicted).reshape(-1).tolist():
        category = abs(difference).bit_length()
        bits.append(f"{category:05b}")
        if category:
            bits.append(f"{difference if difference > 0 else difference + (1 << category) - 1:0{category}b}")
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    data = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")
    each = [bytes([82 + channel, 0x11, 0]) for channel in range(channels)]
    scan = b"".join(bytes([82 + channel, 0]) for channel in range(channels))
    parts = [
        segment(0xFFEE, b"Adobe\0d" + bytes(5)),
        segment(0xFFC3, struct.pack(">BHHB", 8, height, width, channels) + b"".join(each)),
        segment(0xFFC4, bytes([0, 0, 0, 0, 0, 17, *[0] * 11, *range(17)])),
        segment(0xFFDA, bytes([channels]) + scan + b"\1\0\0"),
    ]
    return b"\xff\xd8" + b"".join(parts) + data + b"\xff\xd9"


def segment(marker: int, payload: bytes) -> bytes:
    """One JPEG segment."""
    return struct.pack(">HH", marker, len(payload) + 2) + payload


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """Put segments behind the start of image."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def chunk(kind: bytes, payload: bytes) -> bytes:
    """One PNG chunk."""
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def with_chunks(png: bytes, before: bytes = b"", behind: bytes = b"") -> bytes:
    """Put chunks behind the header of a PNG, and before its end."""
    return png[:33] + before + png[33:-12] + behind + png[-12:]


def made() -> dict[str, bytes]:
    """Name -> bytes; all of them open in Pillow."""
    return dict(_made())


@lru_cache(maxsize=1)
def _made() -> tuple[tuple[str, bytes], ...]:
    return (*_jpegs(), *_pngs(), *_gifs(), *_webps(), *_tiffs(), ("P.bmp", saved(picture("P"), "BMP")))


def _jpegs() -> Iterator[tuple[str, bytes]]:
    plain = saved(picture(), "JPEG")
    for mode in ("L", "RGB", "CMYK"):
        yield f"{mode}.jpeg", saved(picture(mode), "JPEG")
        yield f"progressive {mode}.jpeg", saved(picture(mode), "JPEG", progressive=True)
    for tag in range(10):
        yield f"exif {tag}.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(tag)))
        yield f"exif big-endian {tag}.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(tag, order=">")))
        yield f"xmp {tag}.jpeg", saved(picture(), "JPEG", xmp=XMP % tag)
    xmp = segment(0xFFE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP % 6)
    both = xmp, segment(0xFFE1, b"Exif\0\0" + exif(3))
    yield "xmp before exif.jpeg", with_segments(plain, *both)
    yield "exif before xmp.jpeg", with_segments(plain, *both[::-1])
    for length in (5000, 60_000):
        yield f"xmp behind {length}.jpeg", with_segments(plain, segment(0xFFFE, bytes(length)), xmp)
    yield "long exif.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(6, padding=60_000)))
    yield "empty exif.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0"))
    yield "two exif.jpeg", with_segments(plain, *[segment(0xFFE1, b"Exif\0\0" + exif(tag)) for tag in (6, 8)])
    thumbnail = saved(picture("L", 8, 16), "JPEG")
    yield "thumbnail.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(8) + thumbnail))
    yield "profile.jpeg", saved(picture(), "JPEG", icc_profile=bytes(300_000))
    yield (
        "srgb.jpeg",
        saved(picture(), "JPEG", icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
    )
    yield "comment.jpeg", saved(picture(), "JPEG", comment=b"\xff\xc0\0\x0b\x08\0\x10\0\x10\1\1\x11\0" * 5000)
    for length in range(4040, 4110, 3):
        yield f"comment of {length}.jpeg", saved(picture(), "JPEG", comment=bytes(length))
        yield f"exif of {length}.jpeg", with_segments(plain, segment(0xFFE1, b"Exif\0\0" + exif(6, padding=length)))
        yield (
            f"exif behind {length}.jpeg",
            with_segments(
                plain,
                segment(0xFFFE, bytes(length)),
                segment(0xFFE1, b"Exif\0\0" + exif(6)),
                segment(0xFFE2, bytes(30)),
            ),
        )
    for mode in ("L", "RGB"):
        yield f"lossless {mode}.jpeg", lossless_jpeg(picture(mode))
    yield "restarts.jpeg", saved(picture(), "JPEG", restart_marker_rows=1)
    yield "fill bytes.jpeg", plain[:2] + b"\xff\xff\xff" + plain[2:]
    yield "junk.jpeg", plain[:20] + b"\xff\0\1\2" + plain[20:]
    if WRITES_MPO:
        yield "mpo.jpeg", saved(picture(), "MPO", save_all=True, append_images=[picture(seed=2), picture(seed=3)])
    pair = saved(picture(), "MPO", save_all=True, append_images=[picture(seed=2)])
    yield "gain map.jpeg", with_segments(pair, segment(0xFFE1, b'http://ns.adobe.com/xap/1.0/\0<x hdrgm:Version="1"/>'))


def _pngs() -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "I;16", "RGB", "P", "LA", "RGBA"):
        yield f"{mode}.png", saved(picture("I" if mode == "I;16" else mode).convert(mode), "PNG")
    for bits in (1, 2, 4):
        yield f"palette {bits}.png", saved(picture().quantize(2**bits), "PNG", bits=bits)
    yield "transparent.png", saved(picture("P"), "PNG", transparency=3)
    plain = saved(picture(), "PNG")
    large = saved(picture("RGB", 200, 200), "PNG")
    small_chunks = _rechunked(large, 1000)
    for tag in range(10):
        yield f"exif {tag}.png", saved(picture(), "PNG", exif=b"Exif\0\0" + exif(tag))
        yield f"late exif {tag}.png", with_chunks(plain, behind=chunk(b"eXIf", exif(tag, order=">")))
    for name, png in (("one", _rechunked(large, 10**6)), ("large", large), ("small", small_chunks)):
        for length in (0, 10, 900, 5000, 50_000):
            texts = chunk(b"tEXt", b"Comment\0" + bytes(length)) if length else b""
            yield (
                f"{name} data and late exif behind {length}.png",
                with_chunks(large if name == "large" else png, behind=texts + chunk(b"eXIf", exif(5))),
            )
            yield f"{name} data before {length}.png", with_chunks(png, behind=texts)
    for name, png in (("small", plain), ("large", large)):
        title = chunk(b"tEXt", b"Title\0of a picture")
        yield f"{name} text and late exif.png", with_chunks(png, title, chunk(b"eXIf", exif(6)))
    yield "early and late exif.png", with_chunks(plain, chunk(b"eXIf", exif(6)), chunk(b"eXIf", exif(8)))
    xmp = b"XML:com.adobe.xmp\0%b\0\0\0%b"
    profile = b"\nexif\n      38\n" + exif(7).hex().encode() + b"\n"
    yield "xmp.png", with_chunks(plain, chunk(b"iTXt", xmp % (b"\0", XMP % 8)))
    yield "packed xmp.png", with_chunks(plain, chunk(b"iTXt", xmp % (b"\1", zlib.compress(XMP % 8))))
    yield "late xmp.png", with_chunks(large, behind=chunk(b"iTXt", xmp % (b"\0", XMP % 6)))
    yield "profile.png", with_chunks(plain, chunk(b"tEXt", b"Raw profile type exif\0" + profile))
    yield (
        "packed profile.png",
        with_chunks(plain, chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile))),
    )
    note = chunk(b"tEXt", b"Raw profile type exif\0" + profile)
    yield "exif before profile.png", with_chunks(plain, chunk(b"eXIf", exif(3)) + note)
    yield "exif behind profile.png", with_chunks(plain, note + chunk(b"eXIf", exif(3)))
    yield "text.png", with_chunks(plain, chunk(b"tEXt", b"Title\0eXIf IDAT acTL") + chunk(b"pHYs", bytes(9)))
    yield "large text.png", with_chunks(plain, chunk(b"tEXt", b"Title\0" + b"eXIf" * 2000))
    frames = [picture(seed=seed) for seed in range(2, 5)]
    yield "animation.png", saved(picture(), "PNG", save_all=True, append_images=frames)
    yield (
        "animation behind a picture.png",
        saved(picture(), "PNG", save_all=True, append_images=frames, default_image=True),
    )
    yield "animation of nothing.png", with_chunks(plain, chunk(b"acTL", bytes(8)))


def _rechunked(png: bytes, length: int) -> bytes:
    """Cut the image data of a PNG into chunks of another length."""
    data, at = b"", 33
    while png[at + 4 : at + 8] == b"IDAT":
        count = int.from_bytes(png[at : at + 4], "big")
        data += png[at + 8 : at + 8 + count]
        at += count + 12
    cuts = [*range(0, len(data), length), len(data)]
    return png[:33] + b"".join(chunk(b"IDAT", data[a:b]) for a, b in pairwise(cuts)) + png[at:]


def _gifs() -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "P", "RGB"):
        yield f"{mode}.gif", saved(picture(mode), "GIF")
    frames = [picture(seed=seed) for seed in range(2, 9)]
    yield "animation.gif", saved(picture(), "GIF", save_all=True, append_images=frames, duration=40, loop=0)
    large = [picture("RGB", 200, 150, seed) for seed in range(1, 12)]
    yield "large animation.gif", saved(large[0], "GIF", save_all=True, append_images=large[1:], comment=b"c" * 700)
    plain = saved(picture("L"), "GIF")
    assert plain.startswith(b"GIF87a")
    table = 13 + 3 * 256
    assert plain[table : table + 1] == b","
    local = plain[table : table + 9] + b"\x87" + plain[13:table] + plain[table + 10 :]
    yield "own palette.gif", plain[:10] + b"\0" + plain[11:13] + local
    greys, colors = bytes(value // 3 for value in range(768)), bytes(range(255, -1, -1)) * 3
    for screen, own in ((greys, colors), (colors, greys)):
        marked = plain[table : table + 9] + b"\x87" + own + plain[table + 10 :]
        yield f"own palette of {'colors' if screen is greys else 'greys'}.gif", plain[:13] + screen + marked
    yield "no palette.gif", plain[:10] + b"\0" + plain[11:13] + plain[table:]
    yield "larger than the screen.gif", plain[:6] + b"\5\0\5\0" + plain[10:]
    yield "junk.gif", plain[:-1] + bytes(5) + plain[table:]
    yield "no end.gif", plain[:-1]
    yield "grey.gif", plain[:13] + greys + plain[table:]


def _webps() -> Iterator[tuple[str, bytes]]:
    for mode in ("RGB", "RGBA"):
        for lossless in (False, True):
            options = {"lossless": lossless, "exact": True}
            name = f"{mode} {'lossless' if lossless else 'lossy'}"
            alpha = picture(mode)
            if mode == "RGBA":
                alpha.putalpha(picture("L", seed=5))
            yield f"{name}.webp", saved(alpha, "WEBP", **options)
            for tag in range(10):
                yield f"{name} exif {tag}.webp", saved(alpha, "WEBP", exif=exif(tag), **options)
            yield f"{name} xmp.webp", saved(alpha, "WEBP", xmp=XMP % 5, **options)
            yield f"{name} profile.webp", saved(alpha, "WEBP", icc_profile=bytes(9001), **options)
    large = picture("RGB", 300, 300)
    yield "large exif.webp", saved(large, "WEBP", exif=b"Exif\0\0" + exif(7), lossless=True)
    frames = [picture("RGB", 90, 90, seed) for seed in range(1, 8)]
    yield "animation.webp", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], exif=exif(8))
    clear = [frame.convert("RGBA") for frame in frames]
    for frame in clear:
        frame.putalpha(100)
    yield "clear animation.webp", saved(clear[0], "WEBP", save_all=True, append_images=clear[1:], lossless=True)


def _tiffs() -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "I;16", "I;16B", "I", "F"):
        base = "RGB" if mode in ("LAB", "PA", "I;16B") else mode
        image = (
            Image.new(mode, (WIDTH, HEIGHT))
            if base != mode
            else picture("I").convert(mode)
            if mode == "I;16"
            else picture(mode)
        )
        yield f"{mode}.tiff", saved(image, "TIFF")
        if mode != "I;16B":  # Pillow cannot read what it writes
            yield f"{mode} big.tiff", saved(image, "TIFF", big_tiff=True)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        yield f"{compression}.tiff", saved(picture(), "TIFF", compression=compression)
    yield "ycbcr jpeg.tiff", saved(picture("YCbCr"), "TIFF", compression="jpeg")
    yield "group4.tiff", saved(picture("1"), "TIFF", compression="group4")
    for tag in range(10):
        directory = ImageFileDirectory_v2()
        directory[274] = tag
        yield f"orientation {tag}.tiff", saved(picture(), "TIFF", tiffinfo=directory)
    directory = ImageFileDirectory_v2()
    directory[700] = XMP % 6
    directory.tagtype[700] = 1
    yield "xmp.tiff", saved(picture(), "TIFF", tiffinfo=directory)
    pages = [picture(seed=seed) for seed in range(2, 12)]
    yield "pages.tiff", saved(picture(), "TIFF", save_all=True, append_images=pages)
    yield "big pages.tiff", saved(picture(), "TIFF", save_all=True, append_images=pages, big_tiff=True)
    yield "large pages.tiff", saved(picture("RGB", 90, 90), "TIFF", save_all=True, append_images=pages)
    for order in "<>":
        yield f"tiled {order}.tiff", tiled(order)
        yield f"ring {order}.tiff", tiled(order, is_ring=True)


def tiled(order: str, *, is_ring: bool = False) -> bytes:
    """A grey TIFF of one tile; a ring is its own next page."""
    numbers = {256: WIDTH, 257: HEIGHT, 258: 8, 259: 1, 262: 1, 274: 5, 277: 1, 322: 48, 323: 32, 324: 200, 325: 1536}
    start = b"II*\0" if order == "<" else b"MM\0*"
    entries = b"".join(struct.pack(order + "HHII", tag, 4, 1, number) for tag, number in numbers.items())
    short = struct.pack(order + "HHIHxx", 274, 3, 1, 5)
    entries = entries.replace(struct.pack(order + "HHII", 274, 4, 1, 5), short)
    head = start + struct.pack(order + "IH", 8, len(numbers)) + entries + struct.pack(order + "I", 8 if is_ring else 0)
    return head.ljust(200, b"\0") + bytes(1536)
