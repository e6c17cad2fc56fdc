"""The catalogs of several plans behind one another, as far as loaders read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NoReturn, cast

import numpy as np

from framefeed._arrays import AnyArray, IntArray
from framefeed._cached import cached_property
from framefeed.catalog import Catalog, CatalogEntry
from framefeed.errors import UsageError
from framefeed.index import FrameIndex
from framefeed.media import ImageSequence, MediaSource


class JoinedCatalogs:
    """Rows of several catalogs: those of catalog c are ``starts[c]`` to ``starts[c + 1]``; each is there once."""

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self.catalogs = tuple({id(catalog): catalog for catalog in catalogs}.values())
        self.starts: IntArray = np.cumsum([0, *map(len, self.catalogs)], dtype=np.int64)

    def as_catalog(self) -> Catalog:
        """Return it typed as a catalog, of which it has what loaders read."""
        return cast("Catalog", self)

    def find_start(self, catalog: Catalog) -> int:
        """Find the first row of a catalog."""
        return int(self.starts[[each is catalog for each in self.catalogs].index(True)])

    def locate(self, row: int) -> tuple[Catalog, int]:
        """Find the catalog of a row, and its row there."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} rows")
        number = int(self.starts.searchsorted(row, side="right")) - 1
        return self.catalogs[number], row - int(self.starts[number])

    def find_own_rows(self, rows: IntArray) -> IntArray:
        """Find the row in its own catalog of each row; a catalog that is joined itself finds those of its own."""
        numbers = self.starts.searchsorted(rows, side="right") - 1
        own = rows - self.starts[numbers]
        for number, catalog in enumerate(self.catalogs):
            if isinstance(catalog, JoinedCatalogs):
                own[numbers == number] = catalog.find_own_rows(own[numbers == number])
        return own

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, row: int) -> CatalogEntry:
        catalog, own = self.locate(row)
        return catalog[own]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsageError(
            f"catalog.{name}: this plan has several catalogs: take that of a part of a mixture, "
            "plan.parts[0].catalog, or of a stream, plan.streams[NAME].catalog, which batch.rows refers to"
        )

    def media_source(self, row: int) -> MediaSource:
        """Get what opens a row."""
        catalog, own = self.locate(row)
        return catalog.media_source(own)

    def source(self, row: int) -> str | bytes | ImageSequence:
        """Get the path, URL or encoded bytes of a row."""
        catalog, own = self.locate(row)
        return catalog.source(own)

    def frame_index(self, row: int) -> FrameIndex:
        """Read the frame index of a row."""
        catalog, own = self.locate(row)
        return catalog.frame_index(own)

    def shown_name(self, row: int) -> str:
        """Get the path, URL or name of a row for messages."""
        catalog, own = self.locate(row)
        return catalog.shown_name(own)

    @cached_property
    def num_frames(self) -> IntArray:
        """Frames of each row, int64 [R]."""
        return self._join([catalog.num_frames for catalog in self.catalogs])

    @cached_property
    def heights(self) -> IntArray:
        """Displayed height of each row, int64 [R]."""
        return self._join([catalog.heights for catalog in self.catalogs])

    @cached_property
    def widths(self) -> IntArray:
        """Displayed width of each row, int64 [R]."""
        return self._join([catalog.widths for catalog in self.catalogs])

    @property
    def plannable_rows(self) -> IntArray:
        """Rows that can be planned, int64 [P]."""
        return self._join_rows([catalog.plannable_rows for catalog in self.catalogs])

    @property
    def failed_rows(self) -> IntArray:
        """Rows that failed, int64 [F]."""
        return self._join_rows([catalog.failed_rows for catalog in self.catalogs])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the catalogs' own."""
        text = repr([catalog.fingerprint for catalog in self.catalogs])
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _join(self, columns: Sequence[Any]) -> AnyArray:
        return np.concatenate([np.empty(0, np.int64), *columns])

    def _join_rows(self, rows: Sequence[IntArray]) -> IntArray:
        return self._join([each + start for each, start in zip(rows, self.starts[:-1].tolist(), strict=True)])


def find_own_rows(catalog: Catalog, rows: IntArray) -> IntArray:
    """Find the rows that batches name: of a mixture, those of the catalogs of its parts."""
    joined: Any = catalog
    return joined.find_own_rows(rows) if isinstance(joined, JoinedCatalogs) else rows


def locate_row(catalog: Catalog, row: int) -> tuple[Catalog, int]:
    """Find the catalog of a row of a plan's catalog, and its row there."""
    joined: Any = catalog
    return locate_row(*joined.locate(row)) if isinstance(joined, JoinedCatalogs) else (catalog, row)
