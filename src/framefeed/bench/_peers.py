"""What baselines offer to the suites: contenders of other libraries, by kind.

Each baseline is a module of `framefeed.bench.baselines`, written as the library's own documentation does it. It has
``versions()``, and some of the functions ``methods``, ``engines``, ``formats``, ``originals`` and ``in_order``, each of
which lists contenders of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from framefeed.bench._media import BenchVideo
from framefeed.decode import Pixels, PlaneLayout
from framefeed.index import StreamFacts

SIZE = 224
"""Height and width that every contender of ``bench decode`` delivers."""


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
    """A method of one library to get the frames of a clip (``methods``, for ``bench decode``).

    Attributes:
        name: Such as ``"torchcodec exact"``; its first word is the library.
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
    """One way of using one library to find sizes of pictures (``engines``, for ``bench scan``).

    Attributes:
        name: Such as ``"PyAV, process pool"``.
        open: Starts what the engine needs, for a number of processes; it is warm when this returns.
        pace: How quick it is, which decides how many files a round has.
        knows_sizes: Whether it finds sizes at all; the limit only makes the system calls.
        library: What must be installed.
    """

    name: str
    open: Callable[[int], Sizer]
    pace: Pace
    knows_sizes: bool = True
    library: str = "a baseline"


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


@dataclass(frozen=True, slots=True, eq=False)
class BenchFrame:
    """One frame, as every format of ``bench cache`` takes it.

    Attributes:
        ordinal: In its video.
        rgb: As the decoder path gives it at full size, uint8 [H, W, 3].
        layout: Of the planes.
        planes: As the decoder made them, uint8 [layout.nbytes].
        small: As the decoder path gives it at the output's size, uint8 [3, h, w].
        stream: Its stream: how the planes are to be turned.
    """

    ordinal: int
    rgb: Pixels
    layout: PlaneLayout
    planes: Pixels
    small: Pixels
    stream: StreamFacts


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One file a frame (``formats``, for ``bench cache``).

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
    """Frames of a video by number, from a library that keeps it open (``originals``, for ``bench cache``).

    Attributes:
        name: Such as ``"torchcodec"``.
        open: Makes a function from rising ordinals to their pictures, in the library's own kind of array [T, ...].
    """

    name: str
    open: Callable[[BenchVideo], Callable[[Sequence[int]], Any]]


@dataclass(frozen=True, slots=True)
class OrderReader:
    """All frames of a video from the first on (``in_order``, for ``bench cache``).

    Attributes:
        name: Such as ``"OpenCV"``.
        read: Yields pictures, RGB uint8 [H, W, 3].
    """

    name: str
    read: Callable[[str], Iterator[Pixels]]
