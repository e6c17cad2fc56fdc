"""AutoDecoder: decode each source with the backend for its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from framefeed.decode._decoder import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Ordinals,
    Pixels,
    adapt_decoder,
)
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, has_picture_files
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

_PICTURES, _VIDEOS = "still", "pyav"


def check_kind(decoder: Decoder, index: FrameIndex, name: str) -> None:
    """Raise UsageError if a source is of the kind that only the other built-in backend decodes."""
    fitting, kind = (_PICTURES, "pictures") if has_picture_files(index) else (_VIDEOS, "videos")
    if decoder.name in (_PICTURES, _VIDEOS) and decoder.name != fitting:
        raise UsageError(f'{name}: backend="{decoder.name}" cannot decode {kind}: use backend="{fitting}" or "auto"')


class AutoDecoder(BaseDecoder):
    """Decode videos with one backend, and still pictures and image sequences with another.

    Args:
        videos: Decodes videos.
        pictures: Decodes stills and image sequences.
    """

    name = "auto"

    def __init__(self, videos: Decoder, pictures: Decoder) -> None:
        self._videos = adapt_decoder(videos)
        self._pictures = adapt_decoder(pictures)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode the clips of one source; see ``Decoder.decode``."""
        return self._choose(index).decode(source, index, slots)

    def iter_rgb(
        self, source: MediaSource, index: FrameIndex, ordinals: Sequence[int], output: OutputSpec
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield (ordinal, RGB pixels) of some frames, each in new memory; see ``BaseDecoder.iter_rgb``."""
        return self._choose(index).iter_rgb(source, index, ordinals, output)

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture) of some frames, not converted; see ``BaseDecoder.iter_native``."""
        return self._choose(index).iter_native(source, index, ordinals, counts)

    def can_iter_rgb(self, index: FrameIndex) -> bool:
        """Whether the backend for a source of this kind has a method ``iter_rgb``."""
        return self._choose(index).can_iter_rgb(index)

    def can_iter_native(self, index: FrameIndex) -> bool:
        """Whether the backend for a source of this kind has a method ``iter_native``."""
        return self._choose(index).can_iter_native(index)

    def recipe(self, index: FrameIndex) -> str:
        """Name the libraries and versions that decide the pixels; see ``BaseDecoder.recipe``."""
        return self._choose(index).recipe(index)

    def close(self) -> None:
        """Close both backends."""
        self._videos.close()
        self._pictures.close()

    def _choose(self, index: FrameIndex) -> BaseDecoder:
        return self._pictures if has_picture_files(index) else self._videos
