"""CatalogEntry: one row of a catalog, used as a source."""

from __future__ import annotations

from typing import Any

from framefeed._values import MediaInfo
from framefeed.catalog._catalog_rows import CatalogRows
from framefeed.index import FrameIndex
from framefeed.media import ImageSequence, MediaSource, source_name


class CatalogEntry:
    """One row of a catalog; can be used wherever a source can. Each attribute is read when it is used.

    Args:
        catalog: The catalog or view.
        row: Row number in it.
    """

    __slots__ = ("_catalog", "row")

    def __init__(self, catalog: CatalogRows, row: int) -> None:
        self._catalog = catalog
        self.row = row

    @property
    def source(self) -> str | bytes | ImageSequence:
        """Path, URL, encoded bytes, or image sequence."""
        return self._catalog.source(self.row)

    def as_media_source(self) -> MediaSource:
        """Return what opens the source."""
        return self._catalog.media_source(self.row)

    @property
    def info(self) -> MediaInfo | None:
        """Claims of the header; None for a file that could not be read."""
        return self._catalog.info(self.row)

    @property
    def frame_index(self) -> FrameIndex | None:
        """The index of its frames; None for a failed file, or a video of a catalog without frame indexes."""
        return self._catalog.frame_index(self.row) if self._catalog._has_frame_index(self.row) else None

    @property
    def columns(self) -> dict[str, Any]:
        """Dict of its label and the manifest's columns."""
        return self._catalog.columns(self.row)

    def __repr__(self) -> str:
        return f"CatalogEntry({source_name(self._catalog.name(self.row), self.row)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (CatalogEntry, (self._catalog.take([self.row]), 0))
