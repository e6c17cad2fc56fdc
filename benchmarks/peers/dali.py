"""DALI: a pipeline over a list of pictures, as its tutorials have it, what each of its steps takes, and over ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator

from framefeed.adapters.dali import ClipPipeline, external_source, iterate
from framefeed.load import ClipLoader

PACKAGES = ("nvidia-dali-cuda130",)
NAME = "ff.dali.iterate"
Device = Literal["cpu", "gpu"]
STEPS = ("read", "header", "decode", "resize", "copy")


def open_epochs(loader: ClipLoader) -> Callable[[], Iterable[Any]]:
    """An iterator for each epoch of the pipeline that ``ff.dali.pipeline`` makes, without a size, over a loader."""
    batches = iterate(ClipPipeline(external_source(loader)))
    return lambda: batches


class Files:
    """Encoded pictures and labels for an external source: shuffled each epoch, dealt to ranks of equal length."""

    def __init__(
        self,
        paths: Sequence[str],
        labels: Sequence[int],
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
    ) -> None:
        self._paths, self._labels, self._batch_size = paths, labels, batch_size
        self._rank, self._world_size, self._seed = rank, world_size, seed
        self._epoch = -1

    def __iter__(self) -> Iterator[tuple[list[Any], list[Any]]]:
        self._epoch += 1
        order = np.random.default_rng([self._seed, self._epoch]).permutation(len(self._paths))
        # Repeated to a multiple of the ranks: one that ended earlier would leave the others waiting.
        mine = np.resize(order, -(-len(order) // self._world_size) * self._world_size)[self._rank :: self._world_size]
        for start in range(0, len(mine), self._batch_size):
            chosen = mine[start : start + self._batch_size]
            files = [np.fromfile(self._paths[number], np.uint8) for number in chosen]
            yield files, [np.array([self._labels[number]], np.int64) for number in chosen]


@pipeline_def
def _decode_pictures(source: Files, side: int, device: Device, steps: int) -> tuple[Any, Any]:
    """A pipeline of the first steps; the last of them, copying, is the iterator's."""
    files, labels = fn.external_source(
        source=source, num_outputs=2, batch=True, cycle="raise", dtype=[types.UINT8, types.INT64], ndim=[1, 1]
    )
    if steps == 1:
        return files, labels
    if steps == 2:
        return fn.peek_image_shape(files), labels
    pictures = fn.decoders.image(files, device="mixed" if device == "gpu" else "cpu", output_type=types.RGB)
    if steps > 3:
        pictures = fn.cast(fn.resize(pictures, size=[side, side]), dtype=types.UINT8)
    return pictures, labels


def _build(source: Files, side: int, batch_size: int, threads: int, device: Device, steps: int) -> Any:
    # Without a GPU no other number of a device is accepted.
    device_id = 0 if device == "gpu" else None
    pipe = _decode_pictures(
        source, side, device, steps, batch_size=batch_size, num_threads=threads, device_id=device_id
    )
    pipe.build()
    return pipe


def open_pictures(
    source: Files, side: int, batch_size: int, threads: int, device: Device = "cpu"
) -> Callable[[], Iterator[tuple[Any, Any]]]:
    """Open the pipeline of section C under DALI's iterator for PyTorch.

    An epoch gives batches of pictures, uint8 [B, side, side, 3], and labels, int64 [B].
    """
    pipe = _build(source, side, batch_size, threads, device, len(STEPS))
    iterator = DALIGenericIterator([pipe], ["pictures", "labels"])
    has_ended = False

    def begin() -> Iterator[tuple[Any, Any]]:
        nonlocal has_ended
        if has_ended:
            # Not at the end: this decodes the first batches, which would be in the time of another contender.
            iterator.reset()
        for batch in iterator:
            yield batch[0]["pictures"], batch[0]["labels"].squeeze(-1)
        has_ended = True

    return begin


def open_steps(source: Files, side: int, batch_size: int, steps: int) -> Callable[[], None]:
    """Open a pipeline of the first of ``STEPS``, in one thread; it runs an epoch without looking at its outputs."""
    if steps == len(STEPS):
        begin = open_pictures(source, side, batch_size, 1)

        def run_iterator() -> None:
            for _ in begin():
                pass

        return run_iterator
    pipe = _build(source, side, batch_size, 1, "cpu", steps)

    def run() -> None:
        while True:
            try:
                pipe.run()
            except StopIteration:
                pipe.reset()
                return

    return run
