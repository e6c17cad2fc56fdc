"""List the codecs that this build of FFmpeg can read and write."""

from __future__ import annotations

from collections.abc import Sequence

import av

_NEEDS_HARDWARE = ("_amf", "_cuvid", "_mediacodec", "_mf", "_nvenc", "_qsv", "_v4l2m2m", "_vaapi", "_videotoolbox")

_HARDWARE_ALONE = {"av1"}
"""FFmpeg's own AV1 decoder parses, and leaves the pictures to a device (libavcodec/av1dec.c)."""


def ffmpeg_versions() -> dict[str, str]:
    """Give the versions of FFmpeg and of its libraries, by name."""
    libraries = {name: ".".join(map(str, numbers)) for name, numbers in sorted(av.library_versions.items())}
    return {"ffmpeg": av.ffmpeg_version_info, **libraries}


def codec_support(names: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Name the software decoders and encoders of some codecs.

    Args:
        names: Canonical codec names, such as ``"h264"``.

    Returns:
        For each codec ``{"decoders": [...], "encoders": [...]}``. Decoders and encoders of hardware devices are left
        out, because FFmpeg lists them also where there is no such device.
    """
    found: dict[str, dict[str, list[str]]] = {name: {"decoders": [], "encoders": []} for name in names}
    for way, mode in (("decoders", "r"), ("encoders", "w")):
        codecs = {
            codec.name: codec.canonical_name for name in av.codec.codecs_available if (codec := _codec(name, mode))
        }
        for name, canonical in sorted(codecs.items()):
            if canonical in found and name not in _HARDWARE_ALONE and not name.endswith(_NEEDS_HARDWARE):
                found[canonical][way].append(name)
    return found


def _codec(name: str, mode: str) -> av.Codec | None:
    try:
        return av.Codec(name, "r" if mode == "r" else "w")
    except av.codec.codec.UnknownCodecError:
        return None
