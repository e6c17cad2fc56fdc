"""Measure a codec alone, in memory: without the cache, its files and its conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np
import xxhash

from framefeed.cache import FrameCodec, allocate_memory, find_codec_for
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout

Sample = tuple[PlaneLayout, Pixels]

_ROUNDS = 3
"""The fastest one counts, because disturbances only make a measurement slower."""
_OUTPUTS = frozenset({RGB_PLANAR, "rgb24"})


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """Measurements of a codec on some frames, in one thread.

    Attributes:
        num_frames: Number of frames.
        raw_bytes: Uncompressed bytes of all frames.
        stored_bytes: Stored bytes of all frames.
        write_seconds: Time to store them, with copy and checksum.
        read_seconds: Time to read them, with copy and checksum.
    """

    num_frames: int
    raw_bytes: int
    stored_bytes: int
    write_seconds: float
    read_seconds: float


def measure_codec(
    codec: FrameCodec, samples: Sequence[Sample], clock: Callable[[], float] = thread_time
) -> CodecFigures:
    """Store and read some frames a few times; the fastest run counts.

    Args:
        codec: The codec; frames of a layout that it does not take are stored with the substitute codec.
        samples: Layout and planes uint8 [layout.nbytes] of each.
        clock: Returns the seconds that this thread has worked.
    """
    _write(codec, samples[:1], clock)  # The first use includes setting up the codec.
    written = [_write(codec, samples, clock) for _ in range(_ROUNDS)]
    stored = written[0][1]
    _read(codec, samples[:1], stored[:1], clock)
    return CodecFigures(
        num_frames=len(samples),
        raw_bytes=sum(layout.nbytes for layout, _ in samples),
        stored_bytes=sum(map(len, stored)),
        write_seconds=min(seconds for seconds, _ in written),
        read_seconds=min(_read(codec, samples, stored, clock) for _ in range(_ROUNDS)),
    )


def _write(codec: FrameCodec, samples: Sequence[Sample], clock: Callable[[], float]) -> tuple[float, list[bytes]]:
    scratch = allocate_memory(2 * max((layout.nbytes for layout, _ in samples), default=0) + 2**16)
    begin = clock()
    stored = [bytes(_copy_and_hash(find_codec_for(codec, sample[0]).encode(*sample), scratch)) for sample in samples]
    return clock() - begin, stored


def _read(codec: FrameCodec, samples: Sequence[Sample], stored: Sequence[bytes], clock: Callable[[], float]) -> float:
    """Read frames as a cache does: outputs into the batch, planes into new memory."""
    scratch = allocate_memory(max(map(len, stored), default=0))
    out = allocate_memory(max((layout.nbytes for layout, _ in samples), default=0))
    begin = clock()
    for (layout, _), data in zip(samples, stored, strict=True):
        used, copied = find_codec_for(codec, layout), _copy_and_hash(data, scratch)
        if layout.pixel_format in _OUTPUTS:
            used.decode_into(copied, layout, out[: layout.nbytes])
        else:
            used.decode(copied, layout)
    return clock() - begin


def _copy_and_hash(data: bytes | memoryview, scratch: Pixels) -> memoryview:
    """Copy and hash bytes, as reading a file in memory does."""
    copied = scratch[: len(data)]
    copied[:] = np.frombuffer(data, np.uint8)
    xxhash.xxh3_64_intdigest(copied.data)
    return copied.data
