"""A sample of frames as one format holds them: written, read back in one thread and in several, measured alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from framefeed.bench._cache_formats import FileFormat, Loaded
from framefeed.bench._cache_samples import Sample
from framefeed.decode import Pixels

Gives = Literal["rgb", "planes", "small"]
"""What is read back: attributes of ``SampledFrame``."""
ALONE = "DataLoader 0"
Pass = Iterable[object]
"""One pass over the whole sample, begun anew by each ``iter``."""


class Holding(Protocol):
    """One format, in a folder of its own.

    Attributes:
        name: Of the format.
        form: What is stored: "RGB", "planes" or a size.
        group: Whose it is: "theirs" or "framefeed".
        is_exact: Whether it claims to give back what it was given.
        gives: What can be read back, what is mostly wanted first.
    """

    name: str
    form: str
    group: str
    is_exact: bool
    gives: tuple[Gives, ...]

    def write(self) -> None:
        """Store the sample, each time over what is there."""
        ...

    @property
    def paths(self) -> list[str]:
        """The files."""
        ...

    def read(self, numbers: Sequence[int], gives: Gives) -> Iterator[tuple[int, Pixels]]:
        """Yield (number, frame), each valid until the next; with one thread."""
        ...

    def passes(self, order: Sequence[int]) -> Mapping[str, Pass]:
        """Ways of reading in several workers, by their names."""
        ...

    def close(self) -> None:
        """Close files and end workers."""
        ...


class FileHolding:
    """One file a frame.

    Args:
        form: Of the files.
        sample: What is stored.
        folder: For the files.
        loader: torch's DataLoader, or None.
        workers: Of the DataLoader, besides none at all.
    """

    group = "theirs"
    form = "RGB"
    gives: tuple[Gives, ...] = ("rgb",)

    def __init__(self, form: FileFormat, sample: Sample, folder: Path, loader: Loaded | None, workers: int) -> None:
        self.name, self.is_exact = form.name, form.is_exact
        self._format = form
        self._sample = sample
        self._loader = loader
        self._workers = workers
        folder.mkdir(parents=True)
        self._paths = [str(folder / f"{sample_number:06}{form.suffix}") for sample_number in range(len(sample))]

    def write(self) -> None:
        """Write a file a frame."""
        for path, frame in zip(self._paths, self._sample.frames, strict=True):
            self._format.write(path, frame)

    @property
    def paths(self) -> list[str]:
        """The files, by number."""
        return [path for path in self._paths if os.path.exists(path)]

    def read(self, numbers: Sequence[int], gives: Gives = "rgb") -> Iterator[tuple[int, Pixels]]:
        """Read a file a frame."""
        for sample_number in numbers:
            yield sample_number, self._format.read(self._paths[sample_number])

    def passes(self, order: Sequence[int]) -> Mapping[str, Pass]:
        """A DataLoader without workers, and one with them."""
        if self._loader is None:
            return {}
        paths = [self._paths[sample_number] for sample_number in order]
        numbers = dict.fromkeys((0, self._workers))
        return {f"DataLoader {number}": self._loader(paths, self._format.read, number) for number in numbers}

    def close(self) -> None:
        """Nothing is open."""
