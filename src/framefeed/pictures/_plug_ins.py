"""The plug-ins of Pillow for HEIC and JPEG XL: each is imported and registered when the first such file is met."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from framefeed._absence import describe_absence
from framefeed.errors import CorruptMedia, MissingDependency, UnreadableMedia
from framefeed.pictures._jpeg_xl import read_jpeg_xl_header
from framefeed.pictures._reads import More, OddHeader, StillHeader
from framefeed.pictures._undecoded import name_undecoded_format


class PlugIn(NamedTuple):
    """A plug-in of Pillow."""

    kind: str  # kind of the pictures, for messages
    format: str  # Pillow's name of the format
    package: str
    module: str
    # Registers the format, from the module; without threads of its own, since many pictures are decoded at once.
    register: Callable[[Any], object]
    # Reads a header, where the plug-in would decode the picture to do so.
    read_header: Callable[[bytes, More], StillHeader] | None = None


def _register_jxl(module: Any) -> None:
    module.JpegXLImagePlugin.DECODE_THREADS = 0  # registered by the import


PLUG_INS = (
    PlugIn("HEIC", "HEIF", "pillow-heif", "pillow_heif", lambda module: module.register_heif_opener(decode_threads=1)),
    PlugIn("JPEG XL", "JXL", "pillow-jxl-plugin", "pillow_jxl", _register_jxl, read_jpeg_xl_header),
)
PLUGGED_CODECS = frozenset(each.format.lower() for each in PLUG_INS)
_registered = set[str]()


def find_plug_in(head: bytes) -> PlugIn | None:
    """Find the plug-in that reads a file, by its first bytes; None for a file that needs none."""
    kind = name_undecoded_format(head)
    return next((each for each in PLUG_INS if each.kind == kind), None)


def register_plug_in(plug_in: PlugIn, name: str, stage: str) -> str:
    """Register a plug-in with Pillow, and return the name of its format.

    ``stage``: "open" or "decode".
    """
    if plug_in.format not in _registered:
        try:
            plug_in.register(import_module(plug_in.module))
        except ImportError as error:
            raise MissingDependency(
                f"{name}: is a {plug_in.kind} picture, and Pillow decodes it with {plug_in.package}, "
                f"which {describe_absence(error, plug_in.module)}: pip install 'framefeed[stills]'",
                source=name,
                stage=stage,
            ) from error
        _registered.add(plug_in.format)
    return plug_in.format


def read_own_header(plug_in: PlugIn, head: bytes, more: More, name: str, stage: str) -> StillHeader | None:
    """Read the header of a picture that its plug-in would decode to do so; None for other plug-ins.

    ``head``: the first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
    ``stage``: "open" or "decode".

    Raises:
        UnreadableMedia: It is damaged, at stage "open".
        CorruptMedia: The same, at stage "decode".
    """
    if plug_in.read_header is None:
        return None
    try:
        return plug_in.read_header(head, more)
    except OddHeader as odd:
        kind = UnreadableMedia if stage == "open" else CorruptMedia
        raise kind(f"{name}: damaged picture header: {odd}", source=name, stage=stage) from odd


def find_left_orientation(image: object, header: StillHeader) -> int:
    """Find what is left to apply of the orientation of a JPEG XL, whose EXIF does not count (ISO/IEC 18181-2).

    Its library applies it, but to a JPEG that was packed without loss: that comes as it was.
    """
    return header.orientation if getattr(image, "jpeg", False) else 1


@cache  # looking a version up takes a millisecond
def describe_plug_ins(codecs: frozenset[str]) -> str:
    """Name the installed plug-ins for some codecs, each with its version and a comma; "" if there is none."""
    from importlib.metadata import PackageNotFoundError, version  # with the package email, 15 ms

    parts = []
    for each in PLUG_INS:
        with suppress(PackageNotFoundError):
            parts += [f"{each.package} {version(each.package)}, "] if each.format.lower() in codecs else []
    return "".join(parts)
