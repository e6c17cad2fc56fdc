"""Windows: the part of each video that a manifest allows clips to come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.errors import UsageError
from framefeed.index.arrow_views import AnyArray
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
    if name == "label" or values.dtype.kind not in "iuf":
        raise UsageError(f"within: expected columns of numbers (seconds), but column {name!r} does not hold numbers")
    return values if values.dtype == np.float64 else _checked_codes(catalog, name, values)


def _checked_codes(catalog: Catalog, name: str, values: AnyArray) -> FloatArray:
    # Text arrives as codes, with -1 for nothing, which would pass for seconds: a row's own value tells them apart.
    rows = catalog.usable_rows
    coded = rows[values[rows] != -1]
    told_by = coded[0] if len(coded) else next(iter(rows), None)
    own = None if told_by is None else catalog[int(told_by)].columns.get(name)
    if own is None:
        return np.full(len(values), np.nan)
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        raise UsageError(
            f"within: expected columns of numbers (seconds), but column {name!r} holds {type(own).__name__}"
        )
    return values.astype(np.float64)
