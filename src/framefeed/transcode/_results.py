"""What `map_video` gives back: mapped frames, or a description of what was written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from framefeed._units import format_count, format_seconds
from framefeed.errors import FramefeedError

Action = Literal["skipped", "kept"]
Stage = Literal["decode", "function"]

_MAX_REASON = 500
"""Characters of a stored reason."""


@dataclass(frozen=True, slots=True)
class FrameFault:
    """A frame that could not be decoded, or for which the function failed.

    Attributes:
        frame: Number of the frame.
        pts_seconds: Its time; NaN without timestamps.
        stage: "decode" or "function".
        reason: Type and message of the error.
        action: "skipped": the frame has no result; "kept": the frame itself is its result.
    """

    frame: int
    pts_seconds: float
    stage: Stage
    reason: str
    action: Action

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON, which has no NaN."""
        return {**asdict(self), "pts_seconds": None if math.isnan(self.pts_seconds) else self.pts_seconds}

    def __str__(self) -> str:
        return f"{name_frame(self.frame, self.pts_seconds)}: {self.action} ({self.stage}): {self.reason}"


def describe_fault(frame: int, pts_seconds: float, stage: Stage, error: BaseException, action: Action) -> FrameFault:
    """Describe a frame by its error."""
    return FrameFault(frame, pts_seconds, stage, f"{type(error).__name__}: {error}"[:_MAX_REASON], action)


def read_fault(values: Mapping[str, Any]) -> FrameFault:
    """Rebuild a fault from its JSON; any error means that the values are damaged."""
    seconds = values["pts_seconds"]
    return FrameFault(
        int(values["frame"]),
        math.nan if seconds is None else float(seconds),
        values["stage"],
        str(values["reason"]),
        values["action"],
    )


@dataclass(frozen=True, slots=True, eq=False)
class MappedFrame:
    """The result of the function for one frame.

    Attributes:
        index: Number of the frame.
        pts_seconds: Time of the frame, or with ``fps`` of the picture; NaN without timestamps.
        result: What the function returned; with ``on_error="keep"``, the frame if it failed.
    """

    index: int
    pts_seconds: float
    result: Any

    def __repr__(self) -> str:
        shape = getattr(self.result, "shape", None)
        result = type(self.result).__name__ if shape is None else f"{list(shape)} {self.result.dtype}"
        return f"MappedFrame(index={self.index}, pts_seconds={self.pts_seconds:.6f}, result={result})"


@dataclass(frozen=True, slots=True)
class MapResult:
    """What `map_video` wrote.

    Attributes:
        outputs: Paths of the videos, or of the folder of images; relative if ``out`` is.
        num_frames: Frames of the source that were used.
        num_pictures: Pictures in each video, or images.
        num_resumed_frames: Frames whose results an earlier run had written.
        ledger: Frames that could not be decoded, or for which the function failed.
        seconds: Duration of this run.
    """

    outputs: tuple[str, ...]
    num_frames: int
    num_pictures: int
    num_resumed_frames: int
    ledger: tuple[FrameFault, ...]
    seconds: float

    def __str__(self) -> str:
        lines = [
            f"{', '.join(self.outputs)}: {format_count(self.num_pictures, 'picture')} of "
            f"{format_count(self.num_frames, 'frame')} in {format_seconds(self.seconds)}"
        ]
        if self.num_resumed_frames:
            lines.append(f"  {format_count(self.num_resumed_frames, 'frame')} from an earlier run")
        return "\n".join([*lines, *(f"  {fault}" for fault in self.ledger)])


def name_frame(frame: int, pts_seconds: float) -> str:
    """Name a frame in a message: ``frame 37 (1.480000 s)``."""
    return f"frame {frame}" if math.isnan(pts_seconds) else f"frame {frame} ({pts_seconds:.6f} s)"


def add_context(error: FramefeedError, frame: int, source: str, stage: str) -> None:
    """Add frame, source and stage to an error that does not have them."""
    error.position = frame if error.position is None else error.position
    error.source = error.source or source
    error.stage = error.stage or stage
