"""What a decoder may be able to do besides ``decode``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy.typing as npt

from framefeed.decode.decoder import DecodeCounts, Decoder
from framefeed.index.frame_index import FrameIndex
from framefeed.media.source import MediaSource


class FrameStream(Protocol):
    """An ability: pictures as the decoder made them, before any conversion."""

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames, each once; missing ones are left out.

        A picture is libav's ``VideoFrame``, and only valid until the next one is asked for.
        """
        ...


def gives_frames(decoder: Decoder, index: FrameIndex) -> bool:
    """Whether a decoder has the ability of ``FrameStream`` for a source of this kind."""
    asked = getattr(decoder, "gives_frames", None)
    return bool(asked(index)) if asked is not None else hasattr(decoder, "frames")


def recipe_of(decoder: Decoder, index: FrameIndex) -> str:
    """Say what decides a decoder's pixels besides the source: its name, libraries and their versions.

    A decoder tells by a method ``recipe(index) -> str``; one that has none is known by its name and class.
    """
    tell = getattr(decoder, "recipe", None)
    if tell is not None:
        return str(tell(index))
    kind = type(decoder)
    return f"{decoder.name}, {kind.__module__}.{kind.__qualname__}"
