"""Frame and FrameBatch: decoded pixels with their times."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

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
        if self.data.ndim != 3:
            raise UsageError(f"data: expected [C, H, W] or [H, W, C], got shape {list(self.data.shape)}")

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
        lead = self.data.shape[: self.data.ndim - 3]
        columns = (self.pts_seconds.shape, self.duration_seconds.shape, self.indices.shape)
        if self.data.ndim < 3 or any(tuple(shape) != tuple(lead) for shape in columns):
            shapes = ", ".join(str(list(shape)) for shape in columns)
            raise UsageError(
                "expected data [N, C, H, W] and pts_seconds, duration_seconds and indices [N] each, got data "
                f"{list(self.data.shape)} and {shapes}"
            )

    def __len__(self) -> int:
        if self.data.ndim < 4:
            raise TypeError(
                "this FrameBatch is one frame without a batch dimension and has no length: slice with [i:i+1] to keep "
                "the dimension"
            )
        return int(self.data.shape[0])

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(
            self.data[key],
            _column(self.pts_seconds[key]),
            _column(self.duration_seconds[key]),
            _column(self.indices[key]),
        )

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


def _column(value: Any) -> Any:
    return np.asarray(value) if np.isscalar(value) else value
