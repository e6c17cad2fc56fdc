"""What the paired rows of ``bench cache`` share: the sample, and frames of it in caches, as a loader reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.bench._runner import Rounds
from framefeed.bench.baselines import Peers
from framefeed.bench.cache._checking import check
from framefeed.bench.cache._holdings import CLIP
from framefeed.bench.cache._samples import BATCHED, Sample
from framefeed.cache import Form, FrameCache, find_exact_codecs
from framefeed.decode import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    DecodeReport,
    PendingFrames,
    Pixels,
    make_writer,
    rebuild_picture,
)
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource

LZ4_RGB = "framefeed lz4, RGB"


@dataclass(frozen=True, eq=False)
class Scene:
    """Where and with what the rows are measured.

    Attributes:
        sample: Frames of the video.
        work: Folder on the disk that is meant.
        peers: What is installed.
        rounds: How often.
        workers: Cores.
    """

    sample: Sample
    work: Path
    peers: Peers
    rounds: Rounds
    workers: int

    def draw_numbers(self, count: int) -> list[list[int]]:
        """Places in the sample for each round, drawn at random, rising; the same for all contenders."""
        total = len(self.sample)
        chance = np.random.Generator(np.random.Philox(key=total))
        drawn = (chance.permutation(total)[: min(count, total)] for _ in range(self.rounds.pairs))
        return [sorted(map(int, numbers)) for numbers in drawn]

    def exact_codecs(self) -> list[str]:
        """Codecs that store this video's planes and give them back as they were."""
        return [codec.name for codec in find_exact_codecs({frame.layout for frame in self.sample.frames})]


class SampledDecoder(BaseDecoder):
    """Gives the pictures of a sample that was decoded already, and says that it is the decoder that decoded them."""

    name = PyAVDecoder.name

    def __init__(self, sample: Sample) -> None:
        self._frames = {frame.ordinal: frame for frame in sample.frames}
        self._like = PyAVDecoder()

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield (ordinal, picture); see ``BaseDecoder.iter_native``."""
        for ordinal in dict.fromkeys(np.asarray(ordinals, dtype=np.int64).tolist()):
            frame = self._frames.get(ordinal)
            if frame is not None:
                yield ordinal, rebuild_picture(frame.layout, frame.planes)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Write them; see ``Decoder.decode``."""
        report = DecodeReport([None] * len(slots))
        numbers = PendingFrames(slots, report, source)
        for ordinal, picture in self.iter_native(source, index, numbers.waiting):
            numbers.fill(ordinal, make_writer(picture, index, source.name))
        numbers.report_missing(index)
        return report

    def recipe(self, index: FrameIndex) -> str:
        """That of the decoder; see ``describe_recipe``."""
        return self._like.recipe(index)


class CachedSample:
    """A sample in a cache, read at full size through the decoder that a loader would use.

    Args:
        sample: The frames.
        folder: Of the cache.
        codec: Name of the codec.
        form: "planes", or "output" for RGB.
    """

    def __init__(self, sample: Sample, folder: Path, codec: str, form: Form = "planes") -> None:
        self.codec = codec
        self._sample = sample
        self._cache = FrameCache(folder, codec=codec, form=form)
        self._decoder = self._cache.decoder(PyAVDecoder())
        height, width, _ = sample.frames[0].rgb.shape
        self._out = np.empty((CLIP, *BATCHED.shape(height, width)), dtype=np.uint8)
        self._fill(self._cache.decoder(SampledDecoder(sample)))

    @property
    def bytes_a_frame(self) -> float:
        """On disk, all that the store adds included."""
        return self._cache.info().bytes_on_disk / len(self._sample)

    def read(self, numbers: Sequence[int]) -> Iterator[tuple[int, Pixels]]:
        """Yield (number, RGB [H, W, 3]), 16 at a time, each valid until the next.

        Raises:
            UsageError: The cache did not have a frame.
        """
        for first in range(0, len(numbers), CLIP):
            part = numbers[first : first + CLIP]
            clip = self._asked(self._decoder, part, is_cached=True)
            yield from zip(part, clip.transpose(0, 2, 3, 1), strict=True)

    def take(self, numbers: Sequence[int]) -> None:
        """Read frames, and drop them."""
        for first in range(0, len(numbers), CLIP):
            self._asked(self._decoder, numbers[first : first + CLIP], is_cached=True)

    def wrong(self) -> list[str]:
        """What comes back that is not the frame as it was decoded; nothing, if all is well."""
        return check(self.read(range(len(self._sample))), [frame.rgb for frame in self._sample.frames]).describe()

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    def _fill(self, decoder: Any) -> None:
        for first in range(0, len(self._sample), CLIP):
            self._asked(decoder, range(first, min(first + CLIP, len(self._sample))), is_cached=False)
        self._cache.flush()

    def _asked(self, decoder: Any, numbers: Sequence[int], is_cached: bool) -> Pixels:
        ordinals = np.array([self._sample.frames[number].ordinal for number in numbers], dtype=np.int64)
        out = self._out[: len(numbers)]
        video = self._sample.video
        report = decoder.decode(video.source, video.index, [ClipSlot(ordinals, BATCHED, out)])
        report.raise_first()
        if report.counts.frames_cached != len(numbers) * is_cached:
            had = report.counts.frames_cached
            raise UsageError(f"the cache had {had} of {len(numbers)} frames, with {self.codec}")
        return out


def caches_of(scene: Scene, stack: ExitStack, with_rgb: bool = False) -> dict[str, CachedSample]:
    """The sample in a cache of each exact codec, by name.

    Args:
        scene: Where.
        stack: Closes them.
        with_rgb: Whether there is one of RGB with lz4 too.
    """
    formats: list[tuple[str, Form]] = [(codec, "planes") for codec in scene.exact_codecs()]
    caches = {}
    for codec, form in [*formats, ("lz4", "output")] if with_rgb else formats:
        name = f"framefeed {codec}, planes" if form == "planes" else LZ4_RGB
        caches[name] = CachedSample(scene.sample, scene.work / f"{codec}_{form}", codec, form)
        stack.callback(caches[name].close)
    return caches
