"""Frame and FrameBatch: decoded pixels with their times."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._checks import OutOfRange, WrongType, check_integer, expected, shown
from framefeed.errors import UsageError


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
            found = f"shape {tuple(self.data.shape)}" if _is_array(self.data) else shown(self.data)
            raise UsageError(
                f"data: expected an array or a tensor of pixels, [N, C, H, W] or [N, H, W, C], got {found}"
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

    def __len__(self) -> int:
        if self.data.ndim < 4:
            raise WrongType(
                "len: this FrameBatch is one frame without a batch dimension and has no length: slice with [i:i+1] to "
                "keep the dimension"
            )
        return int(self.data.shape[0])

    def __getitem__(self, key: Any) -> FrameBatch:
        try:
            columns = [_column(column[key]) for column in (self.pts_seconds, self.duration_seconds, self.indices)]
            return FrameBatch(self.data[key], *columns)
        except (IndexError, TypeError, ValueError) as error:
            kind = OutOfRange if isinstance(error, IndexError) else WrongType
            length = "one frame" if self.data.ndim < 4 else f"a batch of {len(self)} frames"
            raise kind(
                f"index: expected an integer, a slice, a list of integers or a mask that fits {length}, got "
                f"{shown(key)}: {error}"
            ) from error

    def __iter__(self) -> Iterator[Any]:
        """Yield batches of one frame each; ``data, pts_seconds, duration_seconds = batch`` gives the three columns.

        Python calls this method for a loop and for unpacking. The bytecode of the caller says which of the two it is
        (design/0002-unpacking-a-batch.md).
        """
        caller = inspect.currentframe()
        if caller is not None and _unpacks_three(caller.f_back):
            return iter((self.data, self.pts_seconds, self.duration_seconds))
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"FrameBatch({tuple(self.data.shape)} {self.data.dtype})"


_UNPACK_SEQUENCE = dis.opmap["UNPACK_SEQUENCE"]


def _unpacks_three(caller: FrameType | None) -> bool:
    if caller is None or caller.f_lasti < 0:
        return False
    code = caller.f_code.co_code
    return code[caller.f_lasti] == _UNPACK_SEQUENCE and code[caller.f_lasti + 1] == 3


def _is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or a tensor of any framework."""
    return not isinstance(value, type) and hasattr(value, "ndim") and hasattr(value, "shape")


def _column(value: Any) -> Any:
    return np.asarray(value) if np.isscalar(value) else value
