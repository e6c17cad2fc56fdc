"""The codecs of the cache, and how they are found by the name that users give and by the label of a stored frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from framefeed._nearest import did_you_mean
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._jpeg import JpegCodec
from framefeed.cache.codecs._magicyuv import make_magicyuv
from framefeed.cache.codecs._plain import Lz4Codec, RawCodec, ZstdCodec
from framefeed.decode import PlaneLayout
from framefeed.errors import MissingDependency, UsageError


@dataclass(frozen=True, slots=True)
class CodecEntry:
    """A codec of the cache; ``make`` gets the number that follows its name, and raises MissingDependency.

    ``number`` says what that is, such as "level", and is empty if the name has none; ``default`` is that of the name
    alone.
    """

    make: Callable[[int], FrameCodec]
    number: str = ""
    numbers: range = range(1)
    default: int = 0
    is_exact: bool = True


CODECS: Mapping[str, CodecEntry] = {
    "raw": CodecEntry(lambda _: RawCodec()),
    "lz4": CodecEntry(lambda _: Lz4Codec(level=1)),
    "lz4hc": CodecEntry(lambda _: Lz4Codec(level=4, name="lz4hc")),
    "magicyuv": CodecEntry(lambda _: make_magicyuv()),
    "zstd": CodecEntry(ZstdCodec, "level", range(1, 20), default=1),
    "jpeg": CodecEntry(JpegCodec, "quality", range(1, 101), default=90, is_exact=False),
}
"""The one place where a codec is registered: by its name, which is never used for another."""
_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)


def known_codecs() -> tuple[str, ...]:
    """List the names of all codecs; "zstd" can be followed by a level ("zstd:3"), "jpeg" by a quality ("jpeg:90")."""
    return tuple(CODECS)


@lru_cache(maxsize=64)
def find_codec(spec: str) -> FrameCodec:
    """Find a codec by its name, or by the label that is stored with each frame.

    Args:
        spec: A name from ``known_codecs``; "zstd" and "jpeg" may be followed by a colon and a number.

    Raises:
        UsageError: There is no such codec; the message lists the known ones.
        MissingDependency: It needs a library that is not installed, or a newer one.
    """
    name, colon, number = spec.partition(":")
    entry = CODECS.get(name)
    if entry is not None and not colon:
        return entry.make(entry.default)
    if entry is None or not entry.number or not _NUMBER.fullmatch(number):
        raise UsageError(f"unknown codec {spec[:80]!r}: use {list_codecs()}{did_you_mean(name, CODECS)}")
    if int(number) not in entry.numbers:
        least, most = entry.numbers[0], entry.numbers[-1]
        raise UsageError(f"codec: expected a {name} {entry.number} from {least} to {most}, got {spec!r}")
    return entry.make(int(number))


def list_codecs() -> str:
    """List all codecs in words, with the numbers that may follow their names, for messages and help."""

    def join(*, is_exact: bool) -> str:
        ranges = {name: entry.numbers for name, entry in CODECS.items() if entry.is_exact == is_exact}
        return ", ".join(
            f"{name}, {name}:{numbers[0]} to {name}:{numbers[-1]}" if CODECS[name].number else name
            for name, numbers in ranges.items()
        )

    return f"{join(is_exact=True)} (lossless); {join(is_exact=False)} (lossy)"


def find_exact_codecs(layouts: Collection[PlaneLayout]) -> list[FrameCodec]:
    """Find the codecs that are installed, are lossless, and accept all of some layouts."""
    codecs = []
    for name, entry in CODECS.items():
        try:
            codec = find_codec(name)
        except MissingDependency:
            continue
        if entry.is_exact and all(map(codec.can_store, layouts)):
            codecs.append(codec)
    return codecs


def find_codec_for(codec: FrameCodec, layout: PlaneLayout) -> FrameCodec:
    """Return the codec if it accepts the layout, else Zstandard, which accepts all."""
    return codec if codec.can_store(layout) else find_codec("zstd")
