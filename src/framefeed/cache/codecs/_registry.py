"""Find codecs by the name that users give, and by the label that is stored with each frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache

from framefeed._nearest import did_you_mean
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._jpeg import make_jpeg
from framefeed.cache.codecs._magicyuv import make_magicyuv
from framefeed.cache.codecs._plain import Lz4Codec, RawCodec, make_zstd
from framefeed.decode import PlaneLayout
from framefeed.errors import MissingDependency, UsageError

_PLAIN: dict[str, Callable[[], FrameCodec]] = {
    "raw": RawCodec,
    "lz4": lambda: Lz4Codec("lz4", level=1),
    "lz4hc": lambda: Lz4Codec("lz4hc", level=4),
    "magicyuv": make_magicyuv,
}
_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_NUMBERED: dict[str, Callable[[int | None], FrameCodec]] = {"zstd": make_zstd, "jpeg": make_jpeg}


def known_codecs() -> tuple[str, ...]:
    """List the names of all codecs; "zstd" can be followed by a level ("zstd:3"), "jpeg" by a quality ("jpeg:90")."""
    return (*_PLAIN, *_NUMBERED)


@lru_cache(maxsize=64)
def find_codec(spec: str) -> FrameCodec:
    """Find a codec.

    Args:
        spec: A name from ``known_codecs``; "zstd" and "jpeg" may be followed by a colon and a number.

    Raises:
        UsageError: There is no such codec; the message lists the known ones.
        MissingDependency: It needs a library that is not installed, or a newer one.
    """
    name, colon, number = spec.partition(":")
    if name in _PLAIN and not colon:
        return _PLAIN[name]()
    if name in _NUMBERED and (not colon or _NUMBER.fullmatch(number)):
        return _NUMBERED[name](int(number) if colon else None)
    raise UsageError(
        f"unknown codec {spec[:80]!r}: use one of {', '.join(known_codecs())}; zstd can have a level from "
        f"1 to 19 ('zstd:3'), and jpeg, which is lossy, a quality from 1 to 100 ('jpeg:90')"
        f"{did_you_mean(name, known_codecs())}"
    )


def find_exact_codecs(layouts: Collection[PlaneLayout]) -> list[FrameCodec]:
    """Find the codecs that are installed, are lossless, and accept all of some layouts."""
    codecs = []
    for name in known_codecs():
        try:
            codec = find_codec(name)
        except MissingDependency:
            continue
        if codec.is_exact and all(map(codec.can_store, layouts)):
            codecs.append(codec)
    return codecs


def find_labelled_codec(label: str) -> FrameCodec:
    """Find the codec that reads frames with this label.

    Raises:
        UsageError: There is none in this version.
        MissingDependency: It needs a library that is not installed, or a newer one.
    """
    return find_codec(label)


def find_codec_for(codec: FrameCodec, layout: PlaneLayout) -> FrameCodec:
    """Return the codec if it accepts the layout, else Zstandard, which accepts all."""
    return codec if codec.can_store(layout) else find_codec("zstd")
