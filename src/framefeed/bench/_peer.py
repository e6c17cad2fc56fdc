"""Baselines: methods of one library to get the frames of a clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from framefeed.bench._media import BenchVideo

SIZE = 224
"""Height and width that every contender delivers."""


class Session(Protocol):
    """One video, open."""

    def clip(self, ordinals: Sequence[int]) -> Any:
        """Frames by rising ordinal, uint8, in the library's own kind of array."""
        ...

    def close(self) -> None:
        """Release the video."""
        ...


@dataclass(frozen=True, slots=True)
class Method:
    """A method of one library.

    Attributes:
        name: Such as ``"torchcodec exact"``.
        layout: Order of the dimensions that it delivers by nature.
        open: Opens a video; the time that it takes counts, unless the session is kept.
        prepare: Makes beforehand what the method may know of a video, as a catalog knows an index; does not count.
        takes_many: Whether one call may ask for the frames of many clips.
        resizes_itself: Whether the library that decodes also resizes.
    """

    name: str
    layout: Literal["NCHW", "NHWC"]
    open: Callable[[BenchVideo], Session]
    prepare: Callable[[BenchVideo], object] = lambda video: None
    takes_many: bool = True
    resizes_itself: bool = True

    @property
    def library(self) -> str:
        """First word of the name."""
        return self.name.split()[0]


class Baseline(Protocol):
    """What a module in ``bench.baselines`` offers."""

    def versions(self) -> dict[str, str]:
        """The library, and the codec libraries under it, by name."""
        ...

    def methods(self) -> list[Method]:
        """All methods that are measured; the best one stands for the library."""
        ...
