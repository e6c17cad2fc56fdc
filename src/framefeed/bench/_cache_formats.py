"""What a baseline of ``bench cache`` is: a format with one file a frame, or a reader of the original's frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framefeed.bench._cache_samples import BenchFrame
from framefeed.bench._media import BenchVideo
from framefeed.decode import Pixels


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One file a frame.

    Attributes:
        name: Such as ``"joblib lz4 1"``.
        suffix: Ending of the files' names.
        is_exact: Whether it claims to give the same pixels back.
        write: Stores a frame in a file.
        read: Gives its RGB back, uint8 [H, W, 3]; can be pickled, for workers.
    """

    name: str
    suffix: str
    is_exact: bool
    write: Callable[[str, BenchFrame], object]
    read: Callable[[str], Pixels]


@dataclass(frozen=True, slots=True)
class OriginalReader:
    """Frames of a video by number, from a library that keeps it open.

    Attributes:
        name: Such as ``"torchcodec"``.
        open: Makes a function from rising ordinals to their pictures, in the library's own kind of array [T, ...].
    """

    name: str
    open: Callable[[BenchVideo], Callable[[Sequence[int]], Any]]


@dataclass(frozen=True, slots=True)
class OrderReader:
    """All frames of a video from the first on.

    Attributes:
        name: Such as ``"OpenCV"``.
        read: Yields pictures, RGB uint8 [H, W, 3].
    """

    name: str
    read: Callable[[str], Iterator[Pixels]]


Loaded = Callable[[Sequence[str], Callable[[str], Pixels], int], Iterable[Any]]
"""Paths, how one is read, and a number of workers -> batches, anew at each iteration."""
