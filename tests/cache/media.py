"""Sources for the tests of the cache, and what decoding them gives."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framefeed.decode import ClipSlot, Decoder, DecodeReport, find_decoder
from framefeed.index import FrameIndex, build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec
from tests.corpus import corpus_file

SMALL = OutputSpec(size=(24, 32))


@dataclass(frozen=True)
class Video:
    """A source and its index."""

    source: MediaSource
    index: FrameIndex

    @classmethod
    def of(cls, given: object, verify: str = "ends") -> Video:
        source = MediaSource.of(given)
        return cls(source, build_index(source, verify=verify))

    def decoded(
        self, decoder: Decoder, *asked: tuple[Sequence[int], OutputSpec]
    ) -> tuple[list[np.ndarray], DecodeReport]:
        """What a decoder gives for some clips; memory that it leaves alone is 77."""
        slots = []
        for indices, output in asked:
            shape = output.shape(*self.index.stream.displayed)
            out = np.full((len(indices), *shape), 77, dtype=np.uint8)
            slots.append(ClipSlot(np.array(indices, dtype=np.int64), output, out))
        report = decoder.decode(self.source, self.index, slots)
        return [slot.out for slot in slots], report

    def fresh(self, *asked: tuple[Sequence[int], OutputSpec]) -> list[np.ndarray]:
        """What decoding gives."""
        clips, report = self.decoded(find_decoder(), *asked)
        report.raise_first()
        return clips


def copied(name: str, folder: Path) -> Path:
    """A copy of a file of the corpus that a test may change."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(corpus_file(name), folder / name))
