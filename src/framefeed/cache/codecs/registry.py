"""Codecs by name, as users give it, and by label, as it stands beside each stored frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from framefeed.cache.codecs.codec import FrameCodec
from framefeed.cache.codecs.plain import Lz4Codec, RawCodec, ZstdCodec
from framefeed.decode.planes import PlaneLayout
from framefeed.errors import UsageError

_ZSTD_LEVELS = range(1, 20)

_PLAIN: dict[str, Callable[[], FrameCodec]] = {
    "raw": RawCodec,
    "lz4": lambda: Lz4Codec("lz4", level=1),
    "lz4hc": lambda: Lz4Codec("lz4hc", level=4),
}
_LEVELLED: dict[str, Callable[[int | None], FrameCodec]] = {
    "zstd": lambda level: ZstdCodec(_within("zstd", 1 if level is None else level, _ZSTD_LEVELS)),
}


def known_codecs() -> tuple[str, ...]:
    """Names of all codecs; "zstd" can be followed by a level: "zstd:3"."""
    return (*_PLAIN, *_LEVELLED)


@lru_cache(maxsize=64)
def codec_named(spec: str) -> FrameCodec:
    """Find a codec.

    Args:
        spec: A name of ``known_codecs``, with a number behind a colon where the codec has levels.

    Raises:
        UsageError: There is no such codec; the message lists the known ones.
    """
    name, colon, number = spec.partition(":")
    if name in _PLAIN and not colon:
        return _PLAIN[name]()
    if name in _LEVELLED and (not colon or (number.isascii() and number.isdigit())):
        return _LEVELLED[name](int(number) if colon else None)
    raise UsageError(f"unknown codec {spec!r}: use one of {', '.join(known_codecs())}, or one with a level: 'zstd:3'")


def codec_labelled(label: str) -> FrameCodec:
    """Find the codec that reads frames with this label.

    Raises:
        UsageError: There is none in this version.
        MissingDependency: It needs a library that is not installed.
    """
    return codec_named(label)


def codec_for(codec: FrameCodec, layout: PlaneLayout) -> FrameCodec:
    """The codec itself where it takes the layout, else Zstandard, which takes all."""
    return codec if codec.takes(layout) else codec_named("zstd")


def _within(name: str, number: int, allowed: range) -> int:
    if number not in allowed:
        raise UsageError(f"{name}:{number} does not exist: levels are {allowed.start} to {allowed.stop - 1}")
    return number
