"""Which codec "auto" is: measured on some frames, then decided by arithmetic.

What a frame costs later is the time of a processor that reads it, and the time of the disk that its bytes take, unless
all frames are expected to stay in memory, which the system fills with files that were read. Only codecs that lose
nothing are thought of, and none that would hold up the first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np
import xxhash

from framefeed.cache.codecs._codec import FrameCodec, Pixels, new_memory
from framefeed.cache.codecs._registry import codec_for, codec_named, exact_codecs
from framefeed.decode import RGB_PLANAR, PlaneLayout
from framefeed.errors import UsageError

Sample = tuple[PlaneLayout, Pixels]

_MEMORY_SHARE = 0.5
_SLOWEST_WRITER = 3.0
"""Times the quickest codec that makes frames smaller; used where it is unknown how long decoding takes."""
_AS_CHEAP = 1.25
"""Costs so close to the least are taken for the same: measuring again, on a machine that others use too, makes as much
of a difference."""
_ROUNDS = 3
"""The quickest counts: what disturbs a measurement only ever makes it slower."""
_OUTPUTS = frozenset({RGB_PLANAR, "rgb24"})


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """What a codec did with some frames, in one thread.

    Attributes:
        codec: Its label.
        is_exact: Whether it loses nothing.
        num_frames: How many.
        raw_bytes: Of all of them, before.
        stored_bytes: After.
        write_seconds: To store them, copy and checksum included.
        read_seconds: To read them, the same included.
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
        """Stored bytes by bytes before."""
        return self.stored_bytes / self.raw_bytes


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a codec is chosen.

    Example: ``Conditions(expected_raw_bytes=10**12, max_bytes=200 * 10**9, memory_bytes=64 * 2**30)``

    Attributes:
        expected_raw_bytes: Of all frames that will be stored, before; None where unknown.
        max_bytes: That the cache may take, or None.
        memory_bytes: Of the machine.
        disk_bytes_per_second: That its disk reads.
        decode_seconds: Of a processor, that the first pass takes for a frame; None where unknown.
        max_fill_share: Of that, for storing the frame.
    """

    expected_raw_bytes: int | None
    max_bytes: int | None
    memory_bytes: int
    disk_bytes_per_second: float = 1e9
    decode_seconds: float | None = None
    max_fill_share: float = 0.15


@dataclass(frozen=True, slots=True)
class Choice:
    """A codec, and what speaks for it.

    Attributes:
        codec: Label of the codec.
        figures: Measurements of all codecs.
        reason: Why this codec, in one sentence.
    """

    codec: str
    figures: tuple[CodecFigures, ...]
    reason: str


def auto_codec(
    samples: Sequence[Sample], conditions: Conditions, clock: Callable[[], float] = thread_time
) -> tuple[FrameCodec, Choice]:
    """Measure all exact codecs that are at hand on some frames, and choose one."""
    candidates = exact_codecs({layout for layout, _ in samples})
    figures = [measure_codec(codec, samples, clock) for codec in candidates]
    choice = choose_codec(figures, conditions)
    return codec_named(choice.codec), choice


def measure_codec(
    codec: FrameCodec, samples: Sequence[Sample], clock: Callable[[], float] = thread_time
) -> CodecFigures:
    """Store some frames, and read them, each a few times; the quickest counts.

    Args:
        codec: The codec; frames whose layout it does not take are stored with what is used instead.
        samples: Layout and planes uint8 [layout.nbytes] of each.
        clock: Seconds that this thread has worked.
    """
    _write(codec, samples[:1], clock)  # What is set up at first use is not the codec's speed.
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
    scratch = new_memory(2 * max((layout.nbytes for layout, _ in samples), default=0) + 2**16)
    begin = clock()
    stored = [bytes(_moved(codec_for(codec, sample[0]).encode(*sample), scratch)) for sample in samples]
    return clock() - begin, stored


def _read(codec: FrameCodec, samples: Sequence[Sample], stored: Sequence[bytes], clock: Callable[[], float]) -> float:
    """Read frames as a cache does: outputs to where they are wanted, planes to where they are converted from."""
    scratch = new_memory(max(map(len, stored), default=0))
    out = new_memory(max((layout.nbytes for layout, _ in samples), default=0))
    begin = clock()
    for (layout, _), data in zip(samples, stored, strict=True):
        used, moved = codec_for(codec, layout), _moved(data, scratch)
        if layout.pixel_format in _OUTPUTS:
            used.decode(moved, layout, out[: layout.nbytes])
        else:
            used.decoded(moved, layout)
    return clock() - begin


def _moved(data: bytes | memoryview, scratch: Pixels) -> memoryview:
    """Do with bytes what a file that is in memory takes: they are copied, and their checksum is made."""
    copied = scratch[: len(data)]
    copied[:] = np.frombuffer(data, np.uint8)
    xxhash.xxh3_64_intdigest(copied.data)
    return copied.data


def choose_codec(figures: Sequence[CodecFigures], conditions: Conditions) -> Choice:
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
    usable = _quick_writers(exact, conditions)
    if not usable:
        raise UsageError("figures: expected those of at least one exact codec, got none")
    fitting = [each for each in usable if _fits(each, conditions)]
    if not fitting:
        usable = exact
        fitting = [each for each in usable if _fits(each, conditions)]
    left_out = _left_out([("lossy", figures), ("slow to write", exact), ("too large", usable)], fitting or usable)
    if not fitting:
        smallest = min(usable, key=lambda each: (each.stored_bytes, each.read_seconds))
        reason = f"no codec is small enough for the budget; this one is the smallest, {_share(smallest)}{left_out}"
        return Choice(smallest.codec, tuple(figures), f"{smallest.codec}: {reason}")
    least = min(_cost(each, conditions) for each in fitting)
    cheap = [each for each in fitting if _cost(each, conditions) <= _AS_CHEAP * least]
    chosen = min(cheap, key=lambda each: (each.stored_bytes, _cost(each, conditions)))
    reason = _reason(chosen, (cheap, fitting), conditions)
    return Choice(chosen.codec, tuple(figures), f"{chosen.codec}: {reason}{left_out}")


def _quick_writers(figures: Sequence[CodecFigures], conditions: Conditions) -> list[CodecFigures]:
    """Those that keep the first pass quick enough; the quickest is always one."""
    if not figures:
        return []
    quickest = min(each.write_seconds / each.num_frames for each in figures)
    if conditions.decode_seconds is not None:
        limit = conditions.max_fill_share * conditions.decode_seconds
    else:
        smaller = [each.write_seconds / each.num_frames for each in figures if each.ratio < 1]
        limit = _SLOWEST_WRITER * min(smaller, default=quickest)
    return [each for each in figures if each.write_seconds / each.num_frames <= max(limit, quickest)]


def _fits(figures: CodecFigures, conditions: Conditions) -> bool:
    if conditions.max_bytes is None or conditions.expected_raw_bytes is None:
        return True
    return figures.ratio * conditions.expected_raw_bytes <= conditions.max_bytes


def _stays_in_memory(figures: CodecFigures, conditions: Conditions) -> bool:
    expected = conditions.expected_raw_bytes
    return expected is not None and figures.ratio * expected <= _MEMORY_SHARE * conditions.memory_bytes


def _cost(figures: CodecFigures, conditions: Conditions) -> float:
    """Seconds a frame."""
    disk = 0.0 if _stays_in_memory(figures, conditions) else figures.stored_bytes / conditions.disk_bytes_per_second
    return (figures.read_seconds + disk) / figures.num_frames


def _reason(
    chosen: CodecFigures, among: tuple[Sequence[CodecFigures], Sequence[CodecFigures]], conditions: Conditions
) -> str:
    """Say why; ``among`` are those that cost about as little, and all that fit."""
    cheap, fitting = among
    if len(fitting) == 1:
        return f"the only codec with which all frames fit the budget, {_share(chosen)}"
    where = "memory" if _stays_in_memory(chosen, conditions) else "disk"
    cost = f"reads a frame from {where} in {1e3 * _cost(chosen, conditions):.3g} ms"
    if len(cheap) == 1:
        return f"{cost}, the fastest of {len(fitting)} codecs, {_share(chosen)}"
    others = " and ".join(each.codec for each in cheap if each is not chosen)
    return f"{cost}, about as fast as {others}, and is the smallest of these, {_share(chosen)}"


def _left_out(steps: Sequence[tuple[str, Sequence[CodecFigures]]], left: Sequence[CodecFigures]) -> str:
    """Name the codecs that were not considered, with the reason: at each step those that are not in the next."""
    after = [each for _, each in steps[1:]] + [left]
    said = [
        f"{', '.join(gone)} ({why})"
        for (why, before), among in zip(steps, after, strict=True)
        if (gone := [each.codec for each in before if each not in among])
    ]
    return f"; not considered: {', '.join(said)}" if said else ""


def _share(figures: CodecFigures) -> str:
    return f"{100 * figures.ratio:.0f} % of the uncompressed size"
