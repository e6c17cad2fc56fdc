"""Timeline: the frames that a clip may be made of, and exact times counted from the first of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isinf, isnan

from framefeed.errors import FrameNotFound
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.picking import ExactTimes, Pick, as_ticks, reach_of, rounding_of


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames [first, stop) of an index, as if the video had no others.

    Frame 0 of a timeline is the index's frame ``first``; second 0 is its pts.

    Attributes:
        index: Where the video's frames are.
        first: Ordinal of the first frame.
        stop: Ordinal after the last frame.
    """

    index: FrameIndex
    first: int
    stop: int

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

        Args:
            index: Where the video's frames are.
            start_seconds: NaN for the video's start.
            end_seconds: NaN for the video's end.

        Raises:
            FrameNotFound: No frame lies in the window.
            TimeUnavailable: The stream has no usable timestamps.
        """
        index.require_timestamps()
        whole = cls.whole(index)
        first = whole._first_from(start_seconds, 0)
        stop = whole._first_from(end_seconds, len(index))
        if first >= stop:
            raise FrameNotFound(
                f"no frame in the window from {start_seconds} s to {end_seconds} s: the video's {len(index)} frames "
                f"have times from 0 s to {float((int(index.pts[-1]) - whole.origin) * index.time_base):.6f} s; "
                "correct the window's columns or filter the row out"
            )
        return cls(index, first, stop)

    def _first_from(self, seconds: float, default: int) -> int:
        if isnan(seconds):
            return default
        if isinf(seconds):
            return len(self) if seconds > 0 else 0
        ticks = self.ticks(ExactTimes.of([seconds])).ceilings()[0]
        return int(self.pts.searchsorted(max(self.origin, min(ticks, self.end_pts)), side="left"))

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

    def ticks(self, seconds: ExactTimes, origin: int | Fraction | None = None) -> ExactTimes:
        """Convert seconds, counted from ``origin`` or the first frame, to ticks; within 1 ns of a pts they are that.

        Args:
            seconds: T times.
            origin: In ticks of the stream; None for the first frame's pts.
        """
        start = self.origin if origin is None else origin
        # The frame behind the last one too: a time that means its pts is past the end.
        pts = self.index.pts[self.first : self.stop + 1]
        return as_ticks(pts, seconds, self.index.time_base, self.end_pts, start)

    def starts_that_fit(self, span_seconds: ExactTimes, pick: Pick) -> int:
        """Count the frames at which a clip can begin so that its last wanted time still has a frame to pick.

        Args:
            span_seconds: The one time from a clip's start to its last wanted time.
            pick: With "next" a frame must begin at or after the last wanted time; otherwise the last frame must not
                have ended.
        """
        pts, base = self.pts, self.index.time_base
        span = span_seconds.in_ticks(base)
        above, below = span.numerators[0], span.denominator
        near = reach_of(below, base)
        if pick == "next":
            latest = (int(pts[-1]) * below + near - above) // below
            return int(pts.searchsorted(max(latest, int(pts[0]) - 1), side="right"))
        end = self.end_pts * below
        # A time that means the end, see `as_ticks`, is past it.
        slack = near if self.stop < len(self.index) else rounding_of(end)
        bound = -((above + slack - end) // below)
        return int(pts.searchsorted(max(bound, int(pts[0])), side="left"))
