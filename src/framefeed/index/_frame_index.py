"""FrameIndex: every output frame of one video stream, with its time and its bytes.

Timeline: frames of an index by time. It alone converts seconds to frame numbers, by the rules of docs/reference.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isfinite, isinf, isnan, nan
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray, FloatArray, IntArray, has_bools
from framefeed._cached import cached_property
from framefeed._checks import expected, is_finite
from framefeed._values import MISSING_PTS, PacketTable, rotate_size
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index._picking import (
    NO_PICK,
    NO_TIMES,
    ExactTimes,
    Pick,
    compute_float_rounding,
    convert_nanosecond_to_ticks,
    convert_to_ticks,
    measure_errors,
    pick_frames,
)
from framefeed.media import SourceIdentity

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
        shown_width: Columns as displayed of the original, if the stream is a proxy of it; else 0.
        shown_height: Rows as displayed of the original, if the stream is a proxy of it; else 0.
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
    shown_width: int = 0
    shown_height: int = 0

    @property
    def is_proxy(self) -> bool:
        """Whether the pictures are a smaller copy of an original's, which crops and sizes are about."""
        return self.shown_width > 0

    @property
    def upright(self) -> tuple[int, int]:
        """(height, width) of the decoded pictures, the rotation applied."""
        width, height = rotate_size(self.width, self.height, self.rotation)
        return height, width

    @property
    def displayed(self) -> tuple[int, int]:
        """(height, width) as displayed: the rotation applied; of a proxy, that of its original."""
        return (self.shown_height, self.shown_width) if self.shown_width else self.upright


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
            raises `CorruptMedia`; else empty. With ``verify="full"`` and another ``built_from``, some of them never
            come, and keep the numbers that the packets promise.
        times_from: Where ``pts`` comes from; with "none" frames cannot be found by time.
        time_shift: Ticks that were added to the decoding times if ``times_from`` is "dts", so that the first frame is
            shown when the stream's first packet is decoded; else 0.
        changes_size: Pictures are known to differ in size within the stream; False also if that is not known.
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
    changes_size: bool = False

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
        num_damaged = len(self.damaged_frame_indices)
        return num_damaged if num_damaged or self.built_from == "decode" else None

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

    @cached_property
    def shares_packet(self) -> BoolArray | None:
        """Whether the packet of each frame gives other frames too, bool [N]; None if none does.

        The frames of one packet need not follow each other: a decoder of MPEG-4 that begins without a key frame gives
        its first picture twice, with others in between.
        """
        if self.built_from != "decode":
            return None
        is_shared: BoolArray = np.bincount(self.frame_packet + 1)[self.frame_packet + 1] > 1
        return is_shared if is_shared.any() else None

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
            raise TimeUnavailable(NO_TIMES)

    def to_custom_frame_mappings(self) -> str:
        """Write the JSON that TorchCodec's ``VideoDecoder(custom_frame_mappings=...)`` takes: its frame i is then ours.

        Raises:
            TimeUnavailable: Frames have no pts of their own, or two have the same; TorchCodec finds frames by it.
        """
        if self.times_from != "pts" or (np.diff(self.pts) <= 0).any():
            raise TimeUnavailable(
                "TorchCodec finds frames by their pts, and those of this stream are missing or not all different: "
                "decode it with framefeed, as ff.torch.VideoDecoder"
            )
        is_key = np.bincount(self.key_frame_indices, minlength=len(self))
        columns = (self.pts.tolist(), self.duration.tolist(), is_key.tolist())
        keys = ("pts", "duration", "key_frame")
        return json.dumps({"frames": [dict(zip(keys, frame, strict=True)) for frame in zip(*columns, strict=True)]})

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
    def _scale(self) -> tuple[np.float64, np.float64] | None:
        """Factor and divisor of ticks, if that is all it takes: no pts is missing, and each is divided exactly."""
        if not self._is_divided_exactly or (self.pts == MISSING_PTS).any():
            return None
        numerator, denominator = self.time_base.as_integer_ratio()
        return np.float64(numerator), np.float64(denominator)

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
        if tolerance_seconds is not None and not (
            (is_finite(tolerance_seconds) or tolerance_seconds == inf) and tolerance_seconds >= 0
        ):
            raise expected("tolerance_seconds", "a number of at least 0, or None", tolerance_seconds)
        timeline = Timeline.whole(self)
        ticks = timeline.to_ticks(ExactTimes.of(times), origin=0)
        frames, is_past = timeline.pick(ticks, pick)
        if pick == "played":
            frames = np.where(is_past, NO_PICK, frames)
        errors = np.zeros(len(ticks))
        if tolerance_seconds is not None:
            errors = np.abs(timeline.measure_errors(frames, ticks))
        refused = (frames == NO_PICK) | (errors > (tolerance_seconds or 0))
        if refused.any():
            number = int(refused.argmax())
            requested = float(ticks[number] * self.time_base)
            if frames[number] == NO_PICK:
                begin, end = timeline.span_seconds
                raise FrameNotFound(
                    f"there is no frame at {requested:.6f} s for pick={pick!r}: the stream runs from {begin:.6f} s to "
                    f"{end:.6f} s (the end is not included); use a time in this range, or another pick"
                )
            raise FrameNotFound(
                f"the frame picked ({pick}) for {requested:.6f} s lies {errors[number]:.6f} s away, "
                f"more than tolerance_seconds={tolerance_seconds}: allow more, or use another pick"
            )
        return frames.reshape(np.shape(seconds)) if np.ndim(seconds) else int(frames[0])  # type: ignore[arg-type]


def _read_times(seconds: object) -> list[float] | list[Fraction]:
    if isinstance(seconds, Fraction) and is_finite(seconds):
        return [seconds]
    try:
        times: list[float] = np.asarray(seconds, dtype=np.float64).ravel().tolist()
    except (TypeError, ValueError, OverflowError):
        raise expected("seconds", "a number, or an array of numbers", seconds) from None
    if isinstance(seconds, (str, bytes)) or has_bools(seconds) or not all(isfinite(time) for time in times):
        raise expected("seconds", "finite numbers", seconds)
    return times


def read_seconds(index: FrameIndex, ordinals: IntArray) -> FloatArray:
    """Read the time of each of some frames, float64 [T]: ``to_seconds`` of their pts."""
    if index._scale is None:
        return index.to_seconds(index.pts[ordinals])
    numerator, denominator = index._scale
    seconds: FloatArray = index.pts[ordinals] * numerator / denominator
    return seconds


def count_seconds(index: FrameIndex, ordinals: IntArray) -> FloatArray:
    """Count the seconds of some frames from the first frame, float64 [T]; NaN without times."""
    if not index.has_timestamps:
        return np.full(len(ordinals), np.nan)
    base = index.time_base
    seconds: FloatArray = (index.pts[ordinals] - index.pts[0]) * base.numerator / base.denominator
    return seconds


def find_end_seconds(index: FrameIndex, ordinal: int) -> float:
    """Find when a frame leaves the screen, in seconds from the first frame; NaN if it is not known."""
    pts, count = index.pts, len(index.pts)
    if not index.has_timestamps or (count == 1 and not index.duration[0]):
        return nan
    end = pts.item(ordinal + 1) if ordinal + 1 < count else index.end_pts
    numerator, denominator = index.time_base.as_integer_ratio()
    return (end - pts.item(0)) * numerator / denominator


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames [first, stop) of an index, as if the video had no other frames; times are exact.

    Frame 0 of a timeline is the index's frame ``first``; second 0 is its pts.

    Attributes:
        index: Of the video.
        first: Number of the first frame.
        stop: Number after that of the last frame.
        window: Begin and end in ticks of the part of the video that a clip is of, which may lie between frames.
    """

    index: FrameIndex
    first: int
    stop: int
    window: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.stop <= len(self.index):
            raise FrameNotFound(f"no frame in [{self.first}, {self.stop}) of {len(self.index)} frames")

    def __len__(self) -> int:
        return self.stop - self.first

    @classmethod
    def whole(cls, index: FrameIndex) -> Timeline:
        """All frames of a video."""
        return cls(index, 0, len(index))

    @classmethod
    def within(cls, index: FrameIndex, start_seconds: float, end_seconds: float) -> Timeline:
        """The frames with start <= t < end, where t is counted from the video's first frame.

        ``start_seconds``: NaN for the video's start.
        ``end_seconds``: NaN for the video's end.
        """
        whole = cls.whole(index)
        if isnan(start_seconds) and isnan(end_seconds):
            return whole
        index.require_timestamps()
        first = 0 if isnan(start_seconds) else whole.count_before(start_seconds)
        stop = len(index) if isnan(end_seconds) else whole.count_before(end_seconds)
        if first >= stop:
            raise FrameNotFound(
                f"no frame in the window from {start_seconds} s to {end_seconds} s: the video's {len(index)} frames "
                f"have times from 0 s to {float((int(index.pts[-1]) - whole.origin) * index.time_base):.6f} s; "
                "correct the window's columns or filter the row out"
            )
        return cls(index, first, stop)

    @classmethod
    def around(cls, index: FrameIndex, start_seconds: float, end_seconds: float) -> Timeline:
        """All frames of a video, of which the part from start to end is the window, as far as the video has it.

        The seconds are as those of `within`.
        """
        whole = cls.whole(index)
        begin, end = Fraction(whole.origin), Fraction(whole.end_pts)
        if not isnan(start_seconds):
            begin = max(begin, whole.to_ticks(ExactTimes.of([start_seconds]))[0])
        if not isnan(end_seconds):
            end = min(end, whole.to_ticks(ExactTimes.of([end_seconds]))[0])
        if begin >= end and len(index) > 1:
            raise FrameNotFound(
                f"nothing is shown in the window from {start_seconds} s to {end_seconds} s: the video is "
                f"{float((whole.end_pts - whole.origin) * index.time_base):.6f} s long; correct the window, or leave "
                "the row out"
            )
        return cls(index, 0, len(index), (begin, end))

    @property
    def pts(self) -> IntArray:
        """Presentation times of the frames in ticks, int64 [N]."""
        return self.index.pts[self.first : self.stop]

    @property
    def origin(self) -> int:
        """The pts that seconds are counted from."""
        self.index.require_timestamps()
        return int(self.index.pts[self.first])

    @property
    def end_pts(self) -> int:
        """When the last frame stops being shown: at the next frame's pts, or at the video's end."""
        return int(self.index.pts[self.stop]) if self.stop < len(self.index) else self.index.end_pts

    @property
    def span_seconds(self) -> tuple[float, float]:
        """Begin of the first frame and end of the last, on the stream's own timeline."""
        return float(self.origin * self.index.time_base), float(self.end_pts * self.index.time_base)

    def to_ticks(self, seconds: ExactTimes, origin: int | Fraction | None = None) -> ExactTimes:
        """Convert seconds, counted from ``origin``, to ticks; a time within 1 ns of a pts becomes that pts.

        ``origin``: ticks of the stream; None for the first frame's pts.
        """
        start = self.origin if origin is None else origin
        # With the pts of the frame after the last one: a time near it is past the end.
        pts = self.index.pts[self.first : self.stop + 1]
        return convert_to_ticks(pts, seconds, self.index.time_base, self.end_pts, start)

    def pick(self, ticks: ExactTimes, pick: Pick) -> tuple[IntArray, BoolArray]:
        """Pick a frame for each of T times, as ``to_ticks`` gives them, by a rule of `pick_frames`.

        Returns:
            Frames counted from the timeline's first, int64 [T], ``NO_PICK`` where no frame can be picked; and whether
            each time is past the end, bool [T].
        """
        end = self.end_pts * ticks.denominator
        is_past = np.array([numerator >= end for numerator in ticks.numerators], dtype=np.bool_)
        return pick_frames(self.pts, ticks, pick), is_past

    def measure_errors(self, numbers: IntArray, ticks: ExactTimes) -> FloatArray:
        """Compute picked minus requested time in seconds, float64 [T]; it has no meaning for ``NO_PICK``."""
        return measure_errors(self.pts, numbers, ticks, self.index.time_base)

    def count_before(self, seconds: float, origin: int | Fraction | None = None) -> int:
        """Count the frames that begin before a time, counted from ``origin`` as in ``to_ticks``."""
        if isinf(seconds):
            return len(self) if seconds > 0 else 0
        after = pick_frames(self.pts, self.to_ticks(ExactTimes.of([seconds]), origin), "next")[0]
        return len(self) if after == NO_PICK else int(after)

    def count_starts(self, span_seconds: ExactTimes, pick: Pick) -> int:
        """Count the frames at which a clip can begin so that there is a frame to pick for its last time.

        Args:
            span_seconds: One time: from a clip's start to its last time.
            pick: With "next" a frame must begin at or after the last time; otherwise the last frame must not have
                ended.
        """
        pts, base = self.pts, self.index.time_base
        span = span_seconds.in_ticks(base)
        above, below = span.numerators[0], span.denominator
        near = convert_nanosecond_to_ticks(below, base)
        if pick == "next":
            latest = (int(pts[-1]) * below + near - above) // below
            return int(pts.searchsorted(max(latest, int(pts[0]) - 1), side="right"))
        end = self.end_pts * below
        # A time that rounds to the end, see `convert_to_ticks`, is past it.
        slack = near if self.stop < len(self.index) else compute_float_rounding(end)
        bound = -((above + slack - end) // below)
        return int(pts.searchsorted(max(bound, int(pts[0])), side="left"))
