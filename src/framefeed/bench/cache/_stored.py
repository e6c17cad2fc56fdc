"""A sample of frames as one format has it: files of a format, one a frame, or our cache, read as a loader reads it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framefeed.bench._runner import Rounds
from framefeed.bench.baselines import FileFormat, Peers
from framefeed.bench.cache._checking import Checked, check
from framefeed.bench.cache._sample import BATCHED, Sample
from framefeed.cache import FrameCache, find_codec, find_exact_codecs
from framefeed.decode import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    DecodeReport,
    Ordinals,
    Pixels,
    rebuild_picture,
)
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

CLIP = 16
"""Frames that are stored together, and asked for in one call."""
Gives = Literal["rgb", "small"]
"""What is read back: attributes of ``SampleFrame``."""
Stores = Literal["planes", "rgb", "small"]


class FileSample:
    """One file a frame."""

    group = "theirs"
    form = "RGB"
    gives: Sequence[Gives] = ("rgb",)

    def __init__(self, form: FileFormat, sample: Sample, folder: Path) -> None:
        self.name, self.title, self.is_exact = form.name, form.name, form.is_exact
        self.format = form
        self.sample = sample
        folder.mkdir(parents=True)
        self.paths = [str(folder / f"{number:06}{form.suffix}") for number in range(len(sample))]

    def write(self) -> None:
        """Write a file a frame."""
        for path, frame in zip(self.paths, self.sample.frames, strict=True):
            self.format.write(path, frame.rgb)

    def read(self, numbers: Sequence[int], gives: Gives = "rgb") -> Iterator[tuple[int, Pixels]]:
        """Yield (number, RGB [H, W, 3])."""
        for number in numbers:
            yield number, self.format.read(self.paths[number])

    def close(self) -> None:
        """Nothing is open."""


class CachedSample:
    """Frames in a cache, through the decoder that a loader would use. Several threads may read.

    Stored are the decoder's planes, RGB, or RGB of the output's size.
    """

    group = "framefeed"

    def __init__(self, codec: str, stores: Stores, sample: Sample, folder: Path) -> None:
        self.codec, self.stores, self.sample = codec, stores, sample
        self.name = f"framefeed {codec}"
        self.form = {"planes": "planes", "rgb": "RGB", "small": sample.size}[stores]
        self.title = f"{self.name}, {self.form}"
        self.gives: Sequence[Gives] = ("rgb", "small") if stores == "planes" else (stores,)
        self.cache = FrameCache(folder, codec=codec, form="planes" if stores == "planes" else "output")
        self.is_exact = find_codec(codec).is_exact
        self._decoder = self.cache.decoder(PyAVDecoder())
        self._local = threading.local()

    @property
    def paths(self) -> list[str]:
        """The files that hold frames."""
        return sorted(str(path) for path in Path(self.cache.path).glob("frames-*"))

    def write(self) -> None:
        """Store the frames, and have all of them on the disk."""
        decoder = self.cache.decoder(SampledDecoder(self.sample))
        height, width = self.sample.video.index.stream.displayed
        corner = OutputSpec(crop=(0, 0, min(height, 16), min(width, 16)))
        for first in range(0, len(self.sample), CLIP):
            part = range(first, min(first + CLIP, len(self.sample)))
            # Planes are stored whatever is asked for, and a corner costs next to nothing besides.
            output = corner if self.stores == "planes" else self._output(self.gives[0])
            self._ask(decoder, part, output, is_cached=False)
        self.cache.flush()

    def read(self, numbers: Sequence[int], gives: Gives = "rgb") -> Iterator[tuple[int, Pixels]]:
        """Yield (number, RGB [H, W, 3] or, small, [3, h, w]), each valid until the next."""
        for first in range(0, len(numbers), CLIP):
            part = numbers[first : first + CLIP]
            clip = self._ask(self._decoder, part, self._output(gives), is_cached=True)
            yield from zip(part, clip.transpose(0, 2, 3, 1) if gives == "rgb" else clip, strict=True)

    def close(self) -> None:
        """Close the cache."""
        self.cache.close()

    def _output(self, gives: Gives) -> OutputSpec:
        return BATCHED if gives == "rgb" else self.sample.output

    def _ask(self, decoder: Any, numbers: Sequence[int], output: OutputSpec, is_cached: bool) -> Pixels:
        video, frames = self.sample.video, self.sample.frames
        ordinals = np.array([frames[number].ordinal for number in numbers], dtype=np.int64)
        # This thread's memory, used again and again as a loader's buffers are.
        memory: dict[OutputSpec, Pixels] = self._local.__dict__.setdefault("memory", {})
        if output not in memory:
            memory[output] = np.empty((CLIP, *output.shape(*video.index.stream.displayed)), dtype=np.uint8)
        out = memory[output][: len(numbers)]
        report = decoder.decode(video.source, video.index, [ClipSlot(ordinals, output, out)])
        report.raise_first()
        if report.counts.frames_cached != len(numbers) * is_cached:
            had = report.counts.frames_cached
            raise UsageError(f"the cache had {had} of {len(numbers)} frames, with {self.codec}")
        return out


def check_stored(stored: FileSample | CachedSample) -> Checked:
    """Compare all frames that come back with those of the sample."""
    return check(stored.read(range(len(stored.sample))), [frame.rgb for frame in stored.sample.frames])


def count_bytes(stored: FileSample | CachedSample) -> float:
    """Bytes a frame on the disk."""
    return sum(map(os.path.getsize, stored.paths)) / len(stored.sample)


def exhaust(items: Iterable[object]) -> None:
    """Take every item, and drop it."""
    for item in items:
        del item


class SampledDecoder(BaseDecoder):
    """Gives the pictures of a sample that was decoded already, and says that it is the decoder that decoded them."""

    name = PyAVDecoder.name

    def __init__(self, sample: Sample) -> None:
        self._frames = {frame.ordinal: frame for frame in sample.frames}
        self._like = PyAVDecoder()

    def iter_native(
        self, source: MediaSource, index: FrameIndex, ordinals: Ordinals, counts: DecodeCounts | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture); see ``BaseDecoder.iter_native``."""
        for ordinal in np.asarray(ordinals, dtype=np.int64).tolist():
            yield ordinal, rebuild_picture(self._frames[ordinal].layout, self._frames[ordinal].planes)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Copy the pixels that are there; see ``Decoder.decode``."""
        for slot in slots:
            for out, ordinal in zip(slot.out, slot.indices.tolist(), strict=True):
                frame = self._frames[ordinal]
                out[...] = frame.rgb.transpose(2, 0, 1) if slot.output == BATCHED else frame.small
        return DecodeReport([None] * len(slots))

    def recipe(self, index: FrameIndex) -> str:
        """That of the decoder; see ``describe_recipe``."""
        return self._like.recipe(index)


@dataclass(frozen=True, eq=False)
class Scene:
    """Where and with what the rows are measured."""

    sample: Sample
    work: Path
    peers: Peers
    rounds: Rounds
    workers: int

    def draw_numbers(self, count: int) -> list[list[int]]:
        """Numbers of frames of the sample for each round, drawn at random, rising; the same for all contenders."""
        total = len(self.sample)
        chance = np.random.Generator(np.random.Philox(key=total))
        drawn = (chance.permutation(total)[: min(count, total)] for _ in range(self.rounds.pairs))
        return [sorted(map(int, numbers)) for numbers in drawn]

    def fill_caches(self, stack: ExitStack, *others: tuple[str, Stores]) -> dict[str, CachedSample]:
        """Store the sample with each codec that gives its planes back as they were, and in other ways; by title."""
        codecs = find_exact_codecs({frame.layout for frame in self.sample.frames})
        ways: list[tuple[str, Stores]] = [(codec.name, "planes") for codec in codecs]
        caches = {}
        for codec, stores in (*ways, *others):
            cached = CachedSample(codec, stores, self.sample, self.work / f"{codec}_{stores}")
            stack.callback(cached.close)
            cached.write()
            caches[cached.title] = cached
        return caches
