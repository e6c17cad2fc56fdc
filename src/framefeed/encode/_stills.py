"""Write one RGB picture as a PNG, JPEG or WebP file, and list the codecs of this build of FFmpeg."""

from __future__ import annotations

import io
import math
import os
import struct
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import av
import numpy as np
from PIL import Image

from framefeed._arrays import ByteArray
from framefeed._files import name_special_kind, replacing, write_errors
from framefeed._names import check_local_path
from framefeed.errors import UsageError

StillFormat = Literal["PNG", "JPEG", "WEBP"]

_FORMATS: dict[str, StillFormat] = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_MAX_SIDES: dict[StillFormat, int] = {"JPEG": 65500, "WEBP": 16383}
"""JPEG_MAX_DIMENSION of libjpeg, WEBP_MAX_DIMENSION of libwebp."""
QUALITY = 95
"""The highest quality that Pillow's documentation advises for JPEG: above it, files grow and pictures hardly improve.
WebP of this quality is as near to the original as JPEG of quality 90 (45 to 49 dB on frames of two 720p videos), in
60 % of its bytes."""
_SOFTWARE = 0x0131
"""Exif tag."""


def make_still_name(ordinal: int, pts_seconds: float, suffix: str = ".png") -> str:
    """Make the file name of one frame: ``frame_000037_1.480000000s.png``, or without a time if the stream has none."""
    time = f"_{pts_seconds:.9f}s" if math.isfinite(pts_seconds) else ""
    return f"frame_{ordinal:06d}{time}{suffix}"


def encode_still(
    picture: ByteArray,
    form: StillFormat = "PNG",
    quality: int = QUALITY,
    software: str = "",
    *,
    chroma: Literal["4:4:4", "4:2:0"] = "4:4:4",
) -> bytes:
    """Encode one picture.

    Args:
        picture: RGB, uint8 [H, W, 3].
        form: "PNG", which is lossless; "JPEG"; or "WEBP", lossy, with 4:2:0 chroma.
        quality: Quality of a JPEG or WebP file, 1 to 100.
        software: Value of the Exif tag "Software"; empty for a file without Exif data.
        chroma: Subsampling of the colours of a JPEG.

    Raises:
        UsageError: The array is not a picture, or larger than the format allows.
    """
    image = make_image(picture)
    longest = _MAX_SIDES.get(form)
    if longest is not None and max(image.size) > longest:
        raise UsageError(
            f"{form} holds pictures of at most {longest} x {longest} pixels, got {image.width} x {image.height} "
            "(width x height): use PNG, or a smaller size"
        )
    buffer = io.BytesIO()
    options: dict[str, Any] = {}
    if software:
        options["exif"] = exif = Image.Exif()
        exif[_SOFTWARE] = software
    if form == "JPEG":
        options |= {"quality": quality, "subsampling": chroma}
    elif form == "WEBP":
        options["quality"] = quality
    image.save(buffer, form, **options)
    return buffer.getvalue()


def save_still(path: str | os.PathLike[str], picture: ByteArray, quality: int = QUALITY, software: str = "") -> int:
    """Write one picture as `encode_still` does, in the format that its file name ends in; return the size in bytes.

    After a crash the old or the new file is complete.

    Raises:
        UsageError: The name has another ending, the array is not a picture, or the file cannot be written.
    """
    check_local_path("path", path, "frame.png")
    name = os.fsdecode(path)
    form = find_still_format(name)
    data = encode_still(picture, form, quality, software)
    if (kind := name_special_kind(name)) is not None:
        raise UsageError(f"cannot write {name}: {kind} is already there; choose another name")
    with write_errors(name), replacing(name) as scratch, open(scratch, "wb") as file:
        file.write(data)
    return len(data)


def read_software(path: str) -> str:
    """Read the Exif tag "Software" of a picture; empty if it has none, or is no picture that Pillow reads."""
    try:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("ignore")
            return str(image.getexif().get(_SOFTWARE, ""))
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError):
        return ""


def find_still_format(path: str) -> StillFormat:
    """Return the format that a file name ends in; raise UsageError if it is none."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        given = f"{suffix!r}" if suffix else "none"
        raise UsageError(f"{path}: expected a file name with one of the endings {', '.join(_FORMATS)}, got {given}")
    return _FORMATS[suffix]


def make_image(picture: ByteArray) -> Image.Image:
    """Check a picture, and make a Pillow image of it."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise UsageError(f"picture: expected uint8 [H, W, 3], got {picture.dtype} {list(picture.shape)}")
    return Image.fromarray(picture)


_NEEDS_HARDWARE = ("_amf", "_cuvid", "_mediacodec", "_mf", "_nvenc", "_qsv", "_v4l2m2m", "_vaapi", "_videotoolbox")

_HARDWARE_ONLY = {"av1"}
"""FFmpeg's own AV1 decoder only parses; a hardware device decodes the pictures (libavcodec/av1dec.c)."""


def read_ffmpeg_versions() -> dict[str, str]:
    """Return the versions of FFmpeg and of its libraries, by name."""
    libraries = {name: ".".join(map(str, numbers)) for name, numbers in sorted(av.library_versions.items())}
    return {"ffmpeg": av.ffmpeg_version_info, **libraries}


def list_codec_support(names: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Name the software decoders and encoders of some codecs.

    Returns:
        For each codec ``{"decoders": [...], "encoders": [...]}``. Decoders and encoders of hardware devices are left
        out, because FFmpeg lists them also where there is no such device.
    """
    support: dict[str, dict[str, list[str]]] = {name: {"decoders": [], "encoders": []} for name in names}
    for role, mode in (("decoders", "r"), ("encoders", "w")):
        codecs = {
            codec.name: codec.canonical_name for name in av.codec.codecs_available if (codec := _find_codec(name, mode))
        }
        for name, canonical in sorted(codecs.items()):
            if canonical in support and name not in _HARDWARE_ONLY and not name.endswith(_NEEDS_HARDWARE):
                support[canonical][role].append(name)
    return support


def _find_codec(name: str, mode: str) -> av.Codec | None:
    try:
        return av.Codec(name, "r" if mode == "r" else "w")
    except av.codec.codec.UnknownCodecError:
        return None
