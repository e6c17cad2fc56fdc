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

from framefeed.cache.codecs.codec import FrameCodec, Pixels, new_memory
from framefeed.cache.codecs.registry import codec_named, known_codecs
from framefeed.decode.planes import PlaneLayout
from framefeed.errors import MissingDependency, UsageError

Sample = tuple[PlaneLayout, Pixels]

_MEMORY_SHARE = 0.5
_SLOWEST_WRITER = 3.0
"""Times the quickest codec that makes frames smaller; what holds where nobody knows how long decoding takes."""
_AS_CHEAP = 1.05
"""Costs so close to the least are taken for the same: measuring again makes as much of a difference."""


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
        expected_raw_bytes: Of all frames that will be stored, before; None where nobody knows.
        max_bytes: That the cache may take, or None.
        memory_bytes: Of the machine.
        disk_bytes_per_second: That its disk reads.
        decode_seconds: Of a processor, that the first pass takes for a frame; None where nobody knows.
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
        codec: Its label.
        figures: Of all codecs that were measured.
        reason: In one sentence.
    """

    codec: str
    figures: tuple[CodecFigures, ...]
    reason: str


def auto_codec(
    samples: Sequence[Sample], conditions: Conditions, clock: Callable[[], float] = thread_time
) -> tuple[FrameCodec, Choice]:
    """Measure all exact codecs that are at hand on some frames, and choose one."""
    figures = [measure_codec(codec, samples, clock) for codec in _candidates(samples)]
    choice = choose_codec(figures, conditions)
    return codec_named(choice.codec), choice


def measure_codec(
    codec: FrameCodec, samples: Sequence[Sample], clock: Callable[[], float] = thread_time
) -> CodecFigures:
    """Store some frames, and read them.

    Args:
        codec: That takes their layouts.
        samples: Layout and planes uint8 [layout.nbytes] of each.
        clock: Seconds that this thread has worked.
    """
    for layout, planes in samples[:1]:
        # What is set up once is not counted.
        codec.decoded(memoryview(codec.encode(layout, planes)), layout)
    scratch = new_memory(2 * max((layout.nbytes for layout, _ in samples), default=0) + 2**16)
    begin = clock()
    stored = [bytes(_moved(codec.encode(*sample), scratch)) for sample in samples]
    written = clock()
    for (layout, _), data in zip(samples, stored, strict=True):
        codec.decoded(_moved(data, scratch), layout)
    return CodecFigures(
        codec=codec.label,
        is_exact=codec.is_exact,
        num_frames=len(samples),
        raw_bytes=sum(layout.nbytes for layout, _ in samples),
        stored_bytes=sum(map(len, stored)),
        write_seconds=written - begin,
        read_seconds=clock() - written,
    )


def _moved(data: bytes | memoryview, scratch: Pixels) -> memoryview:
    """Do with bytes what a file that is in memory takes: they are copied, and their checksum is made."""
    copied = scratch[: len(data)]
    copied[:] = np.frombuffer(data, np.uint8)
    xxhash.xxh3_64_intdigest(copied.data)
    return copied.data


def choose_codec(figures: Sequence[CodecFigures], conditions: Conditions) -> Choice:
    """Choose the codec whose frames cost least to read, of those that all frames fit the budget in; pure.

    Lossy codecs and those that write too slowly are left out. If none fits, the smallest is chosen: it keeps most
    frames. Of two that cost the same the smaller one is.

    Args:
        figures: Of each codec, measured on the same frames.
        conditions: What there is.

    Raises:
        UsageError: No exact codec among them.
    """
    usable = _quick_writers([each for each in figures if each.is_exact], conditions)
    if not usable:
        raise UsageError('codec="auto" needs the figures of an exact codec')
    fitting = [each for each in usable if _fits(each, conditions)]
    if not fitting:
        smallest = min(usable, key=lambda each: (each.stored_bytes, each.read_seconds))
        reason = (
            f"{smallest.codec}: no codec fits the budget, and this one takes {100 * smallest.ratio:.0f} % of the bytes"
        )
        return Choice(smallest.codec, tuple(figures), f"{reason}, the least")
    least = min(_cost(each, conditions) for each in fitting)
    cheap = [each for each in fitting if _cost(each, conditions) <= _AS_CHEAP * least]
    chosen = min(cheap, key=lambda each: (each.stored_bytes, _cost(each, conditions)))
    return Choice(chosen.codec, tuple(figures), _reason(chosen, len(fitting), conditions))


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


def _reason(chosen: CodecFigures, num_fitting: int, conditions: Conditions) -> str:
    if num_fitting == 1:
        return f"{chosen.codec}: the only one with which all frames fit the budget, at {_size(chosen)}"
    where = "in memory" if _stays_in_memory(chosen, conditions) else "from disk"
    cost = f"{1e3 * _cost(chosen, conditions):.3g} ms"
    return (
        f"{chosen.codec}: a frame costs {cost} to read {where}, the least of {num_fitting} codecs, at {_size(chosen)}"
    )


def _size(figures: CodecFigures) -> str:
    return f"{100 * figures.ratio:.0f} % of the bytes"


def _candidates(samples: Sequence[Sample]) -> list[FrameCodec]:
    found = []
    for name in known_codecs():
        try:
            codec = codec_named(name)
        except MissingDependency:
            continue
        if codec.is_exact and all(codec.takes(layout) for layout, _ in samples):
            found.append(codec)
    return found
