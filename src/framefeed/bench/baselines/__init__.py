"""Baselines: one module a peer, loaded by name, so that only those that are installed are needed.

Each is written as the library's own documentation does it. It names its distributions in ``PACKAGES``, and lists what
it offers by kind: ``METHODS``, ``FORMATS``, ``ORIGINALS`` and ``IN_ORDER``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from framefeed._absence import describe_error
from framefeed.bench._media import BenchVideo
from framefeed.decode import Pixels

SIZE = 224
"""Height and width that every contender of ``bench decode`` delivers."""

ReadFrames = Callable[[Sequence[int]], Any]
"""Frames of an open video by rising ordinal, uint8, in the library's own kind of array; the last reference closes."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of one library to get frames by number: ``METHODS``, to 224x224, and ``ORIGINALS``, at full size."""

    name: str  # such as ``"torchcodec exact"``; its first word is the library
    layout: Literal["NCHW", "NHWC"]  # order of the dimensions that it delivers by nature
    open: Callable[[BenchVideo], ReadFrames]  # opens a video; the time that it takes counts, unless it is kept open
    # Makes beforehand what the method may know of a video, as a catalog knows an index; does not count.
    prepare: Callable[[BenchVideo], object] = lambda video: None
    resizes_itself: bool = True  # whether the library that decodes also resizes

    @property
    def library(self) -> str:
        """First word of the name."""
        return self.name.split()[0]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of one file a frame: ``FORMATS``; frames are uint8 RGB [H, W, 3].

    ``is_exact`` is what it claims; ``read`` can be pickled, for workers.
    """

    name: str
    suffix: str
    is_exact: bool
    write: Callable[[str, Pixels], object]
    read: Callable[[str], Pixels]


def load_module(name: str) -> Any:
    """Load a module of this package, or one with a dotted name, or say in a line why it cannot be had."""
    try:
        return importlib.import_module(name if "." in name else f"{__name__}.{name}")
    except (ImportError, OSError, RuntimeError) as error:
        # A library that is there but does not find its codec libraries raises OSError or RuntimeError.
        return describe_error(error)


@dataclass(frozen=True, slots=True)
class Peers:
    """The baselines of one suite."""

    modules: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, names: Sequence[str]) -> Peers:
        """Load the baselines that are installed; each is known by the last word of its name."""
        peers = cls()
        for full_name in names:
            module, name = load_module(full_name), full_name.rpartition(".")[2]
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
