"""Baselines: one module a peer, loaded by name, so that only those that are installed are needed.

Each is written as the library's own documentation does it. It names its distributions in ``PACKAGES``, and lists what
it offers by kind: ``METHODS``, ``ENGINES``, ``FORMATS``, ``ORIGINALS``, ``IN_ORDER`` and ``PRODUCERS``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from framefeed.bench._media import BenchVideo
from framefeed.decode import Pixels

SIZE = 224
"""Height and width that every contender of ``bench decode`` delivers."""

ReadFrames = Callable[[Sequence[int]], Any]
"""Frames of an open video by rising ordinal, uint8, in the library's own kind of array; the last reference closes."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of one library to get frames by number: ``METHODS``, to 224x224, and ``ORIGINALS``, at full size.

    Attributes:
        name: Such as ``"torchcodec exact"``; its first word is the library.
        layout: Order of the dimensions that it delivers by nature.
        open: Opens a video; the time that it takes counts, unless it is kept open.
        prepare: Makes beforehand what the method may know of a video, as a catalog knows an index; does not count.
        takes_many: Whether one call may ask for the frames of many clips.
        resizes_itself: Whether the library that decodes also resizes.
    """

    name: str
    layout: Literal["NCHW", "NHWC"]
    open: Callable[[BenchVideo], ReadFrames]
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


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of one file a frame: ``FORMATS``.

    Attributes:
        name: Such as ``"joblib lz4 1"``.
        suffix: Ending of the files' names.
        is_exact: Whether it claims to give the same pixels back.
        write: Stores RGB in a file, uint8 [H, W, 3].
        read: Gives it back; can be pickled, for workers.
    """

    name: str
    suffix: str
    is_exact: bool
    write: Callable[[str, Pixels], object]
    read: Callable[[str], Pixels]


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


def load_module(name: str) -> Any:
    """Load one module of this package, or say in a line why it cannot be had."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except (ImportError, OSError, RuntimeError) as error:
        # A library that is there but does not find its codec libraries raises OSError or RuntimeError.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


@dataclass(frozen=True, slots=True)
class Peers:
    """The baselines of one suite."""

    modules: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, names: Sequence[str]) -> Peers:
        """Load the baselines that are installed."""
        peers = cls()
        for name in names:
            module = load_module(name)
            if isinstance(module, str):
                peers.missing[name] = module
            else:
                peers.modules[name] = module
                peers.versions.update({package: version(package) for package in getattr(module, "PACKAGES", ())})
                peers.versions.update(getattr(module, "VERSIONS", {}))
        return peers

    def list_all(self, kind: str) -> list[Any]:
        """All contenders of a kind, such as "METHODS"."""
        return [each for module in self.modules.values() for each in getattr(module, kind, ())]
