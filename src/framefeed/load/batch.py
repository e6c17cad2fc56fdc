"""ClipBatch: what a loader delivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.errors import FramefeedError, UsageError


@dataclass(frozen=True, slots=True, eq=False)
class ClipBatch:
    """B clips of T frames. Its arrays are the caller's for as long as any view of them lives.

    Attributes:
        data: RGB pixels, uint8 [B, T, C, H, W]; with a transform [B, ...] of what that returned. Zeros where not ok.
            Of a plan with ``unequal=True`` a list of B arrays, uint8 [T, C, H, W] or what the transform returned; where
            not ok the zeros have the shape that the clip would have had, or [T, C, 0, 0] where that is unknown.
        pts_seconds: Time of each frame on its stream's timeline, float64 [B, T]; NaN where unknown or not ok.
        valid: False where the policy filled in for what lies past the end, and where not ok, bool [B, T].
        positions: Global positions in the epoch, int64 [B].
        columns: The plan's columns by name, [B] each; whole numbers and codes of text as int64.
        sources: Path, URL or bytes that each clip came from, B of them; of an image sequence its folder, or its first
            file and how many more.
        ok: Whether the clip could be loaded, bool [B].
        errors: Why not, B of them; None where ok.
    """

    data: Any
    pts_seconds: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.int64]
    columns: Mapping[str, npt.NDArray[Any]]
    sources: list[str | bytes]
    ok: npt.NDArray[np.bool_]
    errors: list[FramefeedError | None]

    def __post_init__(self) -> None:
        columns = (self.data, self.pts_seconds, self.valid, *self.columns.values(), self.ok)
        lengths = {len(self.positions), len(self.sources), len(self.errors), *map(len, columns)}
        if len(lengths) != 1 or self.pts_seconds.shape != self.valid.shape:
            raise UsageError(f"the parts of a batch must have one length, not {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.columns)
        failed = f", {len(self) - int(self.ok.sum())} failed" if not self.ok.all() else ""
        if isinstance(self.data, list):
            return f"ClipBatch({len(self)} clips of any size{names}{failed})"
        return f"ClipBatch({self.data.shape} {self.data.dtype}{names}{failed})"
