"""Frame and FrameBatch: decoded pixels with their times, shapes checked."""

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
        pts_seconds: Time on the stream's timeline; NaN where the stream has none.
        duration_seconds: Time that it is shown; NaN where unknown.
        indices: Its ordinal.
    """

    data: Any
    pts_seconds: float
    duration_seconds: float
    indices: int

    def __post_init__(self) -> None:
        if self.data.ndim != 3:
            raise UsageError(f"data: expected three dimensions, got {self.data.ndim}")

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
        pts_seconds: Time of each on the stream's timeline, float64 [N].
        duration_seconds: Time that each is shown, float64 [N].
        indices: Ordinals, int64 [N].
    """

    data: Any
    pts_seconds: Any
    duration_seconds: Any
    indices: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        lead = self.data.shape[: self.data.ndim - 3]
        columns = (self.pts_seconds.shape, self.duration_seconds.shape, self.indices.shape)
        if self.data.ndim < 3 or any(tuple(shape) != tuple(lead) for shape in columns):
            raise UsageError(f"pixels {tuple(self.data.shape)} and columns {columns} do not belong together")

    def __len__(self) -> int:
        if self.data.ndim < 4:
            raise TypeError("a batch without a batch dimension has no length")
        return int(self.data.shape[0])

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(
            self.data[key],
            _column(self.pts_seconds[key]),
            _column(self.duration_seconds[key]),
            _column(self.indices[key]),
        )

    def __iter__(self) -> Iterator[Any]:
        """Give batches of one frame each; ``data, pts_seconds, duration_seconds = batch`` gives the three columns.

        Both are promised, and Python asks for both in the same way: what the caller does with the answer is read
        from its code (design/0002-unpacking-a-batch.md).
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
