"""Methods that a decoder may have besides ``decode``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy.typing as npt

from framefeed.decode.decoder import DecodeCounts, Decoder
from framefeed.index.frame_index import FrameIndex
from framefeed.media.source import MediaSource


class FrameStream(Protocol):
    """A decoder that also gives its pictures before their conversion to RGB."""

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames, each once; frames that cannot be decoded are left out.

        A picture is a PyAV ``VideoFrame``; it is valid until the next one is requested.
        """
        ...


def gives_frames(decoder: Decoder, index: FrameIndex) -> bool:
    """Whether a decoder has the methods of ``FrameStream`` for a source of this kind."""
    asked = getattr(decoder, "gives_frames", None)
    return bool(asked(index)) if asked is not None else hasattr(decoder, "frames")


def recipe_of(decoder: Decoder, index: FrameIndex) -> str:
    """Name what decides a decoder's pixels besides the source: the decoder, its libraries and their versions.

    This is the text of the decoder's method ``recipe(index) -> str``; without that method, its name and class.
    """
    tell = getattr(decoder, "recipe", None)
    if tell is not None:
        return str(tell(index))
    kind = type(decoder)
    return f"{decoder.name}, {kind.__module__}.{kind.__qualname__}"
