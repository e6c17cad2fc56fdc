"""Frame and FrameBatch: decoded pixels with their times. VideoMetadata: facts of a stream, named as in TorchCodec."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from framefeed._checks import OutOfRange, WrongType, check_integer, describe_value, expected
from framefeed._nearest import OTHER_FRAME_NAMES, make_absence
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, Timeline
from framefeed.media import StreamDetails


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One decoded frame; unpacks to (data, pts_seconds, duration_seconds).

    Attributes:
        data: RGB pixels, uint8 [C, H, W] or [H, W, C].
        pts_seconds: Time of the frame on the stream's timeline; NaN if the stream has no timestamps.
        duration_seconds: How long the frame is shown; NaN if unknown.
        indices: Ordinal of the frame (TorchCodec's name has the plural too).
    """

    data: Any
    pts_seconds: float
    duration_seconds: float
    indices: int

    def __post_init__(self) -> None:
        if not _is_array(self.data):
            raise expected("data", "an array or a tensor of pixels, [C, H, W] or [H, W, C]", self.data)
        if self.data.ndim != 3:
            raise UsageError(f"data: expected [C, H, W] or [H, W, C], got shape {list(self.data.shape)}")
        for name in ("pts_seconds", "duration_seconds"):
            if not isinstance(value := getattr(self, name), Real):
                raise expected(name, "a number of seconds", value)
        check_integer("indices", self.indices)

    if not TYPE_CHECKING:  # type checkers report names that a class does not have, unless it has this method

        def __getattr__(self, name: str) -> NoReturn:
            raise make_absence(self, name, self.__slots__, OTHER_FRAME_NAMES)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.data, self.pts_seconds, self.duration_seconds))

    def __repr__(self) -> str:
        return (
            f"Frame(index={self.indices}, data={tuple(self.data.shape)} {self.data.dtype}, "
            f"pts_seconds={self.pts_seconds:.6f}, duration_seconds={self.duration_seconds:.6f})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class FrameBatch:
    """Decoded frames; unpacks to (data, pts_seconds, duration_seconds); indexing and iterating give batches.

    Attributes:
        data: RGB pixels, uint8 [N, C, H, W] or [N, H, W, C].
        pts_seconds: Time of each frame on the stream's timeline, float64 [N].
        duration_seconds: How long each frame is shown, float64 [N].
        indices: Ordinals of the frames, int64 [N].
    """

    data: Any
    pts_seconds: Any
    duration_seconds: Any
    indices: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if not _is_array(self.data) or self.data.ndim < 3:
            given = f"shape {tuple(self.data.shape)}" if _is_array(self.data) else describe_value(self.data)
            raise UsageError(
                f"data: expected an array or a tensor of pixels, [N, C, H, W] or [N, H, W, C], got {given}"
            )
        lead = tuple(self.data.shape[: self.data.ndim - 3])
        for name in ("pts_seconds", "duration_seconds", "indices"):
            column = getattr(self, name)
            if not _is_array(column):
                raise expected(name, f"an array or a tensor of shape {lead}", column)
            if tuple(column.shape) != lead:
                raise UsageError(
                    f"{name}: expected shape {lead}, one value for each picture in data, got {tuple(column.shape)}"
                )

    if not TYPE_CHECKING:  # type checkers report names that a class does not have, unless it has this method

        def __getattr__(self, name: str) -> NoReturn:
            raise make_absence(self, name, self.__slots__, OTHER_FRAME_NAMES)

    def __len__(self) -> int:
        if self.data.ndim < 4:
            raise WrongType(
                "len: this FrameBatch is one frame without a batch dimension and has no length: slice with [i:i+1] to "
                "keep the dimension"
            )
        return int(self.data.shape[0])

    def __getitem__(self, key: Any) -> FrameBatch:
        try:
            parts = [column[key] for column in (self.pts_seconds, self.duration_seconds, self.indices)]
            return FrameBatch(self.data[key], *(np.asarray(part) if np.isscalar(part) else part for part in parts))
        except (IndexError, TypeError, ValueError) as error:
            kind = OutOfRange if isinstance(error, IndexError) else WrongType
            length = "one frame" if self.data.ndim < 4 else f"a batch of {len(self)} frames"
            raise kind(
                f"index: expected an integer, a slice, a list of integers or a mask that fits {length}, got "
                f"{describe_value(key)}: {error}"
            ) from error

    def __iter__(self) -> Iterator[Any]:
        """Yield batches of one frame each; ``data, pts_seconds, duration_seconds = batch`` gives the three columns.

        Python calls this method for a loop and for unpacking; the bytecode of the caller distinguishes them
        (design/0002-unpacking-a-batch.md).
        """
        caller = inspect.currentframe()
        if caller is not None and _is_unpacking_three(caller.f_back):
            return iter((self.data, self.pts_seconds, self.duration_seconds))
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"FrameBatch({tuple(self.data.shape)} {self.data.dtype})"


_UNPACK_SEQUENCE = dis.opmap["UNPACK_SEQUENCE"]


def _is_unpacking_three(caller: FrameType | None) -> bool:
    if caller is None or caller.f_lasti < 0:
        return False
    code = caller.f_code.co_code
    return code[caller.f_lasti] == _UNPACK_SEQUENCE and code[caller.f_lasti + 1] == 3


def _is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or a tensor of any framework."""
    return not isinstance(value, type) and hasattr(value, "ndim") and hasattr(value, "shape")


@dataclass(frozen=True, slots=True)
class VideoMetadata:
    """Facts of one video stream. Names that end in ``_from_header`` are claims of the header, which may be wrong.

    Attributes:
        num_frames: Frames that the decoder gives.
        duration_seconds: From the begin of the first frame to the end of the last; None without timestamps.
        begin_stream_seconds: Time of the first frame on the stream's timeline; None without timestamps.
        end_stream_seconds: End of the last frame; None without timestamps.
        average_fps: (frames - 1) / (last time - first time); None without timestamps, or with fewer than two frames.
        width: Columns as displayed.
        height: Rows as displayed.
        codec: Codec name.
        stream_index: Number of the stream in its container.
        pixel_format: FFmpeg's name of the pixel format.
        rotation: Degrees counter-clockwise by which frames are turned for display.
        mirrored: Whether frames are flipped left to right after that.
        container: FFmpeg's name of the container format.
        time_base: Seconds of one tick of the stream's timestamps.
        is_variable_frame_rate: Whether the times between frames differ.
        num_key_frames: Frames at which decoding can start.
        built_from: How the frames were found: "packets", "packets+proof", "packets+ends" or "decode".
        times_from: Where their times come from: "pts", "dts", "rate", "assumed" or "none".
        bit_rate: Bits per second, from the header, or None.
        pixel_aspect_ratio: Width of one pixel divided by its height, or None.
        color_primaries: ITU-T H.273 code. From ``ff.torch``: its name, as in TorchCodec, or None if unspecified.
        color_space: ITU-T H.273 matrix code; from ``ff.torch`` its name or None.
        color_transfer_characteristic: ITU-T H.273 code; from ``ff.torch`` its name or None.
        num_frames_from_header: The header's claim, or None.
        num_frames_from_content: As ``num_frames``.
        duration_seconds_from_header: The header's claim, or None.
        average_fps_from_header: The header's claim, or None.
        begin_stream_seconds_from_header: The header's claim, or None.
        begin_stream_seconds_from_content: As ``begin_stream_seconds``.
        end_stream_seconds_from_content: As ``end_stream_seconds``.
        media_type: "video", for pictures too.
    """

    num_frames: int
    duration_seconds: float | None
    begin_stream_seconds: float | None
    end_stream_seconds: float | None
    average_fps: float | None
    width: int
    height: int
    codec: str
    stream_index: int
    pixel_format: str
    rotation: int
    mirrored: bool
    container: str
    time_base: Fraction
    is_variable_frame_rate: bool
    num_key_frames: int
    built_from: str
    times_from: str
    bit_rate: int | None
    pixel_aspect_ratio: Fraction | None
    color_primaries: int | str | None
    color_space: int | str | None
    color_transfer_characteristic: int | str | None
    num_frames_from_header: int | None
    num_frames_from_content: int
    duration_seconds_from_header: float | None
    average_fps_from_header: float | None
    begin_stream_seconds_from_header: float | None
    begin_stream_seconds_from_content: float | None
    end_stream_seconds_from_content: float | None
    media_type: str = "video"


def make_metadata(index: FrameIndex, details: StreamDetails) -> VideoMetadata:
    """Join the claims of the header and the facts found by indexing."""
    begin, end = Timeline.whole(index).span_seconds if index.has_timestamps else (None, None)
    height, width = index.stream.displayed
    return VideoMetadata(
        num_frames=len(index),
        duration_seconds=end - begin if begin is not None and end is not None else None,
        begin_stream_seconds=begin,
        end_stream_seconds=end,
        average_fps=index.average_fps,
        width=width,
        height=height,
        codec=index.stream.codec,
        stream_index=index.stream.stream_index,
        pixel_format=index.stream.pixel_format,
        rotation=index.stream.rotation,
        mirrored=index.stream.mirrored,
        container=index.stream.container,
        time_base=index.time_base,
        is_variable_frame_rate=index.is_variable_frame_rate,
        num_key_frames=len(index.key_frame_indices),
        built_from=index.built_from,
        times_from=index.times_from,
        bit_rate=details.bit_rate,
        pixel_aspect_ratio=details.pixel_aspect_ratio,
        color_primaries=details.colors.primaries,
        color_space=details.colors.space,
        color_transfer_characteristic=details.colors.transfer,
        num_frames_from_header=details.num_frames,
        num_frames_from_content=len(index),
        duration_seconds_from_header=details.duration_seconds,
        average_fps_from_header=details.average_fps,
        begin_stream_seconds_from_header=details.begin_seconds,
        begin_stream_seconds_from_content=begin,
        end_stream_seconds_from_content=end,
    )
