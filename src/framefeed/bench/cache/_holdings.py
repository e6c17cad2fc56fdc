"""A sample of frames as one format holds them: written, read back in one thread and in several, measured alike.

Formats of one file a frame, and our own store: every codec, as planes at full size and as the pixels of an output.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, Literal, Protocol

import numpy as np

from framefeed.bench._peers import BenchFrame, FileFormat
from framefeed.bench.cache._samples import FULL_SIZE, Sample
from framefeed.cache import FrameStore, Kind, StoredFrame, StoreOptions, find_codec, find_labelled_codec
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout, get_thread_converter, rebuild_picture
from framefeed.parallel import ordered_map

CLIP = 16
"""Frames that are stored together, and asked for in one call."""
_KEY = bytes(range(16))

Gives = Literal["rgb", "planes", "small"]
"""What is read back: attributes of ``BenchFrame``."""
ALONE = "DataLoader 0"
Pass = Iterable[object]
"""One pass over the whole sample, begun anew by each ``iter``."""
Loaded = Callable[[Sequence[str], Callable[[str], Pixels], int], Iterable[Any]]
"""Paths, how one is read, and a number of workers -> batches, anew at each iteration."""


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


_GIVES: Mapping[Gives, tuple[Gives, ...]] = {
    "rgb": ("rgb",),
    "small": ("small",),
    "planes": ("rgb", "small", "planes"),
}


class StoreHolding:
    """Frames in a store, as the cache keeps them.

    Args:
        codec: Name of the codec.
        of: What is stored: "rgb", "planes" or "small".
        sample: The frames.
        folder: Of the store.
        workers: Threads of the ordered reading.

    Attributes:
        encode_cpu: Processor seconds that encoding alone took so far, without what the disk takes.
    """

    group = "framefeed"

    def __init__(self, codec: str, of: Gives, sample: Sample, folder: Path, workers: int) -> None:
        self._codec = find_codec(codec)
        self._of = of
        self._sample = sample
        self._workers = workers
        self._folder = folder
        self._store = FrameStore(str(folder), StoreOptions())
        self._local = threading.local()
        self.is_exact = self._codec.is_exact
        self.gives = _GIVES[of]
        self.form = {"rgb": "RGB", "planes": "planes"}.get(of) or sample.size
        self.name = f"framefeed {codec}"
        self.encode_cpu = 0.0

    def write(self) -> None:
        """Encode, append and seal, the seal's fsync included."""
        for first in range(0, len(self._sample), CLIP):
            clip = range(first, min(first + CLIP, len(self._sample)))
            self._store.add(_KEY, "{}", [self._stored(number) for number in clip])
        self._store.flush()

    @property
    def paths(self) -> list[str]:
        """The segments."""
        return sorted(str(path) for path in self._folder.glob("frames-*"))

    def read(self, numbers: Sequence[int], gives: Gives) -> Iterator[tuple[int, Pixels]]:
        """Read 16 frames at a time; what is yielded lies in memory that is used again."""
        for first in range(0, len(numbers), CLIP):
            yield from self._read_together(numbers[first : first + CLIP], gives)

    def passes(self, order: Sequence[int]) -> Mapping[str, Pass]:
        """Ordered threads."""
        return {f"{self._workers} threads": _Threads(self, order, self._workers)}

    def read_clip(self, numbers: Sequence[int]) -> int:
        """Read frames in the form that is mostly wanted, and count them."""
        return sum(1 for _ in self._read_together(numbers, self.gives[0]))

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _stored(self, number: int) -> StoredFrame:
        frame = self._sample.frames[number]
        layout, raw = layout_and_bytes(frame, self._of)
        kind = Kind(self._codec.label, layout.text)
        before = thread_time()
        encoded = self._codec.encode(layout, raw)
        self.encode_cpu += thread_time() - before
        return StoredFrame(number, kind, encoded, layout.nbytes)

    def _read_together(self, numbers: Sequence[int], gives: Gives) -> Iterator[tuple[int, Pixels]]:
        located = self._store.find(_KEY, np.array(numbers, dtype=np.int64))
        there = np.flatnonzero(located.is_there).tolist()
        like: Pixels = getattr(self._sample.frames[0], gives)
        # As the loader has it: frames go to memory of the caller's, those that are stored raw at once.
        outs = self._memory("out", (len(numbers), like.size))
        is_direct = self._of != "planes" and self._codec.name == "raw"
        scratch = self._memory("stored", (int(located.nbytes[there].sum()),)).data
        buffers, at = [], 0
        for number in there:
            size = int(located.nbytes[number])
            buffers.append(outs[number].data if is_direct else scratch[at : at + size])
            at += size
        came = self._store.read(located, there, buffers)
        for number, data, is_sound in zip(there, buffers, came, strict=True):
            if is_sound and is_direct:
                yield numbers[number], outs[number].reshape(like.shape)
            elif is_sound:
                kind = located.kinds[int(located.kind[number])]
                yield numbers[number], self._decoded((kind, data), gives, outs[number].reshape(like.shape))

    def _decoded(self, stored: tuple[Kind, memoryview], gives: Gives, out: Pixels) -> Pixels:
        kind, data = stored
        layout = PlaneLayout.parse(kind.layout)
        codec = find_labelled_codec(kind.codec)
        if gives == "planes":
            return codec.decode(data, layout)
        if self._of == "planes":
            output = FULL_SIZE if gives == "rgb" else self._sample.output
            picture = rebuild_picture(layout, codec.decode(data, layout))
            get_thread_converter().write(picture, self._sample.frames[0].stream, output, out)
        else:
            codec.decode_into(data, layout, out.reshape(-1))
        return out

    def _memory(self, name: str, shape: tuple[int, ...]) -> Pixels:
        """This thread's, used again and again as a loader's buffers are."""
        kept: Pixels | None = getattr(self._local, name, None)
        nbytes = int(np.prod(shape))
        if kept is None or kept.size < nbytes:
            kept = np.empty(nbytes, dtype=np.uint8)
            setattr(self._local, name, kept)
        return kept[:nbytes].reshape(shape)


class _Threads:
    def __init__(self, holding: StoreHolding, order: Sequence[int], workers: int) -> None:
        self._holding = holding
        self._clips = [order[first : first + CLIP] for first in range(0, len(order), CLIP)]
        self._workers = workers

    def __iter__(self) -> Iterator[int]:
        with ordered_map(
            self._holding.read_clip, self._clips, workers=self._workers, max_in_flight=2 * self._workers
        ) as counts:
            yield from counts


def layout_and_bytes(frame: BenchFrame, of: Gives) -> tuple[PlaneLayout, Pixels]:
    """What of a frame is stored, and how it lies; uint8 [layout.nbytes]."""
    if of == "planes":
        return frame.layout, frame.planes
    pixels = frame.rgb if of == "rgb" else frame.small
    height, width = pixels.shape[:2] if of == "rgb" else pixels.shape[1:]
    return PlaneLayout("rgb24" if of == "rgb" else RGB_PLANAR, width, height), pixels.reshape(-1)
