"""decord2: frames of the original by number, in one call, at full size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import decord

from framefeed.bench._cache_formats import OriginalReader
from framefeed.bench._media import BenchVideo


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video; it is indexed here, and not again."""
    reader = decord.VideoReader(str(video.path), ctx=decord.cpu(0), num_threads=1)
    return lambda ordinals: reader.get_batch(list(ordinals)).asnumpy()


def versions() -> dict[str, str]:
    """The library."""
    return {"decord2": version("decord2")}


def originals() -> list[OriginalReader]:
    """The one."""
    return [OriginalReader("decord2", open_original)]
