"""FrameIndex: every output frame of one video stream, with its time and its bytes; and the rules that pick frames.

Times are compared as exact fractions of a tick, so that no rounding decides which frame is shown (docs/reference.md,
Timeline).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import repeat
from math import floor, isfinite, lcm, ulp
from numbers import Real
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import expected
from framefeed._nearest import did_you_mean
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.media import MISSING_PTS, PacketTable, SourceIdentity, rotate_size

Pick = Literal["played", "nearest", "previous", "next"]
PICKS: tuple[str, ...] = ("played", "nearest", "previous", "next")
NO_PICK = -1
"""Stands for the number of a frame if no frame can be picked."""

NANOSECONDS = 1_000_000_000
"""Nanoseconds in a second: a time within 1 ns of a frame's pts means that pts."""

_SECONDS_OF_ONE_NS = 2**23
"""Below this number of seconds, neighbouring float64 values are less than 1 ns apart."""

FLOAT_BITS = 52
"""Bits of a float's fraction (IEEE 754 binary64)."""

_MAX_INT64 = 2**63 - 1
"""NumPy's search takes int64; a time beyond it is past every frame anyway."""


@dataclass(frozen=True, slots=True)
class ExactTimes:
    """Times as fractions with one denominator, in seconds or in ticks."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, times: Iterable[float | Fraction]) -> ExactTimes:
        """Convert times without rounding; a float is its exact binary fraction."""
        ratios = [time.as_integer_ratio() for time in times]
        common = lcm(*(denominator for _, denominator in ratios))
        return cls(tuple(numerator * (common // denominator) for numerator, denominator in ratios), common)

    def __len__(self) -> int:
        return len(self.numerators)

    def __getitem__(self, number: int) -> Fraction:
        return Fraction(self.numerators[number], self.denominator)

    def in_ticks(self, time_base: Fraction, origin: int | Fraction = 0) -> ExactTimes:
        """Convert seconds counted from the tick ``origin`` to ticks of the stream's own timeline."""
        common = self.denominator * time_base.numerator
        zero = origin.numerator * common
        scale = time_base.denominator * origin.denominator
        return ExactTimes(tuple(zero + numerator * scale for numerator in self.numerators), common * origin.denominator)

    def floors(self) -> list[int]:
        """Round each time down to a whole number."""
        return [numerator // self.denominator for numerator in self.numerators]

    def ceilings(self) -> list[int]:
        """Round each time up to a whole number."""
        return [-(-numerator // self.denominator) for numerator in self.numerators]


def convert_to_ticks(
    pts: IntArray, seconds: ExactTimes, time_base: Fraction, end_pts: int, origin: int | Fraction = 0
) -> ExactTimes:
    """Convert seconds to ticks, and replace a time that means a frame's pts by that pts.

    A time means the nearest pts within 1 ns, or within one unit in the last place of its float64, whichever is more. A
    time that differs from the last frame's end only by the rounding of a float means that end, so that a video's own
    duration is past its last frame.

    Args:
        pts: Ascending presentation times in ticks, int64 [N].
        seconds: Times counted from the tick ``origin``.
        time_base: Seconds in one tick.
        end_pts: When the last frame ends, in ticks.
        origin: In ticks of the stream's own timeline.

    Returns:
        Times in ticks of the stream's own timeline.
    """
    ticks = seconds.in_ticks(time_base, origin)
    common = ticks.denominator
    end = end_pts * common
    rounding = compute_float_rounding(end)
    after = np.searchsorted(pts, _clamp_to_int64(ticks.floors()), side="right")
    neighbours = zip(*(pts[np.clip(at, 0, len(pts) - 1)].tolist() for at in (after - 1, after)), strict=True)
    meant = []
    for numerator, pair, reach in zip(
        ticks.numerators, neighbours, _compute_tolerances(seconds, ticks, time_base), strict=False
    ):
        low, high = pair[0] * common, pair[1] * common
        to_low, to_high = abs(numerator - low), abs(high - numerator)
        if min(to_low, to_high) <= reach:
            meant.append(low if to_low <= to_high else high)
        else:
            meant.append(end if abs(end - numerator) <= rounding else numerator)
    return ExactTimes(tuple(meant), common)


def _compute_tolerances(seconds: ExactTimes, ticks: ExactTimes, time_base: Fraction) -> Iterable[int]:
    """Compute how far each time may be from the pts that it means, in parts of a tick as in ``ticks``."""
    nanosecond = convert_nanosecond_to_ticks(ticks.denominator, time_base)
    furthest = max(map(abs, seconds.numerators), default=0)
    if furthest < seconds.denominator * _SECONDS_OF_ONE_NS:
        return repeat(nanosecond)
    units = (Fraction(ulp(numerator / seconds.denominator)) for numerator in seconds.numerators)
    return (max(nanosecond, floor(unit * ticks.denominator / time_base)) for unit in units)


def convert_nanosecond_to_ticks(denominator: int, time_base: Fraction) -> int:
    """Convert 1 ns to ticks of ``time_base``, in parts of ``1 / denominator``."""
    return denominator * time_base.denominator // (time_base.numerator * NANOSECONDS)


def compute_float_rounding(numerator: int) -> int:
    """Compute the largest rounding error of a float for this time, in the unit of the time."""
    return abs(numerator) >> FLOAT_BITS


def pick_frames(pts: IntArray, ticks: ExactTimes, pick: Pick) -> IntArray:
    """Apply a pick rule to times, without checking the end of the last frame.

    Args:
        pts: Ascending presentation times in ticks, int64 [N]; N >= 1.
        ticks: T times in ticks.
        pick: "played" and "previous": last pts <= t; "next": first pts >= t; "nearest": least distance, ties to the
            earlier frame.

    Returns:
        Frame numbers, int64 [T]; ``NO_PICK`` where no frame can be picked.
    """
    if pick not in PICKS:
        error = expected("pick", f"one of {', '.join(PICKS)}", pick)
        raise UsageError(f"{error}{did_you_mean(str(pick), PICKS)}")
    before = np.searchsorted(pts, _clamp_to_int64(ticks.floors()), side="right") - 1
    if pick in ("played", "previous"):
        return before
    after = np.searchsorted(pts, _clamp_to_int64(ticks.ceilings()), side="left")
    if pick == "next":
        return np.where(after < len(pts), after, NO_PICK)
    last = len(pts) - 1
    pairs = zip(pts[np.maximum(before, 0)].tolist(), pts[np.minimum(after, last)].tolist(), strict=True)
    common = ticks.denominator
    joined = zip(ticks.numerators, pairs, strict=True)
    gaps = [(numerator - low * common, high * common - numerator) for numerator, (low, high) in joined]
    closer = np.array([to_before <= to_after for to_before, to_after in gaps], dtype=np.bool_)
    earlier = (before >= 0) & ((after > last) | closer)
    # Of frames with one pts the first is the earlier.
    first_of_before = np.searchsorted(pts, pts[np.maximum(before, 0)], side="left")
    return np.where(earlier, first_of_before, after).astype(np.int64)


def _clamp_to_int64(values: Sequence[int]) -> IntArray:
    return np.array([max(-_MAX_INT64, min(_MAX_INT64, value)) for value in values], dtype=np.int64)


BuiltFrom = Literal["packets", "packets+proof", "packets+ends", "decode"]

TimesFrom = Literal["pts", "dts", "rate", "assumed", "none"]
"""Source of frame times: the frames themselves, their decoding times, a constant rate that container or bitstream
declares, a rate that the caller assumes, or none."""

_INT64 = np.dtype(np.int64)
_MAX_EXACT_INTEGER = 2**53
"""Float64 represents every whole number up to this one (IEEE 754 binary64)."""


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Facts about a stream that a decoder needs before the first packet.

    Attributes:
        stream_index: Number of the stream in its container.
        container: libav's format name, for example ``"mov,mp4,m4a,3gp,3g2,mj2"``.
        codec: Canonical codec name, for example ``"h264"``.
        extradata: Codec configuration from the container, or None.
        width: Coded columns after the codec's own cropping, before rotation.
        height: Coded rows after the codec's own cropping, before rotation.
        pixel_format: libav's name; empty where unknown.
        rotation: Degrees counter-clockwise to apply: 0, 90, 180 or 270.
        mirrored: Flip left and right, after the rotation.
        contiguous: Each packet is one range of bytes of the file, so it can be read without opening the container.
        skips_exactly: It is proven that leaving out disposable packets changes no other frame.
        inband_parameters: Packets carry parameter sets, which a decoder keeps after it has read them.
        color_primaries: ITU-T H.273 code; 2 is unspecified.
        color_transfer: ITU-T H.273 code of the transfer characteristic; 2 is unspecified.
        color_space: ITU-T H.273 code of the matrix; 2 is unspecified.
        color_range: libav's: 0 unspecified, 1 limited, 2 full.
    """

    stream_index: int
    container: str
    codec: str
    extradata: bytes | None
    width: int
    height: int
    pixel_format: str
    rotation: int = 0
    mirrored: bool = False
    contiguous: bool = False
    skips_exactly: bool = False
    inband_parameters: bool = False
    color_primaries: int = 2
    color_transfer: int = 2
    color_space: int = 2
    color_range: int = 0

    @property
    def displayed(self) -> tuple[int, int]:
        """(height, width) as displayed: the rotation applied."""
        width, height = rotate_size(self.width, self.height, self.rotation)
        return height, width


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """The output frames of one stream: for each frame its time, its packet, and where decoding must start.

    Frames and packets are two tables, joined by ``frame_packet``. ``times_from`` says where the times of frames come
    from; the packets keep their own times, in the time base of their stream.

    Attributes:
        pts: Presentation time of each frame in ticks of ``time_base``, int64 [N], never decreasing. With
            ``times_from="none"`` the packets' own values; ``MISSING_PTS`` where unknown.
        duration: Duration of each frame in ticks of ``time_base``, int64 [N]; 0 where unknown.
        time_base: Seconds in one tick.
        key_frame_indices: Numbers of the key frames, int64 [K], ascending.
        built_from: How the frames were found: "packets", "packets+proof", "packets+ends" or "decode".
        frame_packet: Number of the packet that gives frame i, int64 [N]; -1 where unknown.
        frame_start: Number of the first packet that must be decoded for frame i, int64 [N].
        packets: The stream's packets in decode order.
        stream: Codec configuration and size of the pictures.
        identity: Size, time and fingerprint of the file that was indexed, to notice changes; None for no check.
        damaged_frame_indices: Numbers of the damaged frames, int64 [D], ascending. If everything was decoded
            (``built_from="decode"``, always with ``verify="full"``), these are exactly the frames for which decoding
            raises `CorruptMedia`; else empty.
        times_from: Where ``pts`` comes from; with "none" frames cannot be found by time.
        time_shift: Ticks that were added to the decoding times if ``times_from`` is "dts", so that the first frame is
            shown when the stream's first packet is decoded; else 0.
    """

    pts: IntArray
    duration: IntArray
    time_base: Fraction
    key_frame_indices: IntArray
    built_from: BuiltFrom
    frame_packet: IntArray
    frame_start: IntArray
    packets: PacketTable
    stream: StreamFacts
    identity: SourceIdentity | None = None
    damaged_frame_indices: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    times_from: TimesFrom = "pts"
    time_shift: int = 0

    def __post_init__(self) -> None:
        columns = (self.pts, self.duration, self.frame_packet, self.frame_start)
        if any(column.shape != self.pts.shape or column.dtype != _INT64 for column in columns):
            raise UsageError("a frame index needs int64 columns of one length")
        if self.time_base.numerator <= 0:
            raise UsageError(f"time_base must be positive, not {self.time_base}")
        damaged = self.damaged_frame_indices
        is_valid = damaged.ndim == 1 and damaged.dtype == np.int64
        if is_valid and len(damaged):
            is_valid = damaged[0] >= 0 and damaged[-1] < len(self) and bool((np.diff(damaged) > 0).all())
        if not is_valid:
            raise UsageError("damaged_frame_indices must be int64 ordinals of the index, ascending, each once")
        for column in (*columns, self.key_frame_indices, damaged):
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.pts)

    def __repr__(self) -> str:
        return (
            f"FrameIndex({len(self)} frames, {len(self.key_frame_indices)} key frames, "
            f"time_base={self.time_base}, built_from={self.built_from!r}, times_from={self.times_from!r})"
        )

    @property
    def num_damaged_frames(self) -> int | None:
        """Number of damaged frames; None if not everything was decoded."""
        return len(self.damaged_frame_indices) if self.built_from == "decode" else None

    def is_damaged(self, ordinals: IntArray) -> npt.NDArray[np.bool_]:
        """Tell which of the given frames, int [T], are known to be damaged, bool [T]."""
        if np.ndim(ordinals) != 1 or np.asarray(ordinals).dtype.kind not in "iu":
            raise expected("ordinals", "a flat array of integers", ordinals)
        damaged = self.damaged_frame_indices
        if not len(damaged):
            return np.zeros(len(ordinals), dtype=np.bool_)
        nearest = damaged[damaged.searchsorted(ordinals).clip(max=len(damaged) - 1)]
        is_damaged: npt.NDArray[np.bool_] = nearest == ordinals
        return is_damaged

    @cached_property
    def frame_stop(self) -> IntArray | None:
        """Number after the last packet that frame i needs, int64 [N]; None if that is always ``frame_packet`` + 1.

        A picture that is coded as two fields in two packets has the number of the first packet (M12).
        """
        if len(self.packets) == len(self):
            return None
        owners = np.append(np.unique(self.frame_packet[self.frame_packet >= 0]), len(self.packets))
        return owners[np.searchsorted(owners[:-1], self.frame_packet, side="right")].astype(np.int64)

    @property
    def has_timestamps(self) -> bool:
        """Whether every frame has a time and no time goes backwards, so that frames can be found by time."""
        return self.times_from != "none" and len(self.pts) > 0

    @cached_property
    def pts_seconds(self) -> FloatArray:
        """Time of each frame in seconds on the stream's own timeline, float64 [N]; NaN where unknown."""
        return self.to_seconds(self.pts)

    @cached_property
    def step(self) -> int:
        """Median distance between frames in ticks; 1 if there are fewer than two frames."""
        return max(1, int(np.median(np.diff(self.pts)))) if self.has_timestamps and len(self) > 1 else 1

    @cached_property
    def end_pts(self) -> int:
        """End of the last frame in ticks: its pts plus its duration, or plus the median step if that is unknown."""
        self.require_timestamps()
        return int(self.pts[-1]) + (int(self.duration[-1]) or self.step)

    @cached_property
    def is_variable_frame_rate(self) -> bool:
        """Whether the distances between frames differ by more than one tick, which rounding can cause."""
        if not self.has_timestamps or len(self) < 3:
            return False
        steps = np.diff(self.pts)
        return int(steps.max()) - int(steps.min()) > 1

    @cached_property
    def average_fps(self) -> float | None:
        """(N - 1) / (last pts - first pts) in frames per second; None for fewer than two frames or without times."""
        if not self.has_timestamps or self.pts[-1] == self.pts[0]:
            return None
        return float((len(self) - 1) / ((int(self.pts[-1]) - int(self.pts[0])) * self.time_base))

    def require_timestamps(self) -> None:
        """Raise TimeUnavailable unless frames can be found by time."""
        if not len(self):
            raise FrameNotFound("the index has no frames")
        if not self.has_timestamps:
            raise TimeUnavailable(
                "the stream's timestamps are missing or go backwards, and it declares no constant rate: ask for frames "
                "by number instead of by time; or, if you know the frame rate, give assume_fps= to scan or build_index "
                "(on the command line: --indices of clip; for a catalog framefeed scan --assume-fps)"
            )

    def to_seconds(self, ticks: IntArray) -> FloatArray:
        """Convert ticks, int64 [...], to seconds, float64 [...]; NaN for a missing pts."""
        if not isinstance(ticks, (np.ndarray, np.integer)):
            raise expected("ticks", "an int64 array", ticks)
        numerator, denominator = self.time_base.as_integer_ratio()
        if self._is_divided_exactly:
            seconds = ticks * float(numerator) / float(denominator)
        else:
            exact = [float(tick * self.time_base) for tick in ticks.ravel().tolist()]
            seconds = np.array(exact, dtype=np.float64).reshape(ticks.shape)
        return np.where(ticks == MISSING_PTS, np.nan, seconds)

    @cached_property
    def _is_divided_exactly(self) -> bool:
        """Whether one division of two exactly represented numbers gives each frame's seconds, rounded once."""
        numerator, denominator = self.time_base.as_integer_ratio()
        known = self.pts[self.pts != MISSING_PTS]
        furthest = max(-int(known.min()), int(known.max())) if len(known) else 0
        return max(furthest * numerator, numerator, denominator) <= _MAX_EXACT_INTEGER

    @overload
    def index_at(self, seconds: float | Fraction, pick: Pick = ..., tolerance_seconds: float | None = ...) -> int: ...
    @overload
    def index_at(self, seconds: npt.ArrayLike, pick: Pick = ..., tolerance_seconds: float | None = ...) -> IntArray: ...
    def index_at(
        self,
        seconds: float | Fraction | npt.ArrayLike,
        pick: Pick = "played",
        tolerance_seconds: float | None = None,
    ) -> int | IntArray:
        """Find the number of the frame for a time on the stream's own timeline.

        Args:
            seconds: One time, or an array of times of any shape.
            pick: "played": pts[i] <= t < pts[i + 1]; "nearest": the smallest distance, the earlier of two equally near
                frames; "previous": the last pts <= t, also after the end; "next": the first pts >= t.
            tolerance_seconds: Largest allowed distance between the frame's pts and the time; None for no limit.

        Returns:
            The frame number, or an int64 array of the shape of ``seconds``.

        Raises:
            FrameNotFound: There is no such frame, or it is further away than the tolerance.
            TimeUnavailable: The stream has no usable timestamps.
        """
        self.require_timestamps()
        times = _read_times(seconds)
        if tolerance_seconds is not None and not (isinstance(tolerance_seconds, Real) and tolerance_seconds >= 0):
            raise expected("tolerance_seconds", "a number of at least 0, or None", tolerance_seconds)
        ticks = convert_to_ticks(self.pts, ExactTimes.of(times), self.time_base, self.end_pts)
        frames = pick_frames(self.pts, ticks, pick)
        if pick == "played":
            frames = np.where([tick >= self.end_pts for tick in ticks.floors()], NO_PICK, frames)
        self._check_picked(frames, ticks, pick, tolerance_seconds)
        return frames.reshape(np.shape(seconds)) if np.ndim(seconds) else int(frames[0])  # type: ignore[arg-type]

    def _check_picked(self, frames: IntArray, ticks: ExactTimes, pick: Pick, tolerance: float | None) -> None:
        for number, frame in enumerate(frames.tolist()):
            seconds = float(ticks[number] * self.time_base)
            if frame == NO_PICK:
                raise FrameNotFound(
                    f"there is no frame at {seconds:.6f} s for pick={pick!r}: the stream runs "
                    f"from {self._as_seconds(int(self.pts[0])):.6f} s to {self._as_seconds(self.end_pts):.6f} s "
                    "(the end is not included); use a time in this range, or another pick"
                )
            error = float(abs(int(self.pts[frame]) - ticks[number]) * self.time_base)
            if tolerance is not None and error > tolerance:
                raise FrameNotFound(
                    f"the frame picked ({pick}) for {seconds:.6f} s lies {error:.6f} s away, "
                    f"more than tolerance_seconds={tolerance}: allow more, or use another pick"
                )

    def _as_seconds(self, ticks: int) -> float:
        return float(ticks * self.time_base)


def _read_times(seconds: object) -> list[float] | list[Fraction]:
    if isinstance(seconds, Fraction):
        return [seconds]
    try:
        times: list[float] = np.asarray(seconds, dtype=np.float64).ravel().tolist()
    except (TypeError, ValueError):
        raise expected("seconds", "a number, or an array of numbers", seconds) from None
    if isinstance(seconds, (str, bytes)) or not all(isfinite(time) for time in times):
        raise expected("seconds", "finite numbers", seconds)
    return times
