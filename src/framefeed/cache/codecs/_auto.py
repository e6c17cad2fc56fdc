"""Measure codecs on some frames, and choose one.

The cost of a frame is the processor's time to read it, and the disk's time to read its bytes, unless all frames are
expected to stay in memory, where the system keeps the files that were read. Only lossless codecs are chosen, and none
that slows down the first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np
import xxhash

from framefeed._units import format_share
from framefeed.cache.codecs._codec import FrameCodec, allocate_memory
from framefeed.cache.codecs._registry import find_codec, find_codec_for, find_exact_codecs
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout
from framefeed.errors import UsageError

Sample = tuple[PlaneLayout, Pixels]

_MEMORY_SHARE = 0.5
_SLOWEST_WRITER = 3.0
"""Longest writing time, in times of the fastest codec that compresses; used if the time of decoding is unknown."""
_EQUAL_COST = 1.25
"""Costs up to this ratio count as equal: repeated measurements on a busy machine differ as much."""
_ROUNDS = 3
"""The fastest one counts, because disturbances only make a measurement slower."""
_OUTPUTS = frozenset({RGB_PLANAR, "rgb24"})


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """Measurements of a codec on some frames, in one thread.

    Attributes:
        codec: Label of the codec.
        is_exact: Whether it is lossless.
        num_frames: Number of frames.
        raw_bytes: Uncompressed bytes of all frames.
        stored_bytes: Stored bytes of all frames.
        write_seconds: Time to store them, with copy and checksum.
        read_seconds: Time to read them, with copy and checksum.
    """

    codec: str
    is_exact: bool
    num_frames: int
    raw_bytes: int
    stored_bytes: int
    write_seconds: float
    read_seconds: float

    @property
    def ratio(self) -> float:
        """Stored bytes divided by uncompressed bytes."""
        return self.stored_bytes / self.raw_bytes


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions for the choice of a codec.

    Example: ``Conditions(expected_raw_bytes=10**12, max_bytes=200 * 10**9, memory_bytes=64 * 2**30)``

    Attributes:
        expected_raw_bytes: Uncompressed bytes of all frames to be stored; None if unknown.
        max_bytes: Largest size of the cache, or None.
        memory_bytes: Memory of the machine.
        disk_bytes_per_second: Reading speed of the disk.
        decode_seconds: CPU time to decode a frame in the first pass; None if unknown.
        max_fill_share: Largest share of that time for storing the frame.
    """

    expected_raw_bytes: int | None
    max_bytes: int | None
    memory_bytes: int
    disk_bytes_per_second: float = 1e9
    decode_seconds: float | None = None
    max_fill_share: float = 0.15


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec, and the reason for it.

    Attributes:
        codec: Label of the codec.
        figures: Measurements of all codecs.
        reason: Why this codec, in one sentence.
    """

    codec: str
    figures: tuple[CodecFigures, ...]
    reason: str


def choose_auto_codec(
    samples: Sequence[Sample], conditions: Conditions, clock: Callable[[], float] = thread_time
) -> tuple[FrameCodec, CodecChoice]:
    """Measure all installed exact codecs on some frames, and choose one."""
    candidates = find_exact_codecs({layout for layout, _ in samples})
    figures = [measure_codec(codec, samples, clock) for codec in candidates]
    choice = choose_codec(figures, conditions)
    return find_codec(choice.codec), choice


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
        codec=codec.label,
        is_exact=codec.is_exact,
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


def choose_codec(figures: Sequence[CodecFigures], conditions: Conditions) -> CodecChoice:
    """Choose the codec that reads frames fastest, of those with which all frames fit the budget; pure.

    Lossy codecs are not considered, and slow writers only if all frames fit with no other codec. If no codec fits, the
    smallest is chosen, because it keeps the most frames. Of two that are about as fast, the smaller one is chosen.

    Args:
        figures: Measurements of each codec on the same frames.
        conditions: Budget, memory and disk.

    Raises:
        UsageError: No exact codec is among them.
    """
    exact = [each for each in figures if each.is_exact]
    usable = _select_fast_writers(exact, conditions)
    if not usable:
        raise UsageError("figures: expected those of at least one exact codec, got none")
    fitting = [each for each in usable if _is_within_budget(each, conditions)]
    if not fitting:
        usable = exact
        fitting = [each for each in usable if _is_within_budget(each, conditions)]
    steps = (("lossy", figures, exact), ("slow to write", exact, usable), ("too large", usable, fitting or usable))
    gone = {why: [each.codec for each in before if each not in after] for why, before, after in steps}
    lists = [f"{', '.join(labels)} ({why})" for why, labels in gone.items() if labels]
    rejected = f"; not considered: {', '.join(lists)}" if lists else ""
    if not fitting:
        smallest = min(usable, key=lambda each: (each.stored_bytes, each.read_seconds))
        reason = (
            f"no codec is small enough for the budget; this one is the smallest, {_format_share(smallest)}{rejected}"
        )
        return CodecChoice(smallest.codec, tuple(figures), f"{smallest.codec}: {reason}")
    least = min(_compute_cost(each, conditions) for each in fitting)
    cheap = [each for each in fitting if _compute_cost(each, conditions) <= _EQUAL_COST * least]
    chosen = min(cheap, key=lambda each: (each.stored_bytes, _compute_cost(each, conditions)))
    reason = _explain(chosen, cheap, fitting, conditions)
    return CodecChoice(chosen.codec, tuple(figures), f"{chosen.codec}: {reason}{rejected}")


def _select_fast_writers(figures: Sequence[CodecFigures], conditions: Conditions) -> list[CodecFigures]:
    """Select the codecs that write fast enough for the first pass; the fastest is always one."""
    if not figures:
        return []
    quickest = min(each.write_seconds / each.num_frames for each in figures)
    if conditions.decode_seconds is not None:
        limit = conditions.max_fill_share * conditions.decode_seconds
    else:
        smaller = [each.write_seconds / each.num_frames for each in figures if each.ratio < 1]
        limit = _SLOWEST_WRITER * min(smaller, default=quickest)
    return [each for each in figures if each.write_seconds / each.num_frames <= max(limit, quickest)]


def _is_within_budget(figures: CodecFigures, conditions: Conditions) -> bool:
    if conditions.max_bytes is None or conditions.expected_raw_bytes is None:
        return True
    return figures.ratio * conditions.expected_raw_bytes <= conditions.max_bytes


def _is_kept_in_memory(figures: CodecFigures, conditions: Conditions) -> bool:
    expected = conditions.expected_raw_bytes
    return expected is not None and figures.ratio * expected <= _MEMORY_SHARE * conditions.memory_bytes


def _compute_cost(figures: CodecFigures, conditions: Conditions) -> float:
    """Compute the seconds to read a frame."""
    disk = 0.0 if _is_kept_in_memory(figures, conditions) else figures.stored_bytes / conditions.disk_bytes_per_second
    return (figures.read_seconds + disk) / figures.num_frames


def _explain(
    chosen: CodecFigures, cheap: Sequence[CodecFigures], fitting: Sequence[CodecFigures], conditions: Conditions
) -> str:
    """Explain the choice from codecs of about equal cost, and from all that fit."""
    if len(fitting) == 1:
        return f"the only codec with which all frames fit the budget, {_format_share(chosen)}"
    where = "memory" if _is_kept_in_memory(chosen, conditions) else "disk"
    cost = f"reads a frame from {where} in {1e3 * _compute_cost(chosen, conditions):.3g} ms"
    if len(cheap) == 1:
        return f"{cost}, the fastest of {len(fitting)} codecs, {_format_share(chosen)}"
    others = " and ".join(each.codec for each in cheap if each is not chosen)
    return f"{cost}, about as fast as {others}, and is the smallest of these, {_format_share(chosen)}"


def _format_share(figures: CodecFigures) -> str:
    return f"{format_share(figures.ratio)} of the uncompressed size"
