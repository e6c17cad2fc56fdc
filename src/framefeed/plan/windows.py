"""Windows: the part of each video that a manifest allows clips to come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.errors import UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.frame_index import FloatArray, FrameIndex
from framefeed.plan.timeline import Timeline


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Start and end of each row's window in seconds, counted from the video's first frame.

    A clip is chosen as if the video had no frames but those with start <= t < end: indices and seconds of the rule
    count from the first of them, and what is past the last of them is past the end.

    Attributes:
        starts: float64 [R]; NaN where the window begins with the video.
        ends: float64 [R]; NaN where it ends with the video.
    """

    starts: FloatArray
    ends: FloatArray

    @classmethod
    def of(cls, catalog: Catalog, names: tuple[str, str]) -> Windows:
        """Read two columns of a catalog.

        Raises:
            UsageError: A column is missing or holds no numbers.
        """
        return cls(*(_seconds_column(catalog, name) for name in names))

    def timeline(self, index: FrameIndex, row: int) -> Timeline:
        """The frames of a row that a clip may be made of."""
        return Timeline.within(index, float(self.starts[row]), float(self.ends[row]))


def _seconds_column(catalog: Catalog, name: str) -> FloatArray:
    values = catalog.column_values(name)
    # Text arrives as codes, which would pass for seconds: a row's own value tells.
    own = (catalog[row].columns.get(name) for row in catalog.usable_rows[:100].tolist())
    if values.dtype.kind not in "iuf" or isinstance(next((value for value in own if value is not None), None), str):
        raise UsageError(f"within needs columns of seconds, and column {name!r} does not hold numbers")
    return np.asarray(values, dtype=np.float64)
