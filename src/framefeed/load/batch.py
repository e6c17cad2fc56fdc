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
    """A batch of B clips, each of T frames. The arrays keep their values for as long as you hold any view of them.

    Attributes:
        data: RGB pixels, uint8 [B, T, C, H, W]. With a transform, the stacked results of the transform, [B, ...]. Zeros
            for clips that failed. For a plan with ``unequal=True``, a list of B arrays: uint8 [T, C, H, W], or the
            results of the transform; a clip that failed is zeros, uint8 [T, C, H, W] of its own picture size.
        pts_seconds: Time of each frame in its stream, float64 [B, T]; NaN if unknown or if the clip failed.
        valid: False for frames that replace frames past the end of a video, and for clips that failed, bool [B, T].
        positions: Global positions in the epoch, int64 [B].
        columns: Columns of the plan by name, each [B]; integers and codes of text are int64.
        sources: Path, URL or bytes of each clip, a list of B; for an image sequence, its folder, or its first file and
            the number of further files.
        ok: Whether the clip could be loaded, bool [B].
        errors: Error of each clip, a list of B; None for clips that could be loaded.
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
            raise UsageError(f"expected parts of one length in a batch, got lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.positions)

    def __repr__(self) -> str:
        names = "".join(f", {name}" for name in self.columns)
        failed = f", {len(self) - int(self.ok.sum())} failed" if not self.ok.all() else ""
        if isinstance(self.data, list):
            return f"ClipBatch({len(self)} clips of any size{names}{failed})"
        return f"ClipBatch({self.data.shape} {self.data.dtype}{names}{failed})"
