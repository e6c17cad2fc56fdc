"""What an engine of ``bench scan`` is: one way of finding the stored width and height of many files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Size = tuple[int, int] | None
"""Stored width and height, before any turning that EXIF asks for; None for a file that could not be read."""

Facts = tuple[str, int, int] | None
"""Codec, width and height of a video before any turning for display; None for a file that could not be read."""

Pace = Literal["quick", "steady", "pooled", "slow"]


class Sizer(Protocol):
    """An engine that is warm: its processes have started, its libraries are loaded."""

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        """Size of each file, in order."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """One way of using one library.

    Attributes:
        name: Such as ``"PyAV, process pool"``.
        open: Starts what the engine needs, for a number of processes; it is warm when this returns.
        pace: How quick it is, which decides how many files a round has.
        knows_sizes: Whether it finds sizes at all; the limit only makes the system calls.
    """

    name: str
    open: Callable[[int], Sizer]
    pace: Pace
    knows_sizes: bool = True


class SizesModule(Protocol):
    """What a module in ``bench.baselines`` offers to ``bench scan``."""

    def versions(self) -> dict[str, str]:
        """The library, and the codec libraries under it, by name."""
        ...

    def engines(self) -> list[Engine]:
        """All ways that are measured."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """Sizes file after file, in the calling thread.

    Attributes:
        size_of: Size of one file.
    """

    size_of: Callable[[str], Size]

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        """Size of each file, in order."""
        return list(map(self.size_of, paths))

    def close(self) -> None:
        """Nothing is held."""


def in_process(name: str, size_of: Callable[[str], Size], pace: Pace, *, knows_sizes: bool = True) -> Engine:
    """Make an engine of a function of one path."""
    return Engine(name, lambda processes: InProcess(size_of), pace, knows_sizes)
