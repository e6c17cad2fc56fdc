"""AutoDecoder: decode each source with the backend for its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy.typing as npt

from framefeed.decode._decoder import (
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    FrameStream,
    Pixels,
    gives_frames,
    recipe_of,
)
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, holds_pictures
from framefeed.media import MediaSource
from framefeed.plan import OutputSpec

_PICTURES, _VIDEOS = "still", "pyav"


def check_kind(decoder: Decoder, index: FrameIndex, name: str) -> None:
    """Raise UsageError if a source is of the kind that only the other built-in backend decodes."""
    wanted, kind = (_PICTURES, "pictures") if holds_pictures(index) else (_VIDEOS, "videos")
    if decoder.name in (_PICTURES, _VIDEOS) and decoder.name != wanted:
        raise UsageError(f'{name}: backend="{decoder.name}" cannot decode {kind}: use backend="{wanted}" or "auto"')


class AutoDecoder:
    """Decode videos with one backend, and still pictures and image sequences with another.

    Args:
        videos: Decodes videos.
        pictures: Decodes stills and image sequences.
    """

    name = "auto"

    def __init__(self, videos: Decoder, pictures: Decoder) -> None:
        self._videos = videos
        self._pictures = pictures

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        return self._chosen(index).decode(source, index, slots)

    def pictures(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, pixels) of some frames, each in new memory; frames that cannot be decoded are left out."""
        chosen: Any = self._chosen(index)
        return cast("Iterator[tuple[int, Pixels]]", chosen.pictures(source, index, ordinals, output))

    def frames(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames; see ``FrameStream.frames``."""
        return cast("FrameStream", self._chosen(index)).frames(source, index, ordinals, counts)

    def gives_frames(self, index: FrameIndex) -> bool:
        """Whether the backend for a source of this kind has a method ``frames``; see ``FrameStream``."""
        return gives_frames(self._chosen(index), index)

    def recipe(self, index: FrameIndex) -> str:
        """Name the libraries and versions that decide the pixels; see ``recipe_of``."""
        return recipe_of(self._chosen(index), index)

    def close(self) -> None:
        """Close both backends."""
        self._videos.close()
        self._pictures.close()

    def _chosen(self, index: FrameIndex) -> Decoder:
        return self._pictures if holds_pictures(index) else self._videos
