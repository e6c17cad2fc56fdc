"""What other libraries offer beside frames: sizes of pictures, facts of videos, batches of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from framefeed.decode import Pixels

Size = tuple[int, int] | None
"""Stored width and height, before any turning that EXIF asks for; None for a file that could not be read."""
Facts = tuple[str, int, int] | None
"""Codec, width and height of a video before any turning for display; None for a file that could not be read."""
ReadSizes = Callable[[Sequence[str]], list[Size]]
Pace = Literal["quick", "steady", "pooled", "slow"]


@dataclass(frozen=True, slots=True)
class Engine:
    """A method of one library to find sizes of pictures: ``ENGINES``.

    Attributes:
        name: Such as ``"PyAV, process pool"``.
        open: Starts what it needs, for a number of processes, and has the stack end it; it is warm then.
        pace: How quick it is, which decides how many files a round has.
        knows_sizes: Whether it finds sizes at all; the limit only makes the system calls.
        library: What must be installed.
    """

    name: str
    open: Callable[[int, ExitStack], ReadSizes]
    pace: Pace
    knows_sizes: bool = True
    library: str = "a baseline"


def one_by_one(size_of: Callable[[str], Size]) -> Callable[[int, ExitStack], ReadSizes]:
    """Open an engine that reads file after file in the calling thread."""
    return lambda processes, stack: lambda paths: list(map(size_of, paths))


BeginBatches = Callable[[Callable[[int], Pixels], int, int, int], Iterator[Any]]
"""Starts producers: (function of a position, number of positions, batch size, producers) -> batches."""


@dataclass(frozen=True, slots=True)
class Producers:
    """A loader that makes batches of samples ahead of a consumer: ``PRODUCERS``.

    Attributes:
        name: Such as ``"torch DataLoader"``.
        begin: Starts the producers; closing the iterator of batches ends them.
        keeps_order: Whether batches come in the order of their positions.
    """

    name: str
    begin: BeginBatches
    keeps_order: bool = True
