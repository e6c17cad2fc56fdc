"""Number the sources of all catalogs of a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.catalog import Catalog
from framefeed.index import FrameIndex
from framefeed.media import ImageSequence, MediaSource


class Sources:
    """The sources of a plan by number: the rows of its catalogs behind one another, each catalog once."""

    def __init__(self, catalogs: Sequence[Catalog]) -> None:
        self.catalogs = tuple({id(catalog): catalog for catalog in catalogs}.values())
        self._starts: IntArray = np.cumsum([0, *map(len, self.catalogs)], dtype=np.int64)
        starts: list[int] = self._starts[:-1].tolist()
        self._start_of = {id(catalog): start for catalog, start in zip(self.catalogs, starts, strict=True)}

    def find_start(self, catalog: Catalog) -> int:
        """Find the number of the first row of a catalog."""
        return self._start_of[id(catalog)]

    def renumber(self, some: Sources, numbers: IntArray) -> IntArray:
        """Find the numbers here of sources that have other numbers among some of their catalogs, an int64 array."""
        if len(some.catalogs) == 1:
            return numbers + self.find_start(some.catalogs[0])
        starts = np.array([self.find_start(catalog) for catalog in some.catalogs], dtype=np.int64)
        at = some._starts.searchsorted(numbers, side="right") - 1
        return numbers - some._starts[at] + starts[at]

    def locate(self, number: int) -> tuple[Catalog, int]:
        """Find the catalog of a source, and its row there."""
        if len(self.catalogs) == 1:
            return self.catalogs[0], number
        at = int(self._starts.searchsorted(number, side="right")) - 1
        return self.catalogs[at], number - int(self._starts[at])

    def media_source(self, number: int) -> MediaSource:
        """Get what opens a source."""
        catalog, row = self.locate(number)
        return catalog.media_source(row)

    def open(self, number: int) -> tuple[MediaSource, FrameIndex]:
        """Get what opens a source, and its frame index."""
        catalog, row = self.locate(number)
        return catalog.media_source(row), catalog.frame_index(row)

    def source(self, number: int) -> str | bytes | ImageSequence:
        """Get the path, URL or encoded bytes of a source."""
        catalog, row = self.locate(number)
        return catalog.source(row)

    def frame_index(self, number: int) -> FrameIndex:
        """Read the frame index of a source."""
        catalog, row = self.locate(number)
        return catalog.frame_index(row)

    @cached_property
    def num_frames(self) -> IntArray:
        """Frames of each source, int64 [S]."""
        return _join([catalog.num_frames for catalog in self.catalogs])

    @cached_property
    def heights(self) -> IntArray:
        """Displayed height of each source, int64 [S]."""
        return _join([catalog.heights for catalog in self.catalogs])

    @cached_property
    def widths(self) -> IntArray:
        """Displayed width of each source, int64 [S]."""
        return _join([catalog.widths for catalog in self.catalogs])


def _join(columns: Sequence[IntArray]) -> IntArray:
    return columns[0] if len(columns) == 1 else np.concatenate([np.empty(0, np.int64), *columns])
